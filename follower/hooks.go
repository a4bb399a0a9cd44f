package follower

import (
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Hooks are the points where metrics and logs attach. Every field may be nil. The functions run on the replicator's own
// goroutines, must be safe for concurrent use, must not block, and must not panic. New fields may be added.
type Hooks struct {
	// StateChanged is called once for each change of a partition's state, so once for a whole fallback (F5).
	StateChanged func(partition segment.TopicIDPartition, state State)
	// Appended is called after each append from the store.
	Appended func(append Appended)
	// LeaderFetched is called after each FetchFromLeader call.
	LeaderFetched func(fetch LeaderFetch)
	// SegmentFetched is called after each segment has been fetched from the store and checked, or could not be.
	SegmentFetched func(fetch SegmentFetch)
	// Gap is called for each gap that the metadata log reports.
	Gap func(gap metadata.Gap)
	// MetadataError is called when the metadata log cannot be subscribed to or read; it is tried again after a pause.
	MetadataError func(err error)
	// ConfigurationError is called when the store refuses access or has no such bucket: an operator has to act.
	ConfigurationError func(err error)
	// Panic is called when the broker's log or fetch, the store or the metadata log panicked. The panic is contained.
	Panic func(where string, value any)
}

// Appended describes one append from the store.
type Appended struct {
	Partition   segment.TopicIDPartition
	LeaderEpoch int32
	// From and To are the offsets by which the log's end has moved, To not included.
	From, To int64
	// Bytes and Batches were appended.
	Bytes, Batches int
	// Segment is where they came from.
	Segment walstorage.SegmentID
}

// LeaderFetch describes one FetchFromLeader call.
type LeaderFetch struct {
	Partition   segment.TopicIDPartition
	LeaderEpoch int32
	// From is the log's end before the call and Reached after it, which a truncation can have put below From. To is the
	// range's end as it was asked for, -1 for the leader's log end offset.
	From, To, Reached int64
	// First tells a fetch that opens the gate from one of a fallback.
	First    bool
	Duration time.Duration
	Err      error
}

// SegmentFetch describes one fetch from the store.
type SegmentFetch struct {
	Segment  walstorage.SegmentID
	Bytes    int64
	Duration time.Duration
	Err      error
}

// Stats counts what a replicator has done since it was made.
type Stats struct {
	// Appends, Batches and Bytes count what was appended from the store.
	Appends, Batches, Bytes int64
	// SegmentFetches and FetchedBytes count what was read from the store.
	SegmentFetches, FetchedBytes int64
	// Fallbacks counts the fallbacks reported, LeaderFetches the FetchFromLeader calls, of which FirstFetches opened a
	// gate or tried to.
	Fallbacks, LeaderFetches, FirstFetches int64
	// HoldsInVain counts how often a partition in a fallback has waited for the store and nothing came.
	HoldsInVain int64
	// Events and Gaps count what came from the metadata log. Stale counts appends refused by [ErrStale].
	Events, Gaps, Stale int64
	// Panics counts the panics contained.
	Panics int64
	// Entries counts what the view of the metadata log holds and has dropped (M5).
	Entries metadata.StoreStats
	// ParkedBytes are the bytes of segments being fetched or held now.
	ParkedBytes int64
	// Partitions is the number of partitions followed now, InFallback of them in a fallback.
	Partitions, InFallback int
}
