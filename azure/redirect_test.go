package azure_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	azlog "github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
)

// J17, J27, W11, W1: no redirect is followed, with the package's own client or one that was handed in, whatever that one
// would do: the next host would be told the signature as Referer, and its 201 would pass for the store's.
func TestNoRedirectIsFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"x"`)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(other.Close)
	clients := map[string]*http.Client{
		"own":       nil,
		"handed in": {Transport: &http.Transport{}},
		"one that follows": {Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error {
			return nil
		}},
	}
	for name, client := range clients {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				server, address := serve(t, fake.Config{})
				c := withSAS(address)
				if client != nil {
					c.HTTPClient = client
					t.Cleanup(client.CloseIdleConnections)
				}
				driver := open(t, c)
				for op, call := range operations {
					server.Always(op, fake.Fault{Status: status, Location: other.URL + "/elsewhere"})
					err := call(t.Context(), driver)
					if op == "BlobBatch" { // its blobs are deleted one by one, and that is another test's
						continue
					}
					assert.Error(t, err, op)
					assert.NoError(t, walstorage.KindOf(err), op)
					quiet(t, op, err)
				}
				assert.Zero(t, elsewhere.Load())
			})
		}
	}
}

// J27: a client that was handed in is used for every request, with all that it is made of.
func TestHandedInClientIsUsedThroughout(t *testing.T) {
	server, address := serve(t, fake.Config{})
	server.Store(bucket, "there", []byte("data"))
	var through atomic.Int64
	c := config(address)
	c.HTTPClient = &http.Client{
		Jar: jar{&through},
		Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			through.Add(1)
			return http.DefaultTransport.RoundTrip(r)
		}),
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	driver := open(t, c)
	for op, call := range operations {
		assert.NoError(t, call(t.Context(), driver), op)
	}
	assert.NoError(t, driver.Warm(t.Context()))
	assert.Equal(t, int64(2*len(server.Requests())), through.Load(), "the transport and the jar saw each")
}

// W11: the SDK has a log of its own, which a program may listen to, and which AZURE_SDK_GO_LOGGING sends to stderr. No
// signature, key or token of a request gets there, whatever goes wrong.
func TestNoSecretInTheLogOfTheSDK(t *testing.T) {
	var logged atomic.Int64
	azlog.SetListener(func(event azlog.Event, text string) {
		logged.Add(1)
		for _, secret := range secrets() {
			assert.NotContains(t, text, secret, event)
		}
	})
	t.Cleanup(func() { azlog.SetListener(nil) })
	server, secure := serveTLS(t, fake.Config{})
	for name, change := range map[string]func(c *azure.Config){
		"key":   func(*azure.Config) {},
		"SAS":   func(c *azure.Config) { c.AccountKey, c.SAS = "", sas },
		"token": func(c *azure.Config) { c.AccountKey, c.Credential = "", &credential{} },
	} {
		t.Run(name, func(t *testing.T) {
			c := secure
			change(&c)
			driver := open(t, c)
			for _, fault := range []fake.Fault{{}, {Drop: true}, {Status: 503}, {Status: 403, Code: "AuthorizationFailure"}, {Status: 307, Location: "/elsewhere?" + sas}} {
				server.Fault(func(fake.Request) fake.Fault { return fault })
				for _, call := range operations {
					_ = call(t.Context(), driver)
				}
			}
			c.HTTPClient = nil
			c.Endpoint = "https://127.0.0.1:1"
			driver = open(t, c)
			for _, call := range operations {
				assert.Error(t, call(t.Context(), driver))
			}
		})
	}
	assert.Greater(t, logged.Load(), int64(100))
}

// jar counts the requests that it is asked about.
type jar struct{ asked *atomic.Int64 }

func (j jar) SetCookies(*url.URL, []*http.Cookie) {}
func (j jar) Cookies(*url.URL) []*http.Cookie     { j.asked.Add(1); return nil }
