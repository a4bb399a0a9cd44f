package follower

import (
	"context"
	"errors"

	"github.com/walhop/walhop/walstorage/segment"
)

// Log is a partition's local log as the replicator writes it. The broker implements it; unifiedlog/memory does so in
// memory. Appends of one partition never overlap; End may be called at any time.
type Log interface {
	// End returns the log end offset and the leader epoch of the offset before it, read together. The epoch is -1 if
	// the log tells none: it has never had a record. One whose records were all deleted, by age or by a purge, still
	// tells the epoch of its last, or the leader's check of its report (B3) passes unchecked.
	End() (logEndOffset int64, lastEpoch int32)
	// AppendAsFollower appends the batches, or returns [ErrStale] and appends nothing unless, under the log's own lock,
	// the log end offset is still expectedOffset and leaderEpoch is still the epoch that the broker follows in this
	// partition. The first batch may begin above expectedOffset: a compaction gap, which walhop has checked. The log
	// verifies each batch's CRC and keeps no reference to batches.
	AppendAsFollower(ctx context.Context, leaderEpoch int32, expectedOffset int64, batches []byte) error
}

// ErrStale is what AppendAsFollower returns when the log has moved or another epoch is followed. Nothing was appended,
// the end is read again, and nothing is reported: it is how a race with the broker ends well.
var ErrStale = errors.New("follower: the log end or the leader epoch has changed")

// LeaderFetcher is the broker's ordinary way to replicate, which the replicator falls back on. Calls of different
// partitions may overlap, calls of one do not.
type LeaderFetcher interface {
	// FetchFromLeader is the ordinary replica fetch, truncation and tier rebuild included, from the log's end up to the
	// offset to, or, if to is -1, up to the leader's log end offset as its first answer gives it. It asks at least
	// once, whatever to is, and returns nil only if its last answer did not diverge and was in range. It returns the
	// leader's log end offset. It may stop short of to; it is then called again. It may stop at to, and should: what
	// lies above comes through the store. But it appends the first batch of an answer even if that begins at to or
	// above: what lies before may be a compaction gap, which nothing else closes. When its context ends it returns
	// promptly and touches the log no more.
	FetchFromLeader(ctx context.Context, partition segment.TopicIDPartition, leaderEpoch int32, to int64) (leaderLEO int64, err error)
}
