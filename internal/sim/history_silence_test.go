package sim

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/metadata/memlog"
)

// C2, benbjohnson/litestream#1515: a follower that lacks something and hears nothing must not stand still for ever. Two
// rules see to that: Follow begins with one ordinary fetch (F6), and an Observe that shows the leader ahead counts down
// to Stalled (F6).

// soon is enough for an ordinary fetch, and far below StallAfter.
const soon = 100 * time.Millisecond

// stalled is the longest time without progress: 2 x StallAfter and a round trip.
const stalled = 2*time.Second + 50*time.Millisecond

func TestC2aNewTopic(t *testing.T) {
	t.Parallel()
	t.Run("C2a", func(t *testing.T) {
		Run(t, Config{MinISR: 2}, func(c *Cluster) {
			// Given a new topic, of which the leader hears first,
			c.Isolate(2)
			c.Isolate(3)
			c.AwaitLeader(c.Part(0))
			// when its first record is uploaded and published before the followers know that they follow,
			c.Produce(c.Part(0), 1)
			c.Run(500 * time.Millisecond)
			require.Len(c.t, c.Events(), 1)
			// then they have it as soon as they know, and nothing waits for a second record, which under
			// min.insync.replicas would never come.
			c.Reconnect(2)
			c.Reconnect(3)
			c.AwaitConverged(soon)
			require.Equal(c.t, int64(1), c.HighWatermark(c.Part(0), 1))
			require.Less(c.t, c.ProduceAcked(c.Part(0), time.Second), soon)
		})
	})
}

func TestC2bLeaderMoves(t *testing.T) {
	t.Parallel()
	history(t, "C2b", Config{}, func(t *testing.T, c *Cluster) {
		// Given an old leader that learns of the new one after the event of the new epoch has come and gone,
		c.Produce(c.Part(0), 5)
		c.Run(soon)
		c.Isolate(1)
		c.Elect(c.Part(0), 2)
		c.Produce(c.Part(0), 1)
		c.Run(soon)
		require.Equal(t, int64(5), c.LEO(c.Part(0), 1))
		// when it learns, and the partition is idle, then it has the record all the same.
		c.Reconnect(1)
		c.AwaitConverged(soon)
	})
}

func TestC2cIdlePartition(t *testing.T) {
	t.Parallel()
	history(t, "C2c new replica", Config{Replicas: [][]int32{{1, 2}}}, func(t *testing.T, c *Cluster) {
		// Given an idle partition, when a replica is added, then it has everything and is in sync at once: the
		// reassignment completes though no event will ever come.
		c.Produce(c.Part(0), 200)
		c.Run(5 * time.Second)
		c.AddReplica(c.Part(0), 3)
		c.Until(soon, "3 is in sync", func() bool { return len(c.ISR(c.Part(0))) == 3 })
		c.AwaitConverged(soon)
	})
	history(t, "C2c away for more than an hour", Config{}, func(t *testing.T, c *Cluster) {
		c.Kill(3)
		c.Produce(c.Part(0), 200)
		c.Run(long(70 * time.Minute))
		c.Restart(3)
		c.AwaitConverged(soon)
		c.Until(soon, "3 is in sync", func() bool { return len(c.ISR(c.Part(0))) == 3 })
	})
}

func TestC2dTheLastEventIsLost(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name   string
		spoil  func(*memlog.DeliveryFault)
		within time.Duration
		reason string
	}{
		{"lost", Lost, stalled, "stalled"},
		{"corrupt", Corrupt, stalled, "gap"},
		{"unknown version", UnknownVersion, stalled, "gap"},
	} {
		history(t, "C2d "+how.name, Config{}, func(t *testing.T, c *Cluster) {
			// Given an idle partition, when the only event of its only record does not reach a follower, then it has the
			// record by the ordinary fetch, and says why, once.
			begun := c.Now()
			c.SpoilEvent(3, how.spoil)
			c.Produce(c.Part(0), 1)
			c.AwaitConverged(how.within)
			c.expectFallbacks(begun, "3 t0 "+how.reason)
			// And the partition is back at the store with the second record after that.
			c.Produce(c.Part(0), 1)
			c.AwaitConverged(soon)
			c.TakeTraffic()
			for range 3 {
				c.Produce(c.Part(0), 1)
				c.AwaitConverged(soon)
			}
			require.Zero(t, c.TakeTraffic().FetchBatches)
			require.Len(t, c.Fallbacks(begun), 1)
		})
	}
}

func TestC2eOnlyTheLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	for _, what := range []struct {
		name string
		off  func(c *Cluster)
		on   func(c *Cluster)
	}{
		{"the bucket refuses the leader", func(c *Cluster) { c.Refuse(Refused, allMethods, 1) }, func(c *Cluster) { c.StoreUp() }},
		{"the metadata log refuses the leader", func(c *Cluster) { c.MetadataDown(1) }, func(c *Cluster) { c.MetadataUp() }},
	} {
		history(t, "C2e "+what.name, Config{}, func(t *testing.T, c *Cluster) {
			// Given followers whose store is healthy and who therefore get neither an event nor an error,
			c.Load(c.Part(0), 250*time.Millisecond, AcksAll)
			c.Run(time.Second)
			begun := c.Now()
			what.off(c)
			// when that lasts longer than replica.lag.time.max,
			c.Run(50 * time.Second)
			// then they replicate by the ordinary fetch, and the ISR stands.
			require.Equal(t, []int32{1, 2, 3}, c.ISR(c.Part(0)))
			require.Zero(t, c.ISRMoves())
			require.Less(t, c.TakeTraffic().Longest, stalled)
			c.expectFallbacks(begun, "2 t0 stalled", "3 t0 stalled")
			// And they come back when the leader does.
			what.on(c)
			c.Run(5 * time.Second)
			c.TakeTraffic()
			c.Run(2 * time.Second)
			require.Zero(t, c.TakeTraffic().FetchBatches)
		})
	}
}

func TestC2fALogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name  string
		fault func(read []byte) error
	}{
		{"fails", func([]byte) error { return errors.New("disk on fire") }},
		{"panics", func([]byte) error { panic("disk on fire") }},
	} {
		history(t, "C2f "+how.name, Config{Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}}, ExpectPanics: true}, func(t *testing.T, c *Cluster) {
			// Given two partitions, when the uploader cannot read the log of one,
			c.Load(c.Part(0), 120*time.Millisecond, AcksAll)
			c.Load(c.Part(1), 120*time.Millisecond, AcksAll)
			c.Run(time.Second)
			begun := c.Now()
			c.Reads(c.Part(0), 1, how.fault)
			c.Run(10 * time.Second)
			// then its followers have what they lack by the ordinary fetch, and the other partition notices nothing.
			c.expectFallbacks(begun, "2 t0 stalled", "3 t0 stalled")
			require.Less(t, c.TakeTraffic().Longest, stalled)
			// And when the log can be read again the uploader goes on.
			c.Reads(c.Part(0), 1, nil)
			c.Run(5 * time.Second)
			c.TakeTraffic()
			c.Run(2 * time.Second)
			require.Zero(t, c.TakeTraffic().FetchBatches)
		})
	}
}

func TestC2gAFollowerLosesItsTail(t *testing.T) {
	t.Parallel()
	history(t, "C2g", Config{FlushEvery: time.Hour}, func(t *testing.T, c *Cluster) {
		// Given a follower with a flushed log and an acknowledged tail that is not flushed,
		c.Produce(c.Part(0), 100)
		c.AwaitConverged(time.Second)
		c.Flush(1)
		c.Flush(2)
		c.Flush(3)
		c.Produce(c.Part(0), 20)
		c.AwaitConverged(time.Second)
		epoch := c.Epoch(c.Part(0))
		// when it crashes and comes back, and leader, epoch and log are what they were,
		c.Kill(3)
		c.Restart(3)
		require.Equal(t, int64(100), c.LEO(c.Part(0), 3))
		// then it has its tail again though nothing is published.
		c.AwaitConverged(soon)
		require.Equal(t, epoch, c.Epoch(c.Part(0)))
		c.Until(soon, "3 is in sync", func() bool { return len(c.ISR(c.Part(0))) == 3 })
	})
}

func TestC2hTheRestOfASliceIsDropped(t *testing.T) {
	t.Parallel()
	history(t, "C2h", Config{}, func(t *testing.T, c *Cluster) {
		// Given a read that returns a batch of another epoch behind four of this one (KAFKA-18723),
		begun := c.Now()
		c.Reads(c.Part(0), 1, func(read []byte) error {
			scanner := batch.NewScanner(read)
			for n := 0; scanner.Next(); n++ {
				if n >= 4 {
					binary.BigEndian.PutUint32(read[scanner.Position()+12:], 7)
				}
			}
			return nil
		})
		// when nothing follows in the epoch, then the first four come through the store, the rest by the ordinary fetch.
		c.Produce(c.Part(0), 8)
		c.Run(5 * soon)
		require.Equal(t, int64(4), c.LEO(c.Part(0), 2))
		c.AwaitConverged(stalled)
		c.expectFallbacks(begun, "2 t0 stalled", "3 t0 stalled")
	})
}
