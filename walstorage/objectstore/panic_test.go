package objectstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// Aiven-Open/tiered-storage-for-apache-kafka#820 (b), L10: a panic of the driver ends an attempt and nothing else. It is
// tried again, twice at most; then the call fails with an error of no kind behind which the panic is found.
func TestPanicOfTheDriver(t *testing.T) {
	for name, call := range calls {
		t.Run(name+" once", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
				driver.Store().Put(keyOf(segment(1)), []byte("0123456789"), epoch)
				driver.Fault(memory.Sequence(call.method, memory.Fault{Panic: "once"}))
				require.NoError(t, call.run(t.Context(), manager))
				require.Equal(t, 2, driver.Calls(call.method))
			})
		})
		t.Run(name+" always", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
				value := errors.New("index out of range")
				driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Panic: value} })

				err := call.run(t.Context(), manager)

				require.Error(t, err)
				require.NoError(t, walstorage.KindOf(err), "of no kind")
				require.ErrorContains(t, err, "index out of range")
				var panicked *objectstore.PanicError
				require.ErrorAs(t, err, &panicked)
				require.Equal(t, value, panicked.Value)
				require.Contains(t, string(panicked.Stack), "memory.(*Driver)")
				require.Equal(t, 3, driver.Calls(call.method))

				driver.Fault(nil)
				driver.Store().Put(keyOf(segment(1)), []byte("0123456789"), epoch)
				require.NoError(t, call.run(t.Context(), manager), "the manager works on")
			})
		})
	}
}

// Aiven-Open/tiered-storage-for-apache-kafka#820 (a), W5, L3: a driver that ignores its context and never returns holds
// its own call, which keeps its buffer, and no other; its late return changes nothing.
func TestDriverThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		driver.Fault(memory.Sequence("Put", memory.Fault{Hang: true}))
		result := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		buffer := []byte("held")
		go func() { result <- manager.UploadSegment(ctx, segment(1), buffer) }()
		synctest.Wait()

		for n := 2; n < 50; n++ {
			require.NoError(t, manager.UploadSegment(t.Context(), segment(n), []byte("others")))
		}
		time.Sleep(time.Hour)
		select {
		case err := <-result:
			t.Fatalf("the call returned while the driver held its buffer: %v", err)
		default:
		}

		driver.Release()

		require.ErrorIs(t, <-result, context.DeadlineExceeded)
		_, stored := driver.Store().Object(keyOf(segment(1)))
		require.False(t, stored)
	})
}
