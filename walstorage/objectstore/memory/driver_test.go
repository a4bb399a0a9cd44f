package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRoundTrip(t *testing.T) {
	manager, driver, err := memory.NewManager(objectstore.Config{Cluster: "c"})
	require.NoError(t, err)
	id, err := walstorage.NewSegmentID(1, 2, time.Unix(1_700_000_000, 0), zeros{})
	require.NoError(t, err)
	ctx := context.Background()
	require.NoError(t, manager.UploadSegment(ctx, id, []byte("hello")))
	require.NoError(t, manager.UploadSegment(ctx, id, []byte("hello")))
	require.ErrorIs(t, manager.UploadSegment(ctx, id, []byte("other")), walstorage.ErrSegmentExists)
	dst := make([]byte, 3)
	require.NoError(t, manager.FetchSegment(ctx, id, 1, dst))
	require.Equal(t, "ell", string(dst))
	var listed int
	for info, err := range manager.ListSegments(ctx, walstorage.ListOptions{}) {
		require.NoError(t, err)
		require.Equal(t, id, info.ID)
		listed++
	}
	require.Equal(t, 1, listed)
	require.NoError(t, manager.DeleteSegments(ctx, id))
	require.Empty(t, driver.Store().Keys())
	require.NoError(t, manager.Close())
	require.ErrorIs(t, manager.FetchSegment(ctx, id, 0, nil), walstorage.ErrClosed)
}
