package follower_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// benbjohnson/litestream#1515, benbjohnson/litestream#959, benbjohnson/litestream#1458, redpanda-data/redpanda#12093,
// KAFKA-15388, F5: of three segments the middle one is missing, deleted too early by a rule of the bucket (WarpStream on
// object cleanup) or never stored. The range that it held comes from the
// leader, it is reported once, nothing of the third is appended before, and the third comes from the store.
func TestMissingSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.produce(p, 10)
		from, to := g.append(p, 10)
		object, event := g.seal(part{partition: p, from: from, to: to})
		_ = object // never stored
		g.fetcher.latency = 100 * time.Millisecond
		g.announce(event)
		third := g.produce(p, 10)
		g.after(50 * time.Millisecond)

		end, _ := log.End()
		require.EqualValues(t, 10, end)
		state := f.State()
		require.Equal(t, follower.Fallback, state.Kind)
		require.Equal(t, follower.Missing, state.Reason)
		require.Equal(t, 1, g.r.Stats().InFallback)
		require.EqualValues(t, 10, state.From)
		require.EqualValues(t, 20, state.To)
		require.True(t, f.WantsAnswers())
		var useless *follower.SegmentError
		require.ErrorAs(t, state.Err, &useless)
		require.ErrorIs(t, state.Err, walstorage.ErrSegmentNotFound)
		require.Equal(t, event.Segment.ID, useless.Segment)
		require.Equal(t, [2]int64{10, 20}, [2]int64{useless.From, useless.To})

		g.after(time.Minute)
		g.equal(p, log)
		require.Len(t, g.fallbacks(), 1)
		require.Len(t, g.ranges(), 1)
		require.EqualValues(t, 20, g.ranges()[0].To, "the range's end is fixed when it is asked for")
		require.Zero(t, g.r.Stats().InFallback)
		require.Equal(t, third, g.appended[len(g.appended)-1].Segment, "the fallback ends with an append from the store")
		require.Equal(t, follower.Replicating, f.State().Kind)
		require.LessOrEqual(t, g.driver.Calls("Get"), 3)
	})
}

// KafScale/platform#112, redpanda-data/redpanda#12093: what lies in the store and no event names, an orphan or something
// foreign, moves no log's end. Nobody lists: positions come from events alone.
func TestObjectWithoutEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.produce(p, 2)
		from, to := g.append(p, 3)
		orphan, event := g.seal(part{partition: p, from: from, to: to})
		g.store(orphan, event)
		g.driver.Store().Put(cluster+"/1/README", []byte("foreign"), time.Now())
		g.after(time.Minute)
		end, _ := log.End()
		require.EqualValues(t, 2, end)
		require.Equal(t, follower.Replicating, f.State().Kind)
		require.Zero(t, g.driver.Calls("List"))
	})
}

// KafScale/platform#112, W7, N3: unavailable for a while is no gap, missing and refused are different things, and every
// reason ends in a fallback.
func TestReasonOfTheStore(t *testing.T) {
	for _, test := range []struct {
		kind   error
		reason follower.Reason
		config bool
	}{
		{walstorage.ErrSegmentNotFound, follower.Missing, false},
		{walstorage.ErrUnavailable, follower.StoreUnavailable, false},
		{walstorage.ErrAccessDenied, follower.AccessDenied, true},
		{walstorage.ErrBucketNotFound, follower.AccessDenied, true},
		{walstorage.ErrCorrupt, follower.Corrupt, false},
		{walstorage.ErrInvalidRange, follower.Corrupt, false},
		{nil, follower.StoreUnavailable, false},
	} {
		name := "unclassified"
		if test.kind != nil {
			name = test.kind.Error()
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, _ := follows(t, nil)
				defer g.close()
				g.driver.Fault(func(call storemem.Call) storemem.Fault {
					if call.Method != "Get" {
						return storemem.Fault{}
					}
					if test.kind == nil {
						return storemem.Fault{Err: errRefused}
					}
					return storemem.Fault{Err: walstorage.NewError(test.kind, errRefused)}
				})
				g.produce(p, 2)
				g.after(3 * time.Second)
				g.equal(p, log)
				require.Len(t, g.fallbacks(), 1)
				require.Equal(t, test.reason, g.fallbacks()[0].Reason)
				require.Equal(t, test.config, len(g.config) > 0)

				// and when the store works again the next batch comes from it
				g.driver.Fault(nil)
				g.after(time.Minute)
				g.produce(p, 1)
				g.after(time.Second)
				g.equal(p, log)
				require.EqualValues(t, 1, g.r.Stats().Batches)
			})
		})
	}
	t.Run("unavailable three times, then well", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, p, log, _ := follows(t, nil)
			defer g.close()
			down := storemem.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, errRefused)}
			g.driver.Fault(storemem.Sequence("Get", down, down, down))
			g.produce(p, 2)
			g.after(3 * time.Second)
			g.equal(p, log)
			require.Empty(t, g.fallbacks())
		})
	})
}

// R1, H1(a), "an outage must not become polling": while no event arrives the ranges follow each other at once, whenever an
// answer shows the leader ahead; it is one fallback, however long; the first append from the store ends it.
func TestLeaderCannotUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g.report(ctx, f, 5*time.Millisecond)

		// given a leader that appends and publishes nothing for two minutes
		var worst time.Duration
		for range 120 {
			from, _ := g.append(p, 1)
			begun := time.Now()
			for end, _ := log.End(); end <= from; end, _ = log.End() {
				g.after(time.Millisecond)
			}
			worst = max(worst, time.Since(begun))
			g.after(time.Second)
		}
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Stalled, g.fallbacks()[0].Reason)
		require.LessOrEqual(t, worst, 1100*time.Millisecond, "the first detection is the longest standstill")
		g.equal(p, log)
		for i, r := range g.ranges() {
			require.EqualValues(t, i+1, r.To, "the end of a range is fixed when it is asked for")
		}

		// when it publishes again: one batch is already on its way by the ordinary fetch, then everything is from the store
		before := len(g.ranges())
		for range 10 {
			g.produce(p, 1)
			g.after(100 * time.Millisecond)
		}
		g.equal(p, log)
		require.Equal(t, follower.Replicating, f.State().Kind)
		require.LessOrEqual(t, len(g.ranges())-before, 1)
		require.Len(t, g.fallbacks(), 1)
	})
}

// Section 6, "only the GETs fail": the fallback does not end by reaching the leader's end, so it is reported once, the
// batches come quickly, and holds in vain become rare (R1). After the fault the store is used within the minute.
func TestOnlyTheGetsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g.report(ctx, f, 4*time.Millisecond)
		g.getFails(walstorage.ErrAccessDenied)
		slow := 0
		for range 400 {
			from, _ := g.append(p, 1)
			to := from + 1
			g.publish(part{partition: p, from: from, to: to})
			g.after(10 * time.Millisecond)
			if end, _ := log.End(); end < to {
				slow++
			}
			g.after(990 * time.Millisecond)
		}
		g.equal(p, log)
		require.Len(t, g.fallbacks(), 1)
		require.Less(t, slow, 20, "most batches are there within 10 ms")
		require.Less(t, g.driver.Calls("Get"), 20, "holds in vain become rare")
		vain := g.r.Stats().HoldsInVain
		require.Positive(t, vain)
		require.Less(t, vain, int64(20))
		require.EqualValues(t, 400, g.r.Stats().Entries.Events)

		g.driver.Fault(nil)
		for range 70 {
			g.produce(p, 1)
			g.after(time.Second)
		}
		require.Equal(t, follower.Replicating, f.State().Kind)
		g.equal(p, log)
	})
}

// Section 6, "a hot loop": a leader that refuses at once, or whose log end lies above its last batch, is not asked in a
// loop without pause.
func TestRefusalIsPaced(t *testing.T) {
	t.Run("the leader refuses", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, p, log, f := follows(t, nil)
			defer g.close()
			g.fetcher.set(func(int) error { return errRefused }, false)
			g.append(p, 1)
			f.Observe(1)
			calls := g.fetcher.count()
			g.after(time.Minute)
			require.Less(t, g.fetcher.count()-calls, 90)
			require.Greater(t, g.fetcher.count()-calls, 10)
			g.fetcher.set(nil, false)
			g.after(2 * time.Second)
			g.equal(p, log)
		})
	})
	t.Run("the leader's end lies above its last batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			g := newRig(t, func(c *follower.Config) {
				c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) { calls++; return 7, nil })
			})
			defer g.close()
			p, log := partitionOf(0), memory.New(memory.Config{})
			require.NoError(t, log.Follow(1))
			f, err := g.r.Follow(p, leaderID, 1, log)
			require.NoError(t, err)
			g.after(time.Minute)
			require.Less(t, calls, 90)
			require.Equal(t, follower.Starting, f.State().Kind)
		})
	})
}

// F5: every FetchFromLeader call has a deadline without progress of the log's end.
func TestHungLeaderFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.fetcher.set(nil, true)
		g.append(p, 1)
		f.Observe(1)
		g.after(5 * time.Second)
		require.Greater(t, g.fetcher.count(), 2, "each call was ended")
		require.ErrorContains(t, g.ranges()[0].Err, "no progress")

		// and while the leader hangs the store is used as soon as it has something
		g.publish(part{partition: p, from: 0, to: 1})
		g.after(2 * time.Second)
		g.equal(p, log)
		require.EqualValues(t, 1, g.r.Stats().Batches)
	})
}

// F5: a leader's end seen TooFarBehind ago and not reached is a fallback up to its latest, although appends never stop
// (R7). A follower whose lag is smaller never falls back.
func TestTooFarBehind(t *testing.T) {
	for _, test := range []struct {
		lag  time.Duration
		back bool
	}{{4 * time.Second, false}, {6 * time.Second, true}} {
		t.Run(test.lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, f := follows(t, nil)
				defer g.close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				g.report(ctx, f, 100*time.Millisecond)
				// given a metadata log that is late, by the same time for every event
				g.reader.SetFaults(memlog.Faults{Deliver: func(memlog.Delivery) memlog.DeliveryFault {
					return memlog.DeliveryFault{Delay: test.lag}
				}})
				// the first lag would be a stall, so let Observe see nothing until the first has arrived
				for range 300 {
					g.produce(p, 1)
					g.after(100 * time.Millisecond)
				}
				reasons := map[follower.Reason]int{}
				for _, s := range g.fallbacks() {
					reasons[s.Reason]++
				}
				if test.back {
					require.NotEmpty(t, reasons)
				}
				g.after(10 * time.Second)
				g.equal(p, log)
			})
		})
	}
}

// R11, H1(b): the leader skips forward after an outage; the follower takes the middle from the leader, in a bounded range.
func TestSkipForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		g.produce(p, 5)
		g.append(p, 1000) // never uploaded
		from, to := g.append(p, 5)
		g.publish(part{partition: p, from: from, to: to})
		g.produce(p, 5)
		g.after(time.Second)
		g.equal(p, log)
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Gap, g.fallbacks()[0].Reason)
		require.EqualValues(t, 5, g.fallbacks()[0].From)
		require.EqualValues(t, 1005, g.fallbacks()[0].To)
		require.EqualValues(t, 15, g.r.Stats().Batches)
	})
}

// H1(a), F5: the end of a range is fixed when it is asked for. A fetch takes longer than the leader does from batch to batch,
// so one that goes after the leader's end would never come to it, and the store would be forgotten.
func TestFallbackEndsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g.report(ctx, f, 5*time.Millisecond)
		g.fetcher.latency = 20 * time.Millisecond
		g.produce(p, 5)
		g.append(p, 1) // its event is lost
		for range 100 {
			g.produce(p, 1)
			g.after(5 * time.Millisecond)
		}
		require.Equal(t, follower.Replicating, f.State().Kind, "the fallback goes after the leader's end")
		require.Len(t, g.ranges(), 1)
		require.EqualValues(t, 6, g.ranges()[0].To)
		g.after(10 * time.Millisecond)
		g.equal(p, log)
		require.EqualValues(t, 105, g.r.Stats().Batches)
	})
}

// F5, R7: what counts is when a leader's end was first told, not when the one before it was reached.
func TestTooFarBehindCountsFromTheFirstAnswer(t *testing.T) {
	for _, test := range []struct {
		name  string
		idle  bool // the leader appends nothing after the first tenth of a second
		until time.Duration
	}{
		{"a leader that goes on", false, 5800 * time.Millisecond},
		{"a leader that is idle afterwards", true, 5200 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, _, f := follows(t, nil)
				defer g.close()
				// given five batches, many more a little later, and events that bring one batch in 0.9 s
				begun := time.Now()
				g.append(p, 5)
				f.Observe(5)
				told := int64(5)
				for tick := range 80 {
					if tick > 0 && (tick == 1 || !test.idle) {
						_, told = g.append(p, 20)
						f.Observe(told)
					}
					if tick%9 == 0 {
						n := int64(tick / 9)
						g.publish(part{partition: p, from: n, to: n + 1})
					}
					g.after(100 * time.Millisecond)
					if len(g.fallbacks()) > 0 {
						break
					}
				}
				require.Len(t, g.fallbacks(), 1)
				require.Equal(t, follower.TooFarBehind, g.fallbacks()[0].Reason)
				require.LessOrEqual(t, time.Since(begun), test.until)
			})
		})
	}
}

// F5: while the leader refuses, the appends that the store still brings are not each a fallback of its own, reported and
// answered by another refusal.
func TestTooFarBehindWhileTheLeaderRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.fetcher.set(func(int) error { return errRefused }, false)
		g.append(p, 200)
		f.Observe(200)
		calls := g.fetcher.count()
		for n := range int64(200) {
			g.publish(part{partition: p, from: n, to: n + 1})
			g.after(100 * time.Millisecond)
		}
		g.equal(p, log)
		require.LessOrEqual(t, len(g.fallbacks()), 4)
		require.Less(t, g.fetcher.count()-calls, 20)
	})
}

// F5: the follower holds at the end of a range, not where a call has stopped short of it.
func TestRangeGoesToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.fetcher.each, g.fetcher.latency = 1, 20*time.Millisecond
		g.append(p, 10)
		f.Observe(10)
		g.after(1030 * time.Millisecond)
		require.Equal(t, follower.Fallback, f.State().Kind)
		g.publish(part{partition: p, from: 0, to: 1}) // late, and no help
		g.after(250 * time.Millisecond)
		g.equal(p, log)
		for _, r := range g.ranges() {
			require.EqualValues(t, 10, r.To)
		}
	})
}

// F5, F6: ranges without pause do not wait for an answer where an event shows that the leader is ahead. The leader can't be
// reached any more and the next hold is a minute away, yet the store is looked at after the first refusal.
func TestEventShowsTheLeaderAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g.report(ctx, f, 4*time.Millisecond)
		g.getFails(walstorage.ErrAccessDenied)
		for range 100 {
			g.produce(p, 1)
			g.after(time.Second)
		}
		g.equal(p, log)

		// given the store works again, and the leader's link is cut in both directions
		cancel()
		g.driver.Fault(nil)
		g.fetcher.set(func(int) error { return errRefused }, false)
		g.after(10 * time.Millisecond)
		g.produce(p, 1)
		g.after(time.Second)
		g.equal(p, log)
		require.EqualValues(t, 1, g.r.Stats().Batches)
	})
}

// Section 6, "a hot loop": a fetch that answers at once and brings nothing is paced, whatever the reports tell meanwhile.
func TestFetchThatBringsNothingIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := newRig(t, func(c *follower.Config) {
			c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) { calls++; return 0, nil })
		})
		defer g.close()
		p, log := partitionOf(0), newLog()
		require.NoError(t, log.Follow(1))
		f, err := g.r.Follow(p, leaderID, 1, log)
		require.NoError(t, err)
		for range 5_000 {
			f.Observe(5)
			g.after(time.Millisecond)
		}
		require.Greater(t, calls, 5)
		require.Less(t, calls, 15)
	})
}

// F6: whatever comes after the first answer of a range is in an event, also where the call has put the log's end back, so
// that the event lies below where the end was when it came.
func TestEventDuringATruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		var g *rig
		p := partitionOf(0)
		calls := 0
		g = newRig(t, func(c *follower.Config) {
			c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) {
				if calls++; calls == 1 {
					return 10, nil
				}
				log.TruncateTo(5) // the leader's end
				g.publish(part{partition: p, bytes: batchtest.Make(5, 1, "a", "b"), from: 5, epoch: 1})
				time.Sleep(50 * time.Millisecond)
				return 5, nil
			})
		})
		defer g.close()
		for n := range int64(10) {
			require.NoError(t, log.AppendRaw(context.Background(), batchtest.Make(n, 1, "value")))
		}
		require.NoError(t, log.Follow(1))
		f, err := g.r.Follow(p, leaderID, 1, log)
		require.NoError(t, err)
		g.after(10 * time.Millisecond)
		f.Diverged()
		g.after(60 * time.Millisecond)
		end, _ := log.End()
		require.EqualValues(t, 7, end)
		require.EqualValues(t, 1, g.r.Stats().Batches)
	})
}

// F5, R1: an event of another epoch is not one that the store could help with. While only a zombie's events come, ranges
// follow each other at once.
func TestZombieEventsAreNoArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := partitionOf(0), newLog()
		f := g.follow(p, 2, log)
		g.after(10 * time.Millisecond)
		g.append(p, 1)
		f.Observe(1)
		g.after(1100 * time.Millisecond)
		require.Equal(t, follower.Fallback, f.State().Kind)
		for n := range int64(20) {
			g.publish(part{partition: p, bytes: batchtest.Make(n, 1, "zombie"), from: n, epoch: 1})
			_, to := g.append(p, 1)
			f.Observe(to)
			g.after(10 * time.Millisecond)
			g.equal(p, log)
		}
	})
}

// F5, R1, section 6: an event that comes too late to help has arrived all the same, so a trickling partition sends one
// batch by ordinary fetch in a fallback, then none: it holds for the store.
func TestTricklingPartitionComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		from, to := g.append(p, 1)
		f.Observe(to)
		g.after(1100 * time.Millisecond)
		g.publish(part{partition: p, from: from, to: to})
		for range 20 {
			g.after(2500 * time.Millisecond)
			from, to := g.append(p, 1)
			f.Observe(to)
			g.after(40 * time.Millisecond)
			g.publish(part{partition: p, from: from, to: to})
		}
		g.after(time.Second)
		g.equal(p, log)
		require.Len(t, g.ranges(), 1)
		require.Len(t, g.fallbacks(), 1)
		require.EqualValues(t, 20, g.r.Stats().Batches)
	})
}

// R1, F5: what doubles is the time between two holds, never the hold. Every event comes, and comes too late, for three
// minutes: each hold is in vain, and none lasts longer than StallAfter, else the follower would be out of the ISR.
func TestHoldStaysShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g.report(ctx, f, 20*time.Millisecond)
		g.reader.SetFaults(memlog.Faults{Deliver: func(memlog.Delivery) memlog.DeliveryFault {
			return memlog.DeliveryFault{Delay: 10 * time.Second}
		}})
		stood, worst := time.Duration(0), time.Duration(0)
		last := int64(0)
		for range 1_800 {
			g.produce(p, 1)
			g.after(100 * time.Millisecond)
			if end, _ := log.End(); end != last {
				last, stood = end, 0
				continue
			}
			stood += 100 * time.Millisecond
			worst = max(worst, stood)
		}
		require.GreaterOrEqual(t, g.r.Stats().HoldsInVain, int64(6))
		require.LessOrEqual(t, worst, 1200*time.Millisecond, "a hold is longer than StallAfter")
	})
}

// F5: an append from the store resets the time between holds, so that a short trouble after a long one is over soon.
func TestAppendResetsTheHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g.report(ctx, f, 50*time.Millisecond)
		outage := func(ticks int) {
			g.getFails(walstorage.ErrAccessDenied)
			for range ticks {
				g.produce(p, 1)
				g.after(500 * time.Millisecond)
			}
			require.Equal(t, follower.Fallback, f.State().Kind)
			g.driver.Fault(nil)
		}
		outage(240)
		for f.State().Kind == follower.Fallback {
			g.produce(p, 1)
			g.after(500 * time.Millisecond)
		}
		outage(4)
		for range 8 {
			g.produce(p, 1)
			g.after(500 * time.Millisecond)
		}
		require.Equal(t, follower.Replicating, f.State().Kind)
		g.equal(p, log)
	})
}

// F5: the deadline of a call is without progress of the log's end; a long range that goes on is not cut.
func TestLongRangeIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, calls := newLog(), 0
		g := newRig(t, func(c *follower.Config) {
			c.Leader = fetcherFunc(func(ctx context.Context, _ int64) (int64, error) {
				calls++
				for n := range int64(10) {
					if !sleep(ctx, 600*time.Millisecond) {
						return 10, ctx.Err()
					}
					if err := log.AppendAsFollower(ctx, 1, n, batchtest.Make(n, 1, "value")); err != nil {
						return 10, err
					}
				}
				return 10, nil
			})
		})
		defer g.close()
		require.NoError(t, log.Follow(1))
		f, err := g.r.Follow(partitionOf(0), leaderID, 1, log)
		require.NoError(t, err)
		g.after(6100 * time.Millisecond)
		require.Equal(t, follower.Replicating, f.State().Kind)
		require.Equal(t, 1, calls)
	})
}

// F5: a segment that was missing, to whoever needed it or to who read ahead, is asked for again at the next look, and its
// failure keeps no memory.
func TestFailedReadIsRepeated(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		t.Run(fmt.Sprintf("read ahead: %t", ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, f := follows(t, nil)
				defer g.close()
				g.fetcher.set(func(int) error { return errRefused }, false)
				gate := make(chan struct{})
				g.driver.Fault(func(call storemem.Call) storemem.Fault {
					if call.Method == "Get" && call.Number == 1 && ahead {
						return storemem.Fault{Wait: gate}
					}
					return storemem.Fault{}
				})
				if ahead {
					g.produce(p, 1)
				}
				from, to := g.append(p, 2)
				object, event := g.seal(part{partition: p, from: from, to: to})
				g.announce(event)
				g.after(10 * time.Millisecond)
				if ahead {
					close(gate)
					g.after(10 * time.Millisecond)
				}
				require.Equal(t, follower.Missing, f.State().Reason)
				require.Zero(t, g.r.Stats().ParkedBytes)
				g.store(object, event)
				g.after(60 * time.Millisecond)
				g.equal(p, log)
			})
		})
	}
}
