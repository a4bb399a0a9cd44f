package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// calls are the calls that send requests, each with the driver's method that it begins with.
var calls = map[string]struct {
	method string
	run    func(ctx context.Context, m walstorage.WalStorageManager) error
}{
	"upload": {"Put", func(ctx context.Context, m walstorage.WalStorageManager) error {
		return m.UploadSegment(ctx, segment(1), []byte("0123456789"))
	}},
	"fetch": {"Get", func(ctx context.Context, m walstorage.WalStorageManager) error {
		return m.FetchSegment(ctx, segment(1), 0, make([]byte, 10))
	}},
	"stat": {"Stat", func(ctx context.Context, m walstorage.WalStorageManager) error {
		return second(m.StatSegment(ctx, segment(1)))
	}},
	"delete": {"Delete", func(ctx context.Context, m walstorage.WalStorageManager) error {
		return m.DeleteSegments(ctx, segment(1), segment(2))
	}},
	"list": {"List", func(ctx context.Context, m walstorage.WalStorageManager) error {
		for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}},
}

// H1, H2: a context that has ended before the call sends no request.
func TestContextEndedBefore(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			past, cancel := context.WithDeadline(t.Context(), epoch.AddDate(-50, 0, 0))
			defer cancel()

			err := call.run(cancelled, manager)
			assert.ErrorIs(t, err, context.Canceled)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "H7")
			err = call.run(past, manager)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotErrorIs(t, err, context.Canceled, "H7")
			assert.Zero(t, driver.Calls(call.method))
		})
	}
}

// H12: a nil context is a refused argument and no panic.
func TestNilContext(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	for name, call := range calls {
		var none context.Context
		assert.ErrorIs(t, call.run(none, manager), walstorage.ErrInvalidArgument, name)
		assert.Zero(t, driver.Calls(call.method))
	}
}

// H3, H5, H6, W8: whatever a call waits for, it ends as soon as its context does, with the caller's own error.
func TestCancelEndsTheCallPromptly(t *testing.T) {
	waits := map[string]struct {
		fault func(memory.Call) memory.Fault
		setup func(t *testing.T, m *objectstore.Manager)
	}{
		"for the answer":  {func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} }, nil},
		"at a gate":       {func(memory.Call) memory.Fault { return memory.Fault{Wait: make(chan struct{})} }, nil},
		"to try again":    {func(memory.Call) memory.Fault { return memory.Fault{Err: busyFor(time.Hour)} }, nil},
		"for the outcome": {func(memory.Call) memory.Fault { return memory.Fault{AnswerDelay: time.Hour} }, nil},
	}
	for name, wait := range waits {
		for callName, call := range calls {
			t.Run(callName+" waits "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					manager, driver := newManager(t, objectstore.Config{
						AttemptTimeout: time.Minute, BulkAttemptTimeout: time.Minute, RetryAfterCap: time.Minute, MaxRetryTime: time.Hour,
					}, memory.Config{})
					driver.Fault(wait.fault)
					why := errors.New("the caller's reason")
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(3*time.Second, func() { cancel(why) })
					start := time.Now()

					err := call.run(ctx, manager)

					assert.Equal(t, 3*time.Second, time.Since(start))
					assert.ErrorIs(t, err, context.Canceled)
					assert.NotErrorIs(t, err, walstorage.ErrUnavailable)
					assert.ErrorContains(t, err, "the caller's reason", "H7: the cause is told")
				})
			})
		}
	}
}

// H8, W7: the deadline of an attempt is not the caller's. The attempt is repeated, and what ends the call is
// ErrUnavailable, although the driver returned a context error and so did its library.
func TestAttemptDeadlineIsNotTheCallers(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{MaxAttempts: 3, BulkAttemptTimeout: 2 * time.Second}, memory.Config{})
				driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} })
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()

				err := call.run(ctx, manager)

				require.ErrorIs(t, err, walstorage.ErrUnavailable)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "no answer within")
				require.Equal(t, 3, driver.Calls(call.method))
			})
		})
	}
}

// H9: a caller's deadline that is shorter than an attempt's ends the attempt, and is the caller's.
func TestCallersDeadlineEndsTheAttempt(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
				driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} })
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()

				err := call.run(ctx, manager)

				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, walstorage.ErrUnavailable)
				require.Equal(t, 1, driver.Calls(call.method))
			})
		})
	}
}

// The deadline of an attempt grows with what it carries: 500 ms and 1 s for each MiB, in proportion.
func TestAttemptDeadlineGrowsWithTheSize(t *testing.T) {
	tests := map[string]struct {
		size int
		want time.Duration
	}{
		"nothing":  {0, 500 * time.Millisecond},
		"256 KiB":  {256 << 10, 750 * time.Millisecond},
		"8.25 MiB": {8<<20 + 256<<10, 8750 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var put, get, stat time.Duration
				left := func(ctx context.Context) time.Duration {
					deadline, ok := ctx.Deadline()
					require.True(t, ok)
					return time.Until(deadline)
				}
				manager := manage(t, &stub{
					put: func(ctx context.Context, _ *objectstore.Body) error { put = left(ctx); return nil },
					get: func(ctx context.Context, _ []byte) error { get = left(ctx); return nil },
					stat: func(ctx context.Context) (objectstore.Object, error) {
						stat = left(ctx)
						return objectstore.Object{}, nil
					},
				}, objectstore.Config{})
				buffer := make([]byte, test.size)

				require.NoError(t, manager.UploadSegment(t.Context(), segment(1), buffer))
				require.NoError(t, manager.FetchSegment(t.Context(), segment(1), 0, buffer))
				require.NoError(t, second(manager.StatSegment(t.Context(), segment(1))))

				require.Equal(t, test.want, put)
				if test.size > 0 {
					require.Equal(t, test.want, get)
				}
				require.Equal(t, 500*time.Millisecond, stat)
			})
		})
	}
}

// W7: what a driver's answer becomes, by what it returned and whose context had ended by then.
func TestClassification(t *testing.T) {
	library := &net.OpError{Op: "read", Net: "tcp", Err: context.DeadlineExceeded}
	odd := errors.New("odd")
	tests := map[string]struct {
		answer       error
		attemptEnded bool
		callerEnded  bool
		want         error // nil for unclassified
	}{
		"unavailable":                             {busy(), false, false, walstorage.ErrUnavailable},
		"unavailable, wrapped":                    {fmt.Errorf("driver: %w", busy()), false, false, walstorage.ErrUnavailable},
		"a time-out inside the library":           {fmt.Errorf("lib: %w", context.DeadlineExceeded), false, false, walstorage.ErrUnavailable},
		"a cancellation inside the library":       {context.Canceled, false, false, walstorage.ErrUnavailable},
		"unclassified":                            {odd, false, false, nil},
		"unclassified, after the attempt's end":   {odd, true, false, walstorage.ErrUnavailable},
		"the attempt's deadline, by the library":  {library, true, false, walstorage.ErrUnavailable},
		"unclassified, after the caller's end":    {odd, true, true, context.DeadlineExceeded},
		"unavailable, after the caller's end":     {busy(), true, true, context.DeadlineExceeded},
		"the caller's deadline, by the library":   {library, true, true, context.DeadlineExceeded},
		"a definite answer, after the caller's":   {refused(), true, true, walstorage.ErrAccessDenied},
		"a definite answer, after the attempt's":  {refused(), true, false, walstorage.ErrAccessDenied},
		"the attempt's deadline, and no more":     {context.DeadlineExceeded, true, false, walstorage.ErrUnavailable},
		"a sentinel by itself":                    {walstorage.ErrBucketNotFound, false, false, walstorage.ErrBucketNotFound},
		"a driver's error without kind, with own": {walstorage.NewError(nil, odd), false, false, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager := manage(t, &stub{stat: func(context.Context) (objectstore.Object, error) {
					if test.attemptEnded {
						time.Sleep(600 * time.Millisecond)
					}
					return objectstore.Object{}, test.answer
				}}, objectstore.Config{MaxAttempts: 1})
				ctx := t.Context()
				if test.callerEnded {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
				}

				_, err := manager.StatSegment(ctx, segment(1))

				require.Equal(t, test.want, walstorage.KindOf(err), "%v", err)
				e := asError(t, err)
				assert.Equal(t, test.want, e.Kind)
				assert.Equal(t, walstorage.OpStat, e.Op)
				assert.Equal(t, segment(1), e.ID)
				assert.Equal(t, 1, e.Attempts)
				if test.want == walstorage.ErrUnavailable || test.want == nil {
					assert.NotErrorIs(t, err, context.DeadlineExceeded)
				}
				if test.answer == error(library) {
					var reached *net.OpError
					require.ErrorAs(t, err, &reached, "I5")
					assert.Same(t, library, reached)
				}
			})
		})
	}
}

// I5: the library's own error is reached behind everything.
func TestLibraryErrorIsReached(t *testing.T) {
	library := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	for name, call := range calls {
		manager, driver := newManager(t, objectstore.Config{MaxAttempts: 1}, memory.Config{})
		driver.Fault(func(memory.Call) memory.Fault {
			return memory.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("driver: %w", library))}
		})
		var reached *net.OpError
		require.ErrorAs(t, call.run(t.Context(), manager), &reached, name)
		require.Same(t, library, reached, name)
	}
}

// H11: one caller's cancellation does not disturb another's call.
func TestCancelOfOneCallLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Delay: 200 * time.Millisecond} })
		ctx, cancel := context.WithCancel(t.Context())
		first, other := make(chan error, 1), make(chan error, 1)
		go func() { first <- manager.UploadSegment(ctx, segment(1), []byte("a")) }()
		go func() { other <- manager.UploadSegment(t.Context(), segment(2), []byte("b")) }()
		synctest.Wait()

		cancel()

		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, <-other)
	})
}
