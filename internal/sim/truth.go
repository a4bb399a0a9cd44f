package sim

import (
	"fmt"
	"slices"
	"sync"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// truth is what really happened to one partition: what the leader of each epoch wrote, which log each epoch began on,
// and what was committed. Nobody in the cluster knows it; the logs are held against it.
type truth struct {
	mu        sync.Mutex
	lineages  map[int32]lineage
	batches   map[place]*written
	bases     map[int32][]int64 // of the batches of an epoch, ascending
	deleted   int64             // a leader's log has begun here: what lies below is of no interest to anybody
	committed []commit
	acked     map[place]bool // acknowledged with acks=all
	// unclean are the epochs that began after an unclean election, with the log start at which they did.
	unclean map[int32]int64
}

// place is where a batch was written first. A leader epoch has one leader, so a place has one batch for ever (B6).
type place struct {
	epoch int32
	base  int64
}

type written struct {
	last      int64
	sum       uint64
	compacted bool
}

// commit says that the leader of the epoch by committed everything below end, whose last record is of epoch.
type commit struct {
	epoch, by int32
	end       int64
}

// lineage is the leader epochs of a log, oldest first, with the offsets at which they began: Kafka's epoch cache, for
// the log that the leader of the last of these epochs has.
type lineage []memory.EpochStart

// at returns the epoch of the batch that holds offset, -1 if the lineage begins later.
func (l lineage) at(offset int64) int32 {
	epoch := int32(-1)
	for _, e := range l {
		if e.Start > offset {
			break
		}
		epoch = e.Epoch
	}
	return epoch
}

// end returns where the epoch ends in this lineage, -1 if it is not in it and the largest offset for the last epoch.
func (l lineage) end(epoch int32) int64 {
	for i, e := range l {
		if e.Epoch == epoch {
			if i+1 < len(l) {
				return l[i+1].Start
			}
			return 1<<63 - 1
		}
	}
	return -1
}

// common returns the end of what two lineages have in common: where the newest epoch of both ends in the shorter one, 0 if
// there is none.
func (l lineage) common(other lineage) int64 {
	for i := len(l) - 1; i >= 0; i-- {
		if end := other.end(l[i].Epoch); end >= 0 {
			return min(end, l.end(l[i].Epoch))
		}
	}
	return 0
}

func newTruth() *truth {
	return &truth{
		lineages: map[int32]lineage{}, batches: map[place]*written{}, bases: map[int32][]int64{}, acked: map[place]bool{},
		unclean: map[int32]int64{},
	}
}

// elected notes that the leader of epoch begins it at start, on a log whose last batch is of lastEpoch (-1: it has none)
// and that begins at logStart; unclean says that it may lack what was committed. It returns what was committed and is not in
// that log: after a clean election that is a violation, after an unclean one it is forgotten, unless a later epoch has begun
// already, which counts instead.
func (t *truth) elected(epoch int32, logStart, start int64, lastEpoch int32, unclean bool) (lost []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var line lineage
	for _, e := range t.lineages[lastEpoch] {
		if e.Start < start {
			line = append(line, e)
		}
	}
	t.lineages[epoch] = append(line, memory.EpochStart{Epoch: epoch, Start: start})
	line = t.lineages[epoch]
	superseded := false // a later epoch has begun: what its log holds is not lost with this one
	for later := range t.lineages {
		superseded = superseded || later > epoch
	}
	if unclean && !superseded {
		t.unclean[epoch] = logStart
	}
	for at := range t.acked {
		if w := t.batches[at]; at.epoch < epoch && w.last >= logStart && line.end(at.epoch) <= w.last {
			lost = append(lost, fmt.Sprintf("acknowledged at %d in epoch %d", at.base, at.epoch))
			if !superseded {
				delete(t.acked, at)
			}
		}
	}
	slices.Sort(lost)
	committed := t.committed[:0]
	for _, c := range t.committed {
		if c.by < epoch && c.end > logStart && line.end(c.epoch) < c.end {
			lost = append(lost, fmt.Sprintf("committed up to %d in epoch %d, in the log of epoch %d that one ends at %d", c.end, c.epoch, epoch, max(0, line.end(c.epoch))))
			if !superseded { // what both logs have stays committed
				c.end = t.lineages[c.by].common(line)
				c.epoch = t.lineages[c.by].at(c.end - 1)
			}
		}
		if c.end > 0 {
			committed = append(committed, c)
		}
	}
	t.committed = committed
	return lost
}

// acknowledges notes that a producer was told that all in sync replicas have the batch. What an unclean election has lost
// already is forgotten at once, see kept.
func (t *truth) acknowledges(epoch int32, base int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := place{epoch, base}
	if t.kept(epoch, t.batches[at].last+1) > t.batches[at].last {
		t.acked[at] = true
	}
}

// kept returns up to where what the leader of epoch holds below end is in the logs of the later leaders that began after an
// unclean election. A leader that does not know yet of its successor may go on, with an ISR that is itself and those that do
// not know either, and acknowledge what the successor never had. After a clean election it cannot: its ISR has the
// successor, which reports to it no more. After an unclean one it can, in Kafka as here, and what it commits then is as lost
// as what it had committed before.
func (t *truth) kept(epoch int32, end int64) int64 {
	to := end
	for later, logStart := range t.unclean {
		if later > epoch && end > logStart {
			to = min(to, t.lineages[epoch].common(t.lineages[later]))
		}
	}
	return to
}

// lostAcked returns what is wrong with the log of the leader of epoch: a batch that was acknowledged and is not in it, ""
// if there is none. has tells whether a batch is in the log, which begins at logStart. What an unclean election lost is
// forgotten already.
func (t *truth) lostAcked(epoch int32, logStart int64, has func(epoch int32, base int64) bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := range t.acked {
		w := t.batches[at]
		if w.last < logStart || w.last < t.deleted || w.compacted || has(at.epoch, at.base) {
			continue
		}
		return fmt.Sprintf("the batch of epoch %d at %d was acknowledged and is not in the log of the leader of epoch %d", at.epoch, at.base, epoch)
	}
	return ""
}

// wrote notes a batch that the leader of its epoch has appended.
func (t *truth) wrote(header *batch.Header, raw []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.batches[place{header.LeaderEpoch, header.BaseOffset}] = &written{last: header.LastOffset(), sum: hashBytes(raw)}
	t.bases[header.LeaderEpoch] = append(t.bases[header.LeaderEpoch], header.BaseOffset)
}

// deletes notes that a leader's log begins at start.
func (t *truth) deletes(start int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted = max(t.deleted, start)
}

// compacted notes that compaction may remove what lies wholly in [from, to).
func (t *truth) compacted(from, to int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, w := range t.batches {
		if at.base >= from && w.last < to {
			w.compacted = true
		}
	}
}

// commits notes that the leader of epoch has moved the high watermark to end. What an unclean election has lost already is
// forgotten at once, see kept.
func (t *truth) commits(epoch int32, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end = t.kept(epoch, end); end == 0 {
		return
	}
	of := t.lineages[epoch].at(end - 1)
	i := slices.IndexFunc(t.committed, func(c commit) bool { return c.epoch == of && c.by == epoch })
	if i < 0 {
		t.committed = append(t.committed, commit{epoch: of, by: epoch, end: end})
		return
	}
	t.committed[i].end = max(t.committed[i].end, end)
}

// check holds batches against the log that the leader of epoch has: they begin at from, which is the end of what stands
// before them. It returns what is wrong, "" if nothing is, and the end of the batches.
func (t *truth) check(epoch int32, from int64, batches []byte) (wrong string, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lineages[epoch]
	if line == nil {
		return fmt.Sprintf("nobody led epoch %d", epoch), from
	}
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		header := scanner.Header()
		base := header.BaseOffset
		if header.NextOffset() <= t.deleted {
			from = header.NextOffset() // the leader's answers move the log start past it
			continue
		}
		if of := line.at(base); of >= 0 && of != header.LeaderEpoch {
			return fmt.Sprintf("diverged: the batch at %d is of epoch %d, in the log of epoch %d it is of epoch %d", base, header.LeaderEpoch, epoch, of), from
		}
		is := t.batches[place{header.LeaderEpoch, base}]
		switch {
		case is == nil:
			return fmt.Sprintf("nobody wrote a batch of epoch %d at %d", header.LeaderEpoch, base), from
		case is.last != header.LastOffset() || is.sum != hashBytes(scanner.Bytes()):
			return fmt.Sprintf("the batch of epoch %d at %d is not what the leader wrote", header.LeaderEpoch, base), from
		case header.LastOffset() >= line.end(header.LeaderEpoch):
			return fmt.Sprintf("diverged: the batch [%d,%d] of epoch %d is not in the log of epoch %d", base, header.LastOffset(), header.LeaderEpoch, epoch), from
		}
		if missing, ok := t.missing(line, from, base); ok {
			return fmt.Sprintf("hole: the batch at %d is missing, the log goes on at %d", missing, base), from
		}
		from = header.NextOffset()
	}
	if err := scanner.Err(); err != nil {
		return err.Error(), from
	}
	return "", from
}

// missing returns the base of a batch of the lineage within [from, to) that compaction has not removed.
func (t *truth) missing(line lineage, from, to int64) (int64, bool) {
	if from >= to {
		return 0, false
	}
	for _, e := range line {
		bases := t.bases[e.Epoch]
		i, _ := slices.BinarySearch(bases, max(from, t.deleted))
		for ; i < len(bases) && bases[i] < min(to, line.end(e.Epoch)); i++ {
			if !t.batches[place{e.Epoch, bases[i]}].compacted {
				return bases[i], true
			}
		}
	}
	return 0, false
}

// isCompacted tells whether compaction may have removed the batch.
func (t *truth) isCompacted(raw []byte) bool {
	header, err := batch.ParseHeader(raw)
	if err != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.batches[place{header.LeaderEpoch, header.BaseOffset}]
	return w != nil && w.compacted
}
