package protocols

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/walstorage"
)

// S3 is the protocol of Amazon S3, with the bucket in the path.
func S3() conformance.FaultsConfig {
	return conformance.FaultsConfig{
		Operation: s3Operation,
		Answers: conformance.FaultAnswers{
			Throttled: S3Error(503, "SlowDown"),
			Internal:  S3Error(500, "InternalError"),
			Transient: []conformance.FaultAnswer{S3Error(400, "RequestTimeout"), S3Error(409, "OperationAborted")},
			Conflict:  S3Error(409, "ConditionalRequestConflict"),
			Exists:    []conformance.FaultAnswer{S3Error(412, "PreconditionFailed")},
			Denied:    S3Error(403, "AccessDenied"),
			Expired:   S3Error(400, "ExpiredToken"),
			Document:  S3Error(200, "InternalError"),
		},
		WithoutToken: func(page []byte) []byte {
			return regexp.MustCompile(`<NextContinuationToken>.*</NextContinuationToken>`).ReplaceAll(page, nil)
		},
	}
}

// S3Error is an error document, as a server sends it that is not at its best.
func S3Error(status int, code string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/xml"}, "X-Amz-Request-Id": {"proxy"}},
		Body:   `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>as the proxy wants it</Message></Error>`,
	}
}

func s3Operation(r *http.Request) walstorage.Op {
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
