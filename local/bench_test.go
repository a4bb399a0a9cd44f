//go:build unix

package local

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// The target size of a segment.
const benchBytes = 256 << 10

// BenchmarkUpload puts side by side the least that a durable, atomic upload of 256 KiB takes of the system, in one
// directory by absolute paths, the driver, and the whole store. Set TMPDIR to the file system that is of interest: on
// one with a real disk the syncs are nearly all of the time.
func BenchmarkUpload(b *testing.B) {
	data := make([]byte, benchBytes)
	_, _ = rand.Read(data)
	now := time.Now()

	b.Run("limit", func(b *testing.B) {
		dir := b.TempDir()
		b.ReportAllocs()
		b.SetBytes(benchBytes)
		for n := 0; b.Loop(); n++ {
			temporary := filepath.Join(dir, "temporary")
			file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, defaultFileMode)
			require.NoError(b, err)
			_, err = file.Write(data)
			require.NoError(b, err)
			require.NoError(b, file.Sync())
			require.NoError(b, os.Link(temporary, filepath.Join(dir, fmt.Sprintf("%08d.wal", n))))
			require.NoError(b, os.Remove(temporary))
			require.NoError(b, file.Close())
			parent, err := os.Open(dir)
			require.NoError(b, err)
			require.NoError(b, parent.Sync())
			require.NoError(b, parent.Close())
		}
	})
	b.Run("driver", func(b *testing.B) {
		d := newBenchDriver(b)
		keys := benchKeys(b)
		b.ReportAllocs()
		b.SetBytes(benchBytes)
		for b.Loop() {
			body := objectstore.NewBody(data)
			require.NoError(b, d.Put(b.Context(), keys.Key(benchID(b, now)), body, 0))
			body.Revoke()
		}
	})
	b.Run("store", func(b *testing.B) {
		m := newBenchStore(b)
		b.ReportAllocs()
		b.SetBytes(benchBytes)
		for b.Loop() {
			require.NoError(b, m.UploadSegment(b.Context(), benchID(b, now), data))
		}
	})
}

// BenchmarkFetch puts side by side open, read and close of a file of 256 KiB by its absolute path, the driver, and the
// whole store.
func BenchmarkFetch(b *testing.B) {
	data := make([]byte, benchBytes)
	_, _ = rand.Read(data)
	dst := make([]byte, benchBytes)
	id := benchID(b, time.Now())

	b.Run("limit", func(b *testing.B) {
		name := filepath.Join(b.TempDir(), "segment.wal")
		require.NoError(b, os.WriteFile(name, data, defaultFileMode))
		b.ReportAllocs()
		b.SetBytes(benchBytes)
		for b.Loop() {
			file, err := os.Open(name)
			require.NoError(b, err)
			_, err = file.ReadAt(dst, 0)
			require.NoError(b, err)
			require.NoError(b, file.Close())
		}
	})
	b.Run("driver", func(b *testing.B) {
		d := newBenchDriver(b)
		key := benchKeys(b).Key(id)
		require.NoError(b, d.Put(b.Context(), key, objectstore.NewBody(data), 0))
		b.ReportAllocs()
		b.SetBytes(benchBytes)
		for b.Loop() {
			require.NoError(b, d.Get(b.Context(), key, 0, dst))
		}
	})
	b.Run("store", func(b *testing.B) {
		m := newBenchStore(b)
		require.NoError(b, m.UploadSegment(b.Context(), id, data))
		b.ReportAllocs()
		b.SetBytes(benchBytes)
		for b.Loop() {
			require.NoError(b, m.FetchSegment(b.Context(), id, 0, dst))
		}
	})
}

func benchKeys(tb testing.TB) walstorage.Keys {
	keys, err := walstorage.NewKeys("wal", "bench")
	require.NoError(tb, err)
	return keys
}

func benchID(tb testing.TB, created time.Time) walstorage.SegmentID {
	id, err := walstorage.NewSegmentID(1, 1, created, rand.Reader)
	require.NoError(tb, err)
	return id
}

func newBenchDriver(b *testing.B) *Driver {
	d, err := NewDriver(context.Background(), Config{Root: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	return d
}

func newBenchStore(b *testing.B) *WalStorageManager {
	m, err := New(context.Background(), Config{Root: b.TempDir(), Store: objectstore.Config{Cluster: "bench", Prefix: "wal"}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, m.Close()) })
	return m
}
