package unifiedlog

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/walhop/walhop/internal/batch"
)

// stateAt returns the state of the producers at the base of segment i: the newest whole snapshot at or below it, and the
// batches from there on. Snapshots above are of a log that may not have been synced: they go.
func (r *recovery) stateAt(i int) (*producerState, error) {
	base := r.l.segments[i].base
	for _, offset := range slices.Backward(r.snapshots) {
		if offset > base {
			if err := r.dropSnapshot(offset); err != nil {
				return nil, err
			}
		}
	}
	return r.stateBefore(base, base)
}

// stateBefore returns the state of the producers at the offset end, beginning with a snapshot at or below limit.
func (r *recovery) stateBefore(limit, end int64) (*producerState, error) {
	l := r.l
	state := newProducerState(max(l.segments[0].base, min(l.cfg.LogStart, end)))
	for _, offset := range slices.Backward(r.snapshots) {
		if offset > limit {
			continue
		}
		if offset < state.end {
			break // it tells of deleted records
		}
		name := fileName(offset, snapshotSuffix)
		b, err := readAll(l.fs, name, snapshotLimit)
		if err != nil {
			return nil, err
		}
		producers, err := decodeSnapshot(name, b)
		if err != nil {
			l.cfg.Logger.Warn("a snapshot of the producers is damaged", "dir", l.cfg.Dir, "err", err)
			if err := r.dropSnapshot(offset); err != nil {
				return nil, err
			}
			continue
		}
		state.load(producers, offset, l.expired())
		break
	}
	return &state, r.follow(&state, end)
}

// follow has the state follow the batches from its end up to the offset end.
func (r *recovery) follow(state *producerState, end int64) error {
	for i := floor(r.l.segments, state.end); i < len(r.l.segments) && r.l.segments[i].base < end; i++ {
		if err := r.followFrom(state, i, end); err != nil {
			return err
		}
	}
	state.end = max(state.end, end)
	return nil
}

// followFrom has the state follow the batches of one segment from its end up to the offset end.
func (r *recovery) followFrom(state *producerState, i int, end int64) error {
	s := r.l.segments[i]
	v := s.view(int64(^uint64(0) >> 1))
	first, err := v.seek(state.end)
	var damage *DamageError
	if err == io.EOF || errors.As(err, &damage) {
		return nil // what is damaged is found when it is read
	}
	if err != nil {
		return err
	}
	w := newWalker(s.name(), s.file, first.at, s.size, false)
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		h, _, at, err := w.next()
		if err == io.EOF || errors.As(err, &damage) || err == nil && h.NextOffset() > end {
			return nil
		}
		if err != nil {
			return err
		}
		var raw []byte
		if h.Attributes&batch.Control != 0 {
			if raw, err = w.read(at, h.Length); err != nil {
				return err
			}
		}
		state.follow(&h, raw)
	}
}

// settleProducers brings the producers to the log's end, and leaves a snapshot there, so that the next start after a clean
// shutdown reads nothing.
func (r *recovery) settleProducers() error {
	l := r.l
	if r.state == nil {
		var err error
		if r.state, err = r.stateBefore(l.end, l.end); err != nil {
			return err
		}
	}
	r.state.end = max(r.state.end, l.end)
	l.producers = *r.state
	l.producers.replicated(l.highWatermark)
	if err := r.sweepSnapshots(); err != nil {
		return err
	}
	return l.takeSnapshot()
}

// snapshotAt leaves a snapshot at the base of a segment that is recovered, unless there is one, or nothing lies before.
func (r *recovery) snapshotAt(base int64) error {
	if slices.Contains(r.snapshots, base) || r.state.end != base || base <= r.l.segments[0].base {
		return nil
	}
	if err := r.l.writeSnapshot(r.state); err != nil {
		return err
	}
	r.state.snapshot = base
	r.snapshots = append(r.snapshots, base)
	slices.Sort(r.snapshots)
	return nil
}

// sweepSnapshots removes the snapshots that no segment begins with, but for the newest, and those outside of the log, as
// Kafka does.
func (r *recovery) sweepSnapshots() error {
	l := r.l
	newest := int64(-1)
	for _, offset := range r.snapshots {
		if !slices.ContainsFunc(l.segments, func(s *segment) bool { return s.base == offset }) && offset <= l.end {
			newest = max(newest, offset)
		}
	}
	if newest < l.active().base {
		newest = -1
	}
	for _, offset := range slices.Clone(r.snapshots) {
		ofSegment := slices.ContainsFunc(l.segments, func(s *segment) bool { return s.base == offset })
		if offset > l.end || offset < l.start || !ofSegment && offset != newest {
			if err := r.dropSnapshot(offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropSnapshot removes the snapshot at an offset.
func (r *recovery) dropSnapshot(offset int64) error {
	r.snapshots = slices.DeleteFunc(r.snapshots, func(o int64) bool { return o == offset })
	if err := r.l.fs.Remove(fileName(offset, snapshotSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// expired returns what tells whether a producer is to be forgotten now.
func (l *Log) expired() func(*producer) bool {
	now := l.cfg.Now().UnixMilli()
	return func(p *producer) bool {
		return p.txnFirst < 0 && now-p.time >= l.cfg.ProducerExpiration.Milliseconds()
	}
}
