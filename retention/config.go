package retention

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// Config configures a [Sweeper]. Only Storage is required; zero values mean the defaults given.
type Config struct {
	// Storage holds the segments. Required. The sweeper does not close it.
	Storage walstorage.WalStorageManager
	// Broker is the id of this broker, 0 or greater: its segments are swept.
	Broker int32
	// Gone, if not nil, returns the ids of brokers that the cluster no longer has, whose own sweepers are gone with them.
	// Their segments are swept too, once an hour, by every broker that is told so; that does no harm. An id that is in use
	// costs its followers a fallback at worst, if the two clocks disagree.
	Gone func(ctx context.Context) ([]int32, error)

	// Retention is how long a segment is kept, Kafka's local.retention.ms for the active log. Default 1 h. More than 36
	// years, with Grace, is for ever.
	Retention time.Duration
	// Grace is added to Retention: it covers the time from creation to publication, a read under way, and clocks that
	// differ. A negative value is none. Default 5 min.
	Grace time.Duration
	// Interval is the pause between two runs. Default 1 min.
	Interval time.Duration
	// FullEvery is the time between two runs that list everything. Default 24 h.
	FullEvery time.Duration

	// Now is this broker's wall clock, the same that the broker's segment ids are made by. It is read once per run.
	// Default time.Now.
	Now func() time.Time
	// Hooks observe the sweeper.
	Hooks Hooks
	// Logger gets one line when runs begin to fail and when they work again, and when the clock is found ahead of the
	// store's. Default none.
	Logger *slog.Logger
}

// Hooks are the points where metrics attach. Every field may be nil. New fields may be added, so name the fields when you
// fill one in.
type Hooks struct {
	// RunDone is called after each run, on its goroutine. err is what Sweep returns.
	RunDone func(result Result, err error)
}

// unlimited is 36 years. What is longer counts as it: a sum that overflowed would delete everything.
const unlimited = time.Duration(1 << 60)

// withDefaults checks the configuration and fills in the defaults. The error names the field that is wrong.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Storage == nil:
		return c, invalid("Storage is nil")
	case c.Broker < 0:
		return c, invalid("Broker is %d, it must not be negative", c.Broker)
	case c.Grace < 0:
		c.Grace = 0
	case c.Grace == 0:
		c.Grace = 5 * time.Minute
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Retention", &c.Retention, time.Hour},
		{"Interval", &c.Interval, time.Minute},
		{"FullEvery", &c.FullEvery, 24 * time.Hour},
	} {
		if *d.value < 0 {
			return c, invalid("%s is %s, it must not be negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
		*d.value = min(*d.value, unlimited)
	}
	c.Grace = min(c.Grace, unlimited)
	if c.FullEvery < c.Interval {
		return c, invalid("FullEvery is %s, it must not be less than Interval, %s", c.FullEvery, c.Interval)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("retention: "+format, args...))
}
