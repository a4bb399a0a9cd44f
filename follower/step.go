package follower

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/segment"
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
	switch verdict.Outcome {
	case metadata.Found:
	case metadata.GapUpTo: // F2: a jump between slices is no compaction gap
		f.release(false)
		return outcome{kind: inTrouble, trouble: &trouble{reason: Gap, from: end, to: verdict.To}}
	default:
		f.release(false)
		return outcome{kind: nothing}
	}
	slice := &entry.Slice
	if slice.LeaderEpoch != f.epoch { // F1; the Store yields no other
		return outcome{kind: nothing}
	}
	if lastEpoch >= 0 && lastEpoch != f.epoch && end != slice.EpochStart { // F2: log matching
		f.release(false)
		f.gate = false
		return outcome{kind: inTrouble, trouble: &trouble{reason: Lineage, from: end, to: -1}}
	}

	if now := time.Now(); f.stale.runs > 0 && f.stale.end == end && now.Before(f.stale.until) {
		return outcome{kind: waiting, until: f.stale.until}
	}
	if !plausible(&entry) {
		f.release(false)
		return f.useless(&entry, end, Corrupt, corrupt("an object of %d bytes cannot hold the slice", entry.ObjectSize))
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
	cut, err := f.cut(&entry, end)
	switch {
	case errors.Is(err, errMidBatch):
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
		if verdict.Outcome != metadata.Found || !plausible(&entry) {
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
func (f *Following) append(entry *metadata.Entry, end int64, cut cut) outcome {
	err := f.appendContained(end, cut.batches)
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
		err = fmt.Errorf("follower: %s took an append of [%d,%d) and its end has not moved", f.partition, end, cut.to)
		return outcome{kind: failed, trouble: &trouble{err: err}}
	}
	stats := &f.r.stats
	stats.appends.Add(1)
	stats.batches.Add(int64(cut.count))
	stats.bytes.Add(int64(len(cut.batches)))
	if hook := f.r.cfg.Hooks.Appended; hook != nil {
		hook(Appended{
			Partition: f.partition, LeaderEpoch: f.epoch, From: end, To: cut.to,
			Bytes: len(cut.batches), Batches: cut.count, Segment: entry.ID,
		})
	}
	return outcome{kind: appended}
}

// maxObject is more than a segment of one batch can take; an event that says more is not believed, for a buffer is made
// of that size.
const maxObject = 1 << 32

// plausible tells whether an object of the size announced can exist and hold the slice.
func plausible(entry *metadata.Entry) bool {
	return entry.Position >= 0 && entry.Slice.Length > 0 && entry.ObjectSize <= maxObject &&
		entry.Slice.Length <= entry.ObjectSize-entry.Position
}

func (f *Following) appendContained(end int64, batches []byte) (err error) {
	defer f.r.contain("append", &err)
	return f.log.AppendAsFollower(f.ctx, f.epoch, end, batches)
}

// cut is the part of a slice that continues the log.
type cut struct {
	batches []byte
	count   int
	to      int64
}

var errMidBatch = errors.New("follower: the log end is not the end of a batch of the slice")

// cut verifies the entry's slice (F3) and returns its batches from the log's end on. The slice begins at the log's end,
// or the log's end is exactly the end of one of its batches; inside a batch or inside a compaction gap it is not (F2,
// R4).
func (f *Following) cut(entry *metadata.Entry, end int64) (cut, error) {
	object := f.fetch.object
	if !hasSlice(f.fetch.reader.Metadata(), f.key, &entry.Slice) {
		return cut{}, corrupt("segment %s has not the slice of %s that its event names", entry.ID, f.partition)
	}
	if entry.Slice.Length > int64(len(object))-entry.Position { // another event gave the size
		return cut{}, corrupt("slice of %s lies outside of segment %s", f.partition, entry.ID)
	}
	data := object[entry.Position : entry.Position+entry.Slice.Length]
	prefix, _, err := segment.VerifySlice(entry.Slice, data)
	if err != nil {
		return cut{}, err
	}
	start, count, due := -1, 0, entry.Slice.BaseOffset
	for s := batch.NewScanner(prefix); s.Next(); {
		if start < 0 && due == end {
			start = s.Position()
		}
		if due = s.Header().NextOffset(); start >= 0 {
			count++
		} else if due > end {
			return cut{}, errMidBatch
		}
	}
	if start < 0 { // only a batch of another epoch follows, which ends the slice (F3)
		return cut{}, corrupt("slice of %s in segment %s ends early at offset %d", f.partition, entry.ID, due)
	}
	return cut{batches: prefix[start:], count: count, to: due}, nil
}

// hasSlice tells whether the object's own index has the slice that the event names.
func hasSlice(md *segment.Metadata, key segment.PartitionKey, want *segment.Slice) bool {
	i, found := slices.BinarySearchFunc(md.Topics, key, func(t segment.Topic, k segment.PartitionKey) int {
		return segment.PartitionKey{TopicID: t.ID}.Compare(segment.PartitionKey{TopicID: k.TopicID})
	})
	if !found {
		return false
	}
	topic := md.Topics[i].Slices
	j, found := slices.BinarySearchFunc(topic, key.Partition, func(s segment.Slice, p int32) int { return int(s.Partition) - int(p) })
	return found && topic[j] == *want
}
