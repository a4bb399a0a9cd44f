package s3_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What the driver and the SDK cost over loopback, with the fake in the same process: no speed of any store.
func BenchmarkConformance(b *testing.B) {
	_, url := serve(b, fake.Config{AccessKeys: []string{accessKey}})
	conformance.RunBenchmarks(b, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			c := config(url)
			c.Store = place
			manager, err := s3.New(tb.Context(), c)
			require.NoError(tb, err)
			return manager
		},
	})
}
