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

// W7: a call whose context ends while an attempt is under way tells what the store had said to the attempts before, as one
// does whose context ends between two attempts: that alone shows why there was no success.
func TestEndDuringAnAttemptTellsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, driver, err := memory.NewManager(objectstore.Config{Cluster: "c"})
		require.NoError(t, err)
		defer m.Close()
		driver.Fault(func(call memory.Call) memory.Fault {
			if call.Number > 3 {
				return memory.Fault{Delay: time.Hour}
			}
			return memory.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, errors.New("connection refused"))}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "connection refused")
		}
		require.Equal(t, 4, driver.Calls("List"))
	})
}
