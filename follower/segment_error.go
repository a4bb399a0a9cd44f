package follower

import (
	"fmt"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// SegmentError says which segment was of no use, for which offsets of which partition, and why. It is the [State]'s Err
// of every fallback that a segment is the reason of: [Missing], [Corrupt], [MidBatch], [StoreUnavailable] and
// [AccessDenied]. errors.Is and errors.As reach the cause: [walstorage.ErrCorrupt] for whatever is wrong with the bytes.
type SegmentError struct {
	// Segment is the segment that the event names.
	Segment walstorage.SegmentID
	// Partition is whose slice was wanted.
	Partition segment.TopicIDPartition
	// From is the log's end, to which nothing was appended. To is where the slice ends, not included.
	From, To int64
	// Err is the cause, never nil.
	Err error
}

// Error names the segment, the partition, the offsets and the cause.
func (e *SegmentError) Error() string {
	return fmt.Sprintf("follower: segment %s is of no use for [%d,%d) of %s: %v", e.Segment, e.From, e.To, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *SegmentError) Unwrap() error { return e.Err }
