package walstorage

import (
	"context"
	"iter"
	"time"
)

// WalStorageManager stores the combined segments of active logs. Every method may be called from many goroutines at
// once (W12). Implementations are proven by package conformance; the rules W1 to W12 that it checks are:
//
//   - W1 a reader sees the whole segment or [ErrSegmentNotFound], never a part;
//   - W2 an existing segment is never overwritten;
//   - W3 a nil error from UploadSegment means that the segment survives a crash of the process and of the machine;
//   - W4 the store verifies a checksum on upload, the caller (segment.Reader) on read;
//   - W5 buffers are borrowed for the length of the call and no longer;
//   - W6 reads are exact;
//   - W7 errors are typed, see [Error];
//   - W8 a cancelled context ends the call promptly;
//   - W9 bulk deletes name each segment that is not deleted, see [DeleteError];
//   - W10 lists are complete, and not ordered;
//   - W11 no error text carries a credential or a query string;
//   - W12 every method is safe for concurrent use, Close is idempotent.
//
// No method will ever be added to this interface. A new ability will be an optional interface beside it.
type WalStorageManager interface {
	// UploadSegment stores data as the segment id: whole, once and durably, or not at all.
	//
	// If the segment exists with the same size and CRC32C, the result is nil, so an upload whose answer was lost can
	// be repeated; if it exists with other bytes, the result is [ErrSegmentExists] and the old bytes stay. After any
	// other error the segment may still appear later, whole: a request that timed out can land (W1). data is not
	// modified, and neither read nor kept after the return (W5). An empty segment (len(data) == 0) is legal.
	UploadSegment(ctx context.Context, id SegmentID, data []byte) error

	// FetchSegment fills dst with the segment's bytes from offset on, len(dst) bytes exactly; a short read is an
	// error. A range that ends beyond the segment is [ErrInvalidRange], a negative offset [ErrInvalidArgument]. With
	// an empty dst no request is sent and the result is nil. After an error the content of dst is undefined; dst is
	// not touched after the return (W5). The bytes are not verified: segment.Reader does that (W4).
	FetchSegment(ctx context.Context, id SegmentID, offset int64, dst []byte) error

	// StatSegment tells the segment's size in bytes and, where the store knows it, when it was stored.
	StatSegment(ctx context.Context, id SegmentID) (SegmentInfo, error)

	// DeleteSegments deletes the segments. One that does not exist counts as deleted. Without ids no request is sent.
	// If some could not be deleted the error is a [*DeleteError] that names each of them; the others are gone (W9).
	DeleteSegments(ctx context.Context, ids ...SegmentID) error

	// ListSegments yields the stored segments that match options, in no particular order, each at least once (W10).
	// A non-nil error is the last pair. Each range over the sequence is a new list; leaving the loop early releases
	// everything.
	ListSegments(ctx context.Context, options ListOptions) iter.Seq2[SegmentInfo, error]

	// Close ends retries, cancels the calls under way, waits until they have returned, and releases what the manager
	// holds. It deletes nothing, may be called more than once, and later calls of other methods give [ErrClosed].
	Close() error
}

// ListOptions narrows a list. The zero value lists every segment of the cluster. Both bounds refer to the creation
// time in the segment id ([SegmentID.Created]), in whole milliseconds, and not to the store's own time.
type ListOptions struct {
	// BrokerID lists the segments of this broker only. nil lists those of every broker.
	BrokerID *int32
	// CreatedAfter lists segments created at this time or later. The zero time is no bound.
	CreatedAfter time.Time
	// CreatedBefore lists segments created before this time. The zero time is no bound.
	CreatedBefore time.Time
}

// Match tells whether the options select the segment id.
func (o ListOptions) Match(id SegmentID) bool {
	if o.BrokerID != nil && *o.BrokerID != id.BrokerID {
		return false
	}
	created := id.Created()
	if !o.CreatedAfter.IsZero() && created.Before(o.CreatedAfter.Truncate(time.Millisecond)) {
		return false
	}
	return o.CreatedBefore.IsZero() || created.Before(o.CreatedBefore)
}

// SegmentInfo describes one stored segment.
type SegmentInfo struct {
	ID SegmentID
	// Size is the segment's length in bytes.
	Size int64
	// Stored is the store's own time of storing, the zero time if it tells none.
	Stored time.Time
}
