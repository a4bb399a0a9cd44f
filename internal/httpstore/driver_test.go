package httpstore_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// closing notes that it was closed.
type closing struct {
	objectstore.Driver
	closed bool
}

func (d *closing) Close() error {
	d.closed = true
	return d.Driver.Close()
}

// W12: a driver goes with its Manager, and with one that cannot be made too.
func TestManage(t *testing.T) {
	driver := &closing{Driver: memory.New(memory.Config{})}
	manager, err := httpstore.Manage(driver, objectstore.Config{Cluster: "c"})
	require.NoError(t, err)
	assert.False(t, driver.closed)
	require.NoError(t, manager.Close())
	assert.True(t, driver.closed)

	driver = &closing{Driver: memory.New(memory.Config{})}
	_, err = httpstore.Manage(driver, objectstore.Config{Cluster: "a/b"})
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	assert.True(t, driver.closed)
}

// Eight ask at once, after one that asks alone and whose failure ends it.
func TestWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		alone, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- httpstore.Warm(t.Context(), func(context.Context) error {
				if asked.Add(1) == 1 {
					<-alone
				} else {
					<-gate
				}
				return nil
			})
		}()
		synctest.Wait()
		assert.Equal(t, int64(1), asked.Load())
		close(alone)
		synctest.Wait()
		assert.Equal(t, int64(9), asked.Load())
		close(gate)
		require.NoError(t, <-done)
	})
	for _, failing := range []int64{1, 5} {
		var asked atomic.Int64
		refused := errors.New("refused")
		err := httpstore.Warm(t.Context(), func(context.Context) error {
			if asked.Add(1) == failing {
				return refused
			}
			return nil
		})
		assert.Equal(t, refused, err)
		want := int64(9)
		if failing == 1 {
			want = 1
		}
		assert.Equal(t, want, asked.Load())
	}
}

// W7: what a status means whatever was asked, and that the others mean nothing by themselves.
func TestKindOfStatus(t *testing.T) {
	kinds := map[int]error{
		401: walstorage.ErrAccessDenied, 403: walstorage.ErrAccessDenied, 408: walstorage.ErrUnavailable, 413: walstorage.ErrTooLarge,
		429: walstorage.ErrUnavailable, 507: walstorage.ErrNoSpace, 501: nil, 505: nil,
	}
	for status := 100; status < 600; status++ {
		want, special := kinds[status]
		if !special && status >= 500 {
			want = walstorage.ErrUnavailable
		}
		assert.Equal(t, want, httpstore.KindOfStatus(status), "%d %s", status, http.StatusText(status))
	}
}

// W6: a range that no object has is refused before it is asked for.
func TestLast(t *testing.T) {
	last, err := httpstore.Last(100, 100)
	require.NoError(t, err)
	assert.Equal(t, int64(199), last)
	last, err = httpstore.Last(math.MaxInt64-10, 10)
	require.NoError(t, err)
	assert.Equal(t, int64(math.MaxInt64-1), last)
	for _, offset := range []int64{-1, math.MinInt64, math.MaxInt64 - 9, math.MaxInt64} {
		_, err := httpstore.Last(offset, 10)
		assert.ErrorIs(t, err, walstorage.ErrInvalidRange, "%d", offset)
	}
}

// What a client that is handed in panics with, in a request of the eight, ends neither the others nor the process.
func TestWarmContainsAPanic(t *testing.T) {
	var asked atomic.Int64
	err := httpstore.Warm(t.Context(), func(context.Context) error {
		if asked.Add(1) == 3 {
			panic("no")
		}
		return nil
	})
	var panicked *objectstore.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "no", panicked.Value)
	assert.Equal(t, int64(9), asked.Load())
}
