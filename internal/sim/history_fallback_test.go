package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// backAtTheStore fails the test unless, from five seconds after now on, nothing comes by the ordinary fetch.
func backAtTheStore(t *testing.T, c *Cluster) {
	t.Helper()
	c.Run(5 * time.Second)
	c.TakeTraffic()
	c.Run(3 * time.Second)
	traffic := c.TakeTraffic()
	require.Zero(t, traffic.FetchBatches, "%s", traffic)
	require.NotZero(t, traffic.StoreBatches)
}

// H1(a): a fallback ends under load, since its range is fixed when it is asked for (F5).
func TestH1aFallbackEndsUnderLoad(t *testing.T) {
	t.Parallel()
	history(t, "H1(a)", Config{}, func(t *testing.T, c *Cluster) {
		// Given a record every 5 ms, when a single event is lost,
		c.Load(c.Part(0), 5*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		c.SpoilEvent(3, Lost)
		// then the follower is back at the store in no time.
		took := c.Until(stalled, "3 falls back", func() bool { return len(c.Fallbacks(begun)) > 0 })
		t.Logf("fell back after %s", took)
		took = c.Until(time.Second, "3 is back", func() bool { return c.State(c.Part(0), 3).Kind == follower.Replicating })
		t.Logf("back after %s", took)
		c.TakeTraffic()
		c.Run(3 * time.Second)
		require.Zero(t, c.TakeTraffic().FetchBatches)
		c.expectFallbacks(begun, "3 t0 gap")
	})
}

// R1: what doubles is the time between two holds, never the hold: an outage of the leader's store costs no follower its
// place in the ISR, and acks=all no more than the first detection (F5).
func TestR1DoublingPause(t *testing.T) {
	t.Parallel()
	history(t, "R1", Config{}, func(t *testing.T, c *Cluster) {
		// Given a leader that cannot upload for ten minutes,
		p := c.Load(c.Part(0), 500*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		c.PutsDown(1)
		c.TakeTraffic()
		c.Run(long(10 * time.Minute))
		traffic := c.TakeTraffic()
		t.Log(traffic)
		// then the ISR stands, and the lag is that of an ordinary fetch but for the first second.
		require.Equal(t, []int32{1, 2, 3}, c.ISR(c.Part(0)))
		require.Zero(t, c.ISRMoves())
		require.Less(t, Percentile(traffic.Lags, 50), 5*time.Millisecond)
		require.Less(t, Percentile(traffic.Lags, 100), stalled)
		require.Less(t, Percentile(p.TakeLatencies(), 100), stalled)
		c.expectFallbacks(begun, "2 t0 stalled", "3 t0 stalled")
		// And 1 s after the outage all comes through the store.
		c.StoreUp()
		c.Run(time.Second)
		c.TakeTraffic()
		c.Run(3 * time.Second)
		require.Zero(t, c.TakeTraffic().FetchBatches)
	})
}

// R6: a standstill counts from when the leader was first seen ahead (F6), so slow partitions do not fall back, however
// often answers come.
func TestR6SlowPartitionsDoNotStall(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{7, 101, 500, 1000} {
		every *= time.Millisecond
		cfg := slowStore(Config{Tracker: func(_ int32, cfg *replica.TrackerConfig) { cfg.StallAfter = every }})
		history(t, "R6 answers within "+every.String(), cfg, func(t *testing.T, c *Cluster) {
			// Given a record every 2.5 s, when it goes on, then nothing ever comes by the ordinary fetch.
			begun := c.Now()
			c.Load(c.Part(0), 2500*time.Millisecond, AcksAll)
			c.TakeTraffic()
			c.Run(long(5 * time.Minute))
			require.Empty(t, c.Fallbacks(begun))
			require.Zero(t, c.TakeTraffic().FetchBatches)
		})
	}
}

// slowUploads is a cluster whose uploads can take up to so long each.
func slowUploads(cfg Config) Config {
	cfg.ValueBytes = 2000
	cfg.Store = func(_ int32, cfg *objectstore.Config) { cfg.AttemptTimeout = 5 * time.Second }
	cfg.Leader = func(_ int32, cfg *leader.Config) {
		cfg.TargetBytes, cfg.MaxInFlightUploads = 16<<10, 2
	}
	return cfg
}

// R7: a store that is slow and not dead costs the ISR nothing: the uploader skips forward (L11), and the followers fetch
// what is missing, about as much as the store cannot carry.
func TestR7SlowStore(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.8, 0.5} {
		history(t, map[float64]string{0.8: "R7 80 %", 0.5: "R7 50 %"}[share], slowUploads(Config{}), func(t *testing.T, c *Cluster) {
			// Given uploads at a share of what comes in,
			const every = 50 * time.Millisecond
			p := c.Load(c.Part(0), every, AcksAll)
			c.Run(time.Second)
			c.SlowPuts(share * 2071 / every.Seconds())
			// when that lasts for longer than replica.lag.time.max,
			c.Run(15 * time.Second)
			c.TakeTraffic()
			c.Run(45 * time.Second)
			traffic := c.TakeTraffic()
			t.Log(traffic)
			// then the ISR stands, and the ordinary fetch carries what the store does not.
			require.Equal(t, []int32{1, 2, 3}, c.ISR(c.Part(0)))
			require.Zero(t, c.ISRMoves())
			require.InDelta(t, 1-share, traffic.Share(), 0.15)
			require.Less(t, Percentile(p.TakeLatencies(), 100), 12*time.Second)
			require.Positive(t, c.Counts()["skip: "+string(leader.SkipAge)])
			c.StoreUp()
			backAtTheStore(t, c)
		})
	}
}

// Section 6: an outage must not become polling. The report says that the follower is in a fallback, and is answered as
// soon as the leader has more (B4).
func TestOutageMustNotBecomePolling(t *testing.T) {
	t.Parallel()
	outage := func(c *Cluster) (perSecond float64, p50 time.Duration) {
		// Given five producers that wait for acks=all each time, when no upload works,
		c.PutsDown()
		var workers []*Producer
		for range 5 {
			workers = append(workers, c.Worker(c.Part(0)))
		}
		c.Run(3 * time.Second)
		for _, w := range workers {
			w.TakeLatencies()
		}
		c.TakeTraffic()
		c.Run(2 * time.Second)
		n := 0
		for _, w := range workers {
			n += len(w.TakeLatencies())
		}
		return float64(n) / 2, Percentile(c.TakeTraffic().Lags, 50)
	}
	history(t, "an outage must not become polling", Config{}, func(t *testing.T, c *Cluster) {
		perSecond, p50 := outage(c)
		t.Logf("%.1f acknowledgements a second, lag p50 %s", perSecond, p50)
		require.Greater(t, perSecond, 300.0)
		require.Less(t, p50, 20*time.Millisecond)
	})
	history(t, "an outage must not become polling, guard taken away: answers are parked", Config{Break: Break{AnswersPark: true}}, func(t *testing.T, c *Cluster) {
		perSecond, p50 := outage(c)
		t.Logf("%.1f acknowledgements a second, lag p50 %s", perSecond, p50)
		require.Less(t, perSecond, 30.0, "or the flag of B4 is for nothing")
	})
}

// Section 6, only the GETs fail: events keep coming, each a promise that the store does not keep. The fallback ends with
// the first append from the store and not before, so it is one fallback, and the lag is that of an ordinary fetch.
func TestOnlyTheGetsFail(t *testing.T) {
	t.Parallel()
	history(t, "only the GETs fail", Config{}, func(t *testing.T, c *Cluster) {
		c.Load(c.Part(0), 1500*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		c.GetsDown(3)
		c.Run(10 * time.Second)
		c.TakeTraffic()
		c.Run(long(30 * time.Minute))
		traffic := c.TakeTraffic()
		t.Log(traffic)
		require.Less(t, Percentile(traffic.Lags, 50), 30*time.Millisecond) // of broker 2, through the store, and of 3
		require.Less(t, traffic.Longest, stalled)
		require.Len(t, c.Fallbacks(begun), 1)
		require.Equal(t, int32(3), c.Fallbacks(begun)[0].Broker)
		require.Zero(t, c.ISRMoves())
	})
	history(t, "only the GETs fail, the followers alone", Config{Replicas: [][]int32{{1, 3}}}, func(t *testing.T, c *Cluster) {
		c.Load(c.Part(0), 100*time.Millisecond, AcksAll)
		c.GetsDown()
		c.Run(20 * time.Second)
		c.TakeTraffic()
		c.Run(30 * time.Second)
		require.Less(t, Percentile(c.TakeTraffic().Lags, 50), 10*time.Millisecond)
	})
}

// Section 6, a hot loop: a leader that refuses at once, or whose log ends above its last batch, is not asked hundreds of
// times a second.
func TestHotLoop(t *testing.T) {
	t.Parallel()
	history(t, "a hot loop: the leader refuses", Config{}, func(t *testing.T, c *Cluster) {
		// Given a follower of a leader that does not know yet that it leads,
		c.Isolate(2)
		c.Elected(c.Part(0), 2)
		before := c.Counts()
		c.Run(time.Minute)
		after := c.Counts()
		t.Logf("%d fetches, %d reports", after["ordinary fetch"]-before["ordinary fetch"], after["reports"]-before["reports"])
		require.Less(t, after["ordinary fetch"]-before["ordinary fetch"], 2*100)
		require.Less(t, after["reports"]-before["reports"], 2*200)
		c.Reconnect(2)
		c.AwaitConverged(2 * stalled)
	})
	history(t, "a hot loop: compaction took the tail", Config{Replicas: [][]int32{{1, 2}}}, func(t *testing.T, c *Cluster) {
		// Given an idle partition whose last batches compaction has taken at the leader, and a new replica, which can come
		// to the last batch and no further,
		c.Produce(c.Part(0), 10)
		c.AwaitConverged(time.Second)
		c.Compact(c.Part(0), 1, 7, 10)
		c.AddReplica(c.Part(0), 3)
		c.Run(5 * time.Second)
		before := c.Counts()
		c.Run(time.Minute)
		after := c.Counts()
		t.Logf("%d fetches, %d reports", after["ordinary fetch"]-before["ordinary fetch"], after["reports"]-before["reports"])
		require.Equal(t, int64(7), c.LEO(c.Part(0), 3))
		require.Less(t, after["ordinary fetch"]-before["ordinary fetch"], 100)
		require.Less(t, after["reports"]-before["reports"], 400)
		// The next record mends it.
		c.Produce(c.Part(0), 1)
		c.AwaitConverged(2 * stalled)
	})
}

// N3: a store that denies access is a fallback too, and is told to the operator.
func TestN3AccessDenied(t *testing.T) {
	t.Parallel()
	told := 0
	cfg := Config{Follower: func(_ int32, cfg *follower.Config) {
		cfg.Hooks.ConfigurationError = func(err error) {
			if walstorage.KindOf(err) == walstorage.ErrAccessDenied {
				told++
			}
		}
	}}
	history(t, "N3", cfg, func(t *testing.T, c *Cluster) {
		// Given one broker whose credentials have expired,
		c.Load(c.Part(0), 250*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		c.Refuse(Refused, allMethods, 3)
		c.Run(time.Minute)
		// then it replicates from the leader, stays in the ISR, and says what is wrong,
		c.expectFallbacks(begun, "3 t0 access denied")
		require.Positive(t, told)
		require.Zero(t, c.ISRMoves())
		require.Less(t, c.TakeTraffic().Longest, stalled)
		// and once it has new ones it is back, at the latest after the longest time between two holds.
		c.StoreUp()
		c.Until(70*time.Second, "3 is back", func() bool { return c.State(c.Part(0), 3).Kind == follower.Replicating })
	})
}

// H4: a gap concerns the partitions of that broker that are behind, and no others.
func TestH4WhatAGapMeans(t *testing.T) {
	t.Parallel()
	history(t, "H4", Config{Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}, {2, 1, 3}}}, func(t *testing.T, c *Cluster) {
		busy, idle, other := c.Part(0), c.Part(1), c.Part(2)
		// Given partitions of two leaders, one of the first idle,
		c.Produce(idle, 3)
		c.Load(busy, 100*time.Millisecond, AcksAll)
		c.Load(other, 100*time.Millisecond, AcksAll)
		c.Run(5 * time.Second)
		begun := c.Now()
		// when an event of the first leader cannot be read,
		c.SpoilEventOf(3, 1, UnknownVersion)
		c.Run(5 * time.Second)
		// then the busy partition falls back, once, for what it lacks; nobody else does.
		c.expectFallbacks(begun, "3 t0 gap")
		require.Zero(t, c.ISRMoves())
		backAtTheStore(t, c)
	})
	history(t, "H4 a new epoch of a broker begins at 0", Config{Replicas: [][]int32{{1, 2, 3}, {2, 1, 3}}}, func(t *testing.T, c *Cluster) {
		// Given a subscriber that misses the first events of a broker that has restarted,
		c.Load(c.Part(0), 50*time.Millisecond, AcksLeader)
		c.Run(time.Second)
		c.Kill(1)
		c.Deaf(3)
		c.Restart(1)
		c.AwaitLeader(c.Part(0))
		leader := c.AwaitLeader(c.Part(0))
		if leader != 1 {
			c.Until(10*time.Second, "1 is in sync", func() bool { return len(c.ISR(c.Part(0))) == 3 })
			c.Elect(c.Part(0), 1)
		}
		c.Run(300 * time.Millisecond)
		before := c.Counts()["gap: missing"]
		c.Hearing(3)
		c.Run(time.Second)
		// then the first that it gets, whose sequence is not 0, shows the gap.
		require.Greater(t, c.Counts()["gap: missing"], before)
		backAtTheStore(t, c)
	})
}
