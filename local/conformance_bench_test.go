//go:build unix

package local_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Segments as files: uploads wait for the disk, fetches come from the page cache.
func BenchmarkConformance(b *testing.B) {
	root := b.TempDir()
	conformance.RunBenchmarks(b, conformance.Config{
		Open: func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
			manager, err := local.New(tb.Context(), local.Config{Root: root, Store: store})
			require.NoError(tb, err)
			return manager
		},
	})
}
