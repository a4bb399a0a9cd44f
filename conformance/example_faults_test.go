package conformance_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A backend that speaks HTTP, here package s3, to a server that runs already. The test of package s3 itself has a
// Handler in place of the URL, and tells the suite the words of S3 too.
func ExampleRunFaults() {
	// In your package: func TestFaults(t *testing.T) { ... }
	_ = func(t *testing.T) {
		conformance.RunFaults(t, conformance.FaultsConfig{
			URL: "http://127.0.0.1:9000",
			Driver: func(tb testing.TB, at conformance.Endpoint) objectstore.Driver {
				driver, err := s3.NewDriver(tb.Context(), s3.Config{Bucket: "faults", PathStyle: true, Endpoint: at.URL, HTTPClient: at.Client})
				require.NoError(tb, err)
				return driver
			},
			Operation: func(r *http.Request) walstorage.Op {
				switch query := r.URL.Query(); {
				case r.Method == http.MethodPut:
					return walstorage.OpUpload
				case r.Method == http.MethodPost && query.Has("delete"):
					return walstorage.OpDelete
				case r.Method == http.MethodGet && query.Has("list-type"):
					return walstorage.OpList
				case r.Method == http.MethodGet:
					return walstorage.OpFetch
				case r.Method == http.MethodHead && r.URL.Path != "/faults":
					return walstorage.OpStat
				}
				return "" // a look at the bucket
			},
		})
	}
}
