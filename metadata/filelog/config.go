package filelog

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// Defaults of [Config].
const (
	// DefaultPollInterval makes an event wait 0.75 ms on average. What polling costs is for the most part that an idle
	// process wakes up: with 1 ms it is half as much again.
	DefaultPollInterval = 1500 * time.Microsecond
	DefaultRotateBytes  = 64 << 20
	DefaultRotateAfter  = 5 * time.Minute
	// DefaultRetention is the default retention of segments, one hour, and 5 minutes of grace (M6).
	DefaultRetention = 65 * time.Minute
)

// Config configures a [Log]. Dir is required.
type Config struct {
	// Dir is the directory that the brokers share. It must exist, and belongs to one cluster and to this package.
	Dir string
	// Broker is the id of the broker whose events are published, 0 or greater.
	Broker int32
	// BrokerEpoch is its epoch, 0 or greater, never used before by a process that published (L6).
	BrokerEpoch int64
	// EventVersion is the version of the events that are published (M4). Default [metadata.LatestVersion].
	EventVersion metadata.Version

	// PollInterval is the time between two looks at the files, 100 us or greater. It stretches up to tenfold where there
	// are many files. Default 1.5 ms.
	PollInterval time.Duration
	// RotateBytes is the size from which on a new file is begun, 1 or greater. Default 64 MiB.
	RotateBytes int64
	// RotateAfter is the age from which on a new file is begun. Default 5 minutes, or half of Retention if that is less.
	RotateAfter time.Duration
	// Retention is how long events are kept at least, twice RotateAfter or more. Files are removed when their writer
	// begins a new one; those of a broker that has gone, by any other broker after twice the time. Default 65 minutes.
	Retention time.Duration

	// Now is the wall clock that stamps events and files. Default time.Now.
	Now func() time.Time
	// Hooks observe the log.
	Hooks metadata.Hooks
	// Logger gets a line for whatever is found damaged or foreign, once for each file. Default none.
	Logger *slog.Logger
}

// unlimited is 36 years. What is longer counts as it, so that twice as much does not overflow.
const unlimited = time.Duration(1 << 60)

// withDefaults checks the configuration and fills in the defaults. The error is of kind walstorage.ErrInvalidArgument and
// names the field that is wrong.
func (c Config) withDefaults() (Config, error) {
	if c.EventVersion == 0 {
		c.EventVersion = metadata.LatestVersion
	}
	if c.PollInterval == 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.RotateBytes == 0 {
		c.RotateBytes = DefaultRotateBytes
	}
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.RotateAfter == 0 {
		c.RotateAfter = min(DefaultRotateAfter, c.Retention/2)
	}
	c.Retention, c.RotateAfter = min(c.Retention, unlimited), min(c.RotateAfter, unlimited)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func (c Config) check() error {
	if err := c.EventVersion.Validate(); err != nil {
		return fmt.Errorf("%w: filelog: Config.EventVersion: %w", walstorage.ErrInvalidArgument, err)
	}
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{c.Dir == "", "Dir is empty"},
		{c.Broker < 0, fmt.Sprintf("Broker is %d, want 0 or greater", c.Broker)},
		{c.BrokerEpoch < 0, fmt.Sprintf("BrokerEpoch is %d, want 0 or greater", c.BrokerEpoch)},
		{c.PollInterval < 100*time.Microsecond, fmt.Sprintf("PollInterval is %v, want 100us or greater", c.PollInterval)},
		{c.RotateBytes < 1, fmt.Sprintf("RotateBytes is %d, want 1 or greater", c.RotateBytes)},
		{c.Retention < 0, fmt.Sprintf("Retention is %v, want 0 (the default) or greater", c.Retention)},
		{c.RotateAfter <= 0, fmt.Sprintf("RotateAfter is %v, want more than 0", c.RotateAfter)},
		{c.Retention < 2*c.RotateAfter, fmt.Sprintf("Retention is %v, want twice RotateAfter (%v) or more", c.Retention, c.RotateAfter)},
	} {
		if wrong.is {
			return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("filelog: Config.%s", wrong.what))
		}
	}
	return nil
}
