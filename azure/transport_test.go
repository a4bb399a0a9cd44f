package azure_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
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
	synctest.Test(t, func(t *testing.T) {
		_, c := ours.InPipes(t, &handler{func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1 {
				_, _ = io.CopyN(io.Discard, r.Body, 1)
			}
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("x-ms-content-crc64", r.Header.Get("x-ms-content-crc64"))
			w.WriteHeader(http.StatusCreated)
		}}, config(""))
		driver := open(t, c)
		put := func(data []byte) error {
			body := objectstore.NewBody(data)
			defer body.Revoke()
			return driver.Put(t.Context(), "k", body, drivertest.Checksum(data))
		}
		err := put(make([]byte, 1<<20))
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "before the body was sent")
		assert.NoError(t, put(nil), "there is nothing to send")
		time.Sleep(time.Second) // net/http keeps what it closes for half a second, and the bubble waits for no clock
	})
}

// handler is a server for drivertest.
type handler struct{ http.HandlerFunc }

func (*handler) Close() {}

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
					endless := &counted{next: "<EnumerationResults>", rest: "<Prefix>" + strings.Repeat("a", 64<<10) + "</Prefix>", sent: &sent}
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

// counted is a body that begins and never ends.
type counted struct {
	next, rest string
	sent       *int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.next == "" {
		c.next = c.rest
	}
	n := copy(p, c.next)
	c.next = c.next[n:]
	*c.sent += int64(n)
	return n, nil
}

func (*counted) Close() error { return nil }

// J15 (W8): StallTimeout is for an answer in which nothing moves. A list that comes slowly is waited for, one that stops is
// not.
func TestSlowList(t *testing.T) {
	for name, stops := range map[string]bool{"slow": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := ours.InPipes(t, &handler{func(w http.ResponseWriter, r *http.Request) {
					for i, part := range []string{"<Enumeration", "Results><Bl", "obs/><NextM", "arker/></Enum", "erationResults>"} {
						_, _ = io.WriteString(w, part)
						_ = http.NewResponseController(w).Flush()
						if stops && i == 2 {
							<-r.Context().Done()
							return
						}
						time.Sleep(4 * time.Second)
					}
				}}, config(""))
				c.StallTimeout = 5 * time.Second
				began := time.Now()

				_, _, err := open(t, c).List(t.Context(), "", "")

				if stops {
					assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
					assert.Equal(t, 13*time.Second, time.Since(began))
					return
				}
				require.NoError(t, err)
				assert.Equal(t, 20*time.Second, time.Since(began))
			})
		})
	}
}
