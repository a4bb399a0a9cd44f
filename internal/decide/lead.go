package decide

import (
	"errors"

	"github.com/walhop/walhop/walstorage/segment"
)

// Lead decides what becomes of the bytes that are read of one partition in one leadership. It never changes.
type Lead struct {
	// Partition is the partition.
	Partition segment.TopicIDPartition
	// Epoch is the leader epoch of this leadership, EpochStart the offset at which it began.
	Epoch      int32
	EpochStart int64
}

// Run is the run that bytes read at the cursor belong to. Its epoch is that of the Lead under which they were read,
// whatever is led by now (L4, C4).
func (l *Lead) Run(cursor int64) segment.Run {
	return segment.Run{Partition: l.Partition, LeaderEpoch: l.Epoch, EpochStart: l.EpochStart, Base: cursor}
}

// Read is what becomes of what a Read has returned.
type Read int

// What becomes of a Read.
const (
	// Drop: a Resign or a newer Lead has overtaken the read. The bytes are not used (L4).
	Drop Read = iota
	// Rest: there is nothing between the cursor and the log's end.
	Rest
	// Add: the bytes go into the open segment.
	Add
	// Failed: the error says what is wrong.
	Failed
)

// AfterRead decides what becomes of n bytes read; ended says that the leadership has ended, looked at after the read.
func AfterRead(ended bool, n int, err error) Read {
	switch {
	case ended:
		return Drop
	case err != nil:
		return Failed
	case n == 0:
		return Rest
	}
	return Add
}

// Added is how a partition goes on after bytes have been given to the open segment.
type Added int

// How a partition goes on.
const (
	// AllRead: nothing more is known to be there.
	AllRead Added = iota
	// More: the log reaches further.
	More
	// NewerEpoch: a batch of a newer epoch follows; the Lead of that epoch is about to come.
	NewerEpoch
	// OlderEpoch: a batch of an older epoch follows, which cannot be in a log that is led as it must be: skip.
	OlderEpoch
	// NextSegment: the partition's slice in the open segment is closed, after a skip or in a newer Lead.
	NextSegment
	// FullSegment: the open segment takes no more slices.
	FullSegment
	// TooFar: the next batch is more offsets away than a slice may span; a new run begins there.
	TooFar
	// NoBatches: the bytes are no record batches of format 2: skip.
	NoBatches
)

// AfterAdd decides how the partition goes on, by the answer of segment.Builder.Append. end is the log's end as last seen.
func (l *Lead) AfterAdd(appended segment.Appended, err error, end int64) Added {
	_, isSpan := errors.AsType[*segment.SpanError](err)
	switch {
	case err == nil && appended.OtherEpoch && appended.Epoch > l.Epoch:
		return NewerEpoch
	case err == nil && appended.OtherEpoch:
		return OlderEpoch
	case err == nil && appended.Next < end:
		return More
	case err == nil:
		return AllRead
	case errors.Is(err, segment.ErrSliceClosed):
		return NextSegment
	case errors.Is(err, segment.ErrFull):
		return FullSegment
	case isSpan:
		return TooFar
	}
	return NoBatches
}
