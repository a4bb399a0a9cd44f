package httpstore

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/walhop/walhop/internal/stall"
)

// Watched is the body of an answer whose every read counts as a movement for the watch. That is nil if nobody watches.
func Watched(body io.ReadCloser, watch *stall.Watch) io.ReadCloser {
	if watch == nil {
		return body
	}
	return &watchedBody{body, watch}
}

type watchedBody struct {
	io.ReadCloser
	watch *stall.Watch
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.Moved()
	}
	return n, err
}

// ErrEndless is what a read beyond the bound of an answer gives.
var ErrEndless = errors.New("the answer does not end")

// Bound lets the body of an answer, which a library reads into memory, have so many bytes: to read more is
// [ErrEndless]. It is [Watched] too.
func Bound(answer *http.Response, limit int64, watch *stall.Watch) {
	answer.Body = &boundedBody{ReadCloser: Watched(answer.Body, watch), limit: limit, left: limit}
}

type boundedBody struct {
	io.ReadCloser
	limit, left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.left = 0
		return n, fmt.Errorf("%w within %d bytes", ErrEndless, b.limit)
	}
	return n, err
}
