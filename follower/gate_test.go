package follower_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// The way of every batch: first the ordinary fetch of what was there, then everything through the store.
func TestReplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a leader with two partitions that hold something, and nothing of it published
		g := newRig(t, nil)
		defer g.close()
		p, q := partitionOf(0), partitionOf(1)
		g.lead(p, 1)
		g.lead(q, 1)
		g.append(p, 3)
		g.append(q, 1)
		logP, logQ := memory.New(memory.Config{}), memory.New(memory.Config{})

		// when both are followed and segments of both arrive
		f := g.follow(p, 1, logP)
		g.follow(q, 1, logQ)
		g.after(10 * time.Millisecond)
		require.Equal(t, follower.Replicating, f.State().Kind)
		for range 5 {
			fromP, toP := g.append(p, 4)
			fromQ, toQ := g.append(q, 2)
			g.publish(part{partition: p, from: fromP, to: toP}, part{partition: q, from: fromQ, to: toQ})
		}
		g.after(10 * time.Millisecond)

		// then the logs are equal, everything new came from the store, and each segment was fetched once for both (F4)
		g.equal(p, logP)
		g.equal(q, logQ)
		stats := g.r.Stats()
		require.EqualValues(t, 5*(4+2), stats.Batches)
		require.EqualValues(t, 5, stats.SegmentFetches)
		require.Equal(t, 5, g.driver.Calls("Get"))
		require.Empty(t, g.fallbacks())
		require.Empty(t, g.ranges())
		require.Zero(t, stats.ParkedBytes)
	})
}

// F6, R5: nothing is appended from the store before one ordinary answer of the epoch has not diverged; a first fetch that
// fails is repeated with pause, and the gate stays shut.
func TestGateStaysShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := partitionOf(0)
		log := memory.New(memory.Config{})
		g.fetcher.set(func(int) error { return errRefused }, false)
		f := g.follow(p, 1, log)
		g.after(time.Millisecond)

		// given an event that continues the log exactly
		g.produce(p, 1)
		g.after(5 * time.Second)
		end, _ := log.End()
		require.Zero(t, end)
		require.Equal(t, follower.Starting, f.State().Kind)
		require.ErrorIs(t, f.State().Err, errRefused)
		require.True(t, f.WantsAnswers())
		calls := g.fetcher.count()
		require.Greater(t, calls, 3)
		require.Less(t, calls, 20, "a failed first fetch is repeated with pause")

		// when the leader answers
		g.fetcher.set(nil, false)
		g.after(2 * time.Second)

		// then the gate is open
		require.Equal(t, follower.Replicating, f.State().Kind)
		g.equal(p, log)
	})
}

// C2a: the event of a new topic arrives before the broker follows it, and is dropped; what it announced is in the first
// fetch, without any further event. C2c, C2g: the same for an idle partition.
func TestPublishedBeforeFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := partitionOf(0)
		g.lead(p, 1)
		g.produce(p, 3)
		g.after(time.Second)

		log := memory.New(memory.Config{})
		f := g.follow(p, 1, log)
		g.after(10 * time.Millisecond)

		g.equal(p, log)
		require.Equal(t, follower.Replicating, f.State().Kind)
		require.Empty(t, g.fallbacks())
	})
}

// C3: a follower with a record that the leader never had is told the new epoch; the event of that epoch continues its log
// by offset, and is of the current epoch. Without the gate it would be appended on top of the stale record.
func TestStaleTailIsTruncatedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := partitionOf(0)
		// given the follower's log has a record of epoch 1 at offset 0
		log := memory.New(memory.Config{})
		require.NoError(t, log.AppendRaw(context.Background(), batchtest.Make(0, 1, "unreplicated")))
		// and the leader of epoch 2 two others, with a slow answer to the first fetch
		g.lead(p, 2)
		g.append(p, 2)
		g.fetcher.latency = 300 * time.Millisecond
		g.follow(p, 2, log)
		g.after(time.Millisecond)

		// when the event arrives first
		g.publish(part{partition: p, from: 0, to: 2})
		g.after(100 * time.Millisecond)
		end, epoch := log.End()
		require.EqualValues(t, 1, end)
		require.EqualValues(t, 1, epoch)

		// then nothing is appended until the answer has truncated
		g.after(time.Second)
		g.equal(p, log)
	})
}

// C3, F6: the log ends exactly where the epoch began, its record at that end is another than the leader's. The lineage says
// nothing here, offset and epoch of the event fit: the gate alone keeps it from being appended on top.
func TestStaleTailAtTheEpochsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := partitionOf(0)
		log := memory.New(memory.Config{})
		require.NoError(t, log.AppendRaw(context.Background(), batchtest.Make(0, 1, "unreplicated")))
		g.lead(p, 2)
		g.append(p, 1)
		g.lead(p, 3) // from offset 1 on
		g.append(p, 1)
		g.fetcher.latency = 300 * time.Millisecond
		f := g.follow(p, 3, log)
		g.after(time.Millisecond)

		g.publish(part{partition: p, from: 1, to: 2})
		g.after(100 * time.Millisecond)
		end, epoch := log.End()
		require.EqualValues(t, 1, end, "nothing is appended before the first answer")
		require.EqualValues(t, 1, epoch)

		g.after(time.Second)
		g.equal(p, log)
		require.Equal(t, follower.Replicating, f.State().Kind)
	})
}

// F6: a metadata log that cannot be subscribed to keeps nobody from following; what is missed shows as Stalled.
func TestFollowsWithoutMetadataLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		require.NoError(t, g.reader.Close()) // every Subscribe and Next fails from now on
		p := partitionOf(0)
		log := memory.New(memory.Config{})
		f := g.follow(p, 1, log)
		g.after(2 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		g.report(ctx, f, 10*time.Millisecond)
		for range 20 {
			g.produce(p, 1)
			g.after(500 * time.Millisecond)
		}
		cancel()
		g.equal(p, log)
		require.Len(t, g.fallbacks(), 1)
		require.Equal(t, follower.Stalled, g.fallbacks()[0].Reason)
	})
}

// lateLog is a metadata log that can't be read before it is ready.
type lateLog struct {
	metadata.Log
	ready chan struct{} // closed when it is
	waits bool          // Subscribe waits for that, else it fails
	calls atomic.Int32
}

var errNotReady = errors.New("not ready")

func (l *lateLog) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	l.calls.Add(1)
	if l.waits {
		select {
		case <-l.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case <-l.ready:
		return l.Log.Subscribe(ctx, from)
	default:
		return nil, errNotReady
	}
}

// KAFKA-19523, KAFKA-19599, KAFKA-19425: a metadata log that is not ready yet says nothing about what there is to
// replicate, so the ordinary fetch replicates it (F6). Whoever waits is not in a loop without pause, it is told to the
// operator, and once the log is ready the next event is used.
func TestMetadataLogThatIsNotReadyYet(t *testing.T) {
	for name, waits := range map[string]bool{"it fails": false, "it does not answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, failures := &lateLog{ready: make(chan struct{}), waits: waits}, atomic.Int32{}
				g := newRig(t, func(c *follower.Config) {
					log.Log, c.Metadata = c.Metadata, log
					c.Hooks.MetadataError = func(err error) {
						assert.ErrorIs(t, err, errNotReady)
						failures.Add(1)
					}
				})
				defer g.close()
				p, own := partitionOf(0), newLog()
				g.lead(p, 1)
				g.append(p, 5)
				f := g.follow(p, 1, own)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				g.report(ctx, f, 10*time.Millisecond)

				// given a minute in which nothing can be read of the log
				g.after(2 * time.Second)
				g.equal(p, own)
				for range 58 {
					g.append(p, 1)
					g.after(time.Second)
				}
				if waits {
					require.EqualValues(t, 1, log.calls.Load())
				} else {
					require.Less(t, log.calls.Load(), int32(130), "about two a second")
					require.Equal(t, log.calls.Load(), failures.Load())
				}
				require.Less(t, g.fetcher.count(), 80)

				// when it is ready
				close(log.ready)
				g.after(2 * time.Second)
				g.equal(p, own)
				for range 70 {
					g.produce(p, 1)
					g.after(time.Second)
				}

				// then the store is used, and nothing was missed
				g.equal(p, own)
				require.Equal(t, follower.Replicating, f.State().Kind)
				require.Positive(t, g.r.Stats().Batches)
			})
		})
	}
}

// F6, F7: a diverging report shuts the gate whenever it comes, also between a fallback for another reason and its fetch.
func TestDivergedOnTheWayToTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *follower.Following
		g := newRig(t, func(c *follower.Config) {
			note := c.Hooks.StateChanged
			c.Hooks.StateChanged = func(p segment.TopicIDPartition, s follower.State) {
				note(p, s)
				if s.Kind == follower.Fallback {
					f.Diverged()
				}
			}
		})
		defer g.close()
		p, log := partitionOf(0), newLog()
		f = g.follow(p, 1, log)
		g.after(10 * time.Millisecond)
		g.fetcher.set(func(int) error { return errRefused }, false)

		// given a fallback for a segment that is there a little later
		g.append(p, 2)
		object, event := g.seal(part{partition: p, from: 0, to: 2})
		g.announce(event)
		g.after(10 * time.Millisecond)
		require.Equal(t, follower.Missing, f.State().Reason)
		g.store(object, event)

		// then nothing is appended from the store until the leader has answered
		g.after(5 * time.Second)
		end, _ := log.End()
		require.Zero(t, end)
		g.fetcher.set(nil, false)
		g.after(2 * time.Second)
		g.equal(p, log)
	})
}

// F6, S1(b): a fetch that has truncated, and failed before an answer that did not diverge, leaves the gate shut, although it
// had been open in this epoch.
func TestFailedFetchThatTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Bool
		log, calls := newLog(), 0
		g := newRig(t, func(c *follower.Config) {
			c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) {
				if calls++; calls == 1 || answers.Load() {
					end, _ := log.End()
					return end, nil
				}
				log.TruncateTo(1)
				return 0, errRefused
			})
		})
		defer g.close()
		p := partitionOf(0)
		for n := range int64(2) {
			require.NoError(t, log.AppendRaw(context.Background(), batchtest.Make(n, 1, "own")))
		}
		require.NoError(t, log.Follow(1))
		_, err := g.r.Follow(p, leaderID, 1, log)
		require.NoError(t, err)
		g.after(10 * time.Millisecond)

		var all []byte
		for n := int64(1); n < 4; n++ {
			all = append(all, batchtest.Make(n, 1, "value")...)
		}
		object, event := g.seal(part{partition: p, bytes: all, from: 1, epoch: 1})
		g.announce(event)
		g.after(10 * time.Millisecond)
		g.store(object, event)
		g.after(5 * time.Second)
		end, _ := log.End()
		require.EqualValues(t, 1, end)

		answers.Store(true)
		g.after(2 * time.Second)
		end, _ = log.End()
		require.EqualValues(t, 4, end)
	})
}

// F6: Follow registers the partition and the subscription is fixed before the first fetch begins. So whatever is published
// after the leader has answered is in an event, and no Observe is needed.
func TestPublishedAfterTheFirstAnswer(t *testing.T) {
	for _, subscribe := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(fmt.Sprintf("subscribing takes %s", subscribe), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				published := func() {}
				g := newRig(t, func(c *follower.Config) {
					c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) {
						published()
						time.Sleep(5 * time.Millisecond) // the answer's way
						return 0, nil
					})
				})
				defer g.close()
				require.NoError(t, g.r.Close(context.Background()))
				g.reader.SetFaults(memlog.Faults{Subscribe: func(memlog.SubscribeCall) memlog.SubscribeFault {
					return memlog.SubscribeFault{Delay: subscribe}
				}})
				p, log := partitionOf(0), newLog()
				require.NoError(t, log.Follow(1))
				g.lead(p, 1)
				published = sync.OnceFunc(func() { g.produce(p, 1) })
				var err error
				g.r, err = follower.New(g.cfg)
				require.NoError(t, err)
				_, err = g.r.Follow(p, leaderID, 1, log)
				require.NoError(t, err)
				g.after(time.Second)
				g.equal(p, log)
				require.EqualValues(t, 1, g.r.Stats().Batches)
			})
		})
	}
}
