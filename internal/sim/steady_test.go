package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSteady: under steady load and without faults nothing falls back, and the ISR stands.
func TestSteady(t *testing.T) {
	Run(t, Config{Replicas: [][]int32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}}, func(c *Cluster) {
		for i := range 3 {
			c.AwaitLeader(c.Part(i))
		}
		c.Run(time.Second)
		c.TakeTraffic()
		begun := c.Now()
		producer := c.Load(c.Part(0), 2*time.Millisecond, AcksAll)
		c.Load(c.Part(1), 10*time.Millisecond, AcksAll)
		c.Load(c.Part(2), 700*time.Millisecond, AcksLeader)
		c.Run(10 * time.Second)

		traffic := c.TakeTraffic()
		t.Log(traffic)
		t.Log(Percentile(producer.TakeLatencies(), 50), c.Counts())
		require.Empty(t, c.Fallbacks(begun))
		require.Zero(t, traffic.FetchBatches)
		for _, p := range c.producers {
			p.Stop()
		}
		c.AwaitConverged(2 * time.Second)
	})
}
