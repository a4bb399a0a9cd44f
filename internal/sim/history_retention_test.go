package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/retention"
)

// keep is what the sweepers of these stories keep.
const keep, grace = 10 * time.Minute, time.Minute

// sweeping gives every broker a sweeper; gone are the brokers that the cluster no longer has.
func sweeping(cfg Config, gone ...int32) Config {
	cfg.Sweeper = func(_ int32, cfg *retention.Config) {
		cfg.Retention, cfg.Grace, cfg.Interval, cfg.FullEvery = keep, grace, 30*time.Second, 10*time.Minute
		cfg.Gone = func(context.Context) ([]int32, error) { return gone, nil }
	}
	return cfg
}

// olderThan returns how many stored segments of the broker were made before a time.
func olderThan(c *Cluster, broker int32, age time.Duration) (n int) {
	for _, id := range c.Objects() {
		if id.BrokerID == broker && time.Since(id.Created()) > age {
			n++
		}
	}
	return n
}

// N2: nothing is kept for ever and nothing is deleted while it is fresh (section 8).
func TestN2Retention(t *testing.T) {
	t.Parallel()
	history(t, "N2 age alone", sweeping(Config{}), func(t *testing.T, c *Cluster) {
		// Given load, then quiet, while sweepers run, when the time is up,
		p := c.Load(c.Part(0), 2*time.Second, AcksAll)
		c.Run(keep)
		require.NotZero(t, len(c.Objects()))
		require.Equal(t, c.Counts()["sealed by linger"], len(c.Objects()), "nothing is deleted before")
		p.Stop()
		c.Run(keep + grace + time.Minute)
		// then nothing is left, orphans included, and no reader ever missed a segment.
		require.Empty(t, c.Objects())
		require.Empty(t, c.Fallbacks(0))
	})
	history(t, "N2 a broker that is gone", sweeping(Config{}, 1), func(t *testing.T, c *Cluster) {
		// Given segments of a broker that is gone for good, whose own sweeper is gone with it,
		c.Produce(c.Part(0), 20)
		c.Run(time.Second)
		c.Kill(1)
		require.NotZero(t, olderThan(c, 1, 0))
		// then the others sweep them, by age.
		c.Run(keep)
		require.NotZero(t, olderThan(c, 1, 0))
		c.Run(time.Hour)
		require.Zero(t, olderThan(c, 1, 0))
	})
	history(t, "N2 a publication later than the retention", sweeping(Config{}), func(t *testing.T, c *Cluster) {
		// Given a metadata log that is down for longer than the retention, when it is back, then no event names a segment
		// that is gone: it was given up long ago.
		c.Load(c.Part(0), 2*time.Second, AcksAll)
		c.MetadataDown(1)
		c.Run(keep + grace + 2*time.Minute)
		c.MetadataUp(1)
		c.Run(5 * time.Second)
		for _, e := range c.Events() {
			require.True(t, slices.Contains(c.Objects(), e.Segment.ID), "event %d names a segment that is gone", e.Sequence)
		}
		require.Zero(t, c.ISRMoves())
		backAtTheStore(t, c)
	})
}

// N2, R13: clocks. The id's time and the store's must agree; an id from the future ages by the store's time.
func TestR13Clocks(t *testing.T) {
	t.Parallel()
	history(t, "R13 a clock two hours behind", sweeping(Config{}), func(t *testing.T, c *Cluster) {
		// Given a leader whose clock is behind by more than the retention,
		c.Skew(1, -2*time.Hour)
		c.Load(c.Part(0), time.Second, AcksAll)
		// then its segments live as long as all others: nobody falls back.
		c.Run(5 * time.Minute)
		require.Equal(t, c.Counts()["sealed by linger"], len(c.Objects()))
		require.Empty(t, c.Fallbacks(0))
	})
	history(t, "R13 a sweeper two hours ahead", sweeping(Config{}), func(t *testing.T, c *Cluster) {
		// Given a leader whose clock is ahead by more than the retention, which is also the clock that it sweeps by, then
		// it deletes nothing that is alive,
		p := c.Load(c.Part(0), time.Second, AcksAll)
		c.Run(time.Minute)
		c.Skew(1, 2*time.Hour)
		c.Run(5 * time.Minute)
		require.Empty(t, c.Fallbacks(0))
		require.Equal(t, c.Counts()["sealed by linger"], len(c.Objects()))
		p.Stop()
		// and what it made goes when its time by the store's clock has come, though the ids say two hours more.
		c.Skew(1, 0)
		c.Run(keep + grace + 12*time.Minute)
		require.Empty(t, c.Objects())
	})
	history(t, "R13 an id of the year 2100", sweeping(Config{}), func(t *testing.T, c *Cluster) {
		c.Skew(1, 100*365*24*time.Hour)
		c.Produce(c.Part(0), 20)
		c.Run(time.Second)
		c.Skew(1, 0)
		require.NotEmpty(t, c.Objects())
		c.Run(keep + grace + 12*time.Minute)
		require.Empty(t, c.Objects())
	})
}

// A reader that loses the race with a delete falls back (F5, apache/pulsar#13219).
func TestRetentionRace(t *testing.T) {
	t.Parallel()
	history(t, "a delete that races a reader", Config{}, func(t *testing.T, c *Cluster) {
		c.Load(c.Part(0), 50*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		// Given a reader held up at the store, when what it wants is deleted under it,
		c.Hold([]string{"Get"}, 3)
		c.Run(100 * time.Millisecond)
		for _, key := range c.weather.store.Keys() {
			c.weather.store.Remove(key)
		}
		c.StoreUp()
		c.Run(30 * time.Millisecond)
		// then it says so, fetches from the leader, and comes back.
		require.Equal(t, follower.Missing, c.State(c.Part(0), 3).Reason)
		for _, f := range c.Fallbacks(begun) {
			require.Equal(t, follower.Missing, f.Reason)
		}
		backAtTheStore(t, c)
	})
}
