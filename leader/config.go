package leader

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// Config configures an [Uploader]. Zero values mean the defaults given; the fields marked required have none.
type Config struct {
	// Storage takes the segments. Required. The uploader does not close it.
	Storage walstorage.WalStorageManager
	// Metadata tells the followers where the segments are. Required. The uploader does not close it.
	Metadata metadata.Log
	// Cluster is the id of the Kafka cluster. Required, 1 to 255 of A-Z a-z 0-9 . _ - with no dot at the end, as for object keys.
	Cluster string
	// Broker is the id of this broker, 0 or greater.
	Broker int32
	// BrokerEpoch is never used twice for one broker id: each start of an uploader has a new, greater one, since the
	// sequences of events begin at 0 with it. 0 or greater.
	BrokerEpoch int64

	// Linger is how long after its first byte a segment is closed at the latest (L8). A smaller one makes the followers
	// see records earlier and costs more requests: the store is asked at most once per linger at a low load. Default
	// 10 ms, at most 10 s.
	Linger time.Duration
	// TargetBytes closes a segment (L8): the record batches in it fill so many bytes. Default 256 KiB, at least 4 KiB.
	TargetBytes int
	// MaxBytes is the largest segment, so the largest batch that goes through the store: a batch larger than
	// TargetBytes is a segment of its own (S3). A larger one is given up at once, the followers fetch it as they did
	// before. It should not exceed what the store takes. Default 64 MiB or TargetBytes, whichever is greater; at least
	// TargetBytes.
	MaxBytes int
	// MaxSlices closes a segment that holds so many partitions (L8, H5). Default 4,096.
	MaxSlices int
	// MaxEventBytes closes a segment whose event would become larger (L8, H5). It must not exceed what the metadata log
	// takes: a log that has a method MaxEventBytes() int, as kafkalog's, is asked. Default 512 KiB, or what the log takes if
	// that is less; at least 4 KiB.
	MaxEventBytes int
	// MaxInFlightUploads is the number of segments sealed and not yet published (L3). The uploader holds at most
	// (MaxInFlightUploads + 2) x TargetBytes of memory for segments, more only while batches larger than TargetBytes
	// are on their way. Default 8, at most 1,024.
	MaxInFlightUploads int

	// MaxBacklogAge is how long ago a partition's oldest Notify that is not yet served may be before the partition
	// skips forward to the log's end (L11). So that not all skip at once, a partition waits up to a quarter longer, by
	// Seed and its identity. It should be below the followers' TooFarBehind, and must be above a quarter of Linger, for
	// so long a partition may wait where nothing is wrong. Default 3 s.
	MaxBacklogAge time.Duration
	// MaxBacklogBytes is how many bytes a partition may be behind before it skips forward (L11), as estimated from the
	// offsets it is behind and the mean size of an offset in what was read of it before. Nothing is estimated before
	// the first read. The same quarter is added. Default 256 MiB.
	MaxBacklogBytes int64

	// GiveUpAfter is how long after its sealing a segment is given up that could not be stored, and how long after it
	// was first handed to the metadata log one that could not be published (L3). It must be below half of Retention.
	// Default 5 s.
	GiveUpAfter time.Duration
	// StuckAfter is how long past its deadline an upload that does not return is waited for; then its segment is given
	// up, while the call keeps its place among MaxInFlightUploads and its buffer until it returns (L3, W5). A Read that
	// takes as long is cancelled, and its partition pauses at least as long. Default 5 s.
	StuckAfter time.Duration
	// Retention is how long segments are kept (retention.Config.Retention). A segment that has not been published after
	// half of it is given up. Default 1 h.
	Retention time.Duration

	// Seed makes jitter repeatable (D2). It needs no secrecy; brokers should differ. Default 0.
	Seed uint64
	// Now is the wall clock, for the creation time of segments alone (D4). Default time.Now.
	Now func() time.Time
	// Random gives the random bits of segment ids. It is read by one goroutine. Default crypto/rand.Reader.
	Random io.Reader
	// Hooks observe the uploader.
	Hooks Hooks
	// Logger gets one line for each change of state that an operator should see. Default none.
	Logger *slog.Logger
}

const defaultMaxEventBytes = 512 << 10

// unlimited is 36 years in nanoseconds, or an exabyte. What is greater counts as it, so that no sum of such overflows.
const unlimited = 1 << 60

// withDefaults checks the configuration and fills in the defaults. The error names the field that is wrong.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Storage == nil:
		return c, invalid("Storage is nil")
	case c.Metadata == nil:
		return c, invalid("Metadata is nil")
	case c.Broker < 0:
		return c, invalid("Broker is %d, it must not be negative", c.Broker)
	case c.BrokerEpoch < 0:
		return c, invalid("BrokerEpoch is %d, it must not be negative", c.BrokerEpoch)
	}
	if _, err := walstorage.NewKeys("", c.Cluster); err != nil { // the one place that knows what a key may hold
		return c, fmt.Errorf("leader: %w", err)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = max(64<<20, c.TargetBytes)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Linger", &c.Linger, 10 * time.Millisecond},
		{"MaxBacklogAge", &c.MaxBacklogAge, 3 * time.Second},
		{"GiveUpAfter", &c.GiveUpAfter, 5 * time.Second},
		{"StuckAfter", &c.StuckAfter, 5 * time.Second},
		{"Retention", &c.Retention, time.Hour},
	} {
		if *d.value < 0 {
			return c, invalid("%s is %s, it must not be negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
		*d.value = min(*d.value, unlimited)
	}
	if limited, ok := c.Metadata.(interface{ MaxEventBytes() int }); ok { // L8
		most := limited.MaxEventBytes()
		if c.MaxEventBytes > most {
			return c, invalid("MaxEventBytes is %d, and the metadata log takes events of %d at most", c.MaxEventBytes, most)
		}
		if c.MaxEventBytes == 0 {
			c.MaxEventBytes = min(defaultMaxEventBytes, most)
		}
	}
	for _, n := range []struct {
		name             string
		value            *int
		def, least, most int
	}{
		{"TargetBytes", &c.TargetBytes, 256 << 10, 4 << 10, 1 << 30},
		{"MaxBytes", &c.MaxBytes, 0, 4 << 10, 1 << 30},
		{"MaxSlices", &c.MaxSlices, 4096, 1, 1 << 20},
		{"MaxEventBytes", &c.MaxEventBytes, defaultMaxEventBytes, 4 << 10, 1 << 30},
		{"MaxInFlightUploads", &c.MaxInFlightUploads, 8, 1, 1024},
	} {
		if *n.value == 0 {
			*n.value = n.def
		}
		if *n.value < n.least || *n.value > n.most {
			return c, invalid("%s is %d, allowed are %d to %d", n.name, *n.value, n.least, n.most)
		}
	}
	if c.MaxBytes < c.TargetBytes {
		return c, invalid("MaxBytes is %d, it must be at least TargetBytes, %d", c.MaxBytes, c.TargetBytes)
	}
	if c.MaxBacklogBytes < 0 {
		return c, invalid("MaxBacklogBytes is %d, it must not be negative", c.MaxBacklogBytes)
	}
	if c.MaxBacklogBytes == 0 {
		c.MaxBacklogBytes = 256 << 20
	}
	c.MaxBacklogBytes = min(c.MaxBacklogBytes, unlimited)
	if c.Linger > 10*time.Second {
		return c, invalid("Linger is %s, it must be at most 10s", c.Linger)
	}
	if c.MaxBacklogAge <= c.Linger/passes { // else everything skips all the time
		return c, invalid("MaxBacklogAge is %s, it must be above a quarter of Linger, %s", c.MaxBacklogAge, c.Linger)
	}
	if c.GiveUpAfter >= c.Retention/2 { // L3
		return c, invalid("GiveUpAfter is %s, it must be below half of Retention, %s", c.GiveUpAfter, c.Retention)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// invalid returns an error of kind walstorage.ErrInvalidArgument.
func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("leader: "+format, args...))
}
