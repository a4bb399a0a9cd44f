package follower

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// Config configures a [Replicator]. Zero values mean the defaults given; the fields marked required have none.
type Config struct {
	// Storage holds the segments. Required. The replicator does not close it.
	Storage walstorage.WalStorageManager
	// Metadata tells where the segments are. Required. The replicator does not close it.
	Metadata metadata.Log
	// Leader is the broker's ordinary replica fetch. Required.
	Leader LeaderFetcher
	// Cluster is the id of the Kafka cluster; segments of another one are refused (F3). Required.
	Cluster string

	// StallAfter is how long the log end may stand still while the leader is known to be ahead, before the follower
	// falls back (F6). Default 1 s.
	StallAfter time.Duration
	// TooFarBehind is how old a leader's log end offset may grow before the follower falls back (F5). Default 5 s.
	TooFarBehind time.Duration
	// LeaderMaxLinger is the longest linger that any leader of the cluster is set to; it must be below StallAfter, else
	// every quiet partition would stall. Default 10 ms.
	LeaderMaxLinger time.Duration
	// ReplicaLagTimeMax is the cluster's replica.lag.time.max.ms; it must exceed 2 x (TooFarBehind + StallAfter), so
	// that a follower falls back before it leaves the ISR. Default 30 s, Kafka's own.
	ReplicaLagTimeMax time.Duration
	// FetchTimeout ends a FetchFromLeader call that has not moved the log's end for so long (F5). Default StallAfter.
	FetchTimeout time.Duration

	// MaxFetches is the number of segments fetched at once. Default 16.
	MaxFetches int
	// MaxParkedBytes bounds the bytes of segments being fetched and of those that wait for an earlier one (F4). A
	// segment larger than that is fetched alone. Up to as much again is kept as buffers to use again. Default 64 MiB.
	MaxParkedBytes int64
	// Entries configures the view of what the followed partitions lack (M5).
	Entries metadata.StoreConfig

	// Seed makes the jitter of pauses repeatable. It needs no secrecy; brokers should differ. Default 0.
	Seed uint64
	// Now is the wall clock, for State.Since alone. Default time.Now.
	Now func() time.Time
	// Hooks observe the replicator.
	Hooks Hooks
	// Logger gets one line for each change of a partition's state that an operator should see. Default none.
	Logger *slog.Logger
}

// unlimited is 36 years. What is longer counts as it, so that no sum of such overflows.
const unlimited = time.Duration(1 << 60)

// withDefaults checks the configuration and fills in the defaults. The error names the field that is wrong.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Storage == nil:
		return c, invalid("Storage is nil")
	case c.Metadata == nil:
		return c, invalid("Metadata is nil")
	case c.Leader == nil:
		return c, invalid("Leader is nil")
	}
	if _, err := walstorage.NewKeys("", c.Cluster); err != nil { // the one place that knows what a cluster's id may be
		return c, fmt.Errorf("follower: %w", err)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"StallAfter", &c.StallAfter, time.Second},
		{"TooFarBehind", &c.TooFarBehind, 5 * time.Second},
		{"LeaderMaxLinger", &c.LeaderMaxLinger, 10 * time.Millisecond},
		{"ReplicaLagTimeMax", &c.ReplicaLagTimeMax, 30 * time.Second},
		{"FetchTimeout", &c.FetchTimeout, 0},
	} {
		if *d.value < 0 {
			return c, invalid("%s is %s, it must not be negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
		*d.value = min(*d.value, unlimited)
	}
	if c.FetchTimeout == 0 {
		c.FetchTimeout = c.StallAfter
	}
	if c.LeaderMaxLinger >= c.StallAfter { // F6, R6
		return c, invalid("LeaderMaxLinger is %s, it must be below StallAfter, %s", c.LeaderMaxLinger, c.StallAfter)
	}
	if lag := 2 * (c.TooFarBehind + c.StallAfter); lag >= c.ReplicaLagTimeMax { // F6, R7
		return c, invalid("ReplicaLagTimeMax is %s, it must exceed 2 x (TooFarBehind + StallAfter), %s", c.ReplicaLagTimeMax, lag)
	}
	if c.MaxFetches < 0 {
		return c, invalid("MaxFetches is %d, it must not be negative", c.MaxFetches)
	}
	if c.MaxFetches == 0 {
		c.MaxFetches = 16
	}
	if c.MaxParkedBytes < 0 {
		return c, invalid("MaxParkedBytes is %d, it must not be negative", c.MaxParkedBytes)
	}
	if c.MaxParkedBytes == 0 {
		c.MaxParkedBytes = 64 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// invalid returns an error of kind walstorage.ErrInvalidArgument.
func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("follower: "+format, args...))
}
