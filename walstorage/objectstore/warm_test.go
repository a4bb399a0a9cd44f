package objectstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// warmStub is a driver that can be warmed.
type warmStub struct {
	stub
	warm func(ctx context.Context) error
}

var _ objectstore.Warmer = (*warmStub)(nil)

func (w *warmStub) Warm(ctx context.Context) error { return w.warm(ctx) }

// Warm reaches the driver, once and whatever it says: what the store answers is what the caller is told (W7), without
// secrets (W11), and no hook hears of it.
func TestWarm(t *testing.T) {
	secret := errors.New("HEAD https://user:pass@host/bucket?X-Amz-Signature=abc failed")
	tests := map[string]struct {
		answer error
		kind   error
		text   string
	}{
		"warm":            {nil, nil, ""},
		"no bucket":       {walstorage.NewError(walstorage.ErrBucketNotFound, nil), walstorage.ErrBucketNotFound, "warm: bucket not found"},
		"refused":         {refused(), walstorage.ErrAccessDenied, "warm: access denied: 403"},
		"busy":            {busy(), walstorage.ErrUnavailable, "warm: store unavailable: 503 SlowDown"},
		"unclassified":    {errors.New("odd"), nil, "warm: odd"},
		"with a secret":   {walstorage.NewError(walstorage.ErrUnavailable, secret), walstorage.ErrUnavailable, "warm: store unavailable: HEAD https://host/bucket failed"},
		"a time-out":      {context.DeadlineExceeded, walstorage.ErrUnavailable, "warm: store unavailable: context deadline exceeded"},
		"a time it wants": {busyFor(time.Minute), walstorage.ErrUnavailable, "warm: store unavailable: 503 SlowDown"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				record := newHookRecorder(t)
				manager := manage(t, &warmStub{warm: func(context.Context) error {
					calls++
					return test.answer
				}}, objectstore.Config{Hooks: record.hooks()})
				start := time.Now()

				err := manager.Warm(t.Context())

				assert.Equal(t, 1, calls, "one attempt")
				assert.Zero(t, time.Since(start), "no pause")
				assert.Empty(t, record.operations)
				assert.Empty(t, record.attempts)
				if test.answer == nil {
					require.NoError(t, err)
					return
				}
				require.EqualError(t, err, test.text)
				e := asError(t, err)
				assert.Equal(t, test.kind, e.Kind)
				assert.Equal(t, 1, e.Attempts)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				if name == "a time it wants" {
					assert.Equal(t, time.Minute, e.RetryAfter)
				}
			})
		})
	}
}

// A driver with nothing to warm is warm, and is asked nothing.
func TestWarmWithoutWarmer(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	require.NoError(t, manager.Warm(t.Context()))
	for _, call := range calls {
		assert.Zero(t, driver.Calls(call.method))
	}
}

// W8, H1, H8: the attempt has a deadline of its own, which is not the caller's; the caller's is the caller's; a context
// that has ended sends nothing.
func TestWarmEndsInTime(t *testing.T) {
	tests := map[string]struct {
		caller time.Duration // the caller's deadline, 0 for none
		cancel time.Duration // when the caller cancels, 0 for never, negative for before the call
		kind   error
		after  time.Duration
	}{
		"its own deadline":      {0, 0, walstorage.ErrUnavailable, 7 * time.Second},
		"the caller's deadline": {2 * time.Second, 0, context.DeadlineExceeded, 2 * time.Second},
		"a later one":           {time.Hour, 0, walstorage.ErrUnavailable, 7 * time.Second},
		"a cancel":              {0, 3 * time.Second, context.Canceled, 3 * time.Second},
		"a cancel before":       {0, -1, context.Canceled, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				manager := manage(t, &warmStub{warm: func(ctx context.Context) error {
					calls++
					<-ctx.Done()
					return ctx.Err()
				}}, objectstore.Config{AttemptTimeout: time.Second, BulkAttemptTimeout: 7 * time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.caller > 0 {
					ctx = withTimeout(t, test.caller)
				}
				switch {
				case test.cancel < 0:
					cancel()
				case test.cancel > 0:
					time.AfterFunc(test.cancel, cancel)
				}
				start := time.Now()

				err := manager.Warm(ctx)

				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, test.after, time.Since(start))
				assert.Equal(t, test.kind == context.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded))
				assert.Equal(t, test.cancel >= 0, calls == 1)
			})
		})
	}
}

// W12: Close ends a Warm under way and waits for it; later ones are refused, with or without a Warmer.
func TestWarmAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := false
		manager := manage(t, &warmStub{
			stub: stub{close: func() error {
				assert.False(t, inside, "the driver is closed last")
				return nil
			}},
			warm: func(ctx context.Context) error {
				inside = true
				<-ctx.Done()
				time.Sleep(time.Second) // slow to notice
				inside = false
				return ctx.Err()
			},
		}, objectstore.Config{})
		result := make(chan error, 1)
		go func() { result <- manager.Warm(t.Context()) }()
		synctest.Wait()
		start := time.Now()

		require.NoError(t, manager.Close())

		assert.Equal(t, time.Second, time.Since(start))
		err := <-result
		assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(err))
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(manager.Warm(t.Context())))
	})
	manager, _ := newManager(t, objectstore.Config{}, memory.Config{})
	require.NoError(t, manager.Close())
	require.Equal(t, walstorage.ErrClosed, walstorage.KindOf(manager.Warm(t.Context())))
}

// A driver that panics in Warm breaks nothing, and a nil context is refused as everywhere (H12).
func TestWarmContained(t *testing.T) {
	manager := manage(t, &warmStub{warm: func(context.Context) error { panic("broken") }}, objectstore.Config{})
	err := manager.Warm(t.Context())
	require.ErrorContains(t, err, "warm: the driver panicked: broken")
	var panicked *objectstore.PanicError
	require.ErrorAs(t, err, &panicked)
	require.NoError(t, manager.UploadSegment(t.Context(), segment(1), nil))

	var none context.Context
	require.ErrorIs(t, manager.Warm(none), walstorage.ErrInvalidArgument)
}

// A failed Warm says nothing to the gates: the uploads after it go out at once.
func TestWarmLeavesTheGatesOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager := manage(t, &warmStub{warm: func(context.Context) error { return busy() }}, objectstore.Config{GateFailures: 1, ProbeMin: time.Second, ProbeMax: time.Second})
		start := time.Now()
		for range 3 {
			require.Error(t, manager.Warm(t.Context()))
		}
		require.NoError(t, manager.UploadSegment(t.Context(), segment(1), nil))
		require.Zero(t, time.Since(start))
	})
}
