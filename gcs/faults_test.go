package gcs_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/caseresults"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	operations := 0 // the suite's own number
	if raceDetector {
		operations = 1000
	}
	at := func(at conformance.Endpoint, store objectstore.Config) gcs.Config {
		return gcs.Config{Bucket: bucket, Endpoint: at.URL, Credentials: with(provider(token)), HTTPClient: at.Client, Store: store}
	}
	conformance.RunFaults(t, conformance.FaultsConfig{
		Handler: func(tb testing.TB) http.Handler {
			server := fake.New(fake.Config{Buckets: []string{bucket}, PageSize: 100})
			tb.Cleanup(server.Close)
			return server
		},
		Driver: func(tb testing.TB, endpoint conformance.Endpoint) objectstore.Driver {
			driver, err := gcs.NewDriver(tb.Context(), at(endpoint, objectstore.Config{}))
			require.NoError(tb, err)
			return driver
		},
		Open: func(tb testing.TB, endpoint conformance.Endpoint, store objectstore.Config) walstorage.WalStorageManager {
			manager, err := gcs.New(tb.Context(), at(endpoint, store))
			require.NoError(tb, err)
			return manager
		},
		Operation: operationOf,
		Content:   mediaOf,
		Answers: conformance.FaultAnswers{
			Throttled: gcsError(429, "rateLimitExceeded"),
			Internal:  gcsError(500, "backendError"),
			Transient: []conformance.FaultAnswer{gcsError(408, "requestTimeout"), gcsError(503, "backendError")},
			Conflict:  gcsError(409, "conflict"),
			Exists:    []conformance.FaultAnswer{gcsError(412, "conditionNotMet")},
			Denied:    gcsError(403, "forbidden"),
			Expired:   gcsError(401, "authError"),
			Document:  gcsError(200, "backendError"),
		},
		Headers: map[walstorage.Op][]string{
			walstorage.OpUpload: allowed(fake.Insert),
			walstorage.OpFetch:  allowed(fake.Read),
			walstorage.OpStat:   allowed(fake.Get),
			walstorage.OpDelete: allowed(fake.Delete),
			walstorage.OpList:   allowed(fake.List),
		},
		Required: map[walstorage.Op]map[string]string{
			walstorage.OpUpload: {"Authorization": "Bearer " + token},
		},
		ListLarge:  150, // a second page that is worth cutting
		Operations: operations,
		Secrets:    []string{token},
		Skip: map[string]string{
			"E14": "the protocol cannot say that there is more and not where: a page without a token is the last one",
		},
		Report: caseresults.Record(t, "gcs"),
	})
}

// gcsError is an error document.
func gcsError(status int, reason string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}},
		Body:   fmt.Sprintf(`{"error":{"code":%d,"message":"as the proxy wants it","errors":[{"domain":"global","reason":%q,"message":"as the proxy wants it"}]}}`, status, reason),
	}
}

// operationOf tells what a request of the JSON API asks for.
func operationOf(r *http.Request) walstorage.Op {
	_, object := strings.CutPrefix(r.URL.Path, "/storage/v1/b/"+bucket+"/o/")
	switch {
	case r.Method == http.MethodPost:
		return walstorage.OpUpload
	case r.Method == http.MethodDelete:
		return walstorage.OpDelete
	case object && r.URL.Query().Get("alt") == "media":
		return walstorage.OpFetch
	case object:
		return walstorage.OpStat
	case r.URL.Query().Get("maxResults") == "1":
		return "" // a look at the bucket
	}
	return walstorage.OpList
}

// mediaOf takes the segment out of an upload, which has its metadata before it.
func mediaOf(r *http.Request, body []byte) ([]byte, error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	if _, err := parts.NextPart(); err != nil {
		return nil, err
	}
	media, err := parts.NextPart()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(media)
}
