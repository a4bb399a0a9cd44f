package azure_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage"
)

// J17, W1, W6, W7: a ready client may follow redirects, as the SDK's own does. What is answered there is not believed,
// neither success nor "not found", and it is not tried again.
func TestRedirectThatAReadyClientFollows(t *testing.T) {
	var lies, elsewhere atomic.Int64 // whether the other host says that all is well
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("x-ms-blob-type", "BlockBlob")
		w.Header().Set("Content-Range", "bytes 0-3/4")
		if lies.Load() == 0 {
			w.Header().Set("x-ms-error-code", "BlobNotFound")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		switch r.URL.Query().Get("was") {
		case "PUT":
			w.WriteHeader(http.StatusCreated)
		case "GET":
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "evil")
		case "HEAD":
			w.Header().Set("Content-Length", "4")
		case "DELETE", "POST":
			w.WriteHeader(http.StatusAccepted)
		default:
			_, _ = io.WriteString(w, "<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>")
		}
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			was := r.Method
			if r.URL.Query().Get("comp") == "list" {
				was = "list"
			}
			w.Header().Set("Location", other.URL+"/elsewhere?was="+was)
			w.WriteHeader(status)
		}))
		t.Cleanup(store.Close)
		client, err := container.NewClientWithNoCredential(store.URL+"/"+bucket+"?"+sas, &container.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: &http.Client{}},
		})
		require.NoError(t, err)
		t.Cleanup(http.DefaultClient.CloseIdleConnections)
		driver := open(t, azure.Config{Client: client})
		for op, call := range operations {
			for lie := range int64(2) {
				lies.Store(lie)
				err := call(t.Context(), driver)
				require.Error(t, err, "%d %s", status, op)
				assert.NoError(t, walstorage.KindOf(err), "%d %s", status, op)
				assert.ErrorContains(t, err, "redirect", op)
			}
		}
	}
	assert.Positive(t, elsewhere.Load())
}

// W1: an answer that says "created", with all that the store says of a blob, before the body was sent is no success: what was
// to be stored is not known to who gave it.
func TestCreatedBeforeTheBodyWasSent(t *testing.T) {
	drivertest.CreatedEarly(t, ours, config(""), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("x-ms-content-crc64", r.Header.Get("x-ms-content-crc64"))
		w.WriteHeader(http.StatusCreated)
	})
}

// An answer without end ends the attempt when it has more than any that is right, and is not read into memory: an error is
// judged by its status then, and a document under success is unavailable.
func TestAnswerWithoutEnd(t *testing.T) {
	tests := map[string]struct {
		status int
		kind   error
	}{
		"success": {0, walstorage.ErrUnavailable},
		"503":     {503, walstorage.ErrUnavailable},
		"403":     {403, walstorage.ErrAccessDenied},
		"401":     {401, walstorage.ErrAccessDenied},
		"400":     {400, walstorage.ErrUnavailable}, // the code, which would say more, is in what was not read
	}
	status := map[string]int{"ListBlobs": 200, "BlobBatch": 202, "DeleteBlob": 202, "PutBlob": 201}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for op, call := range operations {
				if op == "GetBlobProperties" || test.status == 0 && op == "GetBlob" {
					continue // those have no body, or none that is read into memory
				}
				var sent int64
				c := config("http://fake.invalid")
				c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
					endless := drivertest.Endless("<EnumerationResults>", "<Prefix>"+strings.Repeat("a", 64<<10)+"</Prefix>", &sent)
					answer := &http.Response{StatusCode: test.status, Header: http.Header{"Etag": {"x"}}, Body: endless, ContentLength: -1, Request: r}
					if test.status == 0 {
						answer.StatusCode = status[op]
						answer.Header.Set("Content-Type", "multipart/mixed; boundary=b")
					}
					if r.Method == http.MethodDelete && op == "BlobBatch" {
						answer.Body = http.NoBody // what the batch does not say is deleted by itself
					}
					return answer, nil
				})}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in place of the attempt's deadline
				err := call(ctx, open(t, c))
				cancel()
				assert.LessOrEqual(t, sent, int64(41<<20), "%s: %d bytes were read", op, sent)
				if test.status == 0 && op == "BlobBatch" {
					assert.NoError(t, err)
					continue
				}
				require.Error(t, err, op)
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", op, err)
				assert.Less(t, len(err.Error()), 1000, op)
			}
		})
	}
}

// J15 (W8): StallTimeout is for an answer in which nothing moves. A list that comes slowly is waited for, one that stops is
// not.
func TestSlowList(t *testing.T) {
	drivertest.SlowList(t, ours, config(""), [5]string{"<Enumeration", "Results><Bl", "obs/><NextM", "arker/></Enum", "erationResults>"})
}
