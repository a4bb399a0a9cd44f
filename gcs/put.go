package gcs

import (
	"context"
	"fmt"
	"io"

	"cloud.google.com/go/storage"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Put implements objectstore.Driver: one multipart upload, create only (W2), whose checksum the service verifies (W4). The
// checksum does one thing more: the SDK ends the parts of an upload well formed even where it is cut, and a server that
// looks no further would store what came of it (W1).
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	return d.call(ctx, &exchange{op: opPut}, func(ctx context.Context, w *stall.Watch) error {
		// Cancelled, and not closed, where something fails: closing would end the upload as if it were whole.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		writer := d.bucket.Object(key).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
		writer.ChunkSize = 0 // one request, which the SDK keeps no copy of
		if !d.seesAnswers {
			// Still one request, of a copy. Sent as it is read, a write would block for ever, whatever becomes of its context
			// (W8), where a success is answered before the end: our transport makes an error of that, and another does not.
			writer.ChunkSize = int(body.Len()) + 1
		}
		writer.ContentType = "application/octet-stream"
		writer.CRC32C, writer.SendCRC32C = crc32c, true
		// Copy reads into a buffer of its own: the SDK never sees the caller's bytes (W5).
		if _, err := io.Copy(writer, w.Upload(body)); err != nil {
			return err
		}
		if err := writer.Close(); err != nil {
			return err
		}
		stored := writer.Attrs()
		if stored == nil || stored.Name != key {
			return odd("the answer to an upload does not name the object")
		}
		if stored.Size != body.Len() || stored.CRC32C != crc32c {
			// It is stored, whatever it is: the outcome is unknown, and whoever looks will know.
			return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf(
				"gcs: the service has stored %d bytes with checksum %08x of an upload of %d with %08x", stored.Size, stored.CRC32C, body.Len(), crc32c))
		}
		return nil
	})
}
