package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/walhop/walhop/metadata"
)

// MetadataConfig says how the suite reaches a metadata log. Open must be set; every other field may stay zero, and what
// it would have made possible is skipped, with the reason printed.
type MetadataConfig struct {
	// Open returns a new handle of a broker, of the epoch given, on the topic named. Handles with one name share the
	// topic, as brokers of one cluster do; a new name is a new, empty topic. The name is made of a-z 0-9 and "-". The
	// suite closes the handle.
	Open func(tb testing.TB, topic string, broker int32, brokerEpoch int64) metadata.Log

	// Invalid holds one attempt to construct a log for each field of its configuration that can be wrong, by the name
	// of the field. Each must fail with an error that names the field (Q32).
	Invalid map[string]func() error

	// Damage makes the newest stored event of the broker unreadable, for every reader that has not come to it: by a
	// damaged byte (metadata.GapCorrupt) or as if a later version had written it (metadata.GapUnknownVersion). It
	// returns false where it cannot do that (Q7).
	Damage func(tb testing.TB, topic string, broker int32, reason metadata.GapReason) bool

	// Unknown returns a handle like Open, whose first Publish ends with metadata.ErrUnknownOutcome: with the events
	// stored if stored is set, otherwise without (Q12).
	Unknown func(tb testing.TB, topic string, broker int32, brokerEpoch int64, stored bool) metadata.Log

	// Timeout is the watchdog's limit for one case. 0 means one minute.
	Timeout time.Duration

	// Seed chooses the pseudo-random choices of the cases. 0 is a seed like any other.
	Seed uint64

	// Shared names goroutines that the log starts on demand, shares between handles and never ends, by a part of their
	// stack (a function name), with the reason. They are no leaks.
	Shared map[string]string

	// Skip holds the ids of cases not to run, each with the reason, which is printed. An unknown id or an empty reason
	// fails the test.
	Skip map[string]string

	// Report, if it is set, is told of each case as it ends, one after another.
	Report func(Result)
}

// deliveryPatience is how long an event may take from Publish to a subscriber before the suite calls it lost.
const deliveryPatience = 20 * time.Second

// check returns the configuration with its defaults, or an error that names the wrong field.
func (cfg MetadataConfig) check() (MetadataConfig, error) {
	switch {
	case cfg.Open == nil:
		return cfg, fmt.Errorf("conformance: MetadataConfig.Open is not set")
	case cfg.Timeout < 0:
		return cfg, fmt.Errorf("conformance: MetadataConfig.Timeout is negative: %v", cfg.Timeout)
	}
	if err := checkReasons("MetadataConfig.Shared", cfg.Shared); err != nil {
		return cfg, err
	}
	if err := checkSkip("MetadataConfig.Skip", cfg.Skip, metadataCases); err != nil {
		return cfg, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	return cfg, nil
}

// given tells what the cases have to work with.
func (cfg MetadataConfig) given() need {
	var given need
	if len(cfg.Invalid) > 0 {
		given |= needMetadataInvalid
	}
	if cfg.Damage != nil {
		given |= needDamage
	}
	if cfg.Unknown != nil {
		given |= needUnknown
	}
	return given
}

// RunMetadata proves a metadata log: it runs every case of group Q as a subtest of t, named by its id. See the package
// documentation for what to give it. Tests that call RunMetadata may run in parallel with each other.
func RunMetadata(t *testing.T, cfg MetadataConfig) {
	t.Helper()
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	newMetadataRunner(cfg).runAll(t, slices.Clone(metadataCases))
}

// newMetadataRunner returns the runner of a checked configuration.
func newMetadataRunner(cfg MetadataConfig) *runner {
	return &runner{
		suite: "RunMetadata",
		given: cfg.given(), skip: cfg.Skip, timeout: cfg.Timeout, prompt: promptly, patience: leakPatience, delivery: deliveryPatience,
		seed: cfg.Seed, shared: cfg.Shared, report: cfg.Report,
		attach: func(c *T) func() []string {
			c.metadata = newTopic(cfg, c)
			return func() []string { return nil }
		},
	}
}
