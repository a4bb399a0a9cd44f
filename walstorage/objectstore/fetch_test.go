package objectstore_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// W6, fluree/db#1712, Eventual-Inc/Daft#4688: the edges of a range, pinned, with the number of requests that each may cost.
func TestFetchRanges(t *testing.T) {
	content := []byte("0123456789")
	stored, absent, invalid := segment(1), segment(2), walstorage.SegmentID{BrokerID: -1}
	tests := map[string]struct {
		id       walstorage.SegmentID
		offset   int64
		length   int
		want     string
		err      error
		requests int
	}{
		"D1: whole":                                 {stored, 0, 10, "0123456789", nil, 1},
		"D1: first byte":                            {stored, 0, 1, "0", nil, 1},
		"D1: last byte":                             {stored, 9, 1, "9", nil, 1},
		"D1: middle":                                {stored, 3, 4, "3456", nil, 1},
		"D3: end beyond the segment":                {stored, 5, 10, "", walstorage.ErrInvalidRange, 1},
		"D4: begins at the end":                     {stored, 10, 1, "", walstorage.ErrInvalidRange, 1},
		"D5: begins beyond the end":                 {stored, 11, 1, "", walstorage.ErrInvalidRange, 1},
		"D6: empty, no request":                     {stored, 3, 0, "", nil, 0},
		"D6: empty of an absent segment":            {absent, 3, 0, "", nil, 0},
		"D6: empty beyond the end":                  {stored, 1000, 0, "", nil, 0},
		"D7: negative offset":                       {stored, -1, 1, "", walstorage.ErrInvalidArgument, 0},
		"D7: negative offset, empty":                {stored, -1, 0, "", walstorage.ErrInvalidArgument, 0},
		"D7: lowest offset":                         {stored, math.MinInt64, 1, "", walstorage.ErrInvalidArgument, 0},
		"D8: offset and length overflow":            {stored, math.MaxInt64, 1, "", walstorage.ErrInvalidArgument, 0},
		"D8: offset and length just do not":         {stored, math.MaxInt64 - 1, 1, "", walstorage.ErrInvalidRange, 1},
		"D10: absent segment":                       {absent, 0, 1, "", walstorage.ErrSegmentNotFound, 1},
		"D10: absent segment, range beyond any end": {absent, 1 << 40, 1, "", walstorage.ErrSegmentNotFound, 1},
		"invalid id":                                {invalid, 0, 1, "", walstorage.ErrInvalidArgument, 0},
		"invalid id, empty":                         {invalid, 0, 0, "", walstorage.ErrInvalidArgument, 0},
		"zero id":                                   {walstorage.SegmentID{}, 0, 1, "", walstorage.ErrInvalidArgument, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
			driver.Store().Put(keyOf(stored), content, epoch)
			dst := make([]byte, test.length)

			err := manager.FetchSegment(t.Context(), test.id, test.offset, dst)

			require.ErrorIs(t, err, test.err)
			assert.Equal(t, test.requests, driver.Calls("Get"))
			if test.err == nil {
				assert.Equal(t, test.want, string(dst))
				return
			}
			assert.Equal(t, walstorage.OpFetch, asError(t, err).Op)
			assert.Equal(t, test.requests, asError(t, err).Attempts)
		})
	}

	t.Run("D9: of an empty segment", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		driver.Store().Put(keyOf(stored), nil, epoch)
		require.NoError(t, manager.FetchSegment(t.Context(), stored, 0, nil))
		require.ErrorIs(t, manager.FetchSegment(t.Context(), stored, 0, make([]byte, 1)), walstorage.ErrInvalidRange)
	})
}

// aws/aws-sdk-go#4510, aws/aws-sdk-go#1242, D12, J11: a body that ends early is fetched again, and never returned as it is.
func TestShortBodyIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		content := pattern(1000)
		driver.Store().Put(keyOf(segment(1)), content, epoch)
		driver.Fault(memory.Sequence("Get", memory.Fault{Truncate: 600}, memory.Fault{Truncate: 1000}))
		dst := make([]byte, 1000)

		require.NoError(t, manager.FetchSegment(t.Context(), segment(1), 0, dst))

		require.Equal(t, content, dst)
		require.Equal(t, 3, driver.Calls("Get"))
	})
}

// W4: the Manager verifies nothing that it fetches; what reads segments does. A damaged answer comes through as it is.
func TestFetchedBytesAreNotVerified(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	driver.Store().Put(keyOf(segment(1)), []byte{0}, epoch)
	driver.Fault(memory.Sequence("Get", memory.Fault{FlipBit: 1}))
	dst := make([]byte, 1)

	require.NoError(t, manager.FetchSegment(t.Context(), segment(1), 0, dst))

	require.Equal(t, []byte{1}, dst)
}

func TestStat(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	driver.Store().Put(keyOf(segment(1)), make([]byte, 77), epoch)

	info, err := manager.StatSegment(t.Context(), segment(1))
	require.NoError(t, err)
	require.Equal(t, walstorage.SegmentInfo{ID: segment(1), Size: 77, Stored: epoch}, info)

	_, err = manager.StatSegment(t.Context(), segment(2))
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)
	require.ErrorIs(t, manager.FetchSegment(t.Context(), segment(2), 0, make([]byte, 1)), walstorage.ErrSegmentNotFound, "I2: the same everywhere")

	_, err = manager.StatSegment(t.Context(), walstorage.SegmentID{})
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	require.Equal(t, 2, driver.Calls("Stat"))
}

// W5 outranks W8: a driver that goes on filling dst after its context has ended delays the return until it is done, so
// that the buffer is never filled after its owner has it back.
func TestFetchReturnsOnlyWhenTheDriverHasLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writing atomic.Bool
		driver := &stub{get: func(_ context.Context, dst []byte) error {
			writing.Store(true)
			defer writing.Store(false)
			time.Sleep(time.Minute) // whatever ctx says
			copy(dst, "late")
			return nil
		}}
		manager := manage(t, driver, objectstore.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		dst := make([]byte, 4)
		start := time.Now()

		err := manager.FetchSegment(ctx, segment(1), 0, dst)

		require.False(t, writing.Load())
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, err, "the bytes are there, late as they are")
		require.Equal(t, "late", string(dst))
	})
}
