package protocols

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/walstorage"
)

// GCS is the protocol of Google Cloud Storage: its JSON API.
func GCS() conformance.FaultsConfig {
	return conformance.FaultsConfig{
		Operation: gcsOperation,
		Content:   gcsContent,
		Answers: conformance.FaultAnswers{
			Throttled: GCSError(429, "rateLimitExceeded"),
			Internal:  GCSError(500, "backendError"),
			Transient: []conformance.FaultAnswer{GCSError(408, "requestTimeout"), GCSError(503, "backendError")},
			Conflict:  GCSError(409, "conflict"),
			Exists:    []conformance.FaultAnswer{GCSError(412, "conditionNotMet")},
			Denied:    GCSError(403, "forbidden"),
			Expired:   GCSError(401, "authError"),
			Document:  GCSError(200, "backendError"),
		},
	}
}

// GCSError is an error document, as a server sends it that is not at its best.
func GCSError(status int, reason string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}},
		Body:   fmt.Sprintf(`{"error":{"code":%d,"message":"as the proxy wants it","errors":[{"domain":"global","reason":%q,"message":"as the proxy wants it"}]}}`, status, reason),
	}
}

func gcsOperation(r *http.Request) walstorage.Op {
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

// gcsContent takes the segment out of an upload, which has its metadata before it.
func gcsContent(r *http.Request, body []byte) ([]byte, error) {
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
