package s3_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	cfg := faultsConfig()
	cfg.Report = caseresults.Record(t, "s3")
	conformance.RunFaults(t, cfg)
}

func faultsConfig() conformance.FaultsConfig {
	operations := 0 // the suite's own number
	if raceDetector {
		operations = 1000
	}
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
		Headers: map[walstorage.Op][]string{
			walstorage.OpUpload: append(allowed, "Content-Type", "If-None-Match", "X-Amz-Checksum-Crc32c"),
			walstorage.OpFetch:  append(allowed, "Range"),
			walstorage.OpStat:   append(allowed, "X-Amz-Checksum-Mode"),
			walstorage.OpDelete: append(allowed, "Content-Type", "X-Amz-Checksum-Crc32c", "X-Amz-Sdk-Checksum-Algorithm"),
			walstorage.OpList:   allowed,
		},
		Required: map[walstorage.Op]map[string]string{
			walstorage.OpUpload: {"If-None-Match": "*", "X-Amz-Checksum-Crc32c": "", "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"},
		},
		WithoutToken: func(page []byte) []byte {
			return regexp.MustCompile(`<NextContinuationToken>.*</NextContinuationToken>`).ReplaceAll(page, nil)
		},
		ListLarge:  101,
		Operations: operations,
		Secrets:    []string{accessKey, secretKey, sessionToken},
	}
}

// s3Error is an error document.
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
	case r.Method == http.MethodHead && r.URL.Path != "/"+bucket:
		return walstorage.OpStat
	}
	return "" // a look at the bucket
}
