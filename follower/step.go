package follower

import (
	"errors"
	"fmt"
	"time"

	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/metadata"
)

// outcome is what one step towards the next append has come to.
type outcome struct {
	kind    outcomeKind
	trouble *trouble        // for inTrouble and failed
	fetched <-chan struct{} // for waiting: closed when the segment is here
	until   time.Time       // for waiting: when to try again, zero if there is no such time
}

type outcomeKind int

const (
	nothing   outcomeKind = iota // no entry for the log's end
	waiting                      // the segment is on its way, or the log has to settle
	appended                     // the log's end has moved
	again                        // look again at once
	inTrouble                    // the store does not help here
	failed                       // the local log refused the append
)

// step does what can be done now towards the next append from the store. It never waits for the network.
func (f *Following) step() outcome {
	end, lastEpoch, err := f.end()
	if err != nil {
		return outcome{kind: failed, trouble: &trouble{err: err}}
	}
	entry, verdict := f.r.store.Next(f.partition, end)
	slice := &entry.Slice
	switch f.judge.Next(end, lastEpoch, &entry, verdict) {
	case decide.Use:
	case decide.Gap:
		f.release(false)
		return outcome{kind: inTrouble, trouble: &trouble{reason: Gap, from: end, to: verdict.To}}
	case decide.Lineage:
		f.release(false)
		return outcome{kind: inTrouble, trouble: &trouble{reason: Lineage, from: end, to: -1}}
	default:
		f.release(false)
		return outcome{kind: nothing}
	}

	if now := time.Now(); f.stale.runs > 0 && f.stale.end == end && now.Before(f.stale.until) {
		return outcome{kind: waiting, until: f.stale.until}
	}
	if !decide.Plausible(&entry) {
		f.release(false)
		return f.useless(&entry, end, Corrupt, decide.Corrupt("an object of %d bytes cannot hold the slice", entry.ObjectSize))
	}
	if f.fetch != nil && f.fetch.id != entry.ID {
		f.release(true)
	}
	first := f.fetch == nil
	if first {
		f.fetch = f.r.fetcher.want(entry.ID, entry.ObjectSize)
	}
	select {
	case <-f.fetch.done:
	default:
		if first {
			f.lookAhead(slice.LastOffset + 1)
		}
		return outcome{kind: waiting, fetched: f.fetch.done}
	}
	if err := f.fetch.err; err != nil {
		f.release(false)
		return f.useless(&entry, end, f.reasonOf(err), err)
	}
	cut, err := decide.CutSlice(f.fetch.reader.Metadata(), f.fetch.object, f.partition, &entry, end)
	switch {
	case errors.Is(err, decide.ErrMidBatch):
		f.release(false)
		return f.useless(&entry, end, MidBatch, err)
	case err != nil:
		f.r.fetcher.discard(f.fetch)
		f.release(false)
		if f.corruptID != entry.ID { // F5: corrupt only after one more fetch
			f.corruptID = entry.ID
			return outcome{kind: again}
		}
		return f.useless(&entry, end, Corrupt, err)
	}
	return f.append(&entry, end, cut)
}

// useless is the outcome where the entry's segment can't continue the log at end. The range of the trouble goes to the
// slice's end, or, where the store itself is the trouble, to the leader's.
func (f *Following) useless(entry *metadata.Entry, end int64, reason Reason, cause error) outcome {
	err := &SegmentError{
		Segment: entry.ID, Partition: f.partition, From: end, To: entry.Slice.LastOffset + 1, Err: cause,
	}
	t := &trouble{reason: reason, from: end, to: err.To, err: err}
	if reason == AccessDenied || reason == StoreUnavailable {
		p, _, _ := f.snapshot()
		t.to = max(t.to, p.observed)
	}
	return outcome{kind: inTrouble, trouble: t}
}

// entriesAhead is how many entries beyond the next a partition has fetched at once while it catches up.
const entriesAhead = 8

// lookAhead has fetched what comes after offset and was not fetched when its event came: there was no room, or the
// partition did not use the store at the time. One read after the other would be too slow to catch up with (F4). It is
// called while the partition waits, so that nothing is looked ahead for that has been used meanwhile.
func (f *Following) lookAhead(offset int64) {
	for range entriesAhead {
		entry, verdict := f.r.store.After(f.partition, offset)
		if verdict.Outcome != metadata.Found || !decide.Plausible(&entry) {
			return
		}
		f.r.fetcher.lookAhead(entry.ID, entry.ObjectSize)
		offset = entry.Slice.LastOffset + 1
	}
}

// staleAppends paces appends at a place where the log has refused one with ErrStale, whatever wakes the partition.
type staleAppends struct {
	end   int64
	runs  int
	until time.Time
}

// append hands the batches to the log, which checks under its own lock that nothing has changed (C5).
func (f *Following) append(entry *metadata.Entry, end int64, cut decide.Cut) outcome {
	err := f.appendContained(end, cut.Batches)
	switch {
	case err == nil:
	case f.ctx.Err() != nil:
		return outcome{kind: nothing}
	case errors.Is(err, ErrStale):
		f.release(false)
		f.r.stats.stale.Add(1)
		pause := backoff(f.r.cfg.Seed, f.partition.String(), f.stale.runs, f.r.cfg.StallAfter)
		f.stale = staleAppends{end: end, runs: f.stale.runs + 1, until: time.Now().Add(pause)}
		return outcome{kind: waiting, until: f.stale.until}
	default:
		f.release(false)
		return outcome{kind: failed, trouble: &trouble{err: err}}
	}
	f.stale = staleAppends{}
	f.release(true)
	switch now, _, err := f.end(); {
	case err != nil:
		return outcome{kind: failed, trouble: &trouble{err: err}}
	case now == end: // else it would be appended again and again, without pause
		err = fmt.Errorf("follower: %s took an append of [%d,%d) and its end has not moved", f.partition, end, cut.To)
		return outcome{kind: failed, trouble: &trouble{err: err}}
	}
	stats := &f.r.stats
	stats.appends.Add(1)
	stats.batches.Add(int64(cut.Count))
	stats.bytes.Add(int64(len(cut.Batches)))
	if hook := f.r.cfg.Hooks.Appended; hook != nil {
		hook(Appended{
			Partition: f.partition, LeaderEpoch: f.epoch, From: end, To: cut.To,
			Bytes: len(cut.Batches), Batches: cut.Count, Segment: entry.ID,
		})
	}
	return outcome{kind: appended}
}

func (f *Following) appendContained(end int64, batches []byte) (err error) {
	defer f.r.contain("append", &err)
	return f.log.AppendAsFollower(f.ctx, f.epoch, end, batches)
}
