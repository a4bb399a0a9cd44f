package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// C1: with offsets-only fetches Kafka's own sample of a follower is never reached, and a busy follower leaves the ISR
// after replica.lag.time.max and never returns. The sample must be held (B2).
func TestC1BusyFollowerStaysInTheISR(t *testing.T) {
	t.Parallel()
	lagTimeMax := 30 * time.Second
	if raced {
		lagTimeMax = 14 * time.Second
	}
	busy := func(c *Cluster) {
		// Given records more often than they take to arrive, and a report after each append,
		c.Load(c.Part(0), 40*time.Millisecond, AcksAll)
		// when that has gone on for more than replica.lag.time.max,
		c.Run(c.cfg.LagTimeMax*3/2 + time.Second)
	}
	history(t, "C1 held sample", slowStore(Config{LagTimeMax: lagTimeMax}), func(t *testing.T, c *Cluster) {
		busy(c)
		require.Equal(t, []int32{1, 2, 3}, c.ISR(c.Part(0)), "no follower was ever more than 200 ms behind")
		require.Zero(t, c.ISRMoves())
	})
	history(t, "C1 guard taken away: overwritten sample", slowStore(Config{LagTimeMax: lagTimeMax, Break: Break{OverwrittenSample: true}}), func(t *testing.T, c *Cluster) {
		busy(c)
		require.Equal(t, []int32{1}, c.ISR(c.Part(0)), "Kafka's own rule throws both out, or C1 proves nothing")
	})
}

// Section 6, no rejoin under load: a follower that was out of the ISR comes back though it never has what the leader
// alone has acknowledged by then, since the high watermark waits for whoever is caught up (B2).
func TestNoRejoinUnderLoad(t *testing.T) {
	t.Parallel()
	returns := func(t *testing.T, c *Cluster, within time.Duration) bool {
		// Given a follower that was away until it had left the ISR,
		c.Kill(2)
		c.Until(10*time.Second, "2 has left the ISR", func() bool { return len(c.ISR(c.Part(0))) == 1 })
		// when it comes back under a record every millisecond, always some 90 ms behind,
		c.Load(c.Part(0), time.Millisecond, AcksLeader)
		c.Run(100 * time.Millisecond)
		c.Restart(2)
		took, ok := c.Within(within, func() bool { return len(c.ISR(c.Part(0))) == 2 })
		t.Logf("in the ISR: %t, after %s", ok, took)
		return ok
	}
	cfg := slowStore(Config{Replicas: [][]int32{{1, 2}}, Brokers: 2, LinkLatency: 2 * time.Millisecond})
	history(t, "no rejoin under load", cfg, func(t *testing.T, c *Cluster) {
		require.True(t, returns(t, c, time.Second))
	})
	cfg.Break.HighWatermarkOfISR = true
	history(t, "no rejoin under load, guard taken away: high watermark of the ISR alone", cfg, func(t *testing.T, c *Cluster) {
		require.False(t, returns(t, c, 5*time.Second), "the high watermark runs ahead of it, or the rule proves nothing")
	})
}

// R9: a report must not wait for the answer to the one before (B1), else acks=all takes up to a second.
func TestR9ParkedAnswerBlocksNoReport(t *testing.T) {
	t.Parallel()
	history(t, "R9", Config{}, func(t *testing.T, c *Cluster) {
		// Given a quiet partition, whose followers' reports are parked at the leader,
		for range 20 {
			c.Run(700 * time.Millisecond)
			// when a record comes, then it is acknowledged as soon as both have it.
			require.Less(t, c.ProduceAcked(c.Part(0), time.Second), 100*time.Millisecond)
		}
		require.Empty(t, c.Fallbacks(0))
	})
	history(t, "R9 reports out of order", Config{LinkLatency: 5 * time.Millisecond}, func(t *testing.T, c *Cluster) {
		// Given reports that overtake each other, when records flow, then an older report undoes no newer one: the high
		// watermark of every broker only grows, and reaches the end.
		c.Weather(Faults{MessageSlow: 0.3})
		p := c.Load(c.Part(0), 5*time.Millisecond, AcksAll)
		high := int64(0)
		for range 40 {
			c.Run(50 * time.Millisecond)
			now := c.HighWatermark(c.Part(0), 1)
			require.GreaterOrEqual(t, now, high)
			high = now
		}
		p.Stop()
		c.Weather(Faults{})
		c.AwaitConverged(2 * time.Second)
		_, waiting := p.Acked()
		require.Zero(t, waiting, "every record is acknowledged in the end")
	})
}

// KIP-903: what a follower reported before a crash says nothing of what it has after it. Found by a random story: a leader
// took a restarted follower into the ISR by its old report, and the follower had lost what it had reported.
func TestOldReportsDoNotCount(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given a follower that has acknowledged a tail and loses it in a crash,
		c.Flush(2)
		c.Produce(part, 20)
		c.AwaitConverged(time.Second)
		require.Equal(t, int64(20), c.HighWatermark(part, 1))
		// when it is registered again, and has reported nothing yet,
		c.Isolate(2)
		c.Kill(2)
		c.Restart(2)
		c.Run(500 * time.Millisecond)
	}
	cfg := Config{Replicas: [][]int32{{1, 2}}, Brokers: 2, FlushEvery: time.Hour}
	history(t, "KIP-903", cfg, func(t *testing.T, c *Cluster) {
		story(t, c)
		// then it is not in the ISR,
		require.Equal(t, []int32{1}, c.ISR(c.Part(0)))
		// until it has what it had.
		c.Reconnect(2)
		c.Until(soon, "2 is in sync", func() bool { return len(c.ISR(c.Part(0))) == 2 })
		c.Elect(c.Part(0), 2)
		c.AwaitConverged(stalled)
	})
	cfg.Break.OldReportsCount, cfg.ExpectViolations = true, true
	history(t, "KIP-903 guard taken away: old reports count", cfg, func(t *testing.T, c *Cluster) {
		story(t, c)
		c.Reconnect(2)
		c.Elect(c.Part(0), 2)
		c.requireViolation("lost what was committed")
	})
}
