package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
)

// AppendRaw appends whole record batches that carry their offsets and epochs already, byte for byte, as a broker does
// when it takes an ordinary replica fetch. It needs no role, and asks of the batches what AppendAsFollower does; if the
// log leads or follows, no batch may be of a newer epoch than that. batches is not kept.
func (l *Log) AppendRaw(ctx context.Context, batches []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := verify(batches); err != nil {
		return err
	}
	moved, err := l.appendAsIs(batches, func() (int32, error) {
		if l.role != idle {
			return l.epoch, nil
		}
		return math.MaxInt32, nil
	})
	l.moved(moved)
	if err == nil {
		err = l.flushIfDue()
	}
	return err
}

// AppendAsFollower implements follower.Log: it appends all the batches, byte for byte, or none. Under the writer's lock it
// refuses with follower.ErrStale unless the log follows in leaderEpoch and its end is expectedOffset (F2, F7, C5).
// Batches whose CRC is wrong (F3), that begin below the log's end, or whose epochs fall, or pass leaderEpoch, give a
// [*BatchError]. The first batch may begin above the end, after a compaction gap. No sequence number of a producer and
// no size is checked (F8, KAFKA-6003, KAFKA-17375).
//
// An error of the disk may leave a part of the batches appended, as whole batches, if they go into more than one segment:
// the caller reads the end again.
func (l *Log) AppendAsFollower(ctx context.Context, leaderEpoch int32, expectedOffset int64, batches []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := verify(batches); err != nil {
		return err
	}
	moved, err := l.appendAsIs(batches, func() (int32, error) {
		if l.role != following || l.epoch != leaderEpoch || l.end != expectedOffset {
			return 0, follower.ErrStale
		}
		return leaderEpoch, nil
	})
	l.moved(moved)
	if err == nil {
		err = l.flushIfDue()
	}
	return err
}

// appendAsIs appends verified batches as they are. newest is called under the writer's lock and tells up to which epoch.
func (l *Log) appendAsIs(batches []byte, newest func() (int32, error)) (moved bool, err error) {
	l.w.Lock()
	defer l.w.Unlock()
	if err := l.writable(); err != nil {
		return false, err
	}
	epoch, err := newest()
	if err != nil {
		return false, err
	}
	if err := l.inOrder(batches, epoch); err != nil {
		return false, err
	}
	before := l.end
	err = l.write(batches)
	return l.end != before, err
}

// verify tells whether the bytes are whole batches with right CRCs. It needs no lock, so the appends of one log wait for
// each other's checksums no longer than they must.
func verify(batches []byte) error {
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		if err := batch.VerifyCRC(scanner.Bytes()); err != nil {
			return &BatchError{Position: scanner.Position(), BaseOffset: scanner.BaseOffset(), Kind: ErrCorrupt, Cause: err}
		}
	}
	if err := scanner.Err(); err != nil {
		return &BatchError{Position: scanner.Position(), BaseOffset: -1, Kind: ErrCorrupt, Cause: err}
	}
	if position, partial := scanner.PartialTail(); partial {
		return &BatchError{Position: position, BaseOffset: -1, Kind: ErrCorrupt, Cause: errors.New("the last batch is not whole")}
	}
	return nil
}

// inOrder tells whether verified batches may follow the log's end, as they are.
func (l *Log) inOrder(batches []byte, newest int32) error {
	end, epoch := l.end, l.epochs.At(l.end-1)
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		base, of := scanner.BaseOffset(), scanner.LeaderEpoch()
		var cause error
		switch {
		case base < end:
			cause = fmt.Errorf("the log's end is %d", end)
		case of < epoch || of < 0:
			cause = fmt.Errorf("its epoch %d follows epoch %d", of, epoch)
		case of > newest:
			cause = fmt.Errorf("its epoch %d is above the partition's epoch %d", of, newest)
		}
		if cause != nil {
			return &BatchError{Position: scanner.Position(), BaseOffset: base, Kind: ErrOutOfOrder, Cause: cause}
		}
		end, epoch = scanner.LastOffset()+1, of
	}
	return nil
}

// write appends batches that are verified and in order. Each goes into the segment in which it would be if it had come
// alone, so a follower's segments are its leader's, however the slices were cut.
func (l *Log) write(batches []byte) error {
	if err := l.enterEpochs(batches); err != nil {
		return err
	}
	for len(batches) > 0 {
		n, first := l.run(batches)
		if n == 0 {
			// The new segment begins where the log ends, gap or not, so that segments follow each other without a hole.
			base := l.end
			if first.LastOffset()-base > math.MaxInt32 {
				base = first.BaseOffset // KAFKA-4451, KAFKA-6264
			}
			if err := l.roll(base); err != nil {
				return err
			}
			continue
		}
		if err := l.extend(batches[:n]); err != nil {
			return err
		}
		batches = batches[n:]
	}
	return nil
}

// enterEpochs puts the epochs of the batches into the cache, and on the disk, before the batches themselves are: so a
// batch whose epoch the checkpoint does not tell is damaged.
func (l *Log) enterEpochs(batches []byte) error {
	epochs := l.epochs
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		epochs = epochs.Assign(scanner.LeaderEpoch(), scanner.BaseOffset())
	}
	return l.keepEpochs(epochs, nothing)
}

// run returns how many bytes of the batches go into the active segment, and the header of the first batch.
func (l *Log) run(batches []byte) (n int, first batch.Header) {
	s := l.active()
	size, lastIndexed, firstTime := s.size, s.lastIndexed, s.firstTime
	offsets, times := int64(s.offsets.len()), int64(s.times.len())
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		length := int64(scanner.End() - scanner.Position())
		if n == 0 {
			first = *scanner.Header()
		}
		last, time := scanner.LastOffset(), scanner.MaxTimestamp()
		if !s.fits(last) {
			return n, first
		}
		if size > 0 {
			aged := time - firstTime
			if firstTime < 0 {
				aged = l.cfg.Now().Sub(s.created).Milliseconds()
			}
			if size+length > l.cfg.SegmentBytes || aged > l.cfg.SegmentAge.Milliseconds() ||
				offsets >= l.cfg.MaxIndexBytes/offsetEntrySize || times >= l.cfg.MaxIndexBytes/timeEntrySize-1 {
				return n, first
			}
		} else {
			firstTime = time
		}
		if size-lastIndexed > l.cfg.IndexIntervalBytes {
			offsets, times, lastIndexed = offsets+1, times+1, size
		}
		size += length
		n = scanner.End()
	}
	return n, first
}

// extend appends a run of batches to the active segment.
func (l *Log) extend(run []byte) error {
	s := l.active()
	if _, err := s.file.WriteAt(run, s.size); err != nil {
		// What the file holds now beyond its batches is not to be seen by anyone: a clean shutdown would leave it there.
		if cutErr := s.file.Truncate(s.size); cutErr != nil {
			return l.fail(fmt.Errorf("%s: %w after %w", s.name(), cutErr, err))
		}
		return fmt.Errorf("unifiedlog: %s: %w", s.name(), err)
	}
	l.mu.Lock()
	scanner := batch.NewScanner(run)
	position := s.size
	for scanner.Next() {
		h := scanner.Header()
		s.note(h, position, l.cfg.IndexIntervalBytes)
		if aborted, ok := l.producers.follow(h, scanner.Bytes()); ok {
			var b [txnEntrySize]byte
			s.txns.add(aborted.put(&b))
		}
		position += int64(h.Length)
		l.end = h.NextOffset()
	}
	s.size = position
	l.mu.Unlock()
	l.flushIndexes(s, false)
	return nil
}

// flushIndexes writes what is pending of the indexes of a segment: if it is worth it, or, with all set, whatever there is.
// An error is no more than that for an append: the entries stay in memory, and the next call tries again.
func (l *Log) flushIndexes(s *segment, all bool) error {
	if len(s.txns.pending) > 0 && s.txns.file == nil {
		created, err := createEntries(l.fs, s.txns.name, txnEntrySize)
		if err != nil {
			return err
		}
		created.pending = s.txns.pending
		l.mu.Lock()
		s.txns = created
		l.mu.Unlock()
	}
	for _, e := range []*entries{&s.offsets, &s.times, &s.txns} {
		if len(e.pending) == 0 || !all && !e.full() && e.size != txnEntrySize {
			continue
		}
		flushed, err := e.flush()
		if err != nil {
			return err
		}
		l.mu.Lock()
		*e = flushed
		l.mu.Unlock()
	}
	return nil
}

// roll begins a new segment at base. The old one gets its last time entry, its indexes are written, and a snapshot of the
// producers is taken at base, from which recovery can begin.
func (l *Log) roll(base int64) error {
	old := l.active()
	l.mu.Lock()
	old.noteTime()
	l.producers.end = max(l.producers.end, base)
	l.mu.Unlock()
	if err := l.flushIndexes(old, true); err != nil {
		return fmt.Errorf("unifiedlog: indexes of %s: %w", old.name(), err)
	}
	if err := l.takeSnapshot(); err != nil {
		return err
	}
	if l.RecoveryPoint() >= base {
		// The records are synced, the indexes are not. From now on the recovery point lies in the new segment, and
		// recovery would not make them anew.
		if err := l.syncIndexes(old); err != nil {
			return l.fail(err)
		}
	}
	s, err := createSegment(l.fs, base, l.cfg.Now())
	if err != nil {
		return fmt.Errorf("unifiedlog: segment %d: %w", base, err)
	}
	segments := append(append(make([]*segment, 0, len(l.segments)+1), l.segments...), s)
	l.mu.Lock()
	l.segments = segments
	l.mu.Unlock()
	switch l.cfg.RollFlush {
	case RollFlushInline:
		return l.flushTo(base)
	case RollFlushBackground:
		l.background.Go(func() { _ = l.flushTo(base) }) // an error fails the log
	}
	return nil
}

// takeSnapshot writes a snapshot of the producers at the offset up to which they are followed, if none is there.
func (l *Log) takeSnapshot() error {
	if l.producers.end <= l.producers.snapshot {
		return nil
	}
	if err := l.writeSnapshot(&l.producers); err != nil {
		return err
	}
	l.mu.Lock()
	l.producers.snapshot = l.producers.end
	l.mu.Unlock()
	return nil
}

// writeSnapshot writes a snapshot of a state. It is not synced: its checksum tells whether it is whole, and recovery takes
// an older one otherwise.
func (l *Log) writeSnapshot(state *producerState) error {
	name := fileName(state.end, snapshotSuffix)
	file, err := l.fs.Create(name)
	if err == nil {
		_, err = file.WriteAt(encodeSnapshot(state.producers), 0)
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		return fmt.Errorf("unifiedlog: %s: %w", name, err)
	}
	return nil
}

// Roll begins a new segment at the log's end, unless the active one is empty.
func (l *Log) Roll() error {
	l.w.Lock()
	defer l.w.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if l.active().size == 0 {
		return nil
	}
	return l.roll(l.end)
}
