package objectstore_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// epoch is when the segments of these tests are created.
var epoch = time.Date(2026, 7, 4, 12, 30, 0, 0, time.UTC)

// segment returns the n-th id of broker 1.
func segment(n int) walstorage.SegmentID { return segmentOf(1, n, epoch) }

func segmentOf(broker int32, n int, created time.Time) walstorage.SegmentID {
	var random [10]byte
	binary.BigEndian.PutUint64(random[2:], uint64(n))
	id, err := walstorage.NewSegmentID(broker, 5, created, strings.NewReader(string(random[:])))
	if err != nil {
		panic(err)
	}
	return id
}

// keyOf is the key of a segment in the cluster of these tests.
func keyOf(id walstorage.SegmentID) string {
	keys, err := walstorage.NewKeys("", "test")
	if err != nil {
		panic(err)
	}
	return keys.Key(id)
}

// newManager returns a manager over a memory driver; it is closed at the end of the test.
func newManager(t *testing.T, cfg objectstore.Config, driverConfig memory.Config) (*objectstore.Manager, *memory.Driver) {
	t.Helper()
	driver := memory.New(driverConfig)
	return manage(t, driver, cfg), driver
}

func manage(t *testing.T, driver objectstore.Driver, cfg objectstore.Config) *objectstore.Manager {
	t.Helper()
	if cfg.Cluster == "" {
		cfg.Cluster = "test"
	}
	manager, err := objectstore.New(driver, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, manager.Close()) })
	return manager
}

// What a store says when it is busy, and when it refuses.
func busy() error    { return walstorage.NewError(walstorage.ErrUnavailable, errors.New("503 SlowDown")) }
func refused() error { return walstorage.NewError(walstorage.ErrAccessDenied, errors.New("403")) }

func busyFor(d time.Duration) error {
	return &walstorage.Error{Kind: walstorage.ErrUnavailable, Cause: errors.New("503 SlowDown"), RetryAfter: d}
}

// pattern returns n bytes that differ from place to place.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

// asError returns the *walstorage.Error of err.
func asError(t *testing.T, err error) *walstorage.Error {
	t.Helper()
	var e *walstorage.Error
	require.ErrorAs(t, err, &e)
	return e
}
