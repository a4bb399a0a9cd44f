package s3

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Put implements objectstore.Driver: one plain PutObject, create only (W2), whose checksum the store verifies (W4).
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	return d.call(ctx, opPut, func(ctx context.Context, w *stall.Watch) error {
		upload := w.Upload(body)
		in := &sdk.PutObjectInput{
			Bucket:        &d.bucket,
			Key:           &key,
			Body:          upload,
			ContentLength: aws.Int64(body.Len()),
			IfNoneMatch:   aws.String("*"),
		}
		checksum := encodeCRC32C(crc32c)
		if !d.noChecksum {
			// The value and not the algorithm: named alone, the SDK computes it and sends it in a trailer, chunked.
			in.ChecksumCRC32C = &checksum
		}
		if d.kmsKeyID != "" {
			in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, &d.kmsKeyID
		}
		out, err := d.client.PutObject(ctx, in)
		switch {
		case err != nil:
			return err
		case aws.ToString(out.ETag) == "":
			// Something between us and the store has answered: every store names what it has made.
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: the answer to an upload has no ETag"))
		case out.ChecksumCRC32C != nil && *out.ChecksumCRC32C != checksum && !d.noChecksum:
			return walstorage.NewError(walstorage.ErrCorrupt, fmt.Errorf("s3: the store has computed the checksum %s of an upload with %s", *out.ChecksumCRC32C, checksum))
		case !upload.Whole():
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: the answer to an upload came before the body was sent"))
		}
		return nil
	})
}

func encodeCRC32C(crc32c uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32c))
}

// decodeCRC32C returns ok false for what is no checksum of a whole object, such as that of a multipart upload.
func decodeCRC32C(text string) (crc32c uint32, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(raw), true
}
