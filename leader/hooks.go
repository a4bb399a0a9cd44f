package leader

import (
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Hooks are the points where metrics and logs attach. Every field may be nil. The functions run on the uploader's own
// goroutines with no lock held, must be safe for concurrent use, must not block, and must not panic. They may call
// Lead, Notify, Resign and Stats, and nothing else of the uploader. New fields may be added, so name the fields when you fill
// one in.
type Hooks struct {
	// SegmentSealed is called once for each segment, before its upload begins.
	SegmentSealed func(sealed Sealed)
	// UploadDone is called after each UploadSegment call. A segment has several if the store's manager gives up before
	// the uploader does.
	UploadDone func(upload Upload)
	// Published is called once for each segment published, in the order of publication.
	Published func(published Published)
	// GivenUp is called once for each segment given up (L3). Each sealed segment is published or given up.
	GivenUp func(given GivenUp)
	// Skipped is called each time a partition skips forward (L11). The followers fall back for what lies between.
	Skipped func(skipped Skipped)
	// PartitionFailed is called when a partition's log cannot be read, once until PartitionRecovered. The partition is
	// tried again with pauses; the others are not affected.
	PartitionFailed func(partition segment.TopicIDPartition, leaderEpoch int32, err error)
	// PartitionRecovered is called when a partition that failed has been read again.
	PartitionRecovered func(partition segment.TopicIDPartition, leaderEpoch int32)
	// Fenced is called once, when a newer epoch of this broker has published (L6). The uploader has ended: no Lead is
	// accepted, nothing more is uploaded or published. The broker should stop being one.
	Fenced func(err error)
	// Panic is called when a log, the store or the metadata log panicked. The panic is contained (L10).
	Panic func(where string, value any)
}

// SealReason says why a segment was closed (L8).
type SealReason string

// The reasons.
const (
	// SealLinger says that Linger had passed since the segment's first byte.
	SealLinger SealReason = "linger"
	// SealFull says that TargetBytes, MaxSlices or MaxEventBytes was reached, or that the next batch did not fit.
	SealFull SealReason = "full"
	// SealFlush says that Flush or Close asked for it.
	SealFlush SealReason = "flush"
)

// Sealed describes a segment that has been closed.
type Sealed struct {
	ID walstorage.SegmentID
	// Slices is the number of partitions in it, BodyBytes the bytes of their record batches, ObjectBytes its size.
	Slices, BodyBytes, ObjectBytes int
	// Open is the time since the segment's first byte was read.
	Open   time.Duration
	Reason SealReason
}

// Upload describes one UploadSegment call.
type Upload struct {
	ID walstorage.SegmentID
	// Attempt counts the calls for this segment from 1.
	Attempt     int
	ObjectBytes int
	Duration    time.Duration
	Err         error
}

// Published describes a segment whose event is in the metadata log.
type Published struct {
	ID       walstorage.SegmentID
	Sequence int64
	// Slices, BodyBytes and ObjectBytes are those of the segment.
	Slices, BodyBytes, ObjectBytes int
	// Stored is the time from sealing to the end of the upload, Total the time from sealing to publication.
	Stored, Total time.Duration
}

// GivenUp describes a segment that was given up: its partitions go on after it, and followers fall back for it.
type GivenUp struct {
	ID walstorage.SegmentID
	// Stored tells whether the object is in the store: it ages there like any other.
	Stored bool
	// Sequence is the event's sequence if one is lost with the segment, so that readers see a gap; otherwise -1.
	Sequence int64
	// Err says why: the last error, [ErrStuck], [ErrExpired], [ErrClosed] or the fence.
	Err error
}

// SkipReason says why a partition skipped forward (L11).
type SkipReason string

// The reasons.
const (
	// SkipAge says that the oldest Notify not served was older than MaxBacklogAge.
	SkipAge SkipReason = "backlog age"
	// SkipBytes says that the partition was more than MaxBacklogBytes behind.
	SkipBytes SkipReason = "backlog bytes"
	// SkipBelowLogStart says that the log no longer holds the next offset: retention or DeleteRecords took it.
	SkipBelowLogStart SkipReason = "below log start"
	// SkipInsideBatch says that the next offset lies inside a batch.
	SkipInsideBatch SkipReason = "inside a batch"
	// SkipTooLarge says that the next batch is larger than MaxBytes (S3).
	SkipTooLarge SkipReason = "batch too large"
	// SkipSpan says that compaction left a gap of 2^31 offsets or more, which no slice spans (S4). A new run begins at the
	// next batch, not at the log's end.
	SkipSpan SkipReason = "offset span"
	// SkipCorrupt says that the log's bytes are no record batches of format 2. The partition has failed as well.
	SkipCorrupt SkipReason = "corrupt"
	// SkipOtherEpoch says that the next batch is of an older leader epoch than the one led. The partition has failed as
	// well. (At a batch of a newer one the partition rests: its Lead is about to come.)
	SkipOtherEpoch SkipReason = "other epoch"
)

// Skipped describes a skip forward.
type Skipped struct {
	Partition   segment.TopicIDPartition
	LeaderEpoch int32
	// From and To are the offsets skipped, To not included: it is the log's end at the time, but for SkipSpan.
	From, To int64
	Reason   SkipReason
}
