package protocols_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/walstorage"
)

// What each request of a driver asks for is known, and what asks for no object or list is none of them.
func TestOperation(t *testing.T) {
	tests := map[string]struct {
		protocol conformance.FaultsConfig
		want     map[string]walstorage.Op
	}{
		"S3": {protocols.S3(), map[string]walstorage.Op{
			"PUT /b/k":                         walstorage.OpUpload,
			"GET /b/k":                         walstorage.OpFetch,
			"HEAD /b/k":                        walstorage.OpStat,
			"POST /b?delete":                   walstorage.OpDelete,
			"GET /b?list-type=2&prefix=a%2F":   walstorage.OpList,
			"HEAD /b":                          "",
			"POST /b/k?uploads":                "",
			"DELETE /b/k?uploadId=nothing":     "",
			"GET /b/list-type?x-id=GetObject":  walstorage.OpFetch,
			"PUT /b/a/b/c.wal?x-id=PutObject":  walstorage.OpUpload,
			"HEAD /b/a/b/c.wal?versionId=null": walstorage.OpStat,
		}},
		"GCS": {protocols.GCS(), map[string]walstorage.Op{
			"POST /upload/storage/v1/b/b/o?uploadType=multipart": walstorage.OpUpload,
			"GET /storage/v1/b/b/o/k?alt=media":                  walstorage.OpFetch,
			"GET /storage/v1/b/b/o/k?alt=json":                   walstorage.OpStat,
			"DELETE /storage/v1/b/b/o/k":                         walstorage.OpDelete,
			"GET /storage/v1/b/b/o?maxResults=1000":              walstorage.OpList,
			"GET /storage/v1/b/b/o?maxResults=1":                 "",
		}},
		"Azure": {protocols.Azure(), map[string]walstorage.Op{
			"PUT /c/k":                             walstorage.OpUpload,
			"GET /c/k":                             walstorage.OpFetch,
			"HEAD /c/k":                            walstorage.OpStat,
			"HEAD /account/c/k":                    walstorage.OpStat,
			"DELETE /c/k":                          walstorage.OpDelete,
			"POST /c?restype=container&comp=batch": walstorage.OpDelete,
			"GET /c?restype=container&comp=list":   walstorage.OpList,
			"HEAD /account/c?restype=container":    "",
			"POST /c/k":                            "",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for request, want := range test.want {
				method, target, _ := strings.Cut(request, " ")
				assert.Equal(t, want, test.protocol.Operation(httptest.NewRequestWithContext(t.Context(), method, target, nil)), request)
			}
		})
	}
}

// An error document has the code where the protocol has it, and a page that is cut keeps all but its token.
func TestWords(t *testing.T) {
	for name, protocol := range map[string]conformance.FaultsConfig{"S3": protocols.S3(), "GCS": protocols.GCS(), "Azure": protocols.Azure()} {
		answers := protocol.Answers
		assert.Equal(t, 500, answers.Internal.Status, name)
		assert.Equal(t, http.StatusOK, answers.Document.Status, name)
		for _, answer := range append(answers.Exists, answers.Throttled, answers.Internal, answers.Conflict, answers.Denied, answers.Document) {
			assert.Contains(t, answer.Body, "as the proxy wants it", name)
			assert.NotEmpty(t, answer.Header.Get("Content-Type"), name)
		}
	}
	assert.Contains(t, protocols.S3Error(503, "SlowDown").Body, "<Code>SlowDown</Code>")
	assert.Contains(t, protocols.GCSError(429, "rateLimitExceeded").Body, `"reason":"rateLimitExceeded"`)
	busy := protocols.AzureError(503, "ServerBusy")
	assert.Contains(t, busy.Body, "<Code>ServerBusy</Code>")
	assert.Equal(t, "ServerBusy", busy.Header.Get("X-Ms-Error-Code"))

	const page = "<IsTruncated>true</IsTruncated><NextContinuationToken>YQ==</NextContinuationToken><Contents></Contents>"
	assert.Equal(t, "<IsTruncated>true</IsTruncated><Contents></Contents>", string(protocols.S3().WithoutToken([]byte(page))))
}

// The segment is the second part of an upload to Google Cloud Storage, byte by byte.
func TestContent(t *testing.T) {
	content := protocols.GCS().Content
	request := func(contentType string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", contentType)
		return r
	}
	const kind = "multipart/related; boundary=cut"
	got, err := content(request(kind), []byte("--cut\r\n\r\n{}\r\n--cut\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=3D\r\n--cut--\r\n"))
	require.NoError(t, err)
	assert.Equal(t, "=3D", string(got))
	for name, wrong := range map[string][2]string{
		"one part":    {kind, "--cut\r\n\r\n{}\r\n--cut--\r\n"},
		"a cut part":  {kind, "--cut\r\n\r\n{}\r\n--cut\r\n\r\nda"},
		"no boundary": {"text/plain; =", "data"},
	} {
		_, err := content(request(wrong[0]), []byte(wrong[1]))
		assert.Error(t, err, name)
	}
}
