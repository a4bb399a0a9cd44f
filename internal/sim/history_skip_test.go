package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// uploadedBytes returns the bytes of all slices of a partition that were ever published.
func uploadedBytes(c *Cluster, part *Partition) (bytes int64) {
	for _, e := range c.Events() {
		for _, topic := range e.Segment.Topics {
			if topic.ID == part.TopicID {
				bytes += topic.Slices[0].Length
			}
		}
	}
	return bytes
}

// H1(b): after an outage the uploader skips what nobody lacks any more, and the tail is current at once (L11). Half an hour
// of it is in TestHalfAnHourWithout.
func TestH1bTheTailIsCurrentAtOnce(t *testing.T) {
	t.Parallel()
	history(t, "H1(b)", Config{}, func(t *testing.T, c *Cluster) {
		// Given a store that is down for a minute under load,
		c.Load(c.Part(0), 80*time.Millisecond, AcksAll)
		c.StoreDown()
		c.Run(time.Minute)
		before := uploadedBytes(c, c.Part(0))
		// when it is back, then all comes through it within seconds, and what it missed is never uploaded.
		c.StoreUp()
		backAtTheStore(t, c)
		require.Less(t, uploadedBytes(c, c.Part(0))-before, int64(20*13*175), "of 850 records, those of these 8 s, of GiveUpAfter and of MaxBacklog")
		require.Positive(t, c.Counts()["skip: "+string(leader.SkipAge)]+c.Counts()["given up"])
		require.Zero(t, c.ISRMoves())
	})
}

// H2: where a Lead starts is readable and not absurd: at its epoch's start (L7), and a cursor below the log start skips
// (L11).
func TestH2WhereALeadStarts(t *testing.T) {
	t.Parallel()
	history(t, "H2 high watermark below the log start, or not known at all", Config{FlushEvery: time.Hour}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given a long log, of which the first part is deleted, and a high watermark checkpoint from before all of that,
		c.Flush(1)
		c.Flush(2)
		c.Flush(3)
		for range 10 {
			c.Produce(part, 200)
			c.Run(30 * time.Millisecond)
		}
		c.AwaitConverged(time.Second)
		c.DeleteRecords(part, 1000)
		for _, b := range []int32{1, 2, 3} {
			c.disk(part, b).log.Flush()
		}
		// when all brokers crash and come back,
		for _, b := range []int32{1, 2, 3} {
			c.Kill(b)
		}
		uploaded := uploadedBytes(c, part)
		for _, b := range []int32{1, 2, 3} {
			c.Restart(b)
		}
		c.AwaitLeader(part)
		require.Equal(t, int64(2000), c.LEO(part, 1))
		// then the leader begins at its epoch's start: the first new record goes through the store at once, and nothing of
		// the old log is uploaded.
		c.Produce(part, 1)
		c.AwaitConverged(soon)
		c.TakeTraffic()
		c.Produce(part, 1)
		c.AwaitConverged(soon)
		require.Zero(t, c.TakeTraffic().FetchBatches)
		require.Less(t, uploadedBytes(c, part)-uploaded, int64(2*200))
	})
	history(t, "H2 the log start passes a lagging cursor", Config{}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given an uploader held up by the store, whose cursor lags,
		c.Hold([]string{"Put"}, 1)
		for range 12 {
			c.Produce(part, 1)
			c.Run(15 * time.Millisecond)
		}
		c.Until(stalled, "the followers have it from the leader", c.Converged)
		// when the records that it has not read are deleted,
		c.DeleteRecords(part, 12)
		c.StoreUp()
		// then it goes on behind them, and nothing is stuck.
		c.Produce(part, 3)
		c.AwaitConverged(2 * stalled)
		backAtTheStoreWith(t, c, part)
		require.Equal(t, int64(12), c.disk(part, 2).log.Start())
	})
	history(t, "H2 a new epoch of the same leader", Config{}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given load, when the leader's epoch is bumped again and again,
		p := c.Load(part, 10*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		for range 10 {
			c.Bump(part)
			c.Run(200 * time.Millisecond)
		}
		p.Stop()
		c.AwaitConverged(stalled)
		// then nothing is uploaded twice, and nobody falls back.
		end := c.LEO(part, 1)
		require.LessOrEqual(t, uploadedBytes(c, part), c.disk(part, 1).log.Size())
		require.Empty(t, c.Fallbacks(begun), "of %d records", end)
		require.Zero(t, c.ISRMoves())
	})
}

// backAtTheStoreWith is backAtTheStore for a partition without load.
func backAtTheStoreWith(t *testing.T, c *Cluster, part *Partition) {
	t.Helper()
	for range 3 {
		c.Produce(part, 1)
		c.AwaitConverged(stalled)
	}
	c.TakeTraffic()
	c.Produce(part, 1)
	c.AwaitConverged(soon)
	traffic := c.TakeTraffic()
	require.Zero(t, traffic.FetchBatches, "%s", traffic)
}

// H3: the event is an envelope around exactly the object's index; its sequence is taken when it is first handed to
// Publish (L3). What can never be stored wedges nothing behind it (Aiven-Open/tiered-storage-for-apache-kafka#820,
// aiven/inkless#260).
func TestH3SequenceOrderAndGivenUpSegments(t *testing.T) {
	t.Parallel()
	history(t, "H3(1)", Config{Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}}}, func(t *testing.T, c *Cluster) {
		p, q := c.Part(0), c.Part(1)
		// Given a segment of P and Q that is sealed and not yet published,
		c.Hold([]string{"Put"}, 1)
		c.Produce(p, 3)
		c.Produce(q, 3)
		c.Run(30 * time.Millisecond)
		// when P moves to another leader before it is,
		c.Elect(p, 2)
		c.TakeTraffic()
		begun := c.Now()
		c.StoreUp()
		// then the event is published as it is, Q's bytes arrive by it, and nobody sees a gap or a corrupt event.
		c.AwaitConverged(stalled)
		require.Zero(t, c.disk(q, 2).traffic.FetchBatches+c.disk(q, 3).traffic.FetchBatches)
		for _, f := range c.Fallbacks(begun) {
			require.Equal(t, p.Topic, f.Partition.Topic, "1 loses its tail of P, and that is all")
		}
		for what := range c.Counts() {
			require.False(t, strings.HasPrefix(what, "gap"), what)
		}
	})
	history(t, "H3(2) and R3(b): an upload that can never succeed", Config{Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}}}, func(t *testing.T, c *Cluster) {
		// Given load on two partitions, when the store refuses one segment for good,
		c.Load(c.Part(0), 40*time.Millisecond, AcksAll)
		c.Load(c.Part(1), 60*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		sealed := c.Counts()["sealed by linger"]
		poisoned := sealed + 5
		c.Poison(func(method string, broker int32, number int) error {
			if method == "Put" && number == poisoned {
				return walstorage.NewError(walstorage.ErrTooLarge, errors.New("400"))
			}
			return nil
		})
		c.Run(3 * time.Second)
		// then it is given up at once, the ones behind it go on, each partition of it falls back once and comes back, and
		// no reader misses an event: its sequence was never taken.
		require.Equal(t, 1, c.Counts()["given up"])
		for _, f := range c.Fallbacks(begun) {
			require.Equal(t, follower.Gap, f.Reason)
		}
		require.LessOrEqual(t, len(c.Fallbacks(begun)), 4)
		require.NotEmpty(t, c.Fallbacks(begun))
		require.Zero(t, c.Counts()["gap: missing"])
		require.Less(t, c.TakeTraffic().Longest, time.Second, "later segments must not wait for it")
		backAtTheStore(t, c)
		// And the cursor has stayed: nothing is uploaded a second time (R3).
		require.LessOrEqual(t, uploadedBytes(c, c.Part(0)), c.disk(c.Part(0), 1).log.Size())
	})
	history(t, "H3(3) and R3(a): an event that can never be stored", Config{}, func(t *testing.T, c *Cluster) {
		// Given load, when the metadata log refuses one event for good,
		c.Load(c.Part(0), 40*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		refused := int64(len(c.Events())) + 5
		var poisoned walstorage.SegmentID
		c.RejectEvents(func(e *metadata.Event) bool {
			if e.Sequence == refused && poisoned == (walstorage.SegmentID{}) {
				poisoned = e.Segment.ID // its sequence, certainly not stored, is given back and used again
			}
			return e.Segment.ID == poisoned
		})
		c.Run(3 * time.Second)
		// then the segment is given up, and the events behind it follow.
		require.Equal(t, 1, c.Counts()["given up"])
		c.expectFallbacks(begun, "2 t0 gap", "3 t0 gap")
		require.Less(t, c.TakeTraffic().Longest, time.Second)
		backAtTheStore(t, c)
	})
}

// R3(a): a batch that no segment can hold is given up at once, and drags nothing with it.
func TestR3PoisonBatch(t *testing.T) {
	t.Parallel()
	cfg := Config{Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}}, Leader: func(_ int32, cfg *leader.Config) {
		cfg.TargetBytes, cfg.MaxBytes = 8<<10, 16<<10
	}}
	history(t, "R3(a)", cfg, func(t *testing.T, c *Cluster) {
		p, q := c.Part(0), c.Part(1)
		c.Load(p, 40*time.Millisecond, AcksAll)
		c.Load(q, 40*time.Millisecond, AcksAll)
		c.Run(time.Second)
		begun := c.Now()
		// Given two partitions in the same segments, when a batch of one is larger than any segment,
		c.ProduceSized(p, 40<<10)
		c.Run(3 * time.Second)
		// then its followers fetch it, once, and come back; the other partition never notices.
		c.expectFallbacks(begun, "2 t0 gap", "3 t0 gap")
		require.Equal(t, 1, c.Counts()["skip: "+string(leader.SkipTooLarge)])
		backAtTheStore(t, c)
	})
}

// H5: an event has a size limit: a segment closes before it (L8).
func TestH5EventsStaySmall(t *testing.T) {
	t.Parallel()
	var all [][]int32
	for range 30 {
		all = append(all, []int32{1, 2})
	}
	const limit = 4 << 10
	cfg := Config{Brokers: 2, Replicas: all, Leader: func(_ int32, cfg *leader.Config) { cfg.MaxEventBytes, cfg.MaxSlices = limit, 25 }}
	history(t, "H5", cfg, func(t *testing.T, c *Cluster) {
		c.TakeTraffic()
		// Given many partitions, all dirty at once, when they are uploaded,
		for range 20 {
			for _, part := range c.parts {
				c.Produce(part, 1)
			}
			c.Run(40 * time.Millisecond)
		}
		c.AwaitConverged(time.Second)
		// then no event is larger than the limit, and all came through the store.
		for _, e := range c.Events() {
			data, err := e.AppendBinary(nil)
			require.NoError(t, err)
			require.LessOrEqual(t, len(data), limit)
			require.LessOrEqual(t, e.Segment.Slices(), 25)
		}
		require.Zero(t, c.TakeTraffic().FetchBatches)
		require.Positive(t, c.Counts()["sealed by full"])
	})
}

// R12: what sequences mean at the edges (M3, L3, F6).
func TestR12Sequences(t *testing.T) {
	t.Parallel()
	history(t, "R12(a) the first event seen sets the base", Config{}, func(t *testing.T, c *Cluster) {
		// Given a follower that starts when its leader is at sequence 100 or so, then it misses nothing.
		c.Load(c.Part(0), 10*time.Millisecond, AcksAll)
		c.Run(time.Second)
		c.Kill(3)
		c.Restart(3)
		c.Run(2 * time.Second)
		require.Zero(t, c.Counts()["gap: missing"])
		require.Empty(t, c.Fallbacks(0))
	})
	history(t, "R12(b) a gap before the first event of a leader", Config{}, func(t *testing.T, c *Cluster) {
		// Given a follower that has never had an event of its leader, when the first is corrupt, then it knows that it
		// concerns it.
		begun := c.Now()
		c.SpoilEvent(2, Corrupt)
		c.Produce(c.Part(0), 1)
		c.AwaitConverged(stalled)
		c.expectFallbacks(begun, "2 t0 gap")
	})
	history(t, "R12(c) an unsettled sequence is never used again", Config{}, func(t *testing.T, c *Cluster) {
		// Given a metadata log without answers for longer than GiveUpAfter, when it works again, then readers miss the
		// sequences given up; none of them comes back with another segment, which every publication is checked for.
		c.Load(c.Part(0), 100*time.Millisecond, AcksAll)
		c.Run(time.Second)
		c.MetadataDown(1)
		c.Run(9 * time.Second)
		c.MetadataUp(1)
		c.Run(5 * time.Second)
		require.Positive(t, c.Counts()["given up"])
		require.Positive(t, c.Counts()["gap: missing"])
		backAtTheStore(t, c)
	})
	history(t, "R12(d) the subscription is fixed before the first fetch", Config{}, func(t *testing.T, c *Cluster) {
		// Given a metadata log on which it takes long to subscribe, when a follower starts under load, then nothing falls
		// between its first fetch and its subscription.
		c.SubscribeTakes(300 * time.Millisecond)
		c.Load(c.Part(0), 10*time.Millisecond, AcksAll)
		c.Kill(3)
		c.Restart(3)
		c.Run(3 * time.Second)
		require.Empty(t, c.Fallbacks(0))
		require.Zero(t, c.Counts()["gap: missing"])
		require.Equal(t, follower.Replicating, c.State(c.Part(0), 3).Kind)
	})
}

// N4, L6, redpanda-data/redpanda#4007: small ones: what lands late, what a zombie writes.
func TestN4LateLandingsAndZombies(t *testing.T) {
	t.Parallel()
	history(t, "N4 uploads that time out and land later", Config{}, func(t *testing.T, c *Cluster) {
		// Given uploads of which many fail and land later, when their retries meet them, then nothing is lost or doubled.
		c.Weather(Faults{PutLandsLate: 0.3, PutAnswerLost: 0.2})
		p := c.Load(c.Part(0), 20*time.Millisecond, AcksAll)
		c.Run(10 * time.Second)
		c.Weather(Faults{})
		p.Stop()
		c.AwaitConverged(2 * stalled)
		require.Positive(t, c.Counts()["object late"])
		require.Positive(t, c.Counts()["answer lost"])
	})
	history(t, "N4 a zombie leader", Config{}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given a leader that does not hear that it is none any more,
		c.Produce(part, 5)
		c.AwaitConverged(stalled)
		c.Isolate(1)
		c.Elect(part, 2)
		// when it goes on to write and publish beside the new one,
		for range 20 {
			require.NoError(t, c.ProduceAt(1, part, 2))
			c.Produce(part, 1)
			c.Run(20 * time.Millisecond)
		}
		// then followers of the new epoch use none of it, and the zombie loses it once it hears.
		require.Equal(t, int64(25), c.LEO(part, 2))
		require.GreaterOrEqual(t, c.LEO(part, 3), int64(23))
		c.Reconnect(1)
		c.AwaitConverged(stalled)
		require.Equal(t, int64(25), c.LEO(part, 1))
	})
}
