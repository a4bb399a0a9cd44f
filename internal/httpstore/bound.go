package httpstore

import (
	"fmt"
	"io"
	"net/http"

	"github.com/walhop/walhop/internal/stall"
)

// Bound lets the body of an answer, which a library reads into memory, have so many bytes: to read more is an error. Every
// read counts as a movement for the watch, which is nil if nobody watches.
func Bound(answer *http.Response, limit int64, watch *stall.Watch) {
	answer.Body = &boundedBody{ReadCloser: answer.Body, limit: limit, left: limit, watch: watch}
}

type boundedBody struct {
	io.ReadCloser
	limit, left int64
	watch       *stall.Watch
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.watch != nil {
		b.watch.Moved()
	}
	if b.left -= int64(n); b.left < 0 {
		b.left = 0
		return n, fmt.Errorf("the answer has more than %d bytes", b.limit)
	}
	return n, err
}
