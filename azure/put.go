package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put implements objectstore.Driver: one Put Blob, create only (W2), whose checksum the store verifies (W4).
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	return d.call(ctx, opPut, func(ctx context.Context, a *attempt) error {
		sent, err := d.checksum(body, crc32c)
		if err != nil {
			return err
		}
		all, crc, upload := azcore.ETagAny, fmt.Sprintf("%08x", crc32c), a.watch.Upload(body)
		out, err := d.client.NewBlockBlobClient(key).Upload(ctx, upload, &blockblob.UploadOptions{
			TransactionalValidation: sent.value,
			Metadata:                map[string]*string{metadataCRC32C: &crc},
			AccessConditions:        &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &all}},
		})
		switch {
		case err != nil:
			return err
		case out.ETag == nil:
			// Something between us and the store has answered: every store names what it has made.
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the answer to an upload has no ETag"))
		case !sent.confirmed(out):
			return walstorage.NewError(walstorage.ErrCorrupt, errors.New("azure: the store has computed another checksum of the upload than was sent"))
		case !upload.Whole():
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the answer to an upload came before the body was sent"))
		}
		return a.saysNothing()
	})
}

// sum is what the store is to verify a body by.
type sum struct {
	value blob.TransferValidationType
	bytes []byte // as they go over the wire
	md5   bool
}

// confirmed tells whether the store says the same of what it has stored, if it says anything.
func (s sum) confirmed(out blockblob.UploadResponse) bool {
	told := out.ContentCRC64
	if s.md5 {
		told = out.ContentMD5
	}
	return len(told) == 0 || bytes.Equal(told, s.bytes)
}

// checksum reads the body and computes what the store is to verify it by. It is given to the SDK as a value: an SDK that
// computes it reads the whole body into memory first. It covers the very bytes that have the CRC-32C given, so that
// nothing that was damaged in memory since that was computed is stored either (K1).
func (d *Driver) checksum(body *objectstore.Body, crc32c uint32) (sum, error) {
	given, own := crc32.New(castagnoli), hash.Hash(crc64nvme.New())
	if d.md5 {
		own = md5.New()
	}
	if _, err := body.WriteTo(io.MultiWriter(given, own)); err != nil {
		return sum{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return sum{}, err
	}
	if given.Sum32() != crc32c {
		return sum{}, walstorage.NewError(walstorage.ErrCorrupt, fmt.Errorf("azure: the CRC-32C of the body is %08x and should be %08x", given.Sum32(), crc32c))
	}
	raw := own.Sum(nil)
	if d.md5 {
		return sum{value: blob.TransferValidationTypeMD5(raw), bytes: raw, md5: true}, nil
	}
	value := binary.BigEndian.Uint64(raw) // as package hash has it; Azure has the bytes the other way round
	return sum{value: blob.TransferValidationTypeCRC64(value), bytes: binary.LittleEndian.AppendUint64(nil, value)}, nil
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
