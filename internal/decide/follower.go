package decide

import (
	"github.com/walhop/walhop/metadata"
)

// Follower decides for one partition that is followed in one leader epoch. Its zero value but for Epoch has the gate shut:
// nothing is appended from the store before one ordinary answer of the epoch has not diverged (F6). It is for one
// goroutine, and comparable.
type Follower struct {
	// Epoch is the leader epoch followed.
	Epoch int32
	open  bool // the gate
}

// Open tells whether the gate is open.
func (f *Follower) Open() bool { return f.open }

// Admits tells whether an append from the store may be tried. diverged says that a report came back diverging and that no
// ordinary fetch has been asked since.
func (f *Follower) Admits(diverged bool) bool { return f.open && !diverged }

// Asks notes that an ordinary fetch is about to be asked. After a report that diverged the gate is shut until it answers.
func (f *Follower) Asks(diverged bool) {
	if diverged {
		f.open = false
	}
}

// Answered notes what a FetchFromLeader call has come to, by the log's end before and after it. One that returns nil has
// had an answer that did not diverge and opens the gate (S1). One that fails and has put the log's end back has had an
// answer that diverged, and none after it that did not.
func (f *Follower) Answered(before, after int64, err error) {
	switch {
	case err == nil:
		f.open = true
	case after < before:
		f.open = false
	}
}

// Started tells whether the first ordinary fetch of the epoch is over: the log's end has come to the target, which is the
// leader's end as the first answer gave it (F6).
func (f *Follower) Started(after, target int64) bool { return f.open && after >= target }

// Next is what a follower does about what its Store has for the log's end.
type Next int

// What to do next.
const (
	// Wait: there is nothing that could be used (F1).
	Wait Next = iota
	// Use: fetch the entry's segment and cut its slice.
	Use
	// Gap: what is known begins above the log's end. A jump between slices is no compaction gap (F2).
	Gap
	// Lineage: the logs may have parted below the log's end (F2).
	Lineage
)

// Next decides what to do about the Store's answer for a log that ends at end, its last batch of lastEpoch, -1 if the log
// tells none. An epoch that is not told leans on the gate. A lineage that does not match shuts the gate.
func (f *Follower) Next(end int64, lastEpoch int32, entry *metadata.Entry, verdict metadata.Verdict) Next {
	switch verdict.Outcome {
	case metadata.Found:
	case metadata.GapUpTo:
		return Gap
	default:
		return Wait
	}
	slice := &entry.Slice
	if slice.LeaderEpoch != f.Epoch { // F1; the Store yields no other
		return Wait
	}
	if lastEpoch >= 0 && lastEpoch != f.Epoch && end != slice.EpochStart { // F2: log matching
		f.open = false
		return Lineage
	}
	return Use
}
