package unifiedlog

import (
	"errors"
	"io"

	"github.com/walhop/walhop/internal/batch"
)

// walkBytes is how much of a file a walk reads at a time, seekBytes if it only looks for a batch: two intervals of the index.
const (
	walkBytes = 64 << 10
	seekBytes = 8 << 10
)

// walker goes from batch to batch through a part of a .log file.
type walker struct {
	name string
	file io.ReaderAt
	// pos is where the next batch begins, end where the file, as far as it counts, ends.
	pos, end int64
	// whole says that the batches themselves are wanted; else only headers are read, and large batches are skipped.
	whole bool
	// chunk is how much is read at a time.
	chunk int

	buf []byte // what is read at a time
	// have are the bytes of the file from from on.
	have []byte
	from int64
}

func newWalker(name string, file io.ReaderAt, pos, end int64, whole bool) *walker {
	return &walker{name: name, file: file, pos: pos, end: end, whole: whole, chunk: walkBytes}
}

// next returns the next batch and where it begins, and io.EOF at the end. raw are its bytes, valid until the next call,
// if the walk is whole; otherwise nil. A batch that is not whole or whose header is damaged gives a [*DamageError]; no
// checksum is looked at.
func (w *walker) next() (h batch.Header, raw []byte, at int64, err error) {
	at = w.pos
	if at >= w.end {
		return h, nil, at, io.EOF
	}
	if err := w.fill(batch.HeaderLength); err != nil {
		return h, nil, at, err
	}
	h, err = batch.ParseHeader(w.have[at-w.from:])
	if err != nil && !errors.Is(err, batch.ErrPartial) {
		return h, nil, at, w.damage(reasonOf(err))
	}
	if h.Length == 0 || w.end-at < int64(max(h.Length, batch.HeaderLength)) {
		return h, nil, at, w.damage("the batch is not whole")
	}
	if w.whole {
		if err := w.fill(h.Length); err != nil {
			return h, nil, at, err
		}
		raw = w.have[at-w.from:][:h.Length:h.Length]
	}
	w.pos += int64(h.Length)
	return h, raw, at, nil
}

// read returns the bytes of the batch at a place, of a walk of headers.
func (w *walker) read(at int64, length int) ([]byte, error) {
	if at >= w.from && at+int64(length) <= w.from+int64(len(w.have)) {
		return w.have[at-w.from:][:length:length], nil
	}
	b := make([]byte, length)
	return b, readFull(w.file, b, at)
}

// fill sees to it that n bytes from pos on are there, or as many as there are.
func (w *walker) fill(n int) error {
	n = int(min(int64(n), w.end-w.pos))
	if w.pos >= w.from && w.pos+int64(n) <= w.from+int64(len(w.have)) {
		return nil
	}
	size := int(min(int64(max(n, w.chunk)), w.end-w.pos))
	if size > len(w.buf) {
		w.buf = make([]byte, size)
	}
	w.have, w.from = nil, w.pos
	if err := readFull(w.file, w.buf[:size], w.pos); err != nil {
		return err
	}
	w.have = w.buf[:size]
	return nil
}

func (w *walker) damage(reason string) error {
	return &DamageError{File: w.name, Position: w.pos, Reason: reason}
}

// reasonOf returns what an error of package batch says is wrong, without the position there.
func reasonOf(err error) string {
	var corrupt *batch.CorruptError
	if errors.As(err, &corrupt) {
		return corrupt.Reason
	}
	return err.Error()
}
