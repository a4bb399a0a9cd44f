package gcs_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"

	"github.com/walhop/walhop/gcs"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
)

// J17, J20: a client that is handed in follows redirects. What it finds there is no answer of the store to what was asked:
// net/http makes a GET of a DELETE, and "no such object" is then no object that is deleted.
func TestRedirectOfAClient(t *testing.T) {
	object, err := json.Marshal(map[string]string{"name": "k", "size": "4", "crc32c": strings.Trim(encoded([]byte("data")), `"`)})
	require.NoError(t, err)
	for _, found := range []struct {
		status int
		body   string
	}{
		{404, document(404, "notFound", "No such object: segments/k")},
		{200, string(object)},
		{200, ""},
		{204, ""},
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			var elsewhere atomic.Value
			listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/elsewhere" {
					w.Header().Set("Location", elsewhere.Load().(string))
					w.WriteHeader(status)
					return
				}
				w.WriteHeader(found.status)
				_, _ = w.Write([]byte(found.body))
			}))
			// On the same host, and on another.
			for _, place := range []string{"/elsewhere", strings.Replace(listening.URL, "127.0.0.1", "localhost", 1) + "/elsewhere"} {
				for name, options := range modes {
					elsewhere.Store(place)
					transport := &http.Transport{}
					client, err := storage.NewClient(t.Context(), append(options,
						option.WithEndpoint(listening.URL+"/storage/v1/"), option.WithHTTPClient(&http.Client{Transport: transport}), option.WithoutAuthentication())...)
					require.NoError(t, err)
					driver := open(t, gcs.Config{Bucket: bucket, Client: client})
					for op, call := range operations {
						err := call(t.Context(), driver)
						require.Error(t, err, "%s %s %d", name, op, status)
						kind := walstorage.KindOf(err)
						assert.Contains(t, []error{nil, walstorage.ErrUnavailable}, kind, "%s %s %d: %v", name, op, status, err)
					}
					transport.CloseIdleConnections()
				}
			}
			listening.Close()
		}
	}
}

// A bucket whose first page is empty, and not the last, is a bucket.
func TestBucketWithAnEmptyPage(t *testing.T) {
	server, url := serve(t, fake.Config{})
	_, ready := handed(t, fake.Config{})
	for name, c := range map[string]gcs.Config{"ours": config(url), "handed": ready} {
		if name == "handed" {
			server, c = handed(t, fake.Config{})
		}
		server.Store(bucket, "there", []byte("data"))
		server.Always(fake.List, fake.Fault{Empty: true})
		assert.NoError(t, open(t, c).Warm(t.Context()), name)
	}
}
