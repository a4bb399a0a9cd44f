package objectstore_test

import (
	"context"
	"errors"
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

// M3: after Close every method gives ErrClosed and sends nothing, whatever its arguments are.
func TestCallsAfterClose(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	require.NoError(t, manager.Close())

	for name, call := range calls {
		assert.ErrorIs(t, call.run(t.Context(), manager), walstorage.ErrClosed, name)
		assert.Zero(t, driver.Calls(call.method), name)
	}
	assert.ErrorIs(t, manager.FetchSegment(t.Context(), segment(1), 0, nil), walstorage.ErrClosed, "an empty range too")
	assert.ErrorIs(t, manager.UploadSegment(t.Context(), walstorage.SegmentID{}, nil), walstorage.ErrClosed, "an invalid id too")
	assert.ErrorIs(t, manager.DeleteSegments(t.Context()), walstorage.ErrClosed, "no ids too")
	broker := int32(1)
	_, err := collect(t.Context(), manager, walstorage.ListOptions{BrokerID: &broker, CreatedAfter: epoch, CreatedBefore: epoch})
	assert.ErrorIs(t, err, walstorage.ErrClosed, "an empty list too")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, manager.UploadSegment(cancelled, segment(1), nil), walstorage.ErrClosed)
	err = manager.DeleteSegments(t.Context(), segment(1), segment(2))
	assert.Len(t, failures(t, err), 2, "W9: each is named")
}

// W12, M4: Close ends what is under way, whatever it waits for: calls get ErrClosed and not a context error, since their
// own contexts have not ended.
func TestCloseCancelsCallsUnderWay(t *testing.T) {
	waits := map[string]func(call memory.Call) memory.Fault{
		"an answer":    func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} },
		"a late one":   func(memory.Call) memory.Fault { return memory.Fault{AnswerDelay: time.Hour} },
		"a retry":      func(memory.Call) memory.Fault { return memory.Fault{Err: busyFor(time.Hour)} },
		"a shut gate":  func(memory.Call) memory.Fault { return memory.Fault{Err: busy()} },
		"an outage":    func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Second, Err: busy()} },
		"a closed one": func(memory.Call) memory.Fault { return memory.Fault{Wait: make(chan struct{})} },
	}
	for name, wait := range waits {
		t.Run("waiting for "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{
					AttemptTimeout: time.Hour, BulkAttemptTimeout: time.Hour, RetryAfterCap: time.Hour, MaxRetryTime: 3 * time.Hour,
				}, memory.Config{})
				driver.Fault(wait)
				var all sync.WaitGroup
				for range 12 {
					for callName, call := range calls {
						all.Go(func() {
							err := call.run(t.Context(), manager)
							assert.ErrorIs(t, err, walstorage.ErrClosed, callName)
							assert.NotErrorIs(t, err, context.Canceled, callName)
						})
					}
				}
				time.Sleep(10 * time.Second)
				start := time.Now()

				require.NoError(t, manager.Close())

				require.Zero(t, time.Since(start))
				all.Wait()
				require.Zero(t, time.Since(start))
			})
		})
	}
}

// W12, M4: Close returns only when the calls under way have returned, and closes the driver after the last one.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, closed bool
		manager := manage(t, &stub{
			put: func(context.Context, *objectstore.Body) error {
				inside = true
				time.Sleep(time.Minute) // ignores its context
				inside = false
				return nil
			},
			close: func() error {
				assert.False(t, inside, "the driver is closed last")
				assert.False(t, closed, "and once")
				closed = true
				return nil
			},
		}, objectstore.Config{})
		result := make(chan error, 1)
		go func() { result <- manager.UploadSegment(t.Context(), segment(1), nil) }()
		synctest.Wait()
		start := time.Now()

		require.NoError(t, manager.Close())

		require.Equal(t, time.Minute, time.Since(start))
		require.True(t, closed)
		require.NoError(t, <-result, "what has been stored is stored")
	})
}

// M1, M2: Close is idempotent, also concurrently, and each call returns only when all is over.
func TestCloseIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("flush https://u:p@host/x failed")
		closes := 0
		manager, err := objectstore.New(&stub{close: func() error {
			closes++
			time.Sleep(time.Second)
			return failure
		}}, objectstore.Config{Cluster: "test"})
		require.NoError(t, err)
		start := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				err := manager.Close()
				assert.EqualError(t, err, "flush https://host/x failed", "W11")
				assert.Equal(t, time.Second, time.Since(start))
			})
		}
		all.Wait()
		require.Error(t, manager.Close())
		require.Equal(t, 1, closes)
	})
}

func TestCloseContainsAPanicOfTheDriver(t *testing.T) {
	manager, err := objectstore.New(&stub{close: func() error { panic("broken") }}, objectstore.Config{Cluster: "test"})
	require.NoError(t, err)
	require.ErrorContains(t, manager.Close(), "panicked: broken")
}

// M8: Close deletes nothing, and a second handle goes on.
func TestCloseLeavesTheStore(t *testing.T) {
	store := memory.NewStore()
	first, _ := newManager(t, objectstore.Config{}, memory.Config{Store: store})
	other, _ := newManager(t, objectstore.Config{}, memory.Config{Store: store})
	require.NoError(t, first.UploadSegment(t.Context(), segment(1), []byte("a")))
	require.NoError(t, first.Close())
	_, err := other.StatSegment(t.Context(), segment(1))
	require.NoError(t, err)
}

// A loop over a list may close the manager: it gets ErrClosed at the next page, and Close does not wait for it.
func TestCloseFromTheBodyOfAList(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
	fill(driver.Store(), 10)
	n := 0
	var last error
	for _, err := range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
		if last = err; err != nil {
			continue
		}
		n++
		require.NoError(t, manager.Close())
	}
	require.ErrorIs(t, last, walstorage.ErrClosed)
	require.Equal(t, 2, n)
}

// L5, M2: every method from many goroutines, and Close in the middle, under -race.
func TestEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{GateFailures: 3, ProbeMin: time.Millisecond, ProbeMax: 10 * time.Millisecond}, memory.Config{PageSize: 3, KeysPerDelete: 4})
		driver.Fault(func(call memory.Call) memory.Fault {
			fault := memory.Fault{Delay: time.Duration(call.Number%7) * time.Millisecond}
			switch call.Number % 5 {
			case 0:
				fault.Err = busy()
			case 1:
				fault.ErrAfter = busy()
			}
			return fault
		})
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for round := 0; ; round++ {
					id := segment(worker*3 + round%3)
					data := pattern(100 + worker*3 + round%3)
					errs := []error{
						manager.UploadSegment(t.Context(), id, data),
						manager.FetchSegment(t.Context(), id, 0, make([]byte, 50)),
						second(manager.StatSegment(t.Context(), id)),
						second(collect(t.Context(), manager, walstorage.ListOptions{})),
						manager.DeleteSegments(t.Context(), id, segment(500+worker)),
					}
					for _, err := range errs {
						if errors.Is(err, walstorage.ErrClosed) {
							return
						}
						assert.NoError(t, err)
					}
				}
			})
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, manager.Close())
		all.Wait()
	})
}
