package s3_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	conformance.RunFaults(t, faultsConfig())
}

func faultsConfig() conformance.FaultsConfig {
	at := func(at conformance.Endpoint, store objectstore.Config) s3.Config {
		return s3.Config{Bucket: bucket, Endpoint: at.URL, PathStyle: true, Credentials: keys(), HTTPClient: at.Client, Store: store}
	}
	return conformance.FaultsConfig{
		Handler: func(tb testing.TB) http.Handler {
			server := fake.New(fake.Config{Buckets: []string{bucket}, PageSize: 100})
			tb.Cleanup(server.Close)
			return server
		},
		Driver: func(tb testing.TB, endpoint conformance.Endpoint) objectstore.Driver {
			driver, err := s3.NewDriver(tb.Context(), at(endpoint, objectstore.Config{}))
			require.NoError(tb, err)
			return driver
		},
		Open: func(tb testing.TB, endpoint conformance.Endpoint, store objectstore.Config) walstorage.WalStorageManager {
			manager, err := s3.New(tb.Context(), at(endpoint, store))
			require.NoError(tb, err)
			return manager
		},
		Operation: operationOf,
		ListLarge: 101,
		Secrets:   []string{accessKey, secretKey, sessionToken},
	}
}

// operationOf tells what a request to S3 asks for.
func operationOf(r *http.Request) walstorage.Op {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		return walstorage.OpUpload
	case r.Method == http.MethodPost && query.Has("delete"):
		return walstorage.OpDelete
	case r.Method == http.MethodGet && query.Has("list-type"):
		return walstorage.OpList
	case r.Method == http.MethodGet:
		return walstorage.OpFetch
	case r.Method == http.MethodHead && r.URL.Path != "/"+bucket:
		return walstorage.OpStat
	}
	return "" // a look at the bucket
}
