package conformance

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// counting is a manager that knows how much is stored at most.
type counting struct {
	walstorage.WalStorageManager
	stored, most, uploads atomic.Int64
	keeps                 bool // a delete does nothing
}

func (m *counting) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	m.uploads.Add(1)
	if stored := m.stored.Add(1); stored > m.most.Load() {
		m.most.Store(stored)
	}
	return m.WalStorageManager.UploadSegment(ctx, id, data)
}

func (m *counting) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	if m.keeps {
		return nil
	}
	m.stored.Add(-int64(len(ids)))
	return m.WalStorageManager.DeleteSegments(ctx, ids...)
}

// However often a benchmark repeats its calls, there is never more in the store than it has promised, and nothing at the
// end; what is left nevertheless fails it.
func TestBenchmarksAreBounded(t *testing.T) {
	before := flag.Lookup("test.benchtime").Value.String()
	t.Cleanup(func() { require.NoError(t, flag.Set("test.benchtime", before)) })
	run := func(times string, m *counting) (failed bool) {
		require.NoError(t, flag.Set("test.benchtime", times))
		testing.Benchmark(func(b *testing.B) {
			cfg := modelConfig(flaws{})
			open := cfg.Open
			cfg.Open = func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
				m.WalStorageManager = open(tb, store)
				return m
			}
			RunBenchmarks(b, cfg)
			failed = b.Failed()
		})
		return failed
	}
	clean := &counting{}
	require.False(t, run("600x", clean))
	require.Greater(t, clean.uploads.Load(), int64(2*600), "uploads")
	require.LessOrEqual(t, clean.most.Load(), int64(benchSegments), "segments stored at once")
	require.Zero(t, clean.stored.Load(), "segments left")

	require.True(t, run("1x", &counting{keeps: true}), "a store that keeps everything")
}
