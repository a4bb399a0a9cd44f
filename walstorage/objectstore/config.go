package objectstore

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// The defaults of [Config].
const (
	defaultAttemptTimeout       = 500 * time.Millisecond
	defaultAttemptTimeoutPerMiB = time.Second
	defaultBulkAttemptTimeout   = 10 * time.Second
	defaultMaxRetryTime         = time.Minute
	defaultBackoffBase          = 50 * time.Millisecond
	defaultBackoffCap           = time.Second
	defaultRetryAfterCap        = 5 * time.Second
	defaultGateFailures         = 10
	defaultProbeMin             = 50 * time.Millisecond
	defaultProbeMax             = time.Second
	defaultReleasePerSecond     = 1000
)

// Config configures a [Manager]. Only Cluster is required; every other zero value is a default that is good for a store
// in the same region. [New] copies it.
type Config struct {
	// Cluster names the Kafka cluster and is a part of every object key: two clusters on one prefix never see each
	// other's segments. 1 to 255 of A-Z a-z 0-9 . _ - with no dot at the end.
	Cluster string
	// Prefix is the folder in the bucket, parts separated by single slashes, at most 512 bytes. A slash at its end
	// changes nothing. Default: the root of the bucket.
	Prefix string

	// Hooks are called for each operation and each attempt. Default: none.
	Hooks walstorage.Hooks
	// Logger gets one line for each change of a gate's state: calls begin to wait for the store (warning), the store
	// answers again (info). It also gets one for each foreign object that a list comes to, once, of the first 1,000
	// (warning). Default: discarded.
	Logger *slog.Logger
	// Seed is what jitter is a function of, beside the segment id and the number of the attempt: two runs with the same
	// seed and ids pause equally. Any value is good in production, since ids are random there.
	Seed uint64

	// AttemptTimeout and AttemptTimeoutPerMiB give the deadline of one Put, Get or Stat: AttemptTimeout plus
	// AttemptTimeoutPerMiB for each MiB of the body, in proportion. A silent request holds up every partition behind
	// it, since publication is ordered: so the deadline is short, and the retry another connection. Default: 500 ms
	// and 1 s.
	AttemptTimeout       time.Duration
	AttemptTimeoutPerMiB time.Duration
	// BulkAttemptTimeout is the deadline of one Delete of many keys or of one page of a List, for which no partition
	// waits. Default: 10 s.
	BulkAttemptTimeout time.Duration

	// MaxAttempts limits how often one request is sent: the create of an upload, the Stat that settles it, a range, a
	// page, a batch of deletes, each counted by itself. 1 means no retry. Default 0: no limit but the time.
	MaxAttempts int
	// MaxRetryTime limits how long a call goes on: no attempt begins later than this after the call (for lists and
	// deletes: the page, the batch) began, and a wait that would last longer ends at once with
	// [walstorage.ErrUnavailable]; an attempt under way may still use up its own deadline. Default: where the caller's
	// context has a deadline, that alone counts; where it has none, one minute.
	MaxRetryTime time.Duration
	// BackoffBase and BackoffCap shape the pause before a retry: a time between zero and BackoffBase, doubled with each
	// attempt up to BackoffCap ("full jitter"). Default: 50 ms and 1 s.
	BackoffBase time.Duration
	BackoffCap  time.Duration
	// RetryAfterCap is the longest pause that the store can ask for by Retry-After. Default: 5 s.
	RetryAfterCap time.Duration

	// GateFailures is the number of retryable failures in a row after which the gate of a kind of call shuts: from then
	// on a single probe at a time is sent for all calls that wait. Default: 10.
	GateFailures int
	// ProbeMin and ProbeMax are the pauses before the first probe and between later ones, doubling. Default: 50 ms and
	// 1 s.
	ProbeMin time.Duration
	ProbeMax time.Duration
	// ReleasePerSecond is the rate at which waiting calls are let go in the first second after the gate has opened again;
	// while there are any it doubles with each further second. Default: 1,000.
	ReleasePerSecond int
}

// unlimited is 36 years. What is longer counts as it, so that no sum of such overflows.
const unlimited = time.Duration(1 << 60)

// withDefaults checks the configuration once and fills in its defaults. The error is of kind
// walstorage.ErrInvalidArgument and names the field; Cluster and Prefix are checked by walstorage.NewKeys.
func (c Config) withDefaults() (Config, error) {
	durations := []struct {
		name     string
		field    *time.Duration
		standard time.Duration
	}{
		{"AttemptTimeout", &c.AttemptTimeout, defaultAttemptTimeout},
		{"AttemptTimeoutPerMiB", &c.AttemptTimeoutPerMiB, defaultAttemptTimeoutPerMiB},
		{"BulkAttemptTimeout", &c.BulkAttemptTimeout, defaultBulkAttemptTimeout},
		{"MaxRetryTime", &c.MaxRetryTime, 0},
		{"BackoffBase", &c.BackoffBase, defaultBackoffBase},
		{"BackoffCap", &c.BackoffCap, defaultBackoffCap},
		{"RetryAfterCap", &c.RetryAfterCap, defaultRetryAfterCap},
		{"ProbeMin", &c.ProbeMin, defaultProbeMin},
		{"ProbeMax", &c.ProbeMax, defaultProbeMax},
	}
	for _, d := range durations {
		if *d.field < 0 {
			return c, invalidConfig(d.name, "%v is negative", *d.field)
		}
		if *d.field == 0 {
			*d.field = d.standard
		}
		*d.field = min(*d.field, unlimited)
	}
	numbers := []struct {
		name     string
		field    *int
		standard int
	}{
		{"MaxAttempts", &c.MaxAttempts, 0},
		{"GateFailures", &c.GateFailures, defaultGateFailures},
		{"ReleasePerSecond", &c.ReleasePerSecond, defaultReleasePerSecond},
	}
	for _, n := range numbers {
		if *n.field < 0 {
			return c, invalidConfig(n.name, "%d is negative", *n.field)
		}
		if *n.field == 0 {
			*n.field = n.standard
		}
	}
	if c.BackoffBase > c.BackoffCap {
		return c, invalidConfig("BackoffBase", "%v is above BackoffCap, %v", c.BackoffBase, c.BackoffCap)
	}
	if c.ProbeMin > c.ProbeMax {
		return c, invalidConfig("ProbeMin", "%v is above ProbeMax, %v", c.ProbeMin, c.ProbeMax)
	}
	if c.ReleasePerSecond > int(time.Second) {
		return c, invalidConfig("ReleasePerSecond", "%d is above %d", c.ReleasePerSecond, int(time.Second))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func invalidConfig(field, format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("objectstore.Config: "+field+": "+format, args...))
}
