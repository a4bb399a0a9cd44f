package follower_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

func newLog() *memory.Log { return memory.New(memory.Config{}) }

// redpanda-data/redpanda#29810, F4, R10: downloads run in parallel and end in any order; appends are in order, and an append
// does not throw away what is on its way.
func TestParallelFetchOrderedAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		gates := map[int]chan struct{}{1: make(chan struct{}), 2: make(chan struct{}), 3: make(chan struct{})}
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method != "Get" {
				return storemem.Fault{}
			}
			return storemem.Fault{Wait: gates[call.Number]}
		})
		for range 3 {
			g.produce(p, 10)
			g.after(time.Millisecond)
		}
		require.Equal(t, 3, g.driver.Calls("Get"), "all are under way at once")
		ends := []int64{}
		for _, gate := range []int{3, 1, 2} {
			close(gates[gate])
			g.after(time.Millisecond)
			end, _ := log.End()
			ends = append(ends, end)
		}
		require.Equal(t, []int64{0, 10, 30}, ends)
		require.Equal(t, 3, g.driver.Calls("Get"), "none is fetched twice")
		require.Empty(t, g.fallbacks())
		g.equal(p, log)
	})
}

// redpanda-data/redpanda#29810, F4: the fetch of the second of three fails once. Nothing of the third is appended before the
// second is there, and the third is not fetched again.
func TestOrderWhenAFetchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		gate := make(chan struct{})
		second := 0
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method != "Get" || call.Number != 2 && call.Number <= 3 {
				return storemem.Fault{}
			}
			if second++; second == 1 {
				return storemem.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, nil)}
			}
			return storemem.Fault{Wait: gate}
		})
		for range 3 {
			g.produce(p, 10)
			g.after(time.Microsecond)
		}
		g.after(100 * time.Millisecond)
		end, _ := log.End()
		require.EqualValues(t, 10, end)
		require.Positive(t, g.r.Stats().ParkedBytes)
		close(gate)
		g.after(10 * time.Millisecond)
		g.equal(p, log)
		require.Equal(t, 4, g.driver.Calls("Get"))
		require.Empty(t, g.fallbacks())
	})
}

// AutoMQ/automq#2377: the order of segments is never taken from their names. A leader whose clock runs backwards gives
// each segment an id that sorts below the one before; the offsets in the events count.
func TestOrderIsNotTakenFromNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		gate := make(chan struct{})
		g.driver.Fault(func(storemem.Call) storemem.Fault { return storemem.Fault{Wait: gate} })
		now := time.Now()
		var before string
		for n := range 5 {
			from, to := g.append(p, 3)
			id, err := walstorage.NewSegmentID(leaderID, 0, now.Add(-time.Duration(n)*time.Hour), g.random)
			require.NoError(t, err)
			if n > 0 {
				require.Less(t, g.keyOf(id), before)
			}
			before = g.keyOf(id)
			object, md := g.build(cluster, id, part{partition: p, from: from, to: to})
			g.driver.Store().Put(before, object, now)
			g.announce(&metadata.Event{ObjectSize: int64(len(object)), Segment: *md})
		}
		close(gate)
		g.after(100 * time.Millisecond)
		g.equal(p, log)
		require.Empty(t, g.fallbacks())
		require.EqualValues(t, 5, g.r.Stats().Appends)
	})
}

// N1, F4: parked segments fill the bound while the lowest one's fetch has failed once. It is admitted all the same, and the
// parked ones yield.
func TestParkingDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, func(c *follower.Config) { c.MaxParkedBytes = 2000 })
		defer g.close()
		gate := make(chan struct{})
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method == "Get" && call.Number == 1 {
				return storemem.Fault{Wait: gate, FlipBit: 8 * 100}
			}
			return storemem.Fault{}
		})
		for range 20 {
			g.produce(p, 5)
			g.after(time.Millisecond)
		}
		require.LessOrEqual(t, g.r.Stats().ParkedBytes, int64(2000))
		close(gate)
		g.after(500 * time.Millisecond)
		g.equal(p, log)
		require.Empty(t, g.fallbacks())
	})
}

// F4: a segment larger than the bound is fetched alone, so any number of partitions gets on.
func TestSegmentsLargerThanTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *follower.Config) { c.MaxParkedBytes = 100; c.MaxFetches = 2 })
		defer g.close()
		logs := map[int32]*memory.Log{}
		for i := range int32(8) {
			logs[i] = newLog()
			g.follow(partitionOf(i), 1, logs[i])
		}
		g.after(10 * time.Millisecond)
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			return storemem.Fault{Delay: time.Millisecond}
		})
		for range 5 {
			for i := range int32(8) {
				g.produce(partitionOf(i), 2)
			}
		}
		g.after(300 * time.Millisecond)
		for i := range int32(8) {
			g.equal(partitionOf(i), logs[i])
		}
		require.Empty(t, g.fallbacks())
		require.Less(t, g.r.Stats().ParkedBytes, int64(500), "one segment is left at most, which somebody may still ask for")
	})
}

// What was fetched ahead for a partition that fell back or stopped does not stay in memory.
func TestStaleFetchesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, _, f := follows(t, nil)
		defer g.close()
		g.driver.Fault(storemem.Sequence("Get", storemem.Fault{Err: walstorage.NewError(walstorage.ErrSegmentNotFound, nil)}))
		g.fetcher.latency = 50 * time.Millisecond
		for range 10 {
			g.produce(p, 1)
		}
		g.after(time.Second)
		f.Stop()
		q, log := partitionOf(1), newLog()
		g.follow(q, 1, log)
		g.after(10 * time.Second)
		g.produce(q, 1)
		g.after(time.Second)
		require.Zero(t, g.r.Stats().ParkedBytes)
	})
}

// AutoMQ's report behind L7 of the suite: a buffer goes back to the pool only when every partition has let go of it, so a
// slow log never sees another segment's bytes.
func TestBuffersAreReusedOnlyAfterTheAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		logs := map[int32]*memory.Log{}
		for i := range int32(4) {
			logs[i] = newLog()
			g.follow(partitionOf(i), 1, logs[i])
		}
		g.after(10 * time.Millisecond)
		for range 50 {
			var parts []part
			for i := range int32(4) {
				from, to := g.append(partitionOf(i), 3)
				parts = append(parts, part{partition: partitionOf(i), from: from, to: to})
			}
			g.publish(parts...)
			g.after(time.Millisecond)
		}
		for i := range int32(4) {
			g.equal(partitionOf(i), logs[i])
		}
	})
}

// N1, F4: a segment larger than the bound that a partition needs next is admitted, if need be alone, although others are
// announced without end; what would be fetched ahead waits meanwhile.
func TestLargeSegmentIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *follower.Config) { c.MaxParkedBytes = 2000 })
		defer g.close()
		p, q := partitionOf(0), partitionOf(1)
		log := newLog()
		g.follow(p, 1, log)
		g.follow(q, 1, newLog())
		g.after(10 * time.Millisecond)
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method == "Get" {
				return storemem.Fault{Delay: 10 * time.Millisecond}
			}
			return storemem.Fault{}
		})
		for n := range 150 {
			if n == 50 {
				g.produce(p, 100)
			}
			g.produce(q, 1)
			g.after(4 * time.Millisecond)
		}
		end, _ := log.End()
		require.EqualValues(t, 100, end)
		require.EqualValues(t, 0, g.r.Stats().Fallbacks)
	})
}

// F4: reads that were not ahead, in a burst that had no room, do not keep the room from those that are once they have been
// used: the follower catches up, and keeps up with more than one segment per read's time.
func TestReadsAheadAgainAfterABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, func(c *follower.Config) { c.MaxParkedBytes = 8000 })
		defer g.close()
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method == "Get" {
				return storemem.Fault{Delay: 10 * time.Millisecond}
			}
			return storemem.Fault{}
		})
		for range 60 {
			g.produce(p, 1)
		}
		for range 300 {
			g.produce(p, 1)
			g.after(4 * time.Millisecond)
		}
		got, _ := log.End()
		want, _ := g.leader(p).End()
		require.LessOrEqual(t, want-got, int64(5))
		require.Empty(t, g.fallbacks())
	})
}

// One log that hangs keeps its own segment, and not all that came after it.
func TestHungLogKeepsOneSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		log := &stubLog{append: func(int32) (int64, error) { <-gate; return 1, nil }}
		g, p, _ := followStub(t, log)
		defer g.close()
		defer close(gate)
		g.publish(part{partition: p, bytes: batchtest.Make(0, 5, "value"), from: 0, epoch: 5})
		g.after(10 * time.Millisecond)
		own := g.r.Stats().ParkedBytes

		// given segments that were fetched ahead for q, which was stopped then
		q := partitionOf(1)
		f, err := g.r.Follow(q, leaderID, 5, &stubLog{append: func(int32) (int64, error) { return 0, follower.ErrStale }})
		require.NoError(t, err)
		g.after(10 * time.Millisecond)
		for n := range int64(10) {
			g.publish(part{partition: q, bytes: batchtest.Make(n, 5, "value"), from: n, epoch: 5})
		}
		g.after(10 * time.Millisecond)
		f.Stop()
		require.Greater(t, g.r.Stats().ParkedBytes, 5*own)

		// when something is fetched later
		g.after(5 * time.Second)
		r, err := g.r.Follow(partitionOf(2), leaderID, 5, &stubLog{append: func(int32) (int64, error) { return 1, nil }})
		require.NoError(t, err)
		g.after(10 * time.Millisecond)
		g.publish(part{partition: r.Partition(), bytes: batchtest.Make(0, 5, "value"), from: 0, epoch: 5})
		g.after(10 * time.Millisecond)
		require.LessOrEqual(t, g.r.Stats().ParkedBytes, 2*own)
	})
}

// W5: a buffer that a store may still write to, as it panicked, is never used again.
func TestBufferOfAPanicIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &writesLater{}
		g := newRig(t, func(c *follower.Config) { storage.WalStorageManager = c.Storage; c.Storage = storage })
		defer g.close()
		p, log := partitionOf(0), newLog()
		g.follow(p, 1, log)
		g.after(10 * time.Millisecond)
		for range 20 {
			g.produce(p, 3)
			g.after(100 * time.Millisecond)
		}
		g.equal(p, log)
		require.Positive(t, g.r.Stats().Panics)
		require.Zero(t, storage.reused)
	})
}

// writesLater is a store that panics in every third fetch and keeps the buffer.
type writesLater struct {
	walstorage.WalStorageManager
	calls, reused int
	kept          map[*byte]bool
}

func (s *writesLater) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	if s.kept == nil {
		s.kept = map[*byte]bool{}
	}
	if s.kept[&dst[0]] {
		s.reused++
	}
	if s.calls++; s.calls%3 == 0 {
		s.kept[&dst[0]] = true
		panic("fetch")
	}
	return s.WalStorageManager.FetchSegment(ctx, id, offset, dst)
}

// F4, R10: where a read takes as long as a dozen segments, each is read once, and looking ahead reads none again.
func TestEachSegmentIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method == "Get" {
				return storemem.Fault{Delay: time.Duration(100+call.Number%7*13) * time.Millisecond}
			}
			return storemem.Fault{}
		})
		for range 200 {
			g.produce(p, 1)
			g.after(11 * time.Millisecond)
		}
		g.after(200 * time.Millisecond)
		g.equal(p, log)
		require.Equal(t, 200, g.driver.Calls("Get"))
		require.Empty(t, g.fallbacks())
	})
}

// F4, N1: what is needed next is admitted oldest segment first, whatever order the events come in, and no more than
// MaxFetches at once.
func TestOldestSegmentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *follower.Config) { c.MaxFetches = 1 })
		defer g.close()
		gate := make(chan struct{})
		var order []walstorage.SegmentID
		g.driver.Fault(func(call storemem.Call) storemem.Fault {
			if call.Method != "Get" {
				return storemem.Fault{}
			}
			order = append(order, call.Segment)
			if call.Number == 1 {
				return storemem.Fault{Wait: gate}
			}
			return storemem.Fault{Delay: time.Millisecond}
		})
		var events []*metadata.Event
		for i := range int32(4) {
			g.follow(partitionOf(i), 1, newLog())
			g.after(10 * time.Millisecond)
			g.append(partitionOf(i), 1)
			object, event := g.seal(part{partition: partitionOf(i), from: 0, to: 1})
			g.store(object, event)
			events = append(events, event)
			g.after(10 * time.Millisecond)
		}
		for _, i := range []int{2, 3, 0, 1} {
			g.announce(events[i])
			g.after(10 * time.Millisecond)
		}
		require.Len(t, order, 1)
		close(gate)
		g.after(100 * time.Millisecond)
		require.Equal(t, []walstorage.SegmentID{
			events[2].Segment.ID, events[0].Segment.ID, events[1].Segment.ID, events[3].Segment.ID,
		}, order)
	})
}

// No more than MaxFetches segments are fetched at once, whether they are needed next or read ahead.
func TestMaxFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &counting{}
		g := newRig(t, func(c *follower.Config) {
			c.MaxFetches = 3
			storage.WalStorageManager = c.Storage
			c.Storage = storage
		})
		defer g.close()
		for i := range int32(10) {
			g.follow(partitionOf(i), 1, newLog())
		}
		g.after(10 * time.Millisecond)
		for range 3 {
			for i := range int32(10) {
				g.produce(partitionOf(i), 1)
			}
		}
		g.after(time.Second)
		require.EqualValues(t, 3, storage.most.Load())
		require.EqualValues(t, 30, g.r.Stats().Batches)
	})
}

// counting is a store that counts the fetches under way.
type counting struct {
	walstorage.WalStorageManager
	now, most atomic.Int32
}

func (s *counting) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	now := s.now.Add(1)
	defer s.now.Add(-1)
	s.most.Store(max(s.most.Load(), now))
	sleep(ctx, 10*time.Millisecond)
	return s.WalStorageManager.FetchSegment(ctx, id, offset, dst)
}
