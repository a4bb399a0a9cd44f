package gcs_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
)

// numbered gives another token each time that it is asked.
type numbered struct {
	asked   atomic.Int64
	lasting time.Duration // 0 is for ever
	err     func(n int64) error
	wait    <-chan struct{}
}

func (p *numbered) Token(ctx context.Context) (*auth.Token, error) {
	n := p.asked.Add(1)
	if p.wait != nil {
		select {
		case <-p.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if p.err != nil {
		if err := p.err(n); err != nil {
			return nil, err
		}
	}
	given := &auth.Token{Value: fmt.Sprintf("planted-token-%d", n)}
	if p.lasting > 0 {
		given.Expiry = time.Now().Add(p.lasting)
	}
	return given, nil
}

// refusing answers 401 to the tokens that refused tells.
func refusing(refused func(token string) bool) func(fake.Request) fake.Fault {
	return func(r fake.Request) fake.Fault {
		if refused(r.Token()) {
			return fake.Fault{Status: 401, Reason: "authError", Message: "Invalid Credentials"}
		}
		return fake.Fault{}
	}
}

// J21: a token that the service refuses is asked for again, once, and what works is kept.
func TestRefusedToken(t *testing.T) {
	server, link := serve(t, fake.Config{})
	tokens := &numbered{}
	c := config(link)
	c.Credentials = with(tokens)
	manager := manage(t, c)
	for hour := int64(1); hour <= 3; hour++ {
		server.Fault(refusing(func(token string) bool { return token == fmt.Sprintf("planted-token-%d", hour) }))
		for range 3 {
			require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		}
		assert.Equal(t, hour+1, tokens.asked.Load())
	}
}

// J21: a second refusal is one of permission, after a bounded number of requests.
func TestTokensThatAreAlwaysRefused(t *testing.T) {
	server, link := serve(t, fake.Config{})
	tokens := &numbered{}
	c := config(link)
	c.Credentials = with(tokens)
	manager := manage(t, c)
	server.Fault(refusing(func(string) bool { return true }))
	for n := range 3 {
		err := manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))
		assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err))
		assert.NotContains(t, err.Error(), "planted")
		assert.Equal(t, n+2, server.Count(fake.Insert), "two requests the first time, and then one each")
	}
	server.Fault(nil)
	assert.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")), "and when the service thinks better of it")
}

// A token is renewed before it ends, by one caller; the others go on with the old one meanwhile. If there is no new one it
// is used to its end.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		server.Store(bucket, "there", []byte("data"))
		tokens := &numbered{lasting: time.Hour}
		c.Credentials = with(tokens)
		driver := open(t, c)
		get := func() { assert.NoError(t, driver.Get(t.Context(), "there", 0, make([]byte, 4))) }
		last := func() string {
			all := server.Requests()
			return all[len(all)-1].Token()
		}
		get()
		time.Sleep(55 * time.Minute)
		get()
		assert.Equal(t, "planted-token-1", last())
		time.Sleep(2 * time.Minute)

		wait := make(chan struct{})
		tokens.wait = wait
		var renewing sync.WaitGroup
		renewing.Go(get)
		synctest.Wait()
		for range 10 {
			get()
			assert.Equal(t, "planted-token-1", last(), "nobody waits")
		}
		close(wait)
		renewing.Wait()
		assert.Equal(t, int64(2), tokens.asked.Load())
		assert.Equal(t, "planted-token-2", last())

		tokens.err = func(int64) error { return errors.New("no") }
		time.Sleep(57 * time.Minute)
		get()
		assert.Equal(t, "planted-token-2", last())
		time.Sleep(4 * time.Minute)
		assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(driver.Get(t.Context(), "there", 0, make([]byte, 4))))
	})
}

// W8, D1: where one caller waits for a token, the others' contexts end their calls; and it is asked for once.
func TestWaitingForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := inMemory(t, fake.Config{})
		wait := make(chan struct{})
		tokens := &numbered{wait: wait}
		c.Credentials = with(tokens)
		driver := open(t, c)
		var all sync.WaitGroup
		all.Go(func() {
			_, _, err := driver.List(t.Context(), "", "")
			assert.NoError(t, err)
		})
		synctest.Wait()
		began := time.Now()
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, err := driver.List(ctx, "", "")
			assert.Equal(t, context.DeadlineExceeded, err)
			cancel()
		}
		assert.Equal(t, 5*time.Second, time.Since(began))
		close(wait)
		all.Wait()
		assert.Equal(t, int64(1), tokens.asked.Load())
	})
}

// A caller whose context ends while it asks for the token leaves that to the next.
func TestTokenOfACallerWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := inMemory(t, fake.Config{})
		wait := make(chan struct{})
		tokens := &numbered{wait: wait}
		c.Credentials = with(tokens)
		driver := open(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, _, err := driver.List(ctx, "", "")
			assert.Equal(t, context.Canceled, err)
		})
		synctest.Wait()
		all.Go(func() {
			_, _, err := driver.List(t.Context(), "", "")
			assert.NoError(t, err)
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(wait)
		all.Wait()
		assert.Equal(t, int64(2), tokens.asked.Load())
	})
}

// W7: a provider that refuses is no store that is down, and one that cannot be reached is.
func TestNoToken(t *testing.T) {
	refused := func(status int) error {
		return &auth.Error{Response: &http.Response{StatusCode: status}, Body: []byte("why")}
	}
	tests := map[string]struct {
		err  error
		kind error
	}{
		"refused":     {refused(400), walstorage.ErrAccessDenied},
		"503":         {refused(503), walstorage.ErrUnavailable},
		"unreachable": {&url.Error{Op: "Post", URL: "https://token.invalid?secret=planted", Err: errors.New("refused")}, walstorage.ErrUnavailable},
		"broken key":  {errors.New("no private key"), walstorage.ErrAccessDenied},
		"empty":       {nil, walstorage.ErrAccessDenied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, link := serve(t, fake.Config{})
			c := config(link)
			if test.err == nil {
				c.Credentials = with(provider(""))
			} else {
				c.Credentials = with(&numbered{err: func(int64) error { return test.err }})
			}
			c.Store.MaxAttempts = 1
			err := manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
			assert.ErrorContains(t, err, "no token")
			assert.NotContains(t, err.Error(), "planted")
			assert.Empty(t, server.Requests())
		})
	}
}

// Over plain http the credentials of the environment are not looked for, and Anonymous sends none anywhere.
func TestWithoutToken(t *testing.T) {
	server, link := serve(t, fake.Config{})
	c := config(link)
	c.Credentials = nil
	require.NoError(t, open(t, c).Warm(t.Context()))
	secure, c := serveTLS(t, fake.Config{})
	c.Credentials, c.Anonymous = nil, true
	require.NoError(t, open(t, c).Warm(t.Context()))
	for _, r := range append(server.Requests(), secure.Requests()...) {
		assert.Empty(t, r.Header.Get("Authorization"))
	}
}

// The project that the credentials say pays for requests is named in them.
func TestQuotaProject(t *testing.T) {
	server, link := serve(t, fake.Config{})
	c := config(link)
	c.Credentials = auth.NewCredentials(&auth.CredentialsOptions{
		TokenProvider:          provider(token),
		QuotaProjectIDProvider: auth.CredentialsPropertyFunc(func(context.Context) (string, error) { return "payer", nil }),
	})
	require.NoError(t, open(t, c).Warm(t.Context()))
	assert.Equal(t, "payer", server.Requests()[0].Header.Get("X-Goog-User-Project"))
}

// The credentials of the environment, those of a service account here: tokens come from where its file says, and of the
// file nothing is told.
func TestApplicationDefaultCredentials(t *testing.T) {
	var status atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(status.Load()); status != 200 {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"the account is gone"}`))
			return
		}
		assert.NotEmpty(t, r.FormValue("assertion"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"` + token + `","token_type":"Bearer","expires_in":3600}`))
	}))
	t.Cleanup(issuer.Close)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "walhop@example.invalid", "private_key": secret, "private_key_id": "1", "token_uri": issuer.URL,
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)

	server, c := serveTLS(t, fake.Config{Tokens: []string{token}})
	c.Credentials = nil
	c.Store.MaxAttempts = 1
	for code, kind := range map[int64]error{400: walstorage.ErrAccessDenied, 503: walstorage.ErrUnavailable} {
		status.Store(code)
		// The SDK asks a few times by itself for 503, each time a little later.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := manage(t, c).UploadSegment(ctx, drivertest.Segment(t), []byte("data"))
		cancel()
		assert.Equal(t, kind, walstorage.KindOf(err), "%d: %v", code, err)
		for line := range strings.Lines(secret) {
			assert.NotContains(t, err.Error(), strings.TrimSpace(line))
		}
	}
	assert.Empty(t, server.Requests())
	status.Store(200)
	require.NoError(t, manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
}
