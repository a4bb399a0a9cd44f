package unifiedlog

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/walstorage"
)

// Defaults of [Config]: those of Kafka's topic configurations of the same meaning.
const (
	DefaultSegmentBytes       = 1 << 30
	DefaultSegmentAge         = 7 * 24 * time.Hour
	DefaultIndexIntervalBytes = 4096
	DefaultMaxIndexBytes      = 10 << 20
	DefaultMaxBatchBytes      = 1<<20 + 12
	DefaultTimestampAfter     = time.Hour
	DefaultProducerExpiration = 24 * time.Hour
)

// RollFlush says when a segment that was rolled is synced. See the package comment.
type RollFlush int

const (
	// RollFlushBackground syncs it on a goroutine of its own, as Kafka does. It is the default. [Log.Close] waits for it.
	RollFlushBackground RollFlush = iota
	// RollFlushInline syncs it within the append that rolled. The appends of the partition wait.
	RollFlushInline
	// RollFlushNone leaves it to [Log.Flush] and the system.
	RollFlushNone
)

// Config configures a [Log]. Dir or FS is required; every other zero value is a default.
type Config struct {
	// Dir is the directory of the partition, TOPIC-PARTITION in Kafka. It is made if it is missing. It belongs to one
	// Log at a time: the caller sees to that, as Kafka does with one lock for all of its directories.
	Dir string
	// FS takes the place of Dir, for tests. Default none.
	FS FS
	// TopicID is written to partition.metadata, and has to be the one there. Default: none is written, any is taken.
	TopicID uuid.UUID

	// CleanShutdown says that [Log.Close] of whoever had the log before returned nil, and nothing has touched the files
	// since. Then the log is not read again. It is the caller's to know: Kafka writes .kafka_cleanshutdown into the
	// directory above, and takes it away at the start. Default false: the log is recovered.
	CleanShutdown bool
	// RecoveryPoint is the offset up to which the log is known to be synced, as [Log.RecoveryPoint] told it; Kafka keeps
	// it in recovery-point-offset-checkpoint. Recovery begins with the segment that holds it. Default 0: it reads all.
	RecoveryPoint int64
	// LogStart is the log start offset, as [Log.Start] told it; Kafka keeps it in log-start-offset-checkpoint. The log
	// starts there, or where its first segment does if that is above. A new log is empty at this offset. Default 0.
	LogStart int64
	// HighWatermark is the high watermark, as [Log.HighWatermark] told it; Kafka keeps it in
	// replication-offset-checkpoint. It counts as far as it lies in the log. Default 0.
	HighWatermark int64
	// Compacted says that the cleanup policy has compact in it, so that offsets may be missing between two segments.
	// Otherwise such a gap above the recovery point is what a power cut has left of segments that were not synced yet, and
	// recovery ends before it. Default false.
	Compacted bool

	// SegmentBytes is the size that a segment does not pass, unless it is a single batch; segment.bytes. From 1 to 2^31-1.
	// Default 1 GiB.
	SegmentBytes int64
	// SegmentAge is the time between the timestamps of the first batch of a segment and of a further one after which that
	// one begins a new segment, by the log's clock where the first has no timestamp; segment.ms without jitter. Default
	// 7 days.
	SegmentAge time.Duration
	// IndexIntervalBytes is how many bytes at least lie between two entries of the indexes; index.interval.bytes. From 1,
	// default 4096.
	IndexIntervalBytes int64
	// MaxIndexBytes is the size of an index at which a segment is rolled; segment.index.bytes. From 64, default 10 MiB.
	MaxIndexBytes int64
	// RollFlush says when a rolled segment is synced. Default in the background.
	RollFlush RollFlush
	// FlushRecords is the number of offsets after which an append syncs the log before it returns; flush.messages.
	// Default 0: never, which is Kafka's.
	FlushRecords int64

	// RetentionAge is the age from which [Log.Retain] deletes a segment, by its largest timestamp; retention.ms. Negative
	// or 0: no segment is too old (Kafka's default is 7 days, which here is the broker's to say).
	RetentionAge time.Duration
	// RetentionBytes is the size above which it deletes the oldest segments; retention.bytes. Negative or 0: no bound.
	RetentionBytes int64

	// MaxBatchBytes is the largest batch that a leader takes; max.message.bytes. A follower takes any (F8, KAFKA-17375).
	// From 61, default 1 MiB + 12.
	MaxBatchBytes int
	// LogAppendTime has a leader stamp each batch with its own clock; message.timestamp.type. Default false.
	LogAppendTime bool
	// TimestampBefore and TimestampAfter are how far a producer's timestamps may lie before and after the leader's clock;
	// message.timestamp.before.max.ms and message.timestamp.after.max.ms. Not looked at with LogAppendTime. Negative is
	// refused; 0 is the default: any time before, one hour after.
	TimestampBefore, TimestampAfter time.Duration
	// ProducerExpiration is how long after its last batch a producer without an open transaction is forgotten;
	// producer.id.expiration.ms. Default 24 hours.
	ProducerExpiration time.Duration

	// Moved, if not nil, is called after each call that moved the log's end or its start, on the goroutine of that call
	// and with no lock held. A broker notifies the leader's uploader there, or the reporter of its fetch requests. It
	// must not block.
	Moved func()
	// Now is the wall clock (D4). Default time.Now.
	Now func() time.Time
	// Logger gets a line for whatever recovery finds damaged or cuts, and when the log fails. Default none.
	Logger *slog.Logger
}

// withDefaults checks the configuration and fills in the defaults. The error is of kind walstorage.ErrInvalidArgument and
// names the field that is wrong.
func (c Config) withDefaults() (Config, error) {
	for _, field := range []struct {
		value    *int64
		standard int64
	}{
		{&c.SegmentBytes, DefaultSegmentBytes},
		{&c.IndexIntervalBytes, DefaultIndexIntervalBytes},
		{&c.MaxIndexBytes, DefaultMaxIndexBytes},
	} {
		if *field.value == 0 {
			*field.value = field.standard
		}
	}
	for _, field := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.SegmentAge, DefaultSegmentAge},
		{&c.TimestampBefore, math.MaxInt64},
		{&c.TimestampAfter, DefaultTimestampAfter},
		{&c.ProducerExpiration, DefaultProducerExpiration},
	} {
		if *field.value == 0 {
			*field.value = field.standard
		}
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = DefaultMaxBatchBytes
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func (c Config) check() error {
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{c.Dir == "" && c.FS == nil, "Dir is empty and FS is nil"},
		{c.Dir != "" && c.FS != nil, "FS is set beside Dir"},
		{c.RecoveryPoint < 0, fmt.Sprintf("RecoveryPoint is %d, want 0 or greater", c.RecoveryPoint)},
		{c.LogStart < 0 || c.LogStart == math.MaxInt64, fmt.Sprintf("LogStart is %d, want 0 or greater, below the largest", c.LogStart)},
		{c.HighWatermark < 0, fmt.Sprintf("HighWatermark is %d, want 0 or greater", c.HighWatermark)},
		{c.SegmentBytes < 1 || c.SegmentBytes > math.MaxInt32, fmt.Sprintf("SegmentBytes is %d, want 1 to 2^31-1", c.SegmentBytes)},
		{c.SegmentAge < 0, fmt.Sprintf("SegmentAge is %v, want more than 0", c.SegmentAge)},
		{c.IndexIntervalBytes < 1, fmt.Sprintf("IndexIntervalBytes is %d, want 1 or greater", c.IndexIntervalBytes)},
		{c.MaxIndexBytes < 64, fmt.Sprintf("MaxIndexBytes is %d, want 64 or greater", c.MaxIndexBytes)},
		{c.RollFlush < RollFlushBackground || c.RollFlush > RollFlushNone, fmt.Sprintf("RollFlush is %d", c.RollFlush)},
		{c.FlushRecords < 0, fmt.Sprintf("FlushRecords is %d, want 0 or greater", c.FlushRecords)},
		{c.MaxBatchBytes < 61, fmt.Sprintf("MaxBatchBytes is %d, want 61 or greater", c.MaxBatchBytes)},
		{c.TimestampBefore < 0, fmt.Sprintf("TimestampBefore is %v, want 0 (the default) or greater", c.TimestampBefore)},
		{c.TimestampAfter < 0, fmt.Sprintf("TimestampAfter is %v, want 0 (the default) or greater", c.TimestampAfter)},
		{c.ProducerExpiration < 0, fmt.Sprintf("ProducerExpiration is %v, want more than 0", c.ProducerExpiration)},
	} {
		if wrong.is {
			return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("unifiedlog: Config.%s", wrong.what))
		}
	}
	return nil
}
