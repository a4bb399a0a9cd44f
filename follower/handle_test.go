package follower_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// L7: Follow in the epoch already followed gives the same handle, a lower one is refused, a higher one ends the older
// handle; after Stop the same epoch gives a new one.
func TestFollowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		same, err := g.r.Follow(p, leaderID, 1, log)
		require.NoError(t, err)
		require.Same(t, f, same)
		_, err = g.r.Follow(p, leaderID, 0, log)
		require.ErrorIs(t, err, follower.ErrOldEpoch)

		newer := g.follow(p, 2, log)
		g.after(10 * time.Millisecond)
		require.Equal(t, follower.Stopped, f.State().Kind)
		f.Stop() // of the older handle: it can't hit the newer
		f.Diverged()
		f.Observe(99)
		require.Equal(t, follower.Replicating, newer.State().Kind)
		g.produce(p, 2)
		g.after(10 * time.Millisecond)
		g.equal(p, log)

		newer.Stop()
		again := g.follow(p, 2, log)
		require.NotSame(t, newer, again)
		g.after(10 * time.Millisecond)
		require.Equal(t, follower.Replicating, again.State().Kind)
	})
}

// F7, B5: Stop cancels what is under way on the log, waits for it, and nothing starts after.
func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		slow := &slowLog{Log: log, gate: make(chan struct{})}
		q := partitionOf(1)
		require.NoError(t, log.Follow(1))
		f, err := g.r.Follow(q, leaderID, 1, slow)
		require.NoError(t, err)
		_, err = g.leader(q).Lead(1)
		require.NoError(t, err)
		g.fetcher.mu.Lock()
		g.fetcher.logs[q.Key()] = log
		g.fetcher.mu.Unlock()
		_ = p
		g.after(2 * time.Second)
		g.produce(q, 1)
		g.after(10 * time.Millisecond)
		require.EqualValues(t, 1, slow.inside.Load())

		stopped := make(chan struct{})
		go func() {
			f.Stop()
			close(stopped)
		}()
		g.after(time.Second)
		returned := false
		select {
		case <-stopped:
			returned = true
		default:
		}
		close(slow.gate)
		require.False(t, returned, "Stop returned while an append was under way")
		<-stopped
		require.Zero(t, slow.inside.Load())
		g.produce(q, 1)
		g.after(2 * time.Second)
		require.EqualValues(t, 1, slow.calls.Load(), "nothing starts after Stop")
		f.Stop()
	})
}

// F7: the handle of a newer epoch begins only when the older one has let go of the log: while an append of the older one is
// under way, nobody else touches the log.
func TestSupersededHandleLetsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, slow := partitionOf(0), &slowLog{Log: newLog(), gate: make(chan struct{})}
		g.follow(p, 1, slow.Log).Stop()
		older, err := g.r.Follow(p, leaderID, 1, slow)
		require.NoError(t, err)
		g.after(10 * time.Millisecond)
		g.produce(p, 1)
		g.after(10 * time.Millisecond)
		require.EqualValues(t, 1, slow.inside.Load())
		calls := g.fetcher.count()

		// when the broker follows the next epoch without Stop
		g.lead(p, 2)
		require.NoError(t, slow.Follow(2))
		newer, err := g.r.Follow(p, leaderID, 2, slow)
		require.NoError(t, err)
		ends := slow.ends.Load()
		g.after(5 * time.Second)
		callsMeanwhile, endsMeanwhile := g.fetcher.count(), slow.ends.Load()
		close(slow.gate)

		// then it has waited, however long that took
		require.Equal(t, calls, callsMeanwhile, "an ordinary fetch beside the append of the older handle")
		require.Equal(t, ends, endsMeanwhile, "the log is looked at beside the append of the older handle")
		g.after(10 * time.Millisecond)
		require.Equal(t, follower.Stopped, older.State().Kind)
		require.Equal(t, follower.Replicating, newer.State().Kind)
		g.produce(p, 1)
		g.after(10 * time.Millisecond)
		g.equal(p, slow.Log)
	})
}

// slowLog is a log whose append waits at a gate, whatever its context says.
type slowLog struct {
	*memory.Log
	gate                chan struct{}
	inside, calls, ends atomic.Int32
}

func (l *slowLog) End() (int64, int32) {
	l.ends.Add(1)
	return l.Log.End()
}

func (l *slowLog) AppendAsFollower(ctx context.Context, epoch int32, expected int64, batches []byte) error {
	l.calls.Add(1)
	l.inside.Add(1)
	defer l.inside.Add(-1)
	<-l.gate
	return l.Log.AppendAsFollower(ctx, epoch, expected, batches)
}

// R2, S1(b): a report that comes back diverging shuts the gate; the ordinary fetch truncates inside its call, no Stop is
// needed, and nothing is appended from the store before its answer.
func TestDiverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		g.produce(p, 2)
		g.after(10 * time.Millisecond)
		// given a batch that the leader never had
		require.NoError(t, log.AppendAsFollower(context.Background(), 1, 2, batchtest.Make(2, 1, "stale")))
		_, err := g.leader(p).Lead(3)
		require.NoError(t, err)
		f := g.follow(p, 3, log)
		g.after(10 * time.Millisecond)
		g.fetcher.latency = 100 * time.Millisecond

		f.Diverged()
		g.after(time.Millisecond)
		require.Equal(t, follower.Fallback, f.State().Kind)
		require.Equal(t, follower.Lineage, f.State().Reason)
		g.produce(p, 2)
		g.after(50 * time.Millisecond)
		require.Zero(t, g.lastEpochAppends(3))
		g.after(time.Second)
		g.equal(p, log)
	})
}

// lastEpochAppends counts the appends from the store in an epoch.
func (g *rig) lastEpochAppends(epoch int32) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.appended {
		if a.LeaderEpoch == epoch {
			n++
		}
	}
	return n
}

// C5: the log refuses an append whose place or epoch has changed; that is no failure, and not a loop without pause.
func TestStaleAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		// given the broker has moved its log to the next epoch and has not told the replicator yet
		require.NoError(t, log.Follow(2))
		g.produce(p, 1)
		g.after(500 * time.Millisecond)
		end, _ := log.End()
		require.Zero(t, end)
		stale := g.r.Stats().Stale
		require.Positive(t, stale)
		require.Less(t, stale, int64(20))
		require.Equal(t, follower.Replicating, f.State().Kind)

		// when it tells
		g.follow(p, 2, log)
		g.after(10 * time.Millisecond)
		g.equal(p, log)
	})
}

// C5, F2: an append is told the log's end by which it was decided. The broker truncates between the check and the append,
// which it must not do without Stop (B5): the log refuses, and there is no hole.
func TestTruncationBetweenCheckAndAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := partitionOf(0), &truncatedLog{Log: newLog()}
		g.follow(p, 1, log.Log).Stop()
		_, err := g.r.Follow(p, leaderID, 1, log)
		require.NoError(t, err)
		g.after(10 * time.Millisecond)
		g.produce(p, 2)
		g.after(10 * time.Millisecond)
		end, _ := log.Log.End()
		require.EqualValues(t, 2, end)

		// given an append that was refused, so that its segment is at hand for the next try
		log.refusals.Store(1)
		g.produce(p, 1)
		g.after(2 * time.Second)

		require.Zero(t, log.refusals.Load())
		require.True(t, log.truncated.Load(), "the test comes to its point")
		g.equal(p, log.Log)
		require.EqualValues(t, 2, g.r.Stats().Stale)
	})
}

// truncatedLog is a log that refuses some appends as stale, and is truncated by one record after the next look at its end.
type truncatedLog struct {
	*memory.Log
	refusals         atomic.Int32
	armed, truncated atomic.Bool
}

func (l *truncatedLog) AppendAsFollower(ctx context.Context, epoch int32, expected int64, batches []byte) error {
	if l.refusals.Load() > 0 {
		l.refusals.Add(-1)
		l.armed.Store(true)
		return follower.ErrStale
	}
	return l.Log.AppendAsFollower(ctx, epoch, expected, batches)
}

func (l *truncatedLog) End() (int64, int32) {
	end, epoch := l.Log.End()
	if l.armed.CompareAndSwap(true, false) {
		l.TruncateTo(end - 1)
		l.truncated.Store(true)
	}
	return end, epoch
}

// A failed append puts the partition at rest until Follow is called again; others go on.
func TestFailedAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, failure := range []func() error{
			func() error { return errors.New("disk full") },
			func() error { panic("disk on fire") },
		} {
			g := newRig(t, nil)
			p, q := partitionOf(0), partitionOf(1)
			log, other := newLog(), newLog()
			g.follow(q, 1, other)
			g.follow(p, 1, log).Stop()
			broken := &brokenLog{Log: log, fail: failure}
			f, err := g.r.Follow(p, leaderID, 1, broken)
			require.NoError(t, err)
			g.after(10 * time.Millisecond)
			g.produce(p, 1)
			g.after(time.Minute)
			require.Equal(t, follower.Failed, f.State().Kind)
			require.ErrorContains(t, f.State().Err, "disk")
			require.EqualValues(t, 1, broken.calls.Load())
			g.produce(q, 1)
			g.after(10 * time.Millisecond)
			g.equal(q, other)

			f, err = g.r.Follow(p, leaderID, 1, log)
			require.NoError(t, err)
			g.after(10 * time.Millisecond)
			require.Equal(t, follower.Replicating, f.State().Kind)
			g.equal(p, log)
			g.close()
		}
	})
}

type brokenLog struct {
	*memory.Log
	fail  func() error
	calls atomic.Int32
}

func (l *brokenLog) AppendAsFollower(context.Context, int32, int64, []byte) error {
	l.calls.Add(1)
	return l.fail()
}

// L10's kind on this side: a panic of the broker's fetch or of the store is contained, and the partition goes on.
func TestPanicsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.fetcher.set(func(call int) error {
			if call < 4 {
				panic("fetch")
			}
			return nil
		}, false)
		g.append(p, 1)
		f.Observe(1)
		g.after(5 * time.Second)
		g.equal(p, log)
		require.Positive(t, g.r.Stats().Panics)
	})
}

// Close ends everything, also what is in the midst of its first fetch; later calls are refused.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		p, log := partitionOf(0), newLog()
		g.fetcher.set(nil, true)
		f := g.follow(p, 1, log)
		g.after(10 * time.Millisecond)
		g.close()
		require.Equal(t, follower.Stopped, f.State().Kind)
		_, err := g.r.Follow(p, leaderID, 2, log)
		require.ErrorIs(t, err, follower.ErrClosed)
		require.NoError(t, g.r.Close(context.Background()))
	})
}

// twmb/franz-go#1364, KAFKA-15130: a topic of the same name and another id is another topic.
func TestRecreatedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, f := follows(t, nil)
		defer g.close()
		g.produce(p, 100)
		g.after(10 * time.Millisecond)
		g.equal(p, log)
		f.Stop()

		fresh := p
		fresh.TopicID[0] = 9
		freshLog := newLog()
		g.follow(fresh, 1, freshLog)
		g.after(10 * time.Millisecond)
		g.produce(fresh, 10)
		g.produce(p, 10) // late, of the dead topic
		g.after(100 * time.Millisecond)
		end, _ := freshLog.End()
		require.EqualValues(t, 10, end)
		g.equal(fresh, freshLog)
	})
}

var _ follower.Log = (*memory.Log)(nil)

// stubLog is a log that takes whatever it is given, or does as append says.
type stubLog struct {
	mu     sync.Mutex
	end    int64
	epoch  int32 // -1 by followStub
	append func(leaderEpoch int32) (to int64, err error)
	calls  int
	panics bool // End does
}

func (l *stubLog) End() (int64, int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.panics {
		panic("end")
	}
	return l.end, l.epoch
}

// appends returns how many appends were asked for.
func (l *stubLog) appends() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *stubLog) AppendAsFollower(_ context.Context, leaderEpoch int32, _ int64, _ []byte) error {
	l.mu.Lock()
	l.calls++
	take := l.append
	l.mu.Unlock()
	to, err := take(leaderEpoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.end = to
	}
	return err
}

// followStub follows p in the epoch with a stubLog; the ordinary fetch finds nothing to do.
func followStub(t *testing.T, log *stubLog) (*rig, segment.TopicIDPartition, *follower.Following) {
	log.epoch = -1
	g := newRig(t, func(c *follower.Config) {
		c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) { end, _ := log.End(); return end, nil })
	})
	p := partitionOf(0)
	f, err := g.r.Follow(p, leaderID, 5, log)
	require.NoError(t, err)
	g.after(10 * time.Millisecond)
	return g, p, f
}

// A log that takes an append and stays where it was is a failure, and not appended to again without pause.
func TestAppendThatMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &stubLog{append: func(int32) (int64, error) { return 0, nil }}
		g, p, f := followStub(t, log)
		defer g.close()
		g.publish(part{partition: p, bytes: batchtest.Make(0, 5, "value"), from: 0, epoch: 5})
		g.after(time.Minute)
		require.Equal(t, follower.Failed, f.State().Kind)
		require.ErrorContains(t, f.State().Err, "has not moved")
		require.Equal(t, 1, log.calls)
	})
}

// C5: what wakes the partition does not shorten the pause after ErrStale.
func TestStaleAppendIsPacedWhateverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &stubLog{append: func(int32) (int64, error) { return 0, follower.ErrStale }}
		g, p, _ := followStub(t, log)
		defer g.close()
		for n := range int64(300) {
			g.publish(part{partition: p, bytes: batchtest.Make(n, 5, "value"), from: n, epoch: 5})
			g.after(10 * time.Millisecond)
		}
		require.Greater(t, log.calls, 3)
		require.Less(t, log.calls, 12)

		// and where the log has moved meanwhile, it goes on at once
		log.mu.Lock()
		log.end, log.append = 298, func(int32) (int64, error) { return 300, nil }
		log.mu.Unlock()
		g.publish(part{partition: p, bytes: batchtest.Make(300, 5, "value"), from: 300, epoch: 5})
		g.after(10 * time.Millisecond)
		end, _ := log.End()
		require.EqualValues(t, 300, end)
	})
}

// A broker that goes back to a lower epoch after a Stop gets what the Store has in that epoch, also while the stopped
// handle has not let go yet; F7: the new one touches the log only then.
func TestLowerEpochAfterStop(t *testing.T) {
	for _, under := range []bool{true, false} {
		t.Run(fmt.Sprintf("still under way: %t", under), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				log := &stubLog{append: func(epoch int32) (int64, error) {
					if epoch == 5 {
						<-gate
						return 0, follower.ErrStale
					}
					return 1, nil
				}}
				g, p, f := followStub(t, log)
				defer g.close()
				g.publish(part{partition: p, bytes: batchtest.Make(0, 5, "value"), from: 0, epoch: 5})
				g.after(10 * time.Millisecond)
				go f.Stop()
				g.after(10 * time.Millisecond)
				if !under {
					close(gate)
					g.after(10 * time.Millisecond)
				}
				lower, err := g.r.Follow(p, leaderID, 4, log)
				require.NoError(t, err)
				if under {
					g.after(time.Second)
					require.Equal(t, follower.Starting, lower.State().Kind)
					close(gate)
				}
				g.after(10 * time.Millisecond)
				g.publish(part{partition: p, bytes: batchtest.Make(0, 4, "value"), from: 0, epoch: 4})
				g.after(10 * time.Millisecond)
				end, _ := log.End()
				require.EqualValues(t, 1, end)
			})
		})
	}
}

// F7: Stop cancels what is under way, an ordinary fetch or an append, and does not wait for a deadline of its own.
func TestStopIsPrompt(t *testing.T) {
	t.Run("in a fetch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, p, _, f := follows(t, nil)
			defer g.close()
			g.fetcher.set(nil, true)
			g.append(p, 1)
			f.Observe(1)
			g.after(1100 * time.Millisecond)
			begun := time.Now()
			f.Stop()
			require.Zero(t, time.Since(begun))
			require.Equal(t, follower.Stopped, f.State().Kind)
			require.Zero(t, g.r.Stats().InFallback)
		})
	})
	t.Run("in an append", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nil)
			defer g.close()
			log := &waitingLog{Log: newLog()}
			p := partitionOf(0)
			g.follow(p, 1, log.Log).Stop()
			f, err := g.r.Follow(p, leaderID, 1, log)
			require.NoError(t, err)
			g.after(10 * time.Millisecond)
			g.produce(p, 1)
			g.after(10 * time.Millisecond)
			require.True(t, log.inside.Load())
			begun := time.Now()
			f.Stop()
			require.Less(t, time.Since(begun), time.Second)
			require.Equal(t, follower.Stopped, f.State().Kind, "a cancelled append is no failure")
		})
	})
}

// waitingLog is a log whose append waits for the end of its context, or for an hour.
type waitingLog struct {
	*memory.Log
	inside atomic.Bool
}

func (l *waitingLog) AppendAsFollower(ctx context.Context, _ int32, _ int64, _ []byte) error {
	l.inside.Store(true)
	sleep(ctx, time.Hour)
	return ctx.Err()
}

// A log whose End panics is a failed one, whenever that happens: before the first fetch, after a fetch, before an append.
func TestPanicOfEnd(t *testing.T) {
	for _, when := range []string{"at first", "after a fetch", "before an append"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &stubLog{epoch: -1, append: func(int32) (int64, error) { return 1, nil }, panics: when == "at first"}
				fail := func() {
					log.mu.Lock()
					log.panics = true
					log.mu.Unlock()
				}
				g := newRig(t, func(c *follower.Config) {
					c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) {
						if when == "after a fetch" {
							fail()
						}
						return 0, nil
					})
				})
				defer g.close()
				p := partitionOf(0)
				f, err := g.r.Follow(p, leaderID, 5, log)
				require.NoError(t, err)
				g.after(10 * time.Millisecond)
				if when == "before an append" {
					fail()
					g.publish(part{partition: p, bytes: batchtest.Make(0, 5, "value"), from: 0, epoch: 5})
					g.after(10 * time.Millisecond)
				}
				require.Equal(t, follower.Failed, f.State().Kind)
				require.ErrorContains(t, f.State().Err, "panic")
				require.Zero(t, log.appends())
			})
		})
	}
}

// The operator gets one line for each change, however often what is wrong is tried again.
func TestOneLinePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := &lines{}
		g := newRig(t, func(c *follower.Config) { c.Logger = slog.New(lines) })
		defer g.close()
		p, log := partitionOf(0), newLog()
		g.fetcher.set(func(int) error { return errRefused }, false)
		f := g.follow(p, 1, log)
		g.after(time.Minute)
		require.Equal(t, []string{"first fetch from the leader failed, it is repeated"}, lines.take())

		g.fetcher.set(nil, false)
		g.after(2 * time.Second)
		g.append(p, 1)
		f.Observe(1)
		g.after(time.Minute)
		require.Equal(t, []string{"falling back to the leader"}, lines.take())
		g.produce(p, 1)
		g.after(time.Second)
		require.Equal(t, []string{"replicating from the store again"}, lines.take())

		require.NoError(t, g.reader.Close())
		g.after(time.Minute)
		require.Equal(t, []string{"metadata log cannot be read"}, lines.take())
	})
}

// lines is a slog.Handler that keeps the messages.
type lines struct {
	mu   sync.Mutex
	said []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, r.Message)
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lines) WithGroup(string) slog.Handler { return l }

// take returns what was said since it was last called.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	return said
}

// Nothing that a metadata log yields can do harm: neither an event nor a gap, no subscription at all, an object of a size
// that no store takes.
func TestSenselessMetadata(t *testing.T) {
	t.Run("nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, log := range []metadata.Log{&senseless{}, &senseless{none: true}} {
				var errs atomic.Int32
				g := newRig(t, func(c *follower.Config) {
					c.Metadata = log
					c.Hooks.MetadataError = func(error) { errs.Add(1) }
				})
				p, follows := partitionOf(0), newLog()
				f := g.follow(p, 1, follows)
				g.after(10 * time.Second)
				require.Equal(t, follower.Replicating, f.State().Kind)
				require.Greater(t, errs.Load(), int32(5))
				require.Less(t, errs.Load(), int32(30), "tried again with pause")
				g.close()
			}
		})
	})
	for _, size := range []int64{1<<63 - 1, 1 << 62, 1<<32 + 1} {
		t.Run(fmt.Sprintf("an object of %d bytes", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, _ := follows(t, nil)
				defer g.close()
				from, to := g.append(p, 2)
				object, event := g.seal(part{partition: p, from: from, to: to})
				g.store(object, event)
				event.ObjectSize = size
				g.announce(event)
				g.after(time.Second)
				g.equal(p, log)
				require.Len(t, g.fallbacks(), 1)
				require.Equal(t, follower.Corrupt, g.fallbacks()[0].Reason)
				require.Zero(t, g.driver.Calls("Get"))
			})
		})
	}
}

// senseless is a metadata log that returns neither what is asked for nor an error.
type senseless struct{ none bool }

func (s *senseless) Publish(context.Context, ...*metadata.Event) (int, error) { return 0, nil }

func (s *senseless) Subscribe(context.Context, metadata.Position) (metadata.Subscription, error) {
	if s.none {
		return nil, nil
	}
	return s, nil
}

func (s *senseless) Next(context.Context) (metadata.Item, error) { return metadata.Item{}, nil }

func (s *senseless) Close() error { panic("close") }
