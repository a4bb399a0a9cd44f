package azure_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
)

// credential gives tokens as a test wants it: a good one for an hour, unless give says otherwise.
type credential struct {
	give func(ctx context.Context, number int) (azcore.AccessToken, error)

	mu     sync.Mutex
	asked  int
	scopes []string
}

func (c *credential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.mu.Lock()
	c.asked++
	c.scopes = append(c.scopes, options.Scopes...)
	number := c.asked
	c.mu.Unlock()
	if c.give == nil {
		return lasting(token, time.Hour), nil
	}
	return c.give(ctx, number)
}

func (c *credential) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func lasting(token string, life time.Duration) azcore.AccessToken {
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(life)}
}

// withToken is a configuration for a fake in memory. Tokens go over https alone, and the network in memory has no TLS: the
// client believes it has.
func withToken(tb testing.TB, source azcore.TokenCredential) (*fake.Server, azure.Config) {
	return withTokenFor(tb, "", source)
}

func withTokenFor(tb testing.TB, resource string, source azcore.TokenCredential) (*fake.Server, azure.Config) {
	server, _, c := inMemory(tb, fake.Config{Resource: resource})
	plain := c.HTTPClient.Transport
	c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme = "http"
		return plain.RoundTrip(r)
	})}
	c.Endpoint, c.AccountKey, c.Credential = "https://fake.invalid", "", source
	return server, c
}

// A token that takes longer than an attempt may is asked for once, in the background, and every operation has its use.
func TestTokenOutlastsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &credential{give: func(context.Context, int) (azcore.AccessToken, error) {
			time.Sleep(3 * time.Second)
			return lasting(token, time.Hour), nil
		}}
		server, c := withToken(t, source)
		c.Store.AttemptTimeout = 500 * time.Millisecond
		manager := manage(t, c)
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			id := drivertest.Segment(t)
			all.Go(func() { assert.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data"))) })
		}
		all.Wait()
		assert.Less(t, time.Since(began), 6*time.Second)
		assert.Equal(t, 1, source.count())
		assert.Equal(t, 20, server.Count("PutBlob"))

		server.Store(bucket, "there", []byte("data"))
		driver := open(t, c)
		for op, call := range operations {
			assert.NoError(t, call(t.Context(), driver), op)
		}
		assert.Equal(t, 2, source.count(), "another driver asks for itself, once, for its batches too")
	})
}

// W8: each waits for a token as long as its own context allows, whoever asks for it; Close ends the asking (W12).
func TestWaitingForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		source := &credential{give: func(ctx context.Context, _ int) (azcore.AccessToken, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return azcore.AccessToken{}, ctx.Err()
		}}
		server, c := withToken(t, source)
		driver := open(t, c)
		began := time.Now()
		var all sync.WaitGroup
		for seconds := 1; seconds <= 3; seconds++ {
			wait := time.Duration(seconds) * time.Second
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				assert.Equal(t, context.DeadlineExceeded, operations["PutBlob"](ctx, driver))
				assert.Equal(t, wait, time.Since(began))
			})
		}
		all.Go(func() {
			err := operations["PutBlob"](t.Context(), driver)
			assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(err), "%v", err)
		})
		time.Sleep(4 * time.Second)
		assert.Empty(t, ended)
		require.NoError(t, driver.Close())
		assert.Len(t, ended, 1, "Close waits for the asking to end")
		all.Wait()
		assert.Equal(t, 1, source.count())
		assert.Empty(t, server.Requests())
	})
}

// A credential that does not answer within a minute is unavailable, and asked again.
func TestTokenThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &credential{give: func(ctx context.Context, number int) (azcore.AccessToken, error) {
			if number == 1 {
				<-ctx.Done()
				return azcore.AccessToken{}, ctx.Err()
			}
			return lasting(token, time.Hour), nil
		}}
		_, c := withToken(t, source)
		driver := open(t, c)
		began := time.Now()
		err := operations["PutBlob"](t.Context(), driver)
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's (H8)")
		assert.Equal(t, time.Minute, time.Since(began))
		assert.NoError(t, operations["PutBlob"](t.Context(), driver))
	})
}

// J21, cockroachdb/cockroach#169763: a token that the store refuses is replaced once; a second refusal is ErrAccessDenied.
func TestRefusedToken(t *testing.T) {
	tests := map[string]struct {
		tokens   []string
		kind     error
		attempts int
	}{
		"the second is good":  {[]string{"stale", token}, nil, 2},
		"neither is good":     {[]string{"stale", "worse", token}, walstorage.ErrAccessDenied, 2},
		"the first is good":   {[]string{token}, nil, 1},
		"all are good enough": {[]string{token, token}, nil, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &credential{give: func(_ context.Context, number int) (azcore.AccessToken, error) {
					return lasting(test.tokens[min(number, len(test.tokens))-1], time.Hour), nil
				}}
				server, c := withToken(t, source)
				err := manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, test.attempts, source.count())
				assert.Equal(t, test.attempts, server.Count("PutBlob"), "an attempt is one request (J20)")
			})
		})
	}
}

// W11: nobody is given a token for something else than storage, whatever it says that it takes.
func TestTokenForAnotherResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &credential{give: func(context.Context, int) (azcore.AccessToken, error) { return lasting("for storage", time.Hour), nil }}
		server, c := withTokenFor(t, "https://vault.invalid", source)
		driver := open(t, c)
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(operations["PutBlob"](t.Context(), driver)))
		assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(operations["PutBlob"](t.Context(), driver)))
		assert.Equal(t, 2, server.Count("PutBlob"))
		assert.Equal(t, []string{"https://storage.azure.com/.default", "https://storage.azure.com/.default"}, source.scopes)
	})
}

// A token is replaced before it expires, while requests go on with the old one; and one that has expired is waited for.
func TestTokenIsReplacedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &credential{give: func(_ context.Context, number int) (azcore.AccessToken, error) {
			time.Sleep(2 * time.Second)
			if number == 2 {
				return azcore.AccessToken{}, errors.New("not now")
			}
			return lasting(token, time.Hour), nil
		}}
		server, c := withToken(t, source)
		driver := open(t, c)
		server.Store(bucket, "there", []byte("data"))
		get := func(takes time.Duration, asked int) {
			t.Helper()
			began := time.Now()
			require.NoError(t, operations["GetBlob"](t.Context(), driver))
			assert.Equal(t, takes, time.Since(began))
			time.Sleep(2 * time.Second)
			assert.Equal(t, asked, source.count())
		}
		get(2*time.Second, 1)
		time.Sleep(54 * time.Minute)
		get(0, 1) // it has six minutes left
		time.Sleep(90 * time.Second)
		get(0, 2) // asked for in vain
		get(0, 2) // not again so soon
		time.Sleep(time.Minute)
		get(0, 3)
		time.Sleep(2 * time.Hour)
		get(2*time.Second, 4)
	})
}

// The time that a credential names for the replacement is kept.
func TestTokenWithATimeToReplaceIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &credential{give: func(context.Context, int) (azcore.AccessToken, error) {
			return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(24 * time.Hour), RefreshOn: time.Now().Add(12 * time.Hour)}, nil
		}}
		server, c := withToken(t, source)
		driver := open(t, c)
		server.Store(bucket, "there", []byte("data"))
		for _, asked := range []int{1, 1, 2} {
			require.NoError(t, operations["GetBlob"](t.Context(), driver))
			synctest.Wait()
			assert.Equal(t, asked, source.count())
			time.Sleep(7 * time.Hour)
		}
	})
}

// W7: why there is no token decides whether another attempt is worth while; without one no request is sent.
func TestNoToken(t *testing.T) {
	tests := map[string]struct {
		err  error
		kind error
	}{
		"no credentials":  {errors.New("DefaultAzureCredential: failed to acquire a token"), walstorage.ErrAccessDenied},
		"refused":         {&azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 401, Body: http.NoBody}}, walstorage.ErrAccessDenied},
		"busy":            {&azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 503, Body: http.NoBody}}, walstorage.ErrUnavailable},
		"throttled":       {&azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 429, Body: http.NoBody}}, walstorage.ErrUnavailable},
		"no connection":   {fmt.Errorf("asking: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), walstorage.ErrUnavailable},
		"no file":         {fmt.Errorf("asking: %w", &fs.PathError{Op: "open", Path: "token", Err: syscall.ENOENT}), walstorage.ErrAccessDenied},
		"a time-out":      {context.DeadlineExceeded, walstorage.ErrUnavailable},
		"it has panicked": {nil, walstorage.ErrAccessDenied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, c := withToken(t, &credential{give: func(context.Context, int) (azcore.AccessToken, error) {
					if test.err == nil {
						panic("no")
					}
					return azcore.AccessToken{}, test.err
				}})
				driver := open(t, c)
				for op, call := range operations {
					err := call(t.Context(), driver)
					assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", op, err)
					assert.ErrorContains(t, err, "no token")
				}
				assert.Empty(t, server.Requests())
			})
		})
	}
}

// The same of a ready client, whose credential speaks through the SDK.
func TestNoTokenOfAReadyClient(t *testing.T) {
	for status, kind := range map[int]error{401: walstorage.ErrAccessDenied, 503: walstorage.ErrUnavailable} {
		source := &credential{give: func(context.Context, int) (azcore.AccessToken, error) {
			return azcore.AccessToken{}, &azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: status, Body: http.NoBody}}
		}}
		client, err := container.NewClient("https://fake.invalid/"+bucket, source, nil)
		require.NoError(t, err)
		driver := open(t, azure.Config{Client: client})
		for op, call := range operations {
			err := call(t.Context(), driver)
			assert.Equal(t, kind, walstorage.KindOf(err), "%s: %v", op, err)
		}
	}
}

// azidentity's default chain is what speaks where nothing else is given: here by a managed identity.
func TestDefaultCredentials(t *testing.T) {
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-IDENTITY-HEADER") != "hello" || r.URL.Query().Get("resource") != "https://storage.azure.com" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_on":"%d","resource":"https://storage.azure.com","token_type":"Bearer"}`, token, time.Now().Add(time.Hour).Unix())
	}))
	t.Cleanup(identity.Close)
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
	t.Setenv("IDENTITY_ENDPOINT", identity.URL)
	t.Setenv("IDENTITY_HEADER", "hello")
	server, c := serveTLS(t, fake.Config{})
	c.AccountKey = ""
	driver := open(t, c)
	require.NoError(t, driver.Warm(t.Context()))
	require.NoError(t, operations["PutBlob"](t.Context(), driver))
	assert.Equal(t, token, server.Requests()[0].Credential())

	t.Setenv("AZURE_TOKEN_CREDENTIALS", "nonsense")
	_, err := azure.NewDriver(t.Context(), c)
	assert.Equal(t, walstorage.ErrInvalidArgument, walstorage.KindOf(err))
	assert.ErrorContains(t, err, "AZURE_TOKEN_CREDENTIALS")
}
