package gcs

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

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
		writer.ContentType = "application/octet-stream"
		writer.CRC32C, writer.SendCRC32C = crc32c, true
		source := &source{Reader: w.Upload(body)}
		defer source.free(ctx, writer)()
		// Copy reads into a buffer of its own: the SDK never sees the caller's bytes (W5).
		if _, err := io.Copy(writer, source); err != nil {
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

// freeAfter is how long the SDK has to let a writer go whose context has ended, before it is made to.
const freeAfter = 100 * time.Millisecond

// source is the body of an upload.
type source struct {
	io.Reader
	mu sync.Mutex
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock() // orders what the SDK notes in a write before what free reads of it
	defer s.mu.Unlock()
	return s.Reader.Read(p)
}

// free makes a write return that goes on after its context has ended: where the answer has come before the body was
// sent, the SDK looks at the context no more (W8). The function that it returns ends that.
func (s *source) free(ctx context.Context, writer *storage.Writer) (stop func()) {
	returned := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(freeAfter)
		defer timer.Stop()
		select {
		case <-returned:
		case <-timer.C:
			s.mu.Lock()
			defer s.mu.Unlock()
			//lint:ignore SA1019 what it is deprecated for, cancelling the context, does not do here
			_ = writer.CloseWithError(ctx.Err())
		}
	})
	return func() {
		close(returned)
		unhook()
	}
}
