package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
)

// long shortens a long time where the race detector makes everything slow.
func long(d time.Duration) time.Duration {
	if raced {
		return d / 10
	}
	return d
}

// history runs a story as a test of its own, named after the history that it tells.
func history(t *testing.T, name string, cfg Config, story func(t *testing.T, c *Cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		Run(t, cfg, func(c *Cluster) {
			c.AwaitFollowing()
			story(c.t, c)
		})
	})
}

// slowStore is a store whose way from append to append takes 90 ms, hardly more and hardly less.
func slowStore(cfg Config) Config {
	cfg.Put = Latency{Median: 60 * time.Millisecond, Sigma: 0.02}
	cfg.Get = Latency{Median: 20 * time.Millisecond, Sigma: 0.02}
	return cfg
}

// expectFallbacks fails the test unless the fallbacks since a time are of exactly these brokers, partitions and reasons.
func (c *Cluster) expectFallbacks(since time.Duration, want ...string) {
	c.t.Helper()
	var got []string
	for _, f := range c.Fallbacks(since) {
		got = append(got, fmt.Sprintf("%d %s %s", f.Broker, f.Partition.Topic, f.Reason))
	}
	slices.Sort(got)
	slices.Sort(want)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.Fatalf("fallbacks are %q, not %q", got, want)
	}
}

// lingering sets the linger of every leader.
func lingering(d time.Duration) func(int32, *leader.Config) {
	return func(_ int32, cfg *leader.Config) { cfg.Linger = d }
}

// lingers tells the followers of it.
func lingers(d time.Duration) func(int32, *follower.Config) {
	return func(_ int32, cfg *follower.Config) { cfg.LeaderMaxLinger = d }
}
