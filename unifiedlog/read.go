package unifiedlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/leader"
)

// Read implements leader.Log: it copies as many whole batches from offset on as fit into dst and returns their bytes, 0
// at the log's end. The first batch begins at offset, or, where compaction removed that one, later. Its errors are
// *leader.ShortBufferError if the first batch does not fit, leader.ErrBelowLogStart, leader.ErrInsideBatch,
// [ErrOutOfRange] above the log's end, and a [*DamageError] if a batch is not what was appended. dst may be overwritten
// beyond what is returned.
//
// Every batch is checked each time it is read, its checksum, and what the checksum does not cover: that it stands where its
// neighbours say, and in the epoch that the cache tells. Nothing damaged is returned.
func (l *Log) Read(ctx context.Context, offset int64, dst []byte) (int, error) {
	return l.read(ctx, offset, -1, dst)
}

// Fetch is Read for a consumer, whose offset may be any: the first batch is the one that holds it. It ends before the
// first batch that has an offset at or above limit, which is the high watermark, or the last stable offset for a
// reader of committed records; a limit above the log's end counts as the end.
func (l *Log) Fetch(ctx context.Context, offset, limit int64, dst []byte) (int, error) {
	return l.read(ctx, offset, max(limit, 0), dst)
}

// read is Read, or, with a limit that is not negative, Fetch.
func (l *Log) read(ctx context.Context, offset, limit int64, dst []byte) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, generation, err := l.readOnce(offset, limit, dst)
		if l.unchanged(generation) {
			return n, err
		}
		// A truncation or a deletion came between, so what was read may be of before and after: read again.
	}
}

// unchanged tells whether nothing was truncated or deleted since.
func (l *Log) unchanged(generation uint64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.generation == generation
}

// readOnce reads from segment to segment until dst is full. What it returns counts if the generation still is the one
// that it returns.
func (l *Log) readOnce(offset, limit int64, dst []byte) (n int, generation uint64, err error) {
	l.mu.RLock()
	r := reader{epochs: l.epochs, stop: l.end, exact: limit < 0}
	if !r.exact {
		r.stop = min(limit, l.end)
	}
	generation = l.generation
	err = l.readable(offset)
	i := floor(l.segments, offset)
	v := l.viewOf(i)
	l.mu.RUnlock()
	if err != nil {
		return 0, generation, err
	}
	// Who follows the log begins where the read before ended, and need not look for it.
	at := int64(-1)
	if h := l.hint.Load(); h != nil && *h == (hint{generation, v.base, offset, h.at}) {
		at = h.at
	}
	for offset < r.stop {
		got, next, err := r.read(&v, offset, at, dst[n:])
		n += got
		if err != nil {
			if n > 0 {
				err = nil // told when it is asked for
			}
			return n, generation, err
		}
		if next.at < v.size {
			l.hint.Store(&hint{generation, v.base, next.offset, next.at})
			return n, generation, nil
		}
		l.mu.RLock()
		more := l.generation == generation && i+1 < len(l.segments)
		if more {
			i++
			v = l.viewOf(i)
		}
		l.mu.RUnlock()
		if !more {
			l.hint.Store(&hint{generation, v.base, next.offset, next.at})
			return n, generation, nil
		}
		offset, at = v.base, 0
	}
	return n, generation, nil
}

// hint is where a read ended: the batch that begins at the place in the segment is the first with an offset from offset on.
type hint struct {
	generation uint64
	base       int64 // of the segment
	offset     int64
	at         int64
}

// readable tells why an offset cannot be read. It is for who holds mu.
func (l *Log) readable(offset int64) error {
	switch {
	case l.closed:
		return ErrClosed
	case offset < l.start:
		return leader.ErrBelowLogStart
	case offset > l.end:
		return fmt.Errorf("%w: %d is above the log's end %d", ErrOutOfRange, offset, l.end)
	}
	return nil
}

// reader reads batches and checks them.
type reader struct {
	epochs Epochs
	stop   int64 // no batch that has an offset at or above it
	exact  bool  // the first batch may not begin below the offset asked for
}

// read reads from one segment. at is where the first batch with an offset from offset on begins, -1 if that is not known.
// next is where the batch after those that were read begins, and the offset from which on it has its own.
func (r *reader) read(v *view, offset, at int64, dst []byte) (n int, next hint, err error) {
	next.offset, next.at = offset, v.size
	if at >= v.size {
		return 0, next, nil
	}
	first := offset // the least base that the first batch may have
	var h batch.Header
	var b []byte
	if at >= 0 && len(dst) >= batch.HeaderLength {
		b = dst[:min(int64(len(dst)), v.size-at)]
		if err := readFull(v.file, b, at); err != nil {
			return 0, next, err
		}
		if h, err = v.parse(b, at); err != nil {
			return 0, next, err
		}
	} else {
		found, err := v.find(offset, at)
		if err == io.EOF {
			return 0, next, nil
		}
		if err != nil {
			return 0, next, err
		}
		if r.exact && at < 0 && found.BaseOffset < offset {
			return 0, next, leader.ErrInsideBatch
		}
		if at < 0 {
			first = found.BaseOffset // the batch may hold offset
		}
		h, at = found.Header, found.at
	}
	switch {
	case h.NextOffset() > r.stop && h.NextOffset() <= v.next:
		next.at = at
		return 0, next, nil
	case h.Length > len(dst):
		return 0, next, &leader.ShortBufferError{Need: h.Length}
	}
	if b == nil {
		b = dst[:min(int64(len(dst)), v.size-at)]
		if err := readFull(v.file, b, at); err != nil {
			return 0, next, err
		}
	}
	n, end, err := r.check(v, at, first, b)
	next.at = at + int64(n)
	if n > 0 {
		next.offset = end
	}
	return n, next, err
}

// check returns how many of the bytes are good batches that may be returned, and the offset at which these end. The error
// tells what is wrong with the next, if there are none.
func (r *reader) check(v *view, at, floor int64, b []byte) (n int, end int64, err error) {
	end = floor
	before, beforeEnd := 0, floor // without the last batch
	damage := func(position int, reason string) (int, int64, error) {
		if n > 0 {
			return n, end, nil
		}
		return 0, floor, &DamageError{File: v.name(), Position: at + int64(position), Reason: reason}
	}
	const order = "the offsets are not between those of its neighbours"
	scanner := batch.NewScanner(b)
	for scanner.Next() {
		base, next := scanner.BaseOffset(), scanner.LastOffset()+1
		if base < end {
			n, end = before, beforeEnd // which of the two is wrong is not known
			return damage(n, order)
		}
		if next > v.next {
			return damage(scanner.Position(), order)
		}
		if next > r.stop {
			return n, end, nil
		}
		epoch := r.epochs.At(base)
		if epoch < 0 {
			epoch = r.epochs.At(next - 1) // the log start lies in the batch
		}
		if scanner.LeaderEpoch() != epoch {
			return damage(scanner.Position(), fmt.Sprintf("its leader epoch is %d, the cache tells %d", scanner.LeaderEpoch(), epoch))
		}
		if err := batch.VerifyCRC(scanner.Bytes()); err != nil {
			return damage(scanner.Position(), reasonOf(err))
		}
		before, beforeEnd = n, end
		n, end = scanner.End(), next
	}
	if err := scanner.Err(); err != nil {
		return damage(scanner.Position(), reasonOf(err))
	}
	if n == 0 {
		return damage(0, "the batch is not whole")
	}
	// The last batch, too, has to end where the next one begins, or before.
	if at+int64(n) < v.size {
		var following [8]byte
		if copy(following[:], b[n:]) < len(following) {
			if err := readFull(v.file, following[:], at+int64(n)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return 0, floor, err
			}
		}
		if base := int64(binary.BigEndian.Uint64(following[:])); base < end {
			n, end = before, beforeEnd
			return damage(n, order)
		}
	}
	return n, end, nil
}
