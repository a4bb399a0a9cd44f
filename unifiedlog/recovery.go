package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/walhop/walhop/internal/batch"
)

// recovery brings a log up from its files.
type recovery struct {
	l   *Log
	ctx context.Context
	// snapshots are the offsets of the snapshot files, in their order.
	snapshots []int64
	// checkpoint is what the checkpoint of the epochs tells; intact is false if it is missing or damaged.
	checkpoint Epochs
	intact     bool
	// runs are the epochs of the batches that were read, and odd is how many of those the checkpoint contradicts.
	runs Epochs
	odd  int
	// gap is the last batch that was read, if offsets are missing before it.
	gap *gapBatch
	// state follows the batches that are read. It is set once the first segment is recovered.
	state *producerState
	// changed says that something was cut or made anew, so the files are not all synced.
	changed bool
}

// gapBatch is a batch before which offsets are missing.
type gapBatch struct {
	segment int
	found
}

// run recovers the segments from the recovery point on, or, after a clean shutdown, those that lack an index. It leaves
// l.segments and l.end as they are to be.
func (r *recovery) run() error {
	l := r.l
	if err := r.readCheckpoint(); err != nil {
		return err
	}
	from := floor(l.segments, l.cfg.RecoveryPoint)
	for i := 0; i < len(l.segments); i++ {
		unflushed := !l.cfg.CleanShutdown && i >= from
		if unflushed && i > from && r.hole(l.segments[i].base) {
			if err := r.dropFrom(i); err != nil {
				return err
			}
			break
		}
		whole, err := true, error(nil)
		if unflushed || l.segments[i].unindexed {
			whole, err = r.recover(i, unflushed)
		} else {
			err = r.adopt(i)
		}
		if err != nil {
			return err
		}
		if !whole {
			if err := r.dropFrom(i + 1); err != nil {
				return err
			}
		}
	}
	if err := r.doubtLast(); err != nil {
		return err
	}
	return r.dropBelowStart()
}

// hole tells whether a segment that begins at base cannot follow the log's end: a power cut has left it without the one
// before, or without the end of that.
func (r *recovery) hole(base int64) bool {
	gap := base - r.l.end
	if gap == 0 || gap > math.MaxInt32/2 || gap > 0 && r.l.cfg.Compacted {
		return false // the largest gaps are those over which an append itself began a new segment
	}
	r.log("a segment does not begin where the one before it ends", base, r.l.end)
	return true
}

// doubtLast cuts the log's last batch if it stands behind a gap and nothing says that it was there: its base offset, which
// no checksum covers, may be wrong, and there is no next batch that would tell.
func (r *recovery) doubtLast() error {
	l := r.l
	if r.gap == nil || r.gap.segment != len(l.segments)-1 {
		return nil
	}
	if l.cfg.CleanShutdown || !l.cfg.Compacted && r.gap.BaseOffset >= l.cfg.RecoveryPoint {
		r.log("offsets are missing before the last batch", r.gap.BaseOffset, l.end)
		return r.cutAt(r.gap.segment, r.gap.at)
	}
	return nil
}

// log tells the operator what recovery has found.
func (r *recovery) log(what string, at, end int64) {
	r.l.cfg.Logger.Warn("the log is cut at recovery: "+what, "dir", r.l.cfg.Dir, "offset", at, "end", end)
}

// readCheckpoint reads the checkpoint of the epochs.
func (r *recovery) readCheckpoint() error {
	b, err := readAll(r.l.fs, epochsName, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.checkpoint, err = decodeEpochs(b)
	r.intact, r.l.kept = err == nil, r.checkpoint
	if err != nil {
		r.l.kept = Epochs{{Epoch: -1}} // no checkpoint is that, so the file is written anew
		r.l.cfg.Logger.Warn("the checkpoint of the leader epochs is damaged and made anew", "dir", r.l.cfg.Dir, "err", err)
	}
	return nil
}

// recover reads a segment, cuts it before the first batch that is not what was appended, and makes its indexes anew. It
// returns whether nothing was cut. A segment that is known to be synced and is not the last is not cut (unflushed is
// false): what is damaged in it is told when it is read, and the segments behind it stay.
func (r *recovery) recover(i int, unflushed bool) (whole bool, err error) {
	l := r.l
	s := l.segments[i]
	if r.state == nil {
		if r.state, err = r.stateAt(i); err != nil {
			return false, err
		}
	}
	r.state.end = max(r.state.end, s.base)
	if err := r.snapshotAt(s.base); err != nil {
		return false, err
	}
	r.changed = true
	if err := r.clearIndexes(s); err != nil {
		return false, err
	}
	w := newWalker(s.name(), s.file, 0, s.size, true)
	expected, good, reason := s.base, int64(0), ""
	for good < s.size {
		if err := r.ctx.Err(); err != nil {
			return false, err
		}
		h, raw, at, err := w.next()
		var damage *DamageError
		if errors.As(err, &damage) {
			reason = damage.Reason
		} else if err != nil {
			return false, err
		} else {
			reason = r.wrong(s, &h, raw, expected)
		}
		if reason != "" {
			break
		}
		r.gap = nil
		if h.BaseOffset > max(expected, l.cfg.LogStart) {
			r.gap = &gapBatch{i, found{h, at}}
		}
		expected, good = h.NextOffset(), at+int64(h.Length)
		r.note(found{h, at})
		s.note(&h, at, l.cfg.IndexIntervalBytes)
		if aborted, ok := r.state.follow(&h, raw); ok {
			var b [txnEntrySize]byte
			s.txns.add(aborted.put(&b))
		}
		if s.offsets.full() || s.times.full() {
			if err := l.flushIndexes(s, false); err != nil {
				return false, err
			}
		}
	}
	whole = good == s.size
	if !whole && !unflushed && i < len(l.segments)-1 {
		r.l.cfg.Logger.Warn("a segment is damaged", "dir", l.cfg.Dir, "file", s.name(), "at", good, "reason", reason)
		whole, expected = true, l.segments[i+1].base
	}
	if !whole && reason == notAbove && r.gap != nil {
		// Of the two batches that contradict each other, the one before stands behind a gap: it may be the wrong one.
		return false, r.cutAt(i, r.gap.at)
	}
	if !whole {
		r.log(fmt.Sprintf("%s at byte %d: %s", s.name(), good, reason), expected, expected)
		if err := s.file.Truncate(good); err != nil {
			return false, err
		}
		s.size = good
	}
	l.end = max(expected, s.base)
	s.noteTime()
	s.unindexed, s.checked = false, true
	if err := l.flushIndexes(s, true); err != nil {
		return false, err
	}
	r.state.end = l.end
	return whole, nil
}

// notAbove is what is wrong with a batch that begins below the end of the one before.
const notAbove = "its base offset lies below the end of the batch before"

// wrong tells why a batch is not one that was appended after the batches before it, "" if it may be.
func (r *recovery) wrong(s *segment, h *batch.Header, raw []byte, expected int64) string {
	switch {
	case h.BaseOffset < expected:
		return notAbove
	case !s.fits(h.LastOffset()):
		return fmt.Sprintf("its last offset %d is too far from the segment's base", h.LastOffset())
	case h.LeaderEpoch < r.runs.Latest() && (!r.intact || r.told(h) != h.LeaderEpoch):
		return fmt.Sprintf("its leader epoch %d follows %d", h.LeaderEpoch, r.runs.Latest())
	}
	if err := batch.VerifyCRC(raw); err != nil {
		return reasonOf(err)
	}
	return ""
}

// note compares the epoch of a batch with the checkpoint.
func (r *recovery) note(b found) {
	if b.LeaderEpoch < 0 {
		return // written before there were leader epochs
	}
	r.runs = r.runs.Assign(b.LeaderEpoch, b.BaseOffset)
	if !r.intact {
		return
	}
	// What lies below the first entry was deleted when the checkpoint was written, and the new log start perhaps not yet.
	if epoch := r.told(&b.Header); epoch >= 0 && epoch != b.LeaderEpoch {
		r.odd++
	}
}

// told returns the epoch that the checkpoint tells of a batch, -1 if it tells none.
func (r *recovery) told(h *batch.Header) int32 {
	if epoch := r.checkpoint.At(h.BaseOffset); epoch >= 0 {
		return epoch
	}
	return r.checkpoint.At(h.LastOffset())
}

// clearIndexes empties the indexes of a segment, or makes them.
func (r *recovery) clearIndexes(s *segment) error {
	s.reset()
	for _, e := range []*entries{&s.offsets, &s.times, &s.txns} {
		if e.file == nil {
			if e.size == txnEntrySize {
				if err := remove(r.l.fs, e.name); err != nil {
					return err
				}
				continue
			}
			created, err := createEntries(r.l.fs, e.name, e.size)
			if err != nil {
				return err
			}
			*e = created
			continue
		}
		if err := e.file.Truncate(0); err != nil {
			return err
		}
		e.written, e.pending = 0, nil
	}
	return nil
}

// adopt takes a segment as it is, after a clean shutdown or below the recovery point. Of the last one the end is looked at,
// and what is damaged there has it recovered: the log is to go on behind it.
func (r *recovery) adopt(i int) error {
	l := r.l
	s := l.segments[i]
	v := s.view(math.MaxInt64)
	err := s.load(&v)
	var damage *DamageError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	if i < len(l.segments)-1 {
		l.end = l.segments[i+1].base
		if err != nil {
			l.cfg.Logger.Warn("a segment is damaged", "dir", l.cfg.Dir, "err", err)
			s.reset()
			if err := s.scanTimes(0); err != nil && !errors.As(err, &damage) {
				return err
			}
		}
	} else {
		l.end = s.base
		if err == nil {
			last, lastErr := v.last()
			if lastErr == nil {
				l.end = last.NextOffset()
			}
			if err = lastErr; err == io.EOF {
				err = nil
			}
		}
		if err == nil && l.cfg.CleanShutdown && s.size > 0 && (len(r.snapshots) == 0 || slices.Max(r.snapshots) != l.end) {
			err = &DamageError{File: s.name(), Position: s.size, Reason: "it does not end where the last snapshot does"}
		}
		if errors.As(err, &damage) {
			l.cfg.Logger.Warn("the last segment is recovered in spite of a clean shutdown", "dir", l.cfg.Dir, "err", err)
			_, err = r.recover(i, true)
			return err
		}
		if err != nil {
			return err
		}
	}
	if r.state != nil {
		// A segment before this one was recovered: the producers are followed on.
		return r.followFrom(r.state, i, l.end)
	}
	return nil
}

// load sets what is known of a segment by its indexes, which it checks against the batches they name.
func (s *segment) load(v *view) error {
	if s.size == 0 && s.offsets.len()+s.times.len() == 0 {
		return nil
	}
	first, err := v.header(0)
	if err != nil {
		return err
	}
	s.firstTime = first.MaxTimestamp
	if n := s.offsets.len(); n > 0 {
		var b [offsetEntrySize]byte
		if err := s.offsets.read(n-1, b[:]); err != nil {
			return err
		}
		entry := getOffsetEntry(b[:])
		h, err := v.header(int64(entry.position))
		if err != nil || h.LastOffset() != s.base+int64(entry.relative) {
			return &DamageError{File: s.offsets.name, Position: int64(n-1) * offsetEntrySize, Reason: "the entry names no batch"}
		}
		s.lastIndexed = h.at
	}
	if n := s.times.len(); n > 0 {
		var b [timeEntrySize]byte
		if err := s.times.read(n-1, b[:]); err != nil {
			return err
		}
		entry := getTimeEntry(b[:])
		offset := s.base + int64(entry.relative)
		h, err := v.seek(offset)
		if err != nil || h.BaseOffset > offset || h.MaxTimestamp != entry.time {
			return &DamageError{File: s.times.name, Position: int64(n-1) * timeEntrySize, Reason: "the entry names no batch"}
		}
		s.lastTime, s.lastTimeOffset = entry.time, offset
		s.maxTime, s.maxTimeOffset = s.lastTime, s.lastTimeOffset
	}
	return s.scanTimes(s.lastIndexed) // what lies above was not indexed yet
}

// scanTimes looks for larger timestamps in the batches from a place on.
func (s *segment) scanTimes(from int64) error {
	w := newWalker(s.name(), s.file, from, s.size, false)
	for {
		h, _, at, err := w.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if at == 0 {
			s.firstTime = h.MaxTimestamp
		}
		if h.MaxTimestamp > s.maxTime {
			s.maxTime, s.maxTimeOffset = h.MaxTimestamp, h.LastOffset()
		}
	}
}

// dropFrom removes the segments from i on, the newest first, each for good before the next: so what is left is a prefix at
// any time.
func (r *recovery) dropFrom(i int) error {
	l := r.l
	for n := len(l.segments); n > i; n-- {
		r.changed = true
		if err := l.removeSegment(l.segments[n-1]); err != nil {
			return err
		}
		l.segments = l.segments[:n-1]
	}
	return nil
}

// cutAt cuts the log before the batch that begins at a place in segment i.
func (r *recovery) cutAt(i int, at int64) error {
	if err := r.dropFrom(i + 1); err != nil {
		return err
	}
	s := r.l.segments[i]
	if err := s.file.Truncate(at); err != nil {
		return err
	}
	s.size = at
	r.odd, r.gap, r.runs, r.state = 0, nil, r.runs.TruncateFromEnd(s.base), nil
	_, err := r.recover(i, true)
	return err
}

// dropBelowStart empties a log that ends below the log start, as Kafka does.
func (r *recovery) dropBelowStart() error {
	if len(r.l.segments) == 0 || r.l.end >= r.l.cfg.LogStart {
		return nil
	}
	r.log("it ends below the log start", r.l.cfg.LogStart, r.l.end)
	r.runs, r.state = nil, nil
	r.checkpoint = r.checkpoint[len(r.checkpoint.TruncateFromEnd(r.l.cfg.LogStart)):] // what tells of deleted records (R5)
	r.l.end = 0
	for _, offset := range slices.Clone(r.snapshots) {
		if err := r.dropSnapshot(offset); err != nil {
			return err
		}
	}
	return r.dropFrom(0)
}

// settleEpochs makes the leader epoch cache of checkpoint and batches, and writes it if it is another.
func (r *recovery) settleEpochs() error {
	l := r.l
	cache, doubt := r.checkpoint, !r.intact || r.odd > 0
	var err error
	if !doubt {
		if doubt, err = r.contradicted(cache); err != nil {
			return err
		}
	}
	if doubt {
		r.odd = 0
		if err := r.readEpochs(); err != nil {
			return err
		}
		switch {
		case !r.intact || r.odd > 1:
			l.cfg.Logger.Warn("the leader epochs are taken from the batches", "dir", l.cfg.Dir)
			cache = r.runs
		case len(cache) == 0:
			cache = r.runs
		default:
			// Where a single batch contradicts the checkpoint, which was synced before it was written, nobody knows which
			// of the two is damaged: both stay, and who reads the batch is told. What lies below the first entry is taken
			// from the batches.
			early := r.runs.TruncateFromEnd(cache[0].Start)
			if early.Latest() == cache[0].Epoch {
				cache = cache[1:]
			}
			cache = append(slices.Clip(early), cache...)
		}
	}
	l.epoch = cache.Latest()
	if l.below, err = r.epochBelow(cache); err != nil {
		return err
	}
	return l.keepEpochs(cache.TruncateFromStart(l.start).TruncateFromEnd(l.end), nothing)
}

// epochBelow returns the epoch of the last record that was deleted below the log start (R5): of its batch, if that is
// there, else what the cache tells of the first that is left, or of an epoch that was led without a record. That may be a
// later epoch: a leader that never had it lets this log, which is empty then, begin anew, and nothing is lost by that.
func (r *recovery) epochBelow(c Epochs) (int32, error) {
	l := r.l
	if l.start == 0 {
		return -1, nil
	}
	if offset := l.start - 1; offset >= l.segments[0].base {
		v := l.viewOf(floor(l.segments, offset))
		h, err := v.seek(offset)
		if err == nil && h.BaseOffset <= offset {
			return h.LeaderEpoch, nil
		}
		if err = notFound(err); err != nil {
			return -1, err
		}
	}
	return c.At(l.start), nil
}

// contradicted tells whether a batch at which the checkpoint says that an epoch begins, or the one before it, says
// otherwise. It is a look at two batches for each epoch.
func (r *recovery) contradicted(c Epochs) (bool, error) {
	l := r.l
	if l.end > l.start && (len(c) == 0 || c[0].Start > l.start) {
		v := l.viewOf(floor(l.segments, l.start))
		first, err := v.seek(l.start)
		if err == nil && (len(c) == 0 || first.BaseOffset < c[0].Start) {
			return true, nil
		}
		if err = notFound(err); err != nil {
			return false, err
		}
	}
	for _, e := range c {
		if e.Start < l.start || e.Start >= l.end {
			continue
		}
		for _, offset := range []int64{e.Start, e.Start - 1} {
			if offset < l.start {
				continue
			}
			i := floor(l.segments, offset)
			v := l.viewOf(i)
			h, err := v.seek(offset)
			var damage *DamageError
			if err == io.EOF || errors.As(err, &damage) {
				continue // found when it is read
			}
			if err != nil {
				return false, err
			}
			if h.LeaderEpoch >= 0 && h.BaseOffset >= c[0].Start && c.At(h.BaseOffset) != h.LeaderEpoch {
				return true, nil
			}
		}
	}
	return false, nil
}

// readEpochs reads the epochs of all batches from the log start on.
func (r *recovery) readEpochs() error {
	r.runs = nil
	for _, s := range r.l.segments {
		w := newWalker(s.name(), s.file, 0, s.size, false)
		for {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			h, _, at, err := w.next()
			var damage *DamageError
			if err == io.EOF || errors.As(err, &damage) {
				break // found when it is read
			}
			if err != nil {
				return err
			}
			r.note(found{h, at})
		}
	}
	return nil
}
