package fakegcs

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks do to requests does not harm segments in a real server: a proxy before it loses, cuts and damages.
func TestFaults(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	bucket := newBucket(t, address)
	at := func(at conformance.Endpoint, store objectstore.Config) gcs.Config {
		c := config(at.URL, bucket)
		c.HTTPClient, c.Store = at.Client, store
		return c
	}
	conformance.RunFaults(t, conformance.FaultsConfig{
		URL: smallPages(t, address),
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
		Content:   contentOf,
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
		Timeout:   3 * time.Minute,
		ListLarge: 150, // a second page that is worth cutting
		Secrets:   []string{token},
		Skip:      integration.Gaps(t, integration.FakeGCS, "RunFaults"),
		Report:    caseresults.Record(t, string(integration.FakeGCS)),
	})
}

// gcsError is an error document, as a server sends it that is not at its best.
func gcsError(status int, reason string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}},
		Body:   `{"error":{"code":` + strconv.Itoa(status) + `,"message":"as the proxy wants it","errors":[{"reason":"` + reason + `"}]}}`,
	}
}

// operationOf tells what a request to Google Cloud Storage asks for.
func operationOf(r *http.Request) walstorage.Op {
	switch {
	case r.Method == http.MethodPost:
		return walstorage.OpUpload
	case r.Method == http.MethodDelete:
		return walstorage.OpDelete
	case r.URL.Query().Get("alt") == "media":
		return walstorage.OpFetch
	case strings.Contains(r.URL.Path, "/o/"):
		return walstorage.OpStat
	case r.URL.Query().Get("maxResults") == "1":
		return "" // a look at the bucket
	}
	return walstorage.OpList
}

// contentOf returns the second part of an upload, which is the segment.
func contentOf(r *http.Request, body []byte) ([]byte, error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	var content []byte
	for range 2 {
		part, err := parts.NextRawPart()
		if err != nil {
			return nil, errors.Join(errors.New("an upload of less than two parts"), err)
		}
		if content, err = io.ReadAll(part); err != nil {
			return nil, err
		}
	}
	return content, nil
}
