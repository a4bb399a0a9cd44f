package memory

import (
	"context"
	"fmt"

	"github.com/walhop/walhop/leader"
)

// Read implements leader.Log: it copies as many whole batches from offset on as fit into dst and returns their bytes, 0
// at the log's end. The first batch begins at offset, or, where compaction removed that one, later. Its errors are
// *leader.ShortBufferError if the first batch does not fit, leader.ErrBelowLogStart, leader.ErrInsideBatch, and
// [ErrOutOfRange] above the log's end.
func (l *Log) Read(ctx context.Context, offset int64, dst []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case offset < l.start:
		return 0, leader.ErrBelowLogStart
	case offset > l.end:
		return 0, fmt.Errorf("%w: %d is above the log's end %d", ErrOutOfRange, offset, l.end)
	}
	i, j := l.store.find(offset)
	if i == len(l.store.blocks) {
		return 0, nil
	}
	if p, raw := l.store.at(i, j); p.base < offset {
		return 0, leader.ErrInsideBatch
	} else if len(raw) > len(dst) {
		return 0, &leader.ShortBufferError{Need: len(raw)}
	}
	n := 0
	for i < len(l.store.blocks) {
		_, raw := l.store.at(i, j)
		if len(raw) > len(dst)-n {
			break
		}
		n += copy(dst[n:], raw)
		i, j = l.store.next(i, j)
	}
	return n, nil
}

// Bytes returns a copy of every batch from the one that holds the offset from on, nil if there is none. Two logs are
// equal where their Bytes from the same offset are.
func (l *Log) Bytes(from int64) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	first, firstIn := l.store.find(from)
	size := 0
	for i, j := first, firstIn; i < len(l.store.blocks); i, j = l.store.next(i, j) {
		p, _ := l.store.at(i, j)
		size += p.to - p.from
	}
	if size == 0 {
		return nil
	}
	all := make([]byte, 0, size)
	for i, j := first, firstIn; i < len(l.store.blocks); i, j = l.store.next(i, j) {
		_, raw := l.store.at(i, j)
		all = append(all, raw...)
	}
	return all
}
