package versitygw

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks do to requests does not harm segments in a real server: a proxy before it loses, cuts and damages.
func TestFaults(t *testing.T) {
	url := integration.VersityGW.Address(t)
	bucket := newBucket(t, url)
	at := func(at conformance.Endpoint, store objectstore.Config) s3.Config {
		c := config(at.URL, bucket)
		c.HTTPClient, c.Store = at.Client, store
		return c
	}
	conformance.RunFaults(t, conformance.FaultsConfig{
		URL: url,
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
		Answers: conformance.FaultAnswers{
			Throttled: s3Error(503, "SlowDown"),
			Internal:  s3Error(500, "InternalError"),
			Transient: []conformance.FaultAnswer{s3Error(400, "RequestTimeout"), s3Error(409, "OperationAborted")},
			Conflict:  s3Error(409, "ConditionalRequestConflict"),
			Exists:    []conformance.FaultAnswer{s3Error(412, "PreconditionFailed")},
			Denied:    s3Error(403, "AccessDenied"),
			Expired:   s3Error(400, "ExpiredToken"),
			Document:  s3Error(200, "InternalError"),
		},
		WithoutToken: func(page []byte) []byte {
			return regexp.MustCompile(`<NextContinuationToken>.*</NextContinuationToken>`).ReplaceAll(page, nil)
		},
		Timeout:   3 * time.Minute,
		ListLarge: 1001,
		Secrets:   []string{accessKey, secretKey},
		Skip:      integration.Gaps(t, integration.VersityGW, "RunFaults"),
		Report:    caseresults.Record(t, string(integration.VersityGW)),
	})
}

// s3Error is an error document, as a server sends it that is not at its best.
func s3Error(status int, code string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/xml"}, "X-Amz-Request-Id": {"proxy"}},
		Body:   `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>as the proxy wants it</Message></Error>`,
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
	case r.Method == http.MethodHead && strings.Count(r.URL.Path, "/") > 1:
		return walstorage.OpStat
	}
	return "" // a look at the bucket
}
