package azure_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// J20, J21: whatever challenge comes with 401, the attempt is one request, the token is replaced once, and a second refusal
// is ErrAccessDenied. The SDK, left to itself, sends a second request, and panics at an authority that has no path.
func TestChallenges(t *testing.T) {
	tests := map[string]string{
		"none":                       "",
		"the service's":              "Bearer authorization_uri=https://login.invalid/tenant/oauth2/authorize resource_id=https://storage.azure.com",
		"an authority without path":  `Bearer authorization_uri="https://login.invalid" resource_id="https://storage.azure.com"`,
		"an authority that is none":  "Bearer authorization_uri=a/b resource_id=c",
		"no resource":                `Bearer error="invalid_token"`,
		"another scheme":             `Basic realm="proxy"`,
		"claims that are no base64":  `Bearer error="insufficient_claims", claims="%%%"`,
		"claims that are not wanted": `Bearer claims="e30="`,
		"nonsense":                   "=,=\"\"",
	}
	for name, challenge := range tests {
		t.Run(name, func(t *testing.T) {
			requests := 0
			listening := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				if challenge != "" {
					w.Header().Set("WWW-Authenticate", challenge)
				}
				w.WriteHeader(http.StatusUnauthorized)
			}))
			t.Cleanup(listening.Close)
			for op, call := range operations {
				c := config(listening.URL)
				c.HTTPClient, c.AccountKey, c.Credential = listening.Client(), "", &credential{}
				driver := open(t, c)
				requests = 0
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(call(t.Context(), driver)), op)
				assert.Equal(t, 1, requests, op)
				assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(call(t.Context(), driver)), op)
				assert.Equal(t, 2, requests, op)
			}
		})
	}
}

// W12: many requests are refused at the same moment, and have one new token between them. The SDK's own answer to a
// challenge is a data race of it, which the race detector sees here.
func TestRefusalsAtOnce(t *testing.T) {
	const many = 32
	var came atomic.Int64
	all := make(chan struct{})
	listening := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if came.Add(1) == many {
			close(all)
		}
		<-all
		if r.Header.Get("Authorization") == "Bearer 1" {
			w.Header().Set("WWW-Authenticate", "Bearer authorization_uri=https://login.invalid/tenant resource_id=https://storage.azure.com")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(listening.Close)
	source := &credential{give: func(_ context.Context, number int) (azcore.AccessToken, error) {
		return lasting(fmt.Sprint(number), time.Hour), nil
	}}
	c := config(listening.URL)
	c.HTTPClient, c.AccountKey, c.Credential = listening.Client(), "", source
	driver := open(t, c)
	var asking sync.WaitGroup
	for range many {
		asking.Go(func() {
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(operations["GetBlob"](t.Context(), driver)))
			assert.NoError(t, walstorage.KindOf(operations["GetBlob"](t.Context(), driver)), "404")
		})
	}
	asking.Wait()
	assert.Equal(t, 2, source.count())
	assert.Equal(t, int64(2*many), came.Load())
}

// asking is a credential that notes what it is asked for.
type asking func(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error)

func (a asking) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return a(ctx, options)
}

// J21: a token that was revoked before its time is replaced by one with the claims that the store wants to see, for all
// requests after it, and not only by the one that was refused; so is one that a batch was refused for.
func TestRevokedToken(t *testing.T) {
	const wanted = `{"access_token":{"nbf":{"essential":true,"value":"1"}}}`
	challenge := `Bearer authorization_uri="https://login.invalid/common", error="insufficient_claims", claims="` + base64.StdEncoding.EncodeToString([]byte(wanted)) + `"`
	for op, call := range operations {
		t.Run(op, func(t *testing.T) {
			var claims, came []string
			listening := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				came = append(came, r.Header.Get("Authorization"))
				if r.Header.Get("Authorization") != "Bearer new" {
					w.Header().Set("WWW-Authenticate", challenge)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(listening.Close)
			c := config(listening.URL)
			c.HTTPClient, c.AccountKey = listening.Client(), ""
			c.Credential = asking(func(_ context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
				claims = append(claims, options.Claims)
				if options.Claims == "" { // the credential has cached it
					return lasting("old", 24*time.Hour), nil
				}
				return lasting("new", 24*time.Hour), nil
			})
			driver := open(t, c)
			for range 3 {
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(call(t.Context(), driver)))
			}
			assert.Equal(t, []string{"", wanted}, claims)
			assert.Equal(t, []string{"Bearer old", "Bearer new", "Bearer new"}, came)
		})
	}
}

// W7, A2: odd credentials: one that gives nothing is refused, and one whose tokens have no end, or one that is over, is asked
// each time, and has what it gives used: whether it is good is for the store to say.
func TestOddCredentials(t *testing.T) {
	var none *credential
	tests := map[string]struct {
		credential azcore.TokenCredential
		kind       error
	}{
		"an empty token": {asking(func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
			return lasting("", time.Hour), nil
		}), walstorage.ErrAccessDenied},
		"no end": {asking(func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
			return azcore.AccessToken{Token: token}, nil
		}), nil},
		"over": {asking(func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
			return lasting(token, -time.Hour), nil
		}), nil},
		"a pointer to nothing": {none, walstorage.ErrAccessDenied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, c := serveTLS(t, fake.Config{})
			server.Store(bucket, "there", []byte("data"))
			c.AccountKey, c.Credential = "", test.credential
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", op, err)
				assert.Equal(t, test.kind == nil, err == nil, "%s: %v", op, err)
			}
		})
	}
}

// W12: calls, tokens that come and go, Warm and Close at once, in a manager: every call returns, and after Close says so.
func TestTokensAtOnceWithClose(t *testing.T) {
	server, c := serveTLS(t, fake.Config{})
	server.Fault(func(r fake.Request) fake.Fault {
		if r.Number%5 == 0 {
			return fake.Fault{Status: 401, Code: "InvalidAuthenticationInfo"}
		}
		return fake.Fault{}
	})
	c.HTTPClient.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	for range 3 {
		c.AccountKey, c.Credential = "", &credential{}
		c.Store.BackoffBase, c.Store.BackoffCap = time.Millisecond, time.Millisecond
		c.Store.ProbeMin, c.Store.ProbeMax = time.Millisecond, time.Millisecond
		manager, err := azure.New(t.Context(), c)
		require.NoError(t, err)
		id := drivertest.Segment(t)
		calls := []func() error{
			func() error { return manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")) },
			func() error { return manager.FetchSegment(t.Context(), id, 0, make([]byte, 4)) },
			func() error { return manager.DeleteSegments(t.Context(), id, drivertest.Segment(t)) },
			func() error { return manager.Warm(t.Context()) },
		}
		var all sync.WaitGroup
		var made atomic.Int64
		amid := make(chan struct{})
		for i := range 16 {
			all.Go(func() {
				for {
					if made.Add(1) == 30 {
						close(amid)
					}
					err := calls[i%len(calls)]()
					if errors.Is(err, walstorage.ErrClosed) {
						return
					}
					kind := walstorage.KindOf(err)
					var partial *walstorage.DeleteError
					assert.True(t, err == nil || errors.As(err, &partial) || kind != nil, "%v", err)
				}
			})
		}
		<-amid
		assert.NoError(t, manager.Close())
		all.Wait()
	}
}

// W5: a refusal that comes before the body was read is the end of the attempt, and nobody reads the body a second time.
func TestEarlyRefusal(t *testing.T) {
	server, c := serveTLS(t, fake.Config{})
	c.AccountKey, c.Credential = "", &credential{}
	server.Always("PutBlob", fake.Fault{Status: 401, Code: "InvalidAuthenticationInfo", Early: true, ReadOn: true})
	driver := open(t, c)
	data := make([]byte, drivertest.EarlyBytes)
	for number := range 20 {
		clear(data)
		body := objectstore.NewBody(data)
		err := driver.Put(t.Context(), "k", body, drivertest.Checksum(data))
		body.Revoke()
		data[0]++ // ours again; the race detector watches
		assert.Contains(t, []error{walstorage.ErrUnavailable, walstorage.ErrAccessDenied}, walstorage.KindOf(err), "%v", err)
		assert.Equal(t, number+1, server.Count("PutBlob"))
	}
}
