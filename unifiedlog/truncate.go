package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// TruncateTo drops every batch that ends at offset or above and returns the new end. A batch that contains the offset
// goes whole, and the end is then its base offset, so that the log has no hole. Entries of the leader epoch cache that
// begin at the new end go too, also where no bytes go (KAFKA-10706). An offset at or above the end drops no batch, one
// below the log start everything: the log then starts there. Where the log is damaged on the way, it ends before the damage.
//
// The truncation is synced, which Kafka's is not: what was dropped does not come back after a power cut. Whole segments
// go first, the newest before the others. With an error the log may end anywhere between the offset and its old end.
//
// A broker stops walhop's Following and Leadership of the partition first, unless it truncates inside a LeaderFetcher
// call (B5).
func (l *Log) TruncateTo(offset int64) (end int64, err error) {
	return l.truncating(func() error { return l.truncateTo(offset) })
}

// TruncateFullyAndStartAt drops everything; the log is empty and starts and ends at offset, which counts as 0 if it is
// negative. The leader epoch cache is empty, or holds the epochs given, oldest first: a broker that rebuilds a follower
// from tiered storage knows them.
func (l *Log) TruncateFullyAndStartAt(offset int64, epochs ...EpochStart) error {
	_, err := l.truncating(func() error {
		cache := Epochs{}
		for _, e := range epochs {
			cache = cache.Assign(e.Epoch, e.Start)
		}
		return l.truncateFully(max(offset, 0), cache)
	})
	return err
}

// truncating does what truncates under the writer's lock.
func (l *Log) truncating(truncate func() error) (end int64, err error) {
	l.w.Lock()
	before, beforeStart := l.end, l.start
	if err = l.writable(); err == nil {
		err = truncate()
	}
	end = l.end
	moved := end != before || l.start != beforeStart
	l.w.Unlock()
	l.moved(moved)
	return end, err
}

func (l *Log) truncateTo(offset int64) error {
	offset = max(offset, 0)
	if offset < l.start {
		return l.truncateFully(offset, nil)
	}
	if offset < l.end {
		if err := l.cut(offset); err != nil {
			return err
		}
	}
	return l.keepEpochs(l.epochs.TruncateFromEnd(l.end), nothing)
}

// cut drops the batches that end at offset or above. offset lies in the log.
func (l *Log) cut(offset int64) error {
	i := floor(l.segments, offset)
	v := l.viewOf(i)
	at := v.size
	h, err := v.seek(offset)
	var damage *DamageError
	switch {
	case err == nil:
		// A batch that begins below the log start is kept only as long as the log needs it.
		offset, at = min(offset, max(h.BaseOffset, l.start)), h.at
	case errors.As(err, &damage):
		// What lies behind damage is not to be reached. It goes too, and the log can be filled again from there.
		l.cfg.Logger.Warn("the log is damaged below where it is truncated, and ends there", "dir", l.cfg.Dir, "err", err)
		if at, offset, err = v.sound(offset); err != nil {
			return err
		}
		offset = max(offset, l.start)
	case err != io.EOF:
		return err
	}
	for len(l.segments) > i+1 {
		if err := l.dropLast(); err != nil {
			return err
		}
	}
	s := l.segments[i]
	shorter := at < s.size
	l.forget(offset, func() { s.size = at })
	if shorter {
		if err := s.file.Truncate(at); err != nil {
			return l.fail(fmt.Errorf("%s: %w", s.name(), err))
		}
		if err := s.file.Sync(); err != nil {
			return l.fail(fmt.Errorf("%s: %w", s.name(), err))
		}
	}
	if err := l.cutIndexes(s, offset); err != nil {
		return l.fail(fmt.Errorf("indexes of %s: %w", s.name(), err))
	}
	if err := l.restoreProducers(); err != nil {
		return l.fail(err)
	}
	return nil
}

// forget makes end the log's end, and has every reader look again. It comes before the files are touched: a reader to whom
// they look odd then finds that the log has changed.
func (l *Log) forget(end int64, change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.end = end
	l.flushed = min(l.flushed, end)
	l.highWatermark = min(l.highWatermark, end)
	l.generation++
}

// dropLast removes the active segment for good; the log then ends where it began.
func (l *Log) dropLast() error {
	s := l.active()
	segments := slices.Clone(l.segments[:len(l.segments)-1])
	l.forget(min(l.end, s.base), func() { l.segments = segments })
	if err := l.removeSegment(s); err != nil {
		return l.fail(err)
	}
	return nil
}

// removeSegment removes the files of a segment: the log first, since what is left without it is swept at the next start.
// The name is gone for good when it returns.
func (l *Log) removeSegment(s *segment) error {
	s.close()
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		name := fileName(s.base, suffix)
		if err := remove(l.fs, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := l.fs.SyncDir(); err != nil {
		return fmt.Errorf("sync of the directory: %w", err)
	}
	return nil
}

// cutIndexes drops the entries of a segment that are about batches that it has no more.
func (l *Log) cutIndexes(s *segment, end int64) error {
	var o [offsetEntrySize]byte
	offsets, err := s.offsets.search(o[:], func() bool { return int64(getOffsetEntry(o[:]).position) >= s.size })
	if err != nil {
		return err
	}
	var t [timeEntrySize]byte
	times, err := s.times.search(t[:], func() bool { return s.base+int64(getTimeEntry(t[:]).relative) >= end })
	if err != nil {
		return err
	}
	var x [txnEntrySize]byte
	txns, err := s.txns.search(x[:], func() bool { a, _ := getAbortedTxn(x[:]); return a.last >= end })
	if err != nil {
		return err
	}
	// A reader is told of fewer entries before the files have fewer.
	l.mu.Lock()
	s.offsets, s.times, s.txns = s.offsets.cut(offsets), s.times.cut(times), s.txns.cut(txns)
	l.mu.Unlock()
	for _, e := range []*entries{&s.offsets, &s.times, &s.txns} {
		if err := e.trim(); err != nil {
			return err
		}
	}
	v := s.view(math.MaxInt64)
	known := *s
	known.reset()
	if err := known.load(&v); err != nil {
		var damage *DamageError
		if !errors.As(err, &damage) {
			return err
		}
		if known, err = l.reindexed(s); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.offsets, s.times = known.offsets, known.times
	s.lastIndexed, s.firstTime = known.lastIndexed, known.firstTime
	s.lastTime, s.lastTimeOffset = known.lastTime, known.lastTimeOffset
	s.maxTime, s.maxTimeOffset = known.maxTime, known.maxTimeOffset
	if s.size == 0 {
		s.created = l.cfg.Now()
	}
	return nil
}

// reindexed returns the segment with offset and time index made anew: those that it has are damaged.
func (l *Log) reindexed(s *segment) (segment, error) {
	l.cfg.Logger.Warn("the indexes of a segment are damaged and made anew", "dir", l.cfg.Dir, "file", s.name())
	l.mu.Lock()
	s.offsets, s.times = s.offsets.cut(0), s.times.cut(0)
	known := *s
	l.mu.Unlock()
	known.reset()
	for _, e := range []*entries{&known.offsets, &known.times} {
		if err := e.trim(); err != nil {
			return known, err
		}
	}
	w := newWalker(s.name(), s.file, 0, s.size, false)
	for {
		h, _, at, err := w.next()
		var damage *DamageError
		if err == io.EOF || errors.As(err, &damage) {
			return known, nil // what is damaged in the log is found when it is read
		}
		if err != nil {
			return known, err
		}
		known.note(&h, at, l.cfg.IndexIntervalBytes)
	}
}

// truncateFully drops everything, and makes cache the leader epoch cache.
func (l *Log) truncateFully(offset int64, cache Epochs) error {
	for len(l.segments) > 1 {
		if err := l.dropLast(); err != nil {
			return err
		}
	}
	old := l.active()
	l.forget(min(l.end, old.base), func() {
		old.size, old.offsets, old.times, old.txns = 0, old.offsets.cut(0), old.times.cut(0), old.txns.cut(0)
		old.reset()
	})
	if err := l.removeSegment(old); err != nil {
		return l.fail(err)
	}
	s, err := createSegment(l.fs, offset, l.cfg.Now())
	if err == nil {
		err = l.fs.SyncDir()
	}
	if err != nil {
		return l.fail(fmt.Errorf("segment %d: %w", offset, err))
	}
	if err := l.dropSnapshots(func(int64) bool { return true }); err != nil {
		return l.fail(err)
	}
	l.forget(offset, func() {
		l.segments = []*segment{s}
		l.start, l.flushed, l.highWatermark, l.below = offset, offset, offset, -1
		l.producers = newProducerState(offset)
	})
	return l.keepEpochs(cache, nothing)
}

// restoreProducers brings the producers to the log's end after a truncation: from the newest snapshot below it.
func (l *Log) restoreProducers() error {
	if err := l.dropSnapshots(func(offset int64) bool { return offset > l.end }); err != nil {
		return err
	}
	left, err := l.snapshots()
	if err != nil {
		return err
	}
	if len(l.producers.producers) == 0 && l.producers.end >= l.end {
		// Nothing was known, so there is nothing to take back.
		newest := l.start
		if len(left) > 0 {
			newest = left[len(left)-1]
		}
		l.mu.Lock()
		l.producers.end, l.producers.snapshot = l.end, min(newest, l.end)
		l.mu.Unlock()
		return nil
	}
	r := recovery{l: l, ctx: context.Background(), snapshots: left}
	state, err := r.stateBefore(l.end, l.end)
	if err != nil {
		return err
	}
	state.end = l.end
	state.anomalies = l.producers.anomalies
	l.mu.Lock()
	state.replicated(l.highWatermark)
	l.producers = *state
	l.mu.Unlock()
	return nil
}

// snapshots returns the offsets of the snapshots, in their order.
func (l *Log) snapshots() ([]int64, error) {
	names, err := l.fs.List()
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, name := range names {
		if offset, ok := parseName(name, snapshotSuffix); ok {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets, nil
}

// dropSnapshots removes snapshots.
func (l *Log) dropSnapshots(which func(offset int64) bool) error {
	offsets, err := l.snapshots()
	if err != nil {
		return err
	}
	for _, offset := range offsets {
		if which(offset) {
			if err := remove(l.fs, fileName(offset, snapshotSuffix)); err != nil {
				return err
			}
		}
	}
	return nil
}
