package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// trace is the time and the method of every request since its start.
type trace struct {
	mu    sync.Mutex
	start time.Time
	at    map[string][]time.Duration
}

func newTrace() *trace { return &trace{start: time.Now(), at: make(map[string][]time.Duration)} }

func (tr *trace) record(call memory.Call) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.at[call.Method] = append(tr.at[call.Method], time.Since(tr.start))
}

// shut sends uploads that fail until the gate is shut, and returns when it is. They go on waiting; wait returns when
// they have ended, with their errors.
func shut(t *testing.T, manager *objectstore.Manager, calls int) (wait func() error) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, calls)
	for n := range calls {
		all.Go(func() { errs[n] = manager.UploadSegment(t.Context(), segment(1000+n), nil) })
	}
	synctest.Wait()
	return func() error { all.Wait(); return errors.Join(errs...) }
}

// The gate: after ten failures in a row, whoever's they are, a single probe goes out for all, 50 ms after the shutting
// and then at doubling distances up to a second; the first answer opens it, and who waited leaves at a bounded rate, in
// the order of coming.
func TestGateProbesAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{ReleasePerSecond: 100}, memory.Config{})
		tr := newTrace()
		up := tr.start.Add(10 * time.Second)
		var order []walstorage.SegmentID
		driver.Fault(func(call memory.Call) memory.Fault {
			tr.record(call)
			if time.Now().Before(up) {
				return memory.Fault{Err: busy()}
			}
			order = append(order, call.Segment)
			return memory.Fault{}
		})

		finished := shut(t, manager, 10) // ten calls fail at the same time: the gate is shut
		require.Len(t, tr.at["Put"], 10)
		var all sync.WaitGroup
		for n := range 50 {
			time.Sleep(time.Millisecond)
			all.Go(func() { assert.NoError(t, manager.UploadSegment(t.Context(), segment(n), nil)) })
		}
		all.Wait()
		require.NoError(t, finished())

		var gaps []time.Duration
		requests := tr.at["Put"]
		probes := 0
		for i := 10; i < len(requests) && requests[i-1] < 10*time.Second; i++ {
			gaps = append(gaps, requests[i]-requests[i-1])
			probes++
		}
		assert.Equal(t, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}, gaps[:5])
		for _, gap := range gaps[5:] {
			assert.Equal(t, time.Second, gap)
		}
		// The last probe is the first answer. From then on the others leave, one each 10 ms.
		released := requests[10+probes-1:]
		assert.Len(t, released, 60, "every call is answered once")
		for i := 2; i < len(released); i++ {
			assert.GreaterOrEqual(t, released[i]-released[i-1], 10*time.Millisecond)
		}
		assert.Less(t, released[len(released)-1]-released[0], 700*time.Millisecond)
		position := make(map[walstorage.SegmentID]int)
		for i, id := range order {
			position[id] = i
		}
		// The calls that were probes have gone to the end of the queue; the others are in their order.
		for n := 20; n < 49; n++ {
			assert.Less(t, position[segment(n)], position[segment(n+1)])
		}
	})
}

// The gate is done with an outage although more calls come in than it lets go at first: the rate doubles each second, and
// then nobody waits any more. With a fixed rate the queue would grow for as long as the load lasts.
func TestGateIsDoneWithAnOutageUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{ReleasePerSecond: 10, GateFailures: 1}, memory.Config{})
		start := time.Now()
		up := start.Add(5 * time.Second)
		var opened time.Time
		var answered [30]int // by second
		driver.Fault(func(memory.Call) memory.Fault {
			if time.Now().Before(up) {
				return memory.Fault{Err: busy()}
			}
			if opened.IsZero() {
				opened = time.Now()
			}
			answered[time.Since(opened)/time.Second]++
			return memory.Fault{}
		})
		var all sync.WaitGroup
		for n := range 30 * 20 { // 30 a second for 20 s
			time.Sleep(time.Second/30 + 1)
			all.Go(func() {
				began := time.Now()
				assert.NoError(t, manager.UploadSegment(t.Context(), segment(n), nil))
				if began.After(up.Add(6 * time.Second)) {
					assert.Zero(t, time.Since(began), "nobody waits any more")
				}
			})
		}
		all.Wait()
		assert.InDelta(t, 11, answered[0], 2)
		assert.InDelta(t, 20, answered[1], 2)
		assert.InDelta(t, 40, answered[2], 2)
	})
}

// One gate for each kind of call: uploads that are throttled hold up no fetch and no delete.
func TestGatesAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{MaxRetryTime: 5 * time.Second}, memory.Config{})
		driver.Store().Put(keyOf(segment(1)), make([]byte, 10), epoch)
		driver.Fault(func(call memory.Call) memory.Fault {
			if call.Method == "Put" {
				return memory.Fault{Err: busy()}
			}
			return memory.Fault{}
		})
		finished := shut(t, manager, 10)
		start := time.Now()

		for _, name := range []string{"fetch", "stat", "list", "delete"} {
			require.NoError(t, calls[name].run(t.Context(), manager), name)
		}

		require.Zero(t, time.Since(start))
		require.ErrorIs(t, finished(), walstorage.ErrUnavailable)
	})
}

// Failures of several kinds of request share the gate of their kind: Get and Stat one, Delete and List one.
func TestGateIsSharedWithinAKind(t *testing.T) {
	for _, pair := range [][2]string{{"fetch", "stat"}, {"stat", "fetch"}, {"delete", "list"}, {"list", "delete"}} {
		t.Run(pair[0]+" shuts, "+pair[1]+" waits", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{GateFailures: 1, ProbeMin: time.Second, MaxAttempts: 1}, memory.Config{})
				driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: busy()} })
				require.ErrorIs(t, calls[pair[0]].run(t.Context(), manager), walstorage.ErrUnavailable)
				start := time.Now()
				require.ErrorIs(t, calls[pair[1]].run(t.Context(), manager), walstorage.ErrUnavailable)
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

// H6: a call that waits at the gate ends with its own context, sends nothing, and says what the store had said. The
// others go on waiting.
func TestWaitAtTheGateEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{GateFailures: 1, ProbeMin: time.Minute, ProbeMax: time.Minute, MaxRetryTime: time.Hour}, memory.Config{})
		driver.Fault(memory.Sequence("Put", memory.Fault{Err: busy()}))
		first := make(chan error, 1)
		go func() { first <- manager.UploadSegment(t.Context(), segment(1), nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()

		err := manager.UploadSegment(ctx, segment(2), nil)

		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, walstorage.ErrUnavailable)
		require.ErrorContains(t, err, "503 SlowDown")
		require.Zero(t, asError(t, err).Attempts)
		require.Equal(t, 1, driver.Calls("Put"))
		require.NoError(t, <-first)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// A probe whose caller gives up tells nothing about the store. The next one goes out in its turn, no sooner than it
// would have.
func TestProbeThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{GateFailures: 1, ProbeMin: time.Second, ProbeMax: time.Second}, memory.Config{})
		tr := newTrace()
		driver.Fault(func(call memory.Call) memory.Fault {
			tr.record(call)
			switch call.Number {
			case 1:
				return memory.Fault{Err: busy()}
			case 2, 3:
				return memory.Fault{Delay: 400 * time.Millisecond} // longer than its caller waits
			}
			return memory.Fault{}
		})
		require.ErrorIs(t, first(manager.UploadSegment, withTimeout(t, 10*time.Millisecond), 1), context.DeadlineExceeded)
		for n := range 2 { // at the head of the queue, each in its turn
			go func() {
				_ = first(manager.UploadSegment, withTimeout(t, time.Duration(n+1)*time.Second+300*time.Millisecond), 10+n)
			}()
			synctest.Wait()
		}

		require.NoError(t, manager.UploadSegment(t.Context(), segment(3), nil))

		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, tr.at["Put"])
	})
}

// Aiven-Open/tiered-storage-for-apache-kafka#820: a driver that ignores its context while it is the probe holds its own
// call (W5), and not all the others: a probe that is overdue counts as lost, and the next one goes out.
func TestProbeThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{GateFailures: 1, ProbeMin: time.Second, ProbeMax: time.Second, MaxRetryTime: 2 * time.Hour}, memory.Config{})
		driver.Fault(memory.Sequence("Put", memory.Fault{Err: busy()}, memory.Fault{Hang: true}, memory.Fault{Err: busy()}))
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { assert.NoError(t, manager.UploadSegment(t.Context(), segment(n), nil)) })
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		assert.Len(t, driver.Store().Keys(), 19, "all but the one that hangs")

		time.Sleep(time.Hour)
		driver.Release()
		all.Wait()

		assert.Len(t, driver.Store().Keys(), 20)
	})
}

func first(upload func(context.Context, walstorage.SegmentID, []byte) error, ctx context.Context, n int) error {
	return upload(ctx, segment(n), nil)
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// An answer of any kind opens the gate: a store that refuses is there. Only failures that are worth a retry count.
func TestWhatOpensTheGate(t *testing.T) {
	for name, answer := range map[string]error{"refused": refused(), "stored": nil, "exists": walstorage.ErrSegmentExists} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{GateFailures: 3, MaxAttempts: 1}, memory.Config{})
				driver.Fault(func(call memory.Call) memory.Fault {
					if call.Method == "Put" && call.Number != 3 && call.Number != 7 {
						return memory.Fault{Err: busy()}
					}
					return memory.Fault{Err: answer}
				})
				start := time.Now()
				for n := range 5 { // two failures, an answer, two failures: never three in a row
					_ = manager.UploadSegment(t.Context(), segment(n), nil)
				}
				require.Zero(t, time.Since(start))
				_ = manager.UploadSegment(t.Context(), segment(5), nil) // the third in a row
				_ = manager.UploadSegment(t.Context(), segment(6), nil) // the probe, answered
				require.Equal(t, 50*time.Millisecond, time.Since(start))
				_ = manager.UploadSegment(t.Context(), segment(7), nil)
				require.Equal(t, 50*time.Millisecond, time.Since(start), "open again")
			})
		})
	}
}

// J3: what the store asks for by Retry-After is waited for, within the cap, by a call and by the probes of a shut gate.
func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		asked time.Duration
		cap   time.Duration
		want  time.Duration
	}{
		"as asked":    {3 * time.Second, 0, 3 * time.Second},
		"default cap": {time.Hour, 0, 5 * time.Second},
		"own cap":     {time.Hour, 20 * time.Second, 20 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for callName, call := range calls {
				synctest.Test(t, func(t *testing.T) {
					manager, driver := newManager(t, objectstore.Config{RetryAfterCap: test.cap}, memory.Config{})
					driver.Store().Put(keyOf(segment(1)), []byte("0123456789"), epoch)
					driver.Fault(memory.Sequence(call.method, memory.Fault{Err: busyFor(test.asked)}))
					start := time.Now()
					require.NoError(t, call.run(t.Context(), manager), callName)
					require.Equal(t, test.want, time.Since(start), callName)
				})
			}
		})
	}

	t.Run("at the gate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{GateFailures: 1}, memory.Config{})
			driver.Fault(memory.Sequence("Put", memory.Fault{Err: busyFor(2 * time.Second)}, memory.Fault{Err: busyFor(3 * time.Second)}))
			go func() { _ = manager.UploadSegment(t.Context(), segment(1), nil) }()
			synctest.Wait()
			start := time.Now()
			require.NoError(t, manager.UploadSegment(t.Context(), segment(2), nil))
			require.Equal(t, 5*time.Second, time.Since(start))
		})
	})

	t.Run("told to the caller", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{MaxAttempts: 1}, memory.Config{})
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: busyFor(time.Hour)} })
		err := manager.UploadSegment(t.Context(), segment(1), nil)
		require.Equal(t, time.Hour, asError(t, err).RetryAfter)
	})
}

// J20: attempts and time never exceed what is configured, and a context without deadline does not wait for ever.
func TestLimitsOfRetry(t *testing.T) {
	tests := map[string]struct {
		cfg      objectstore.Config
		deadline time.Duration
		want     error
		most     time.Duration
		least    time.Duration
		attempts int // 0: not checked
	}{
		"no retry":                         {objectstore.Config{MaxAttempts: 1}, 0, walstorage.ErrUnavailable, 0, 0, 1},
		"seven attempts":                   {objectstore.Config{MaxAttempts: 7}, 0, walstorage.ErrUnavailable, 7 * time.Second, 0, 7},
		"the default: a minute":            {objectstore.Config{}, 0, walstorage.ErrUnavailable, time.Minute, 58 * time.Second, 0},
		"the default: the caller's":        {objectstore.Config{}, 5 * time.Minute, context.DeadlineExceeded, 5 * time.Minute, 5 * time.Minute, 0},
		"configured":                       {objectstore.Config{MaxRetryTime: 10 * time.Second}, 0, walstorage.ErrUnavailable, 10 * time.Second, 8 * time.Second, 0},
		"configured below the caller's":    {objectstore.Config{MaxRetryTime: 10 * time.Second}, time.Hour, walstorage.ErrUnavailable, 10 * time.Second, 8 * time.Second, 0},
		"configured above the caller's":    {objectstore.Config{MaxRetryTime: time.Hour}, 10 * time.Second, context.DeadlineExceeded, 10 * time.Second, 10 * time.Second, 0},
		"a retry-after beyond the time":    {objectstore.Config{MaxRetryTime: time.Second, RetryAfterCap: time.Hour}, 0, walstorage.ErrUnavailable, 0, 0, 1},
		"waiting at the gate for the most": {objectstore.Config{MaxRetryTime: 10 * time.Second, GateFailures: 1, ProbeMin: time.Hour, ProbeMax: time.Hour}, 0, walstorage.ErrUnavailable, 10 * time.Second, 10 * time.Second, 1},
	}
	for name, test := range tests {
		for callName, call := range calls {
			t.Run(name+", "+callName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					manager, driver := newManager(t, test.cfg, memory.Config{})
					driver.Fault(func(memory.Call) memory.Fault {
						if test.cfg.RetryAfterCap > 0 {
							return memory.Fault{Err: busyFor(time.Minute)}
						}
						return memory.Fault{Err: busy()}
					})
					ctx := t.Context()
					if test.deadline > 0 {
						ctx = withTimeout(t, test.deadline)
					}
					start := time.Now()

					err := call.run(ctx, manager)

					took := time.Since(start)
					require.ErrorIs(t, err, test.want)
					assert.LessOrEqual(t, took, test.most)
					assert.GreaterOrEqual(t, took, test.least)
					if test.attempts > 0 {
						assert.Equal(t, test.attempts, driver.Calls(call.method))
					}
					assert.ErrorContains(t, err, "503 SlowDown", "the store's last word is told")
				})
			})
		}
	}

	t.Run("a limit that is met to the nanosecond ends the call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{MaxRetryTime: 2 * time.Second, RetryAfterCap: time.Second}, memory.Config{})
			driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: busyFor(time.Second)} })
			require.ErrorIs(t, manager.UploadSegment(t.Context(), segment(1), nil), walstorage.ErrUnavailable)
			require.Equal(t, 2, driver.Calls("Put"))
		})
	})

	t.Run("a call that finds the gate shut and has no time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{MaxRetryTime: time.Second, GateFailures: 1, ProbeMin: time.Hour, ProbeMax: time.Hour}, memory.Config{})
			driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: busy()} })
			_ = manager.UploadSegment(t.Context(), segment(1), nil)
			err := manager.UploadSegment(t.Context(), segment(2), nil)
			require.ErrorIs(t, err, walstorage.ErrUnavailable)
			require.ErrorContains(t, err, "503 SlowDown")
			require.Zero(t, asError(t, err).Attempts)
			require.Equal(t, segment(2), asError(t, err).ID)
		})
	})
}

// O9, STYLE: one line for each change of the gate's state, none for a request, and no secret in it.
func TestGateLogsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))
		manager, driver := newManager(t, objectstore.Config{Logger: logger, GateFailures: 2, ProbeMin: time.Second, ProbeMax: time.Second}, memory.Config{})
		driver.Fault(func(call memory.Call) memory.Fault {
			if n := call.Number; n >= 3 && n <= 6 || n >= 9 && n <= 10 {
				return memory.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("PUT https://bucket/key?X-Amz-Signature=abc: 503"))}
			}
			return memory.Fault{}
		})
		for n := range 12 {
			require.NoError(t, manager.UploadSegment(t.Context(), segment(n), nil))
		}

		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 4, log.String())
		for i, line := range lines {
			want := []string{"level=WARN", "calls=put", "failures=2"}
			if i%2 == 1 {
				want = []string{"level=INFO", "calls=put", "after=", "waiting=0"}
			}
			for _, part := range want {
				assert.Contains(t, line, part)
			}
		}
		assert.Contains(t, lines[0], "https://bucket/key: 503")
		assert.NotContains(t, log.String(), "abc", "W11")
	})
}

// D2, D3: equal seeds give equal runs, instant by instant, and other seeds other ones.
func TestRetriesAreDeterministic(t *testing.T) {
	run := func(t *testing.T, seed uint64) (requests []string) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{Seed: seed}, memory.Config{})
			start := time.Now()
			var mu sync.Mutex
			driver.Fault(func(call memory.Call) memory.Fault {
				mu.Lock()
				defer mu.Unlock()
				since := time.Since(start)
				requests = append(requests, fmt.Sprint(since, call.Method, call.Segment))
				if since > time.Second && since < 4*time.Second || call.Number%7 == 0 {
					return memory.Fault{Err: busy()}
				}
				return memory.Fault{Delay: 3*time.Millisecond + time.Duration(call.Segment.UUID[15])}
			})
			var all sync.WaitGroup
			for n := range 250 {
				time.Sleep(20*time.Millisecond + 1)
				all.Go(func() { assert.NoError(t, manager.UploadSegment(t.Context(), segment(n), nil)) })
			}
			all.Wait()
		})
		return requests
	}
	first := run(t, 1)
	for range 5 {
		require.Equal(t, first, run(t, 1))
	}
	require.NotEqual(t, first, run(t, 2))
}
