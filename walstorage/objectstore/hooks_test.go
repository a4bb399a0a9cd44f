package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

type spanKey struct{}

// hookRecorder checks that starts and ends come in pairs, and keeps what they tell.
type hookRecorder struct {
	t          *testing.T
	mu         sync.Mutex
	next       int
	open       map[int]string
	operations []walstorage.OperationResult
	attempts   []walstorage.AttemptResult
	lines      []string
}

func newHookRecorder(t *testing.T) *hookRecorder {
	return &hookRecorder{t: t, open: make(map[int]string)}
}

func (h *hookRecorder) start(ctx context.Context, name string) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	h.open[h.next] = name
	return context.WithValue(ctx, spanKey{}, h.next)
}

func (h *hookRecorder) end(ctx context.Context, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(int)
	assert.Equal(h.t, name, h.open[span], "the end has the context of its own start, once")
	delete(h.open, span)
}

func (h *hookRecorder) hooks() walstorage.Hooks {
	return walstorage.Hooks{
		OperationStart: func(ctx context.Context, op walstorage.Operation) context.Context {
			return h.start(ctx, string(op.Op))
		},
		OperationDone: func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			h.end(ctx, string(op.Op))
			h.operations = append(h.operations, result)
			h.lines = append(h.lines, fmt.Sprintf("%s of %d segments, %d bytes: %d attempts, %d segments, %v, %v",
				op.Op, op.Segments, op.Bytes, result.Attempts, result.Segments, result.Duration, walstorage.KindOf(result.Err)))
		},
		AttemptStart: func(ctx context.Context, attempt walstorage.Attempt) context.Context {
			parent, _ := ctx.Value(spanKey{}).(int)
			assert.Equal(h.t, string(attempt.Op), h.open[parent], "O7: the operation is the parent")
			return h.start(ctx, fmt.Sprint(attempt.Call, attempt.Number))
		},
		AttemptDone: func(ctx context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
			h.end(ctx, fmt.Sprint(attempt.Call, attempt.Number))
			h.attempts = append(h.attempts, result)
			h.lines = append(h.lines, fmt.Sprintf("%s/%s %d: %v, %v", attempt.Op, attempt.Call, attempt.Number, result.Duration, walstorage.KindOf(result.Err)))
		},
	}
}

// O1: whatever way a call ends, its hooks and those of its attempts are called once at the start and once at the end.
func TestHooksOnEveryPath(t *testing.T) {
	paths := map[string]struct {
		fault    func(memory.Call) memory.Fault
		cfg      objectstore.Config
		attempts int
		failed   bool
	}{
		"success":             {nil, objectstore.Config{}, 1, false},
		"retry":               {func(c memory.Call) memory.Fault { return failing(c.Number == 1, busy()) }, objectstore.Config{}, 2, false},
		"refused":             {func(memory.Call) memory.Fault { return memory.Fault{Err: refused()} }, objectstore.Config{}, 1, true},
		"limit":               {func(memory.Call) memory.Fault { return memory.Fault{Err: busy()} }, objectstore.Config{MaxAttempts: 3}, 3, true},
		"caller's deadline":   {func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} }, objectstore.Config{AttemptTimeout: time.Hour, BulkAttemptTimeout: time.Hour}, 1, true},
		"attempts' deadline":  {func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} }, objectstore.Config{MaxAttempts: 2}, 2, true},
		"panic of the driver": {func(memory.Call) memory.Fault { return memory.Fault{Panic: "broken"} }, objectstore.Config{}, 3, true},
	}
	for name, path := range paths {
		for callName, call := range calls {
			t.Run(name+", "+callName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					record := newHookRecorder(t)
					path.cfg.Hooks = record.hooks()
					manager, driver := newManager(t, path.cfg, memory.Config{})
					driver.Store().Put(keyOf(segment(1)), []byte("0123456789"), epoch)
					if callName == "upload" {
						driver.Store().Remove(keyOf(segment(1)))
					}
					driver.Fault(path.fault)

					err := call.run(withTimeout(t, time.Minute), manager)

					require.Equal(t, path.failed, err != nil)
					require.Empty(t, record.open, "every start has its end")
					require.Len(t, record.operations, 1)
					require.Len(t, record.attempts, path.attempts)
					require.Equal(t, path.attempts, driver.Calls(call.method))
					require.Equal(t, path.attempts, record.operations[0].Attempts)
					require.Equal(t, err, record.operations[0].Err, "the hook sees what the caller gets")
					require.Equal(t, path.failed, record.attempts[path.attempts-1].Err != nil)
				})
			})
		}
	}
}

func failing(fails bool, err error) memory.Fault {
	if fails {
		return memory.Fault{Err: err}
	}
	return memory.Fault{}
}

// O1: calls that send no request are operations too, without attempts.
func TestHooksOfCallsWithoutRequest(t *testing.T) {
	record := newHookRecorder(t)
	manager, _ := newManager(t, objectstore.Config{Hooks: record.hooks()}, memory.Config{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	_ = manager.UploadSegment(t.Context(), walstorage.SegmentID{}, nil)
	_ = manager.FetchSegment(t.Context(), segment(1), 0, nil)
	_ = manager.FetchSegment(t.Context(), segment(1), -1, nil)
	_ = manager.DeleteSegments(t.Context())
	_, _ = manager.StatSegment(cancelled, segment(1))
	_ = manager.ListSegments(t.Context(), walstorage.ListOptions{}) // not ranged over
	require.NoError(t, manager.Close())
	_ = manager.UploadSegment(t.Context(), segment(1), nil)
	_, _ = collect(t.Context(), manager, walstorage.ListOptions{})

	require.Empty(t, record.open)
	require.Len(t, record.operations, 7)
	require.Empty(t, record.attempts)
}

// O1: the ways out of a list: a loop that is left, one that panics, one that ends its goroutine.
func TestHooksOfAList(t *testing.T) {
	ways := map[string]struct {
		walk   func(manager *objectstore.Manager)
		failed bool
	}{
		"left": {func(manager *objectstore.Manager) {
			for range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
				break
			}
		}, false},
		"ended by a panic": {func(manager *objectstore.Manager) {
			defer func() { _ = recover() }()
			for range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
				panic("the caller's")
			}
		}, true},
		"ended by Goexit": {func(manager *objectstore.Manager) {
			var done sync.WaitGroup
			done.Go(func() {
				for range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
					runtime.Goexit()
				}
			})
			done.Wait()
		}, true},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			record := newHookRecorder(t)
			manager, driver := newManager(t, objectstore.Config{Hooks: record.hooks()}, memory.Config{PageSize: 2})
			fill(driver.Store(), 9)

			way.walk(manager)

			require.Empty(t, record.open)
			require.Len(t, record.operations, 1)
			require.Equal(t, way.failed, record.operations[0].Err != nil)
			require.Equal(t, 1, record.operations[0].Segments)
			require.NoError(t, manager.Close(), "nothing is under way any more")
		})
	}
}

// O1: a driver that ends its goroutine, as t.FailNow does in a test's own driver, leaves nothing open.
func TestHooksWhenTheDriverEndsItsGoroutine(t *testing.T) {
	record := newHookRecorder(t)
	manager := manage(t, &stub{put: func(context.Context, *objectstore.Body) error { runtime.Goexit(); return nil }}, objectstore.Config{Hooks: record.hooks()})
	var done sync.WaitGroup
	done.Go(func() { _ = manager.UploadSegment(t.Context(), segment(1), nil) })
	done.Wait()

	require.Empty(t, record.open)
	require.Error(t, record.operations[0].Err)
	require.Error(t, record.attempts[0].Err)
	require.NoError(t, manager.Close())
}

// O4: a hook that panics against its contract takes its own call with it, and nothing else.
func TestHookThatPanics(t *testing.T) {
	for _, hook := range []string{"OperationStart", "OperationDone", "AttemptStart", "AttemptDone"} {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				armed := true
				bang := func(name string) {
					if armed && name == hook {
						panic(name)
					}
				}
				manager, _ := newManager(t, objectstore.Config{Hooks: walstorage.Hooks{
					OperationStart: func(ctx context.Context, _ walstorage.Operation) context.Context { bang("OperationStart"); return ctx },
					OperationDone:  func(context.Context, walstorage.Operation, walstorage.OperationResult) { bang("OperationDone") },
					AttemptStart:   func(ctx context.Context, _ walstorage.Attempt) context.Context { bang("AttemptStart"); return ctx },
					AttemptDone:    func(context.Context, walstorage.Attempt, walstorage.AttemptResult) { bang("AttemptDone") },
				}}, memory.Config{})
				for name, call := range calls {
					require.PanicsWithValue(t, hook, func() { _ = call.run(t.Context(), manager) }, name)
				}

				armed = false

				require.NoError(t, manager.UploadSegment(t.Context(), segment(7), nil))
				require.NoError(t, manager.Close(), "no call is left under way")
			})
		})
	}
}

// O2: what the hooks are told, to the nanosecond.
func TestWhatHooksAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := newHookRecorder(t)
		manager, driver := newManager(t, objectstore.Config{Hooks: record.hooks()}, memory.Config{PageSize: 2, KeysPerDelete: 2})
		driver.Fault(func(call memory.Call) memory.Fault {
			fault := memory.Fault{Delay: 200 * time.Millisecond}
			if call.Method == "Put" && call.Number == 1 {
				fault.ErrAfter = busyFor(3 * time.Second)
			}
			return fault
		})

		require.NoError(t, manager.UploadSegment(t.Context(), segment(1), make([]byte, 1000)))
		require.NoError(t, manager.FetchSegment(t.Context(), segment(1), 900, make([]byte, 100)))
		require.NoError(t, manager.DeleteSegments(t.Context(), segments(0, 3)...))
		fill(driver.Store(), 3)
		for range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
			time.Sleep(time.Minute)
		}

		require.Equal(t, []string{
			"upload/Put 1: 200ms, store unavailable",
			"upload/Put 2: 200ms, segment exists with other content",
			"upload/Stat 3: 200ms, <nil>",
			"upload of 1 segments, 1000 bytes: 3 attempts, 1 segments, 3.6s, <nil>",
			"fetch/Get 1: 200ms, <nil>",
			"fetch of 1 segments, 100 bytes: 1 attempts, 1 segments, 200ms, <nil>",
			"delete/Delete 1: 200ms, <nil>",
			"delete/Delete 2: 200ms, <nil>",
			"delete of 3 segments, 0 bytes: 2 attempts, 3 segments, 400ms, <nil>",
			"list/List 1: 200ms, <nil>",
			"list/List 2: 200ms, <nil>",
			"list of 0 segments, 0 bytes: 2 attempts, 3 segments, 3m0.4s, <nil>",
		}, record.lines)
	})
}

// O3: a label for a metric comes from KindOf, and a missing or existing segment is told apart from a failure.
func TestHookResultsHaveKinds(t *testing.T) {
	var kinds []error
	hooks := walstorage.Hooks{OperationDone: func(_ context.Context, _ walstorage.Operation, result walstorage.OperationResult) {
		kinds = append(kinds, walstorage.KindOf(result.Err))
	}}
	manager, driver := newManager(t, objectstore.Config{Hooks: hooks}, memory.Config{})
	driver.Store().Put(keyOf(segment(1)), []byte("theirs"), epoch)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	_ = manager.UploadSegment(t.Context(), segment(1), []byte("ours"))
	_ = manager.FetchSegment(t.Context(), segment(2), 0, make([]byte, 1))
	_ = manager.FetchSegment(cancelled, segment(2), 0, make([]byte, 1))
	driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: errors.New("odd")} })
	_ = manager.FetchSegment(t.Context(), segment(2), 0, make([]byte, 1))

	require.Equal(t, []error{walstorage.ErrSegmentExists, walstorage.ErrSegmentNotFound, context.Canceled, nil}, kinds)
}

// O8: without hooks nothing is allocated for them. What a call costs otherwise is bounded, and does not grow with the
// size of the segment.
func TestAllocationsOfACall(t *testing.T) {
	manager := manage(t, &stub{}, objectstore.Config{})
	id, buffer := segment(1), make([]byte, 256<<10)
	ctx := t.Context()
	perFetch := testing.AllocsPerRun(100, func() { _ = manager.FetchSegment(ctx, id, 0, buffer) })
	assert.LessOrEqual(t, perFetch, 25.0)
	perUpload := testing.AllocsPerRun(100, func() { _ = manager.UploadSegment(ctx, id, buffer) })
	assert.LessOrEqual(t, perUpload, 25.0)
}
