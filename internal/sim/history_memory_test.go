package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// N1: what is parked is bounded, and the slice that a partition needs next is always admitted, if need be alone (F4).
func TestN1BoundedParking(t *testing.T) {
	t.Parallel()
	const bound = 4 << 10
	parking := func(_ int32, cfg *follower.Config) { cfg.MaxParkedBytes, cfg.MaxFetches = bound, 4 }
	history(t, "N1 the first fetch fails while later ones fill the room", Config{Follower: parking}, func(t *testing.T, c *Cluster) {
		// Given room for some ten segments, when the GETs of every eighth segment fail for a while and those behind it
		// succeed and are parked,
		until := c.Now() + 5*time.Second
		c.Poison(func(method string, _ int32, number int) error {
			if method == "Get" && number%8 == 0 && c.Now() < until {
				return Unavailable
			}
			return nil
		})
		c.Load(c.Part(0), 10*time.Millisecond, AcksAll)
		for range 100 {
			c.Run(50 * time.Millisecond)
			for _, b := range []int32{2, 3} {
				require.LessOrEqual(t, c.Leader(c.Part(0)).cluster.process(b).replicator.Stats().ParkedBytes, int64(bound))
			}
		}
		// then nothing waits for ever for room.
		require.Less(t, c.TakeTraffic().Longest, stalled)
		c.Run(2 * time.Second)
		backAtTheStore(t, c)
	})
	history(t, "N1 a batch larger than the bound", Config{Follower: parking, ValueBytes: 6 << 10}, func(t *testing.T, c *Cluster) {
		// Given batches each larger than all the room, then they come through the store, one at a time.
		begun := c.Now()
		p := c.Load(c.Part(0), 40*time.Millisecond, AcksAll)
		c.TakeTraffic()
		c.Run(5 * time.Second)
		p.Stop()
		c.AwaitConverged(stalled)
		require.Empty(t, c.Fallbacks(begun))
		require.Zero(t, c.TakeTraffic().FetchBatches)
	})
}

// N1, M5: the view of what followers lack is bounded; over the bound the lowest offsets of the partition farthest behind
// go first and become a gap, so that a replica that catches up does not miss the tail for ever.
func TestN1BoundedStore(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}},
		Follower: func(_ int32, cfg *follower.Config) { cfg.Entries = metadata.StoreConfig{MaxEntries: 20} },
	}
	history(t, "N1 and M5: eviction", cfg, func(t *testing.T, c *Cluster) {
		// Given a follower that cannot append for a while, and whose view holds few entries,
		c.Load(c.Part(0), 20*time.Millisecond, AcksAll)
		c.Load(c.Part(1), 200*time.Millisecond, AcksAll)
		c.Run(time.Second)
		c.Hold([]string{"Get"}, 3)
		c.Run(900 * time.Millisecond)
		// when it can again, then it is at the tail at once.
		c.StoreUp()
		backAtTheStore(t, c)
		require.Zero(t, c.ISRMoves())
	})
}

// R10: parallel fetches are not thrown away because an append before them has moved the log's end.
func TestR10ParallelFetches(t *testing.T) {
	t.Parallel()
	cfg := Config{Get: Latency{Median: 120 * time.Millisecond, Sigma: 0.2}}
	history(t, "R10", cfg, func(t *testing.T, c *Cluster) {
		// Given downloads that take as long as a dozen segments, when records come all the time,
		begun := c.Now()
		p := c.Load(c.Part(0), 10*time.Millisecond, AcksAll)
		c.TakeTraffic()
		c.Run(5 * time.Second)
		// then followers keep up, each segment is fetched once, and the lag is that of one download.
		traffic := c.TakeTraffic()
		t.Log(traffic)
		require.Empty(t, c.Fallbacks(begun))
		require.Less(t, Percentile(traffic.Lags, 50), 200*time.Millisecond)
		p.Stop()
		c.AwaitConverged(time.Second)
		segments := map[walstorage.SegmentID]bool{}
		for _, e := range c.Events() {
			segments[e.Segment.ID] = true
		}
		require.Equal(t, len(segments), c.Gets(2))
		require.Equal(t, len(segments), c.Gets(3))
	})
}

// R5: the gate opens by one ordinary answer, whatever the first fetches come to; and a purge, which leaves a log without
// an epoch at its end, costs nothing.
func TestR5GateAndPurge(t *testing.T) {
	t.Parallel()
	history(t, "R5(a) the first fetch fails, hangs, and fails", Config{}, func(t *testing.T, c *Cluster) {
		// Given load and a follower that starts while its ordinary fetches get no answer,
		c.Load(c.Part(0), 50*time.Millisecond, AcksAll)
		c.LoseFetches(3)
		c.Kill(3)
		c.Restart(3)
		c.Run(5 * time.Second)
		// then it waits at the gate and appends nothing from the store,
		require.Equal(t, follower.Starting, c.State(c.Part(0), 3).Kind)
		end := c.LEO(c.Part(0), 3)
		c.Run(time.Second)
		require.Equal(t, end, c.LEO(c.Part(0), 3))
		// and goes on as soon as one is answered.
		c.BringAll(3)
		c.Until(stalled, "3 replicates", func() bool { return c.State(c.Part(0), 3).Kind == follower.Replicating })
		backAtTheStore(t, c)
	})
	history(t, "R5(b) a topic that is purged all the time", Config{}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		begun := c.Now()
		c.TakeTraffic()
		for range 10 {
			// Given bursts, each of which is deleted once it is committed, when the next begins on an empty log,
			next := c.Produce(part, 5)
			c.Until(time.Second, "it is committed", func() bool { return c.HighWatermark(part, 1) == next })
			c.DeleteRecords(part, next)
			c.Run(2 * time.Second)
			require.Equal(t, next, c.disk(part, 2).log.Start())
		}
		// then all come through the store.
		require.Empty(t, c.Fallbacks(begun))
		require.Zero(t, c.TakeTraffic().FetchBatches)
	})
}
