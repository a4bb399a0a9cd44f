package drivertest

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/faulty"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// RetryAfter proves J3: the time that the store asks for is passed on, in seconds or as a date.
func RetryAfter[F any](t *testing.T, s Subject[F]) {
	place := s.Sockets(t)
	driver := place.Driver(t, Options{})
	for value, within := range map[string][2]time.Duration{
		"3": {3 * time.Second, 3 * time.Second},
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): {59 * time.Minute, time.Hour},
		"soon": {0, 0},
	} {
		place.Fake.Always(s.Put, s.Fault(Fault{Status: 503, Code: s.Busy, RetryAfter: value}))
		err := s.Operations[s.Put](t.Context(), driver)
		var e *walstorage.Error
		require.ErrorAs(t, err, &e)
		assert.GreaterOrEqual(t, e.RetryAfter, within[0], value)
		assert.LessOrEqual(t, e.RetryAfter, within[1], value)
	}
}

// Contexts proves W8: a context that has ended ends the call with its own error, whatever the operation.
func Contexts[F any](t *testing.T, s Subject[F]) {
	for op, call := range s.Operations {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := s.Pipes(t, 0)
				place.Fake.Store(Bucket, "there", []byte("data"))
				driver := place.Driver(t, Options{})
				place.Fake.Always(op, s.Fault(Fault{Course: faulty.Course{Wait: make(chan struct{})}}))

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.Equal(t, context.DeadlineExceeded, call(ctx, driver))
				assert.Equal(t, context.DeadlineExceeded, call(ctx, driver), "no request once it has ended")
				assert.Equal(t, 1, place.Fake.Count(op))
			})
		})
	}
}

// ContextValues proves H10: what the caller's context carries reaches the HTTP client, once for each call.
func ContextValues[F any](t *testing.T, s Subject[F]) {
	type valueKey struct{}
	place := s.Sockets(t)
	place.Fake.Store(Bucket, "there", []byte("data"))
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	seen := make(chan any, 100)
	driver := place.Driver(t, Options{HTTPClient: &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
		seen <- r.Context().Value(valueKey{})
		return base.RoundTrip(r)
	})}})
	for op, call := range s.Operations {
		require.NoError(t, call(context.WithValue(t.Context(), valueKey{}, "ours"), driver), op)
		require.Len(t, seen, 1, op)
		assert.Equal(t, "ours", <-seen, op)
	}
}

// Closed proves W12: a driver that is closed, however often, says so.
func Closed[F any](t *testing.T, s Subject[F]) {
	driver := s.Sockets(t).Driver(t, Options{})
	require.NoError(t, driver.Close())
	require.NoError(t, driver.Close())
	for op, call := range s.Operations {
		assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(call(t.Context(), driver)), op)
	}
	assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(driver.(objectstore.Warmer).Warm(t.Context())))
}
