package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/minio/crc64nvme"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// metadataCRC32C is the name of the metadata that holds the CRC-32C of a blob, as eight hexadecimal digits. The service
// takes only names that are identifiers.
const metadataCRC32C = "walhopcrc32c"

// Put implements objectstore.Driver: one Put Blob, create only (W2), whose checksum the store verifies (W4).
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	return d.call(ctx, opPut, func(ctx context.Context, a *attempt) error {
		checksum, verified, err := d.checksum(body)
		if err != nil {
			return err
		}
		all, crc := azcore.ETagAny, fmt.Sprintf("%08x", crc32c)
		out, err := d.client.NewBlockBlobClient(key).Upload(ctx, a.watch.Upload(body), &blockblob.UploadOptions{
			TransactionalValidation: checksum,
			Metadata:                map[string]*string{metadataCRC32C: &crc},
			AccessConditions:        &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &all}},
		})
		switch {
		case err != nil:
			return err
		case out.ETag == nil:
			// Something between us and the store has answered: every store names what it has made.
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the answer to an upload has no ETag"))
		case !verified(out):
			return walstorage.NewError(walstorage.ErrCorrupt, errors.New("azure: the store has computed another checksum of the upload than was sent"))
		}
		return nil
	})
}

// checksum computes what the store is to verify the body by. It is given to the SDK as a value: an SDK that computes it
// reads the whole body into memory first. verified compares it with what the store says of the upload, if it says
// anything.
func (d *Driver) checksum(body *objectstore.Body) (value blob.TransferValidationType, verified func(blockblob.UploadResponse) bool, err error) {
	hash := crc64nvme.New()
	if d.md5 {
		sum := md5.New()
		if err := readAll(sum, body); err != nil {
			return nil, nil, err
		}
		want := sum.Sum(nil)
		return blob.TransferValidationTypeMD5(want), func(out blockblob.UploadResponse) bool {
			return len(out.ContentMD5) == 0 || bytes.Equal(out.ContentMD5, want)
		}, nil
	}
	if err := readAll(hash, body); err != nil {
		return nil, nil, err
	}
	want := hash.Sum64()
	return blob.TransferValidationTypeCRC64(want), func(out blockblob.UploadResponse) bool {
		return len(out.ContentCRC64) == 0 || bytes.Equal(out.ContentCRC64, binary.LittleEndian.AppendUint64(nil, want))
	}, nil
}

// readAll reads the body into w and rewinds it.
func readAll(w io.Writer, body *objectstore.Body) error {
	if _, err := body.WriteTo(w); err != nil {
		return err
	}
	_, err := body.Seek(0, io.SeekStart)
	return err
}

// crc32cOf finds the CRC-32C in the metadata of a blob. ok is false for a blob that somebody else has stored.
func crc32cOf(metadata map[string]*string) (crc32c uint32, ok bool) {
	for name, value := range metadata {
		if !strings.EqualFold(name, metadataCRC32C) || value == nil || len(*value) != 8 {
			continue
		}
		parsed, err := strconv.ParseUint(*value, 16, 32)
		return uint32(parsed), err == nil
	}
	return 0, false
}
