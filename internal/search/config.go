package search

import (
	"fmt"

	"github.com/walhop/walhop/walstorage"
)

// Config says how large a cluster is searched, what may happen to it, and how far.
type Config struct {
	// Brokers is 2 or 3, Partitions 1 or 2, Epochs 1 to 4, the first of them led by broker A when the search begins.
	Brokers, Partitions, Epochs int
	// Records is how many records are written to a partition at most, 1 to 6; what crashes and truncations have taken counts.
	Records int
	// Crashes, Compactions and Starts bound how often a broker crashes with the loss of what it chooses, compaction removes
	// a batch, the leader moves its log start.
	Crashes, Compactions, Starts int
	// Rewinds bounds how often a broker puts a follower's log back without Stop, which B5 forbids it.
	Rewinds int
	// Quiet leaves out reports and changes of the ISR: nothing is acknowledged.
	Quiet bool
	// BatchesOfTwo has leaders write batches of two records as well.
	BatchesOfTwo bool
	// Unclean has the controller elect replicas outside of the ISR as well.
	Unclean bool
	// Joined keeps F7 and B5: Stop and Follow wait for an append under way, and nothing is appended during a
	// FetchFromLeader call. Without it an append that was decided happens at any later time: the guards of AppendAsFollower
	// must do alone.
	Joined bool

	// StepByStep follows the leader's uploader and the follower's Store call by call: Reads that a Resign overtakes, slices
	// of several partitions in a segment, events in any order and twice, eviction, deleted segments. Otherwise all that a
	// leader ever wrote in its epoch counts as published for ever, in every run into which it can be cut, and a follower is
	// told of any one run when it decides, which is the worst case of all orders.
	StepByStep bool
	// MaxEntries is the bound of each Store (M5), Segments how many are sealed at most, up to 6, Skips how often a leader
	// skips forward (L11) without need. They are for StepByStep.
	MaxEntries, Segments, Skips int

	// MaxDepth ends the search after so many steps, MaxStates before a level that would begin with more; 0 is no bound.
	MaxDepth, MaxStates int
	// Break takes guards away.
	Break Break
}

// Break takes guards away, each by what the model puts around the real code. The zero value takes none.
type Break struct {
	NoGate           bool // F6: an append is tried whatever the gate says
	NoExpectedOffset bool // F2, C5: AppendAsFollower is told the log's end of that moment
	NoAppendEpoch    bool // F2, C5: AppendAsFollower is told the epoch of that moment
	NoReportCheck    bool // B3: a report is recorded unchecked
	EpochAtSealing   bool // L4, C4: a slice has the epoch led when it is sealed
	NoLineage        bool // F2: the epoch at the log's end is not looked at
	LaxBoundary      bool // F2, R4: a log end inside a compaction gap counts as a batch boundary
	AnyEpochInSlice  bool // S4, F3: batches of any epoch stay in a slice
	AnyEpoch         bool // F1: entries of any epoch are used
	NoChecksum       bool // F3: the checksum of what has arrived is taken for that of the slice
	DeafToDiverged   bool // F7.1: a report that diverged is not told
	AsksNothing      bool // S1: FetchFromLeader returns nil where the log's end has reached the leader's
	EndsDiverged     bool // S1: FetchFromLeader returns nil after an answer that diverged
}

// Validate names the field that is wrong, in an error of kind walstorage.ErrInvalidArgument.
func (c Config) Validate() error {
	for _, f := range []struct {
		name         string
		value, least int
		most         int
	}{
		{"Brokers", c.Brokers, 2, mostBrokers},
		{"Partitions", c.Partitions, 1, mostPartitions},
		{"Epochs", c.Epochs, 1, mostEpochs},
		{"Records", c.Records, 1, mostOffsets},
		{"Segments", c.Segments, 0, mostEvents},
		{"MaxEntries", c.MaxEntries, 0, 1 << 10},
		{"Crashes", c.Crashes, 0, 100},
		{"Compactions", c.Compactions, 0, 100},
		{"Starts", c.Starts, 0, 100},
		{"Rewinds", c.Rewinds, 0, 100},
		{"Skips", c.Skips, 0, 100},
	} {
		if f.value < f.least || f.value > f.most {
			return walstorage.NewError(walstorage.ErrInvalidArgument,
				fmt.Errorf("search: Config.%s is %d, want %d to %d", f.name, f.value, f.least, f.most))
		}
	}
	return nil
}
