package objectstore

import (
	"errors"
	"io"
	"sync"
)

// errRevoked is what a Body's readers get once the attempt that it belonged to is over.
var errRevoked = errors.New("objectstore: the body has been revoked")

// Body is the content of one Put: a reader over the caller's bytes, behind a mutex, whose [Body.Revoke] takes the bytes
// back at once (W5). A transport that goes on reading after the driver has returned, as net/http does where the server
// answers before it has read the body, then reads an error and not a buffer that belongs to someone else again.
//
// It implements io.Reader, io.Seeker, io.ReaderAt, io.WriterTo and io.Closer; Close does nothing, since transports
// close bodies that they may read again on a redirect. All methods may be called concurrently.
type Body struct {
	mu      sync.Mutex
	data    []byte
	size    int64
	offset  int64
	revoked bool
}

// NewBody returns a body over data, which it borrows until Revoke. Manager makes one for each attempt; drivers need it
// only in their own tests.
func NewBody(data []byte) *Body { return &Body{data: data, size: int64(len(data))} }

// Len returns the size of the whole body in bytes, also after Revoke.
func (b *Body) Len() int64 { return b.size }

// Revoke takes the bytes back: when it has returned no reader touches them, and every later read is an error.
func (b *Body) Revoke() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data, b.revoked = nil, true
}

// Read reads the next bytes.
func (b *Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.readAt(p, b.offset)
	b.offset += int64(n)
	return n, err
}

// ReadAt reads from the offset given, as io.ReaderAt demands.
func (b *Body) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, errors.New("objectstore: negative offset")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.readAt(p, offset)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (b *Body) readAt(p []byte, offset int64) (int, error) {
	if b.revoked {
		return 0, errRevoked
	}
	if len(p) == 0 {
		return 0, nil
	}
	if offset >= b.size {
		return 0, io.EOF
	}
	return copy(p, b.data[offset:]), nil
}

// Seek sets the offset of the next Read.
func (b *Body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += b.offset
	case io.SeekEnd:
		offset += b.size
	default:
		return 0, errors.New("objectstore: invalid whence")
	}
	if offset < 0 {
		return 0, errors.New("objectstore: negative position")
	}
	b.offset = offset
	return offset, nil
}

// writeToChunk bounds how long WriteTo holds the mutex, and so how long Revoke waits for a slow writer: not at all,
// since each chunk is copied first.
const writeToChunk = 32 << 10

// WriteTo writes the rest of the body to w. The bytes pass through a buffer of the call's own, so that a writer that
// blocks never blocks Revoke.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	var total int64
	buf := make([]byte, min(writeToChunk, max(b.size, 1)))
	for {
		n, err := b.Read(buf)
		if n > 0 {
			written, werr := w.Write(buf[:n])
			total += int64(written)
			if werr != nil {
				return total, werr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Close does nothing.
func (b *Body) Close() error { return nil }
