package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"cloud.google.com/go/storage"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
)

// Get implements objectstore.Driver (W6): one request, whose answer has to be 206 with exactly the range asked for. What
// the service sends is counted, since a body may end early and look complete.
func (d *Driver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	if len(dst) == 0 {
		return ctx.Err()
	}
	last, err := httpstore.Last(offset, len(dst))
	if err != nil {
		return err
	}
	x := &exchange{op: opGet, offset: offset, last: last}
	err = d.call(ctx, x, func(ctx context.Context, w *stall.Watch) error {
		reader, err := d.open(ctx, key, offset, int64(len(dst)))
		if err != nil {
			return err
		}
		// Close gives up a connection whose answer has not been read to its end.
		defer func() { _ = reader.Close() }()
		if err := checkReader(reader, offset, int64(len(dst))); err != nil {
			return err
		}
		if err := w.ReadFull(reader, dst); err != nil {
			if x.broke != nil {
				return broken(x.broke)
			}
			return err
		}
		return nil
	})
	return d.missing(ctx, err)
}

// open sends the request. Objects are asked for as they are stored (K6): through our transport that is its affair, and a
// client of the caller's that reads by the JSON API refuses to, before it sends anything.
func (d *Driver) open(ctx context.Context, key string, offset, length int64) (*storage.Reader, error) {
	object := d.bucket.Object(key)
	if !d.seesAnswers && !d.plainReads.Load() {
		reader, err := object.ReadCompressed(true).NewRangeReader(ctx, offset, length)
		if err == nil || !strings.Contains(err.Error(), "Accept-Encoding") {
			return reader, err
		}
		d.plainReads.Store(true)
	}
	return object.NewRangeReader(ctx, offset, length)
}

// checkReader compares what the SDK tells of an answer with the range asked for: our transport has seen more of it, and
// that of a client of the caller's has not. How long the body is, reading it tells.
func checkReader(reader *storage.Reader, offset, length int64) error {
	switch {
	case reader.Attrs.StartOffset != offset:
		return odd(fmt.Sprintf("an answer begins at %d, not at %d", reader.Attrs.StartOffset, offset))
	case reader.Attrs.Size < offset+length && reader.Attrs.Size >= 0:
		return walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("gcs: bytes %d to %d of an object of %d", offset, offset+length-1, reader.Attrs.Size))
	}
	return nil
}

// once returns a context for an attempt that may send one request. Our transport sees to that; that of a client of the
// caller's is watched, and the attempt ended when it is about to send another after the store has answered: for the rest of
// a body, for a page more, or to where a redirect points (J17). A request for a token comes before.
func (d *Driver) once(ctx context.Context, x *exchange) context.Context {
	if d.seesAnswers {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var sent, answered atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if answered.Load() {
				x.again.Store(true)
				cancel(errAgain)
			}
		},
		WroteHeaderField: func(name string, values []string) {
			// By this the SDK marks what it sends to the store, and nothing else.
			if strings.EqualFold(name, "X-Goog-Api-Client") && strings.Contains(strings.Join(values, " "), "gccl") {
				sent.Store(true)
			}
		},
		GotFirstResponseByte: func() {
			if sent.Load() {
				answered.Store(true)
			}
		},
	})
}

// missing decides between a missing object and a missing bucket where the answer has left that open (W7): a second
// request asks for the bucket. err is what a request about an object has come to.
func (d *Driver) missing(ctx context.Context, err error) error {
	if !errors.Is(err, walstorage.ErrSegmentNotFound) || saysObject(err) {
		return err
	}
	if bucketErr := d.bucketExists(ctx); bucketErr != nil {
		return bucketErr
	}
	return err
}
