package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Section 6, figures to expect: the ISR holds through half an hour of any outage, nobody stands still for longer than two
// seconds, and five seconds after it nothing comes by the ordinary fetch any more.
func TestHalfAnHourWithout(t *testing.T) {
	t.Parallel()
	for _, outage := range []struct {
		name  string
		begin func(c *Cluster)
	}{
		{"the store", func(c *Cluster) { c.StoreDown() }},
		{"PUT", func(c *Cluster) { c.PutsDown() }},
		{"the metadata log", func(c *Cluster) { c.MetadataDown() }},
	} {
		history(t, "half an hour without "+outage.name, Config{}, func(t *testing.T, c *Cluster) {
			c.Load(c.Part(0), 1500*time.Millisecond, AcksAll)
			c.Run(2 * time.Second)
			begun := c.Now()
			outage.begin(c)
			c.Run(long(30 * time.Minute))
			traffic := c.TakeTraffic()
			t.Log(traffic)
			require.Equal(t, []int32{1, 2, 3}, c.ISR(c.Part(0)))
			require.Zero(t, c.ISRMoves())
			require.LessOrEqual(t, traffic.Longest, stalled)
			require.Len(t, c.Fallbacks(begun), 2, "one for each follower")
			c.Load(c.Part(0), 20*time.Millisecond, AcksAll)
			c.Run(time.Second)
			c.StoreUp()
			c.MetadataUp()
			backAtTheStore(t, c)
		})
	}
	history(t, "half an hour without GET", Config{}, func(t *testing.T, c *Cluster) {
		c.Load(c.Part(0), 1500*time.Millisecond, AcksAll)
		c.Run(2 * time.Second)
		begun := c.Now()
		c.GetsDown()
		c.Run(long(30 * time.Minute))
		require.Zero(t, c.ISRMoves())
		require.LessOrEqual(t, c.TakeTraffic().Longest, stalled)
		require.Len(t, c.Fallbacks(begun), 2, "one for each follower")
		// The holds are a minute apart by now.
		c.StoreUp()
		c.Run(65 * time.Second)
		c.TakeTraffic()
		c.Run(10 * time.Second)
		require.Zero(t, c.TakeTraffic().FetchBatches)
	})
	history(t, "half an hour with uploads at 50 %", slowUploads(Config{}), func(t *testing.T, c *Cluster) {
		const every = time.Second
		c.Load(c.Part(0), every, AcksAll)
		c.Run(2 * time.Second)
		c.SlowPuts(0.5 * 2071 / every.Seconds())
		c.Run(long(30 * time.Minute))
		traffic := c.TakeTraffic()
		t.Log(traffic)
		require.Equal(t, []int32{1, 2, 3}, c.ISR(c.Part(0)))
		require.Zero(t, c.ISRMoves())
		require.LessOrEqual(t, traffic.Longest, 2*stalled)
	})
}

// Section 6, figures to expect: with the GETs down for a minute the way back takes 10 to 20 s.
func TestAMinuteWithoutGet(t *testing.T) {
	t.Parallel()
	history(t, "a minute without GET", Config{}, func(t *testing.T, c *Cluster) {
		c.Load(c.Part(0), 200*time.Millisecond, AcksAll)
		c.Run(2 * time.Second)
		c.GetsDown()
		c.Run(time.Minute)
		c.StoreUp()
		c.Run(20 * time.Second)
		c.TakeTraffic()
		c.Run(3 * time.Second)
		require.Zero(t, c.TakeTraffic().FetchBatches)
	})
}

// Section 6, figures to expect: after a fallback a quiet partition sends exactly one batch by the ordinary fetch, then
// none.
func TestOneBatchAfterAFallback(t *testing.T) {
	t.Parallel()
	history(t, "a quiet partition after a fallback", Config{Replicas: [][]int32{{1, 2}}}, func(t *testing.T, c *Cluster) {
		c.SpoilEvent(2, Lost)
		c.Produce(c.Part(0), 1)
		c.AwaitConverged(stalled)
		require.Len(t, c.Fallbacks(0), 1)
		c.TakeTraffic()
		for range 8 {
			c.Run(5 * time.Second)
			c.Produce(c.Part(0), 1)
			c.AwaitConverged(soon)
		}
		traffic := c.TakeTraffic()
		require.Equal(t, int64(1), traffic.FetchBatches, "%s", traffic)
		require.Equal(t, int64(7), traffic.StoreBatches, "%s", traffic)
		require.Len(t, c.Fallbacks(0), 1)
	})
}

// Steady load without faults: nothing falls back, the ISR stands, and the ordinary fetch carries the first fetches alone.
func TestSteadyLoad(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		name     string
		put, get Latency
	}{
		{"S3 Express", S3ExpressPut, S3ExpressGet},
		{"S3 Standard", Latency{Median: 60 * time.Millisecond, Sigma: 0.29, PerMiB: 20 * time.Millisecond}, Latency{Median: 27 * time.Millisecond, Sigma: 0.62}},
	} {
		cfg := Config{Put: store.put, Get: store.get, Replicas: [][]int32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}}
		history(t, "steady load without faults on "+store.name, cfg, func(t *testing.T, c *Cluster) {
			c.TakeTraffic()
			begun := c.Now()
			producer := c.Load(c.Part(0), 15*time.Millisecond, AcksAll)
			c.Load(c.Part(1), 100*time.Millisecond, AcksAll)
			c.Load(c.Part(2), 1700*time.Millisecond, AcksLeader)
			c.Run(6 * time.Second)
			traffic := c.TakeTraffic()
			t.Logf("%s; acks=all p50 %s", traffic, Percentile(producer.TakeLatencies(), 50))
			require.Empty(t, c.Fallbacks(begun))
			require.Zero(t, traffic.FetchBatches)
			require.Zero(t, c.ISRMoves())
			for _, p := range c.producers {
				p.Stop()
			}
			c.AwaitConverged(time.Second)
		})
	}
}
