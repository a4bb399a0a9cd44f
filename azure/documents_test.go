package azure_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// W7, W2: what a document says counts only under a status that goes with it: a gateway in trouble, whose document speaks of
// something that it has not found, has told nothing of a segment.
func TestCodesUnderAnotherStatus(t *testing.T) {
	tests := []struct {
		status int
		code   string
		kind   error
	}{
		{503, "BlobNotFound", walstorage.ErrUnavailable},
		{502, "ContainerNotFound", walstorage.ErrUnavailable},
		{500, "BlobAlreadyExists", walstorage.ErrUnavailable},
		{500, "AuthenticationFailed", walstorage.ErrUnavailable},
		{501, "ServerBusy", nil},
		{429, "BlobNotFound", walstorage.ErrUnavailable},
		{400, "BlobNotFound", nil},
		{410, "ContainerNotFound", nil},
		{307, "BlobNotFound", nil},
	}
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	for _, test := range tests {
		for _, op := range strings.Fields("PutBlob GetBlob GetBlobProperties ListBlobs DeleteBlob") {
			server.Always(op, fake.Fault{Status: test.status, Code: test.code})
			err := operations[op](t.Context(), driver)
			require.Error(t, err, "%d %s to %s", test.status, test.code, op)
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%d %s to %s: %v", test.status, test.code, op, err)
		}
	}
}

// J22: a date to wait for is by the clock of the store.
func TestRetryAfterByTheClockOfTheStore(t *testing.T) {
	drivertest.RetryAfterOfAnotherClock(t, ours, config(""))
}

// What a client that is handed in panics with is no answer to a batch: the Manager contains it, and tells of it.
func TestPanicOfTheClient(t *testing.T) {
	c := config("http://fake.invalid")
	c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(*http.Request) (*http.Response, error) { panic("no") })}
	driver := open(t, c)
	for op, call := range operations {
		assert.PanicsWithValue(t, "no", func() { _ = call(t.Context(), driver) }, op)
	}
	err := manage(t, c).DeleteSegments(t.Context(), drivertest.Segment(t), drivertest.Segment(t))
	var panicked *objectstore.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "no", panicked.Value)
}

// J16 (W9, W1): a document under the status of success is no success, of a delete or of an upload, and is tried again.
func TestDocumentsUnderSuccess(t *testing.T) {
	const document = "<Error><Code>InternalError</Code><Message>no</Message></Error>"
	for _, op := range []string{"PutBlob", "DeleteBlob"} {
		for body, kind := range map[string]error{document: walstorage.ErrUnavailable, "<html>": walstorage.ErrUnavailable, "": nil, "\r\n": nil} {
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				status := map[string]int{http.MethodPut: 201, http.MethodDelete: 202}[r.Method]
				return &http.Response{StatusCode: status, Header: http.Header{"Etag": {"x"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			})}
			err := operations[op](t.Context(), open(t, c))
			assert.Equal(t, kind, walstorage.KindOf(err), "%s with %q: %v", op, body, err)
			assert.Equal(t, kind == nil, err == nil, "%s with %q: %v", op, body, err)
		}
	}
}
