package stall

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Upload is the body of an upload, whose every read counts as a movement. It hides the rest of objectstore.Body, so that
// nothing passes the count by.
type Upload struct {
	body  *objectstore.Body
	watch *Watch
	at    atomic.Int64 // where the next read begins
}

var _ io.ReadSeekCloser = (*Upload)(nil)

// Upload makes the body of an upload.
func (w *Watch) Upload(body *objectstore.Body) *Upload { return &Upload{body: body, watch: w} }

// Read implements io.Reader.
func (u *Upload) Read(p []byte) (int, error) {
	u.watch.Moved()
	n, err := u.body.Read(p)
	u.at.Add(int64(n))
	return n, err
}

// Seek implements io.Seeker.
func (u *Upload) Seek(offset int64, whence int) (int64, error) {
	at, err := u.body.Seek(offset, whence)
	if err == nil {
		u.at.Store(at)
	}
	return at, err
}

// Whole tells whether the body has been read to its end, since it was last wound back. An answer to an upload that comes
// before that does not know what was to be stored, whatever it says (W1).
func (u *Upload) Whole() bool { return u.at.Load() == u.body.Len() }

// Close does nothing.
func (u *Upload) Close() error { return nil }

// ReadFull fills dst from a body that has to end there: any other length is walstorage.ErrUnavailable. Each read counts
// as a movement.
func (w *Watch) ReadFull(body io.Reader, dst []byte) error {
	n := 0
	for n < len(dst) {
		read, err := body.Read(dst[n:])
		n += read // bytes may come together with the end
		if read > 0 {
			w.Moved()
		}
		if err != nil && n < len(dst) {
			return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("the body ended after %d of %d bytes: %w", n, len(dst), err))
		}
	}
	// Reading the end lets the connection be used again.
	var more [1]byte
	if read, _ := body.Read(more[:]); read > 0 {
		return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("the body is longer than %d bytes", len(dst)))
	}
	return nil
}
