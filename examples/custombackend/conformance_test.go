package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// shared is a driver that leaves the file open for others.
type shared struct{ *Driver }

func (s shared) Close() error {
	s.writes.Wait()
	return nil
}

// The backend keeps every rule that the suite checks. bbolt locks its file, so the handles of the suite share a database.
func TestConformance(t *testing.T) {
	owner, err := Open(filepath.Join(t.TempDir(), "segments.db"), "segments")
	require.NoError(t, err)
	handle := func(bucket string) objectstore.Driver {
		return shared{&Driver{db: owner.db, bucket: []byte(bucket)}}
	}
	conformance.Run(t, conformance.Config{
		Report: caseresults.Record(t, "custombackend"), // for walhop's own tables: leave it out
		Driver: func(testing.TB) objectstore.Driver { return handle("segments") },
		NoBucket: func(testing.TB) (walstorage.WalStorageManager, error) {
			return objectstore.New(handle("none"), objectstore.Config{Cluster: "c"})
		},
		Residue: func(tb testing.TB, prefix string) (keys []string) {
			require.NoError(tb, owner.db.View(func(tx *bbolt.Tx) error {
				return tx.Bucket(owner.bucket).ForEach(func(key, _ []byte) error {
					if k := string(key); strings.HasPrefix(k, prefix) && !strings.HasSuffix(k, ".wal") {
						keys = append(keys, k)
					}
					return nil
				})
			}))
			return keys
		},
		MaxObjectSize: objectBytes,
		ListLarge:     2*pageSize + 1,
		Skip: map[string]string{
			"C4": "bbolt locks its file to one process",
			"F9": "bbolt locks its file to one process",
			"F6": "a delete is one transaction over all keys: bbolt cannot refuse one of them",
			"I4": "a file that is open has no permissions that could be refused",
		},
	})
	require.NoError(t, owner.Close())
}

// What was stored is there when the file is opened again (W3), with its time and checksum.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segments.db")
	driver, err := Open(path, "segments")
	require.NoError(t, err)
	const crc32c = 0xe3069283 // of "123456789"
	require.NoError(t, driver.Put(t.Context(), "k", objectstore.NewBody([]byte("123456789")), crc32c))
	stored, err := driver.Stat(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, driver.Close())

	driver, err = Open(path, "segments")
	require.NoError(t, err)
	again, err := driver.Stat(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, stored, again)
	require.Equal(t, uint32(crc32c), again.CRC32C)
	require.NoError(t, driver.Close())
	_, err = driver.Stat(t.Context(), "k")
	require.ErrorIs(t, err, walstorage.ErrClosed)
}

// Opening tells its errors apart (W7).
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked.db")
	driver, err := Open(locked, "segments")
	require.NoError(t, err)
	defer driver.Close()
	foreign := filepath.Join(dir, "foreign.db")
	require.NoError(t, os.WriteFile(foreign, make([]byte, 64<<10), 0o600))
	for name, tc := range map[string]struct {
		path string
		kind error
	}{
		"no directory":      {filepath.Join(dir, "none", "segments.db"), walstorage.ErrBucketNotFound},
		"locked":            {locked, walstorage.ErrUnavailable},
		"no bbolt database": {foreign, walstorage.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(tc.path, "segments")
			require.ErrorIs(t, err, tc.kind)
		})
	}
	_, err = Open(filepath.Join(dir, "unnamed.db"), "")
	require.ErrorContains(t, err, "bucket name required")
}

// Every error of bbolt or of the system that says something to walhop has its kind, whatever wraps it; others have none.
func TestClassify(t *testing.T) {
	for _, known := range kinds {
		for _, cause := range known[1:] {
			err := classify(&os.PathError{Op: "write", Path: "segments.db", Err: cause})
			require.Equal(t, known[0], walstorage.KindOf(err), cause)
			require.ErrorContains(t, err, cause.Error())
		}
	}
	require.NoError(t, classify(nil))
	require.Nil(t, walstorage.KindOf(classify(syscall.EIO)))
}

// A write whose context has ended returns at once, though the file is busy, and is not done when its turn comes (W8).
func TestWriteLeavesBusyFile(t *testing.T) {
	driver, err := Open(filepath.Join(t.TempDir(), "segments.db"), "segments")
	require.NoError(t, err)
	busy, err := driver.db.Begin(true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	put := make(chan error, 1)
	go func() { put <- driver.Put(ctx, "k", objectstore.NewBody(nil), 0) }()
	cancel()
	require.ErrorIs(t, <-put, context.Canceled)
	require.NoError(t, busy.Rollback())
	driver.writes.Wait()
	_, err = driver.Stat(t.Context(), "k")
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)
	require.NoError(t, driver.Close())
}
