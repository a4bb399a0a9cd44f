package follower_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// F6, C2d to C2f: an event that never comes is noticed StallAfter after an answer first showed the leader ahead.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.after(time.Hour) // an idle partition stalls never
		require.Empty(t, g.fallbacks())

		g.append(p, 2)
		f.Observe(2)
		g.after(999 * time.Millisecond)
		require.Empty(t, g.fallbacks())
		g.after(10 * time.Millisecond)
		require.Len(t, g.fallbacks(), 1, "StallAfter has passed")
		require.Equal(t, follower.Stalled, g.fallbacks()[0].Reason)
		g.equal(p, log)
	})
}

// R6: one batch per 2.5 s at a latency of 30 ms never stalls, whatever the cadence of the answers: the last append is
// always older than StallAfter, but the log end moves soon after the leader was seen ahead.
func TestTricklingPartitionDoesNotStall(t *testing.T) {
	for _, cadence := range []time.Duration{7 * time.Millisecond, 101 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		t.Run(cadence.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, f := follows(t, nil)
				defer g.close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				g.report(ctx, f, cadence)
				for range 100 {
					from, to := g.append(p, 1)
					g.after(30 * time.Millisecond)
					g.publish(part{partition: p, from: from, to: to})
					g.after(2470 * time.Millisecond)
				}
				g.equal(p, log)
				require.Empty(t, g.fallbacks())
			})
		})
	}
}

// F6, M3, H4: on a gap in the metadata log the partitions of that broker that are behind do not wait for StallAfter; those
// that are not behind do nothing.
func TestLostEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, q := partitionOf(0), partitionOf(1)
		log, idle := newLog(), newLog()
		f := g.follow(p, 1, log)
		g.follow(q, 1, idle)
		g.after(10 * time.Millisecond)
		g.produce(q, 1)
		g.after(10 * time.Millisecond)

		// given the event of p is unreadable and p is behind
		g.reader.SetFaults(memlog.Faults{Deliver: func(d memlog.Delivery) memlog.DeliveryFault {
			return memlog.DeliveryFault{Corrupt: true}
		}})
		g.append(p, 1)
		f.Observe(1)
		g.publish(part{partition: p, from: 0, to: 1})
		g.after(10 * time.Millisecond)

		g.equal(p, log)
		g.equal(q, idle)
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Gap, g.fallbacks()[0].Reason)
		require.EqualValues(t, 1, g.r.Stats().Gaps)
	})
}

// A segment on its way does not hide a standstill: a GET that never ends is Stalled like any other.
func TestHungGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			return storemem.Fault{Hang: call.Method == "Get"}
		})
		g.produce(p, 1)
		f.Observe(1)
		g.after(1100 * time.Millisecond)
		g.equal(p, log)
		require.Equal(t, follower.Stalled, g.fallbacks()[0].Reason)
	})
}

// F6, estuary/flow#3092: in one epoch the leader's end only grows. An answer that was overtaken by another one, or by an
// ordinary fetch, does not hide what the leader is known to have, and a standstill is counted on from where it began.
func TestOvertakenAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.append(p, 2)
		f.Observe(2)
		g.after(500 * time.Millisecond)
		f.Observe(0)
		g.after(510 * time.Millisecond)
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Stalled, g.fallbacks()[0].Reason)
		g.equal(p, log)

		// and what an answer shows while a range is under way is asked for at once after it, without another answer
		g.append(p, 1)
		g.fetcher.latency = 20 * time.Millisecond
		f.Observe(3)
		g.after(10 * time.Millisecond)
		g.append(p, 1)
		f.Observe(4)
		g.fetcher.overtaken(3)
		g.after(40 * time.Millisecond)
		g.equal(p, log)
	})
}

// H4: a partition that is not behind when a gap comes does nothing, and keeps no grudge: an hour later, when its next batch
// is seen in an answer before its event arrives, it waits for the event.
func TestGapLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, q := partitionOf(0), partitionOf(1)
		log := newLog()
		f := g.follow(p, 1, log)
		g.follow(q, 1, newLog())
		g.after(10 * time.Millisecond)
		g.reader.SetFaults(memlog.Faults{Deliver: func(d memlog.Delivery) memlog.DeliveryFault {
			return memlog.DeliveryFault{Corrupt: true}
		}})
		g.produce(q, 1)
		g.after(time.Millisecond)
		g.reader.SetFaults(memlog.Faults{})
		g.produce(q, 1)
		g.after(time.Hour)
		require.EqualValues(t, 1, g.r.Stats().Gaps)
		require.Len(t, g.fallbacks(), 1, "q lacks what was lost")

		from, to := g.append(p, 1)
		f.Observe(to)
		g.after(40 * time.Millisecond)
		g.publish(part{partition: p, from: from, to: to})
		g.after(10 * time.Millisecond)
		g.equal(p, log)
		require.Len(t, g.fallbacks(), 1)
	})
}

// F6: a move that leaves the follower behind starts the count anew, without another answer.
func TestStalledAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.append(p, 10)
		f.Observe(10)
		g.after(600 * time.Millisecond)
		g.publish(part{partition: p, from: 0, to: 5})
		g.after(900 * time.Millisecond)
		require.Empty(t, g.fallbacks())
		g.after(200 * time.Millisecond)
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Stalled, g.fallbacks()[0].Reason)
		require.EqualValues(t, 5, g.fallbacks()[0].From)
		g.equal(p, log)
	})
}

// F6, M3: a gap of another broker is no reason, nor is one that an event of the partition has come after: if that event does
// not continue the log, its offsets say so.
func TestGapOfOthers(t *testing.T) {
	t.Run("another broker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, p, _, f := follows(t, nil)
			defer g.close()
			g.produce(p, 1)
			g.after(10 * time.Millisecond)
			g.append(p, 1)
			f.Observe(2)
			third, err := g.topic.Open(memlog.Options{Broker: 3})
			require.NoError(t, err)
			_, event := g.seal(part{partition: partitionOf(1), bytes: batchtest.Make(0, 1, "value"), epoch: 1})
			event.Segment.ID.BrokerID = 3
			g.reader.SetFaults(memlog.Faults{Deliver: func(memlog.Delivery) memlog.DeliveryFault {
				return memlog.DeliveryFault{Corrupt: true}
			}})
			_, err = third.Publish(context.Background(), event)
			require.NoError(t, err)
			g.after(500 * time.Millisecond)
			require.EqualValues(t, 1, g.r.Stats().Gaps)
			require.Empty(t, g.fallbacks())
			require.NoError(t, third.Close())
		})
	})
	t.Run("an event has come since", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, p, log, f := follows(t, nil)
			defer g.close()
			g.reader.SetFaults(memlog.Faults{Deliver: func(memlog.Delivery) memlog.DeliveryFault {
				return memlog.DeliveryFault{Corrupt: true}
			}})
			g.publish(part{partition: partitionOf(1), bytes: batchtest.Make(0, 1, "value"), epoch: 1})
			g.after(10 * time.Millisecond)
			g.reader.SetFaults(memlog.Faults{})
			g.produce(p, 1)
			g.after(10 * time.Millisecond)
			from, to := g.append(p, 1)
			f.Observe(to)
			g.after(40 * time.Millisecond)
			g.publish(part{partition: p, from: from, to: to})
			g.after(10 * time.Millisecond)
			g.equal(p, log)
			require.Empty(t, g.fallbacks())
		})
	})
}

// F6: a subscription that ends is begun anew, and what was published between is a gap of every broker.
func TestSubscriptionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &cutLog{}
		g := newRig(t, func(c *follower.Config) { cut.Log = c.Metadata; c.Metadata = cut })
		defer g.close()
		p, log := partitionOf(0), newLog()
		f := g.follow(p, 1, log)
		g.after(10 * time.Millisecond)
		cut.now()
		g.produce(p, 1)
		f.Observe(1)
		g.after(200 * time.Millisecond)
		g.equal(p, log)
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Gap, g.fallbacks()[0].Reason)
		g.produce(p, 1)
		g.after(10 * time.Millisecond)
		g.equal(p, log)
		require.EqualValues(t, 1, g.r.Stats().Batches)
	})
}

// cutLog is a metadata log whose subscription can be ended.
type cutLog struct {
	metadata.Log
	mu   sync.Mutex
	last metadata.Subscription
}

func (c *cutLog) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	sub, err := c.Log.Subscribe(ctx, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = sub
	return sub, err
}

func (c *cutLog) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.last.Close()
}
