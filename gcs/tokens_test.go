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
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// numbered gives another token each time that it is asked.
type numbered struct {
	asked   atomic.Int64
	lasting time.Duration // 0 is for ever
	err     func(n int64) error
	wait    <-chan struct{}
	takes   time.Duration
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
	if p.takes > 0 {
		timer := time.NewTimer(p.takes)
		defer timer.Stop()
		select {
		case <-timer.C:
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

// J21: an answer of something between us and the service does not prove a token: the refusal that comes next is the second.
func TestTokenThatOnlyAProxyHasSeen(t *testing.T) {
	server, link := serve(t, fake.Config{})
	tokens := &numbered{}
	c := config(link)
	c.Credentials = with(tokens)
	driver := open(t, c)
	for _, answer := range []struct {
		fault fake.Fault
		kind  error
	}{
		{fake.Fault{Status: 401}, walstorage.ErrUnavailable}, // with another token it may go better
		{fake.Fault{Status: 503}, walstorage.ErrUnavailable},
		{fake.Fault{Status: 401}, walstorage.ErrAccessDenied},
	} {
		server.Fault(func(fake.Request) fake.Fault { return answer.fault })
		_, _, err := driver.List(t.Context(), "", "")
		assert.Equal(t, answer.kind, walstorage.KindOf(err), "%v", err)
	}
	assert.EqualValues(t, 2, tokens.asked.Load())
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

// A token is renewed before it ends, and nobody waits for that: all go on with the old one meanwhile. If there is no new one
// it is used to its end.
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
		for range 10 {
			get()
			assert.Equal(t, "planted-token-1", last(), "nobody waits")
		}
		close(wait)
		synctest.Wait()
		get()
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

// A caller whose context ends while it waits for the token leaves the question to the others, who need not begin anew (H11).
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
		assert.Equal(t, int64(1), tokens.asked.Load())
	})
}

// A token that takes longer than an attempt may is waited for by one attempt after the other, and asked for once: else no
// upload would ever begin.
func TestTokenThatTakesLongerThanAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		c.Store.AttemptTimeout = 0
		tokens := &numbered{takes: 3 * time.Second}
		c.Credentials = with(tokens)
		began := time.Now()
		require.NoError(t, manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		assert.Equal(t, int64(1), tokens.asked.Load())
		assert.Equal(t, 1, server.Count(fake.Insert))
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

// A token that is always near its end, as short-lived ones are, is not asked for with each request, and a provider that is
// down is not either as long as there is a good one.
func TestTokenThatIsAlwaysNearItsEnd(t *testing.T) {
	for name, after := range map[string]func(n int64) error{
		"short": nil,
		"down": func(n int64) error {
			if n > 1 {
				return &url.Error{Op: "Post", URL: "https://token.invalid", Err: errors.New("refused")}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{})
				server.Store(bucket, "there", []byte("data"))
				tokens := &numbered{lasting: 2 * time.Minute, takes: 5 * time.Second, err: after}
				c.Credentials = with(tokens)
				driver := open(t, c)
				require.NoError(t, driver.Get(t.Context(), "there", 0, make([]byte, 4)))
				began := time.Now()
				for time.Since(began) < time.Minute {
					asked := time.Now()
					require.NoError(t, driver.Get(t.Context(), "there", 0, make([]byte, 4)))
					require.Less(t, time.Since(asked), time.Second, "nobody waits")
					time.Sleep(100 * time.Millisecond)
				}
				assert.Greater(t, tokens.asked.Load(), int64(2))
				assert.LessOrEqual(t, tokens.asked.Load(), int64(6))
			})
		})
	}
}

// W12: Close ends a question for a token, and waits until the provider has returned.
func TestCloseWhileATokenIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := inMemory(t, fake.Config{})
		tokens := &numbered{wait: make(chan struct{})}
		c.Credentials = with(tokens)
		driver := open(t, c)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, _, err := driver.List(t.Context(), "", "")
				assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(err), "%v", err)
			})
		}
		synctest.Wait()
		require.NoError(t, driver.Close())
		all.Wait()
		assert.Equal(t, int64(1), tokens.asked.Load())
	})
}

// A provider that panics is the caller's: it ends a call, not the process, and not the tokens.
func TestProviderThatPanics(t *testing.T) {
	server, link := serve(t, fake.Config{})
	tokens := &numbered{err: func(n int64) error {
		if n == 1 {
			panic("the provider's")
		}
		return nil
	}}
	c := config(link)
	c.Credentials = with(tokens)
	driver := open(t, c)
	err := operations[fake.Insert](t.Context(), driver)
	var panicked *objectstore.PanicError
	assert.ErrorAs(t, err, &panicked)
	assert.NoError(t, walstorage.KindOf(err))
	assert.Empty(t, server.Requests())
	assert.NoError(t, operations[fake.Insert](t.Context(), driver))
}

// J21: with the credentials of the environment too, a token that the service refuses is asked for again, once, although the
// SDK keeps the one it has; and a file that holds another key by now is read again.
func TestRefusedTokenOfTheEnvironment(t *testing.T) {
	var issued atomic.Int64
	account(t, func(w http.ResponseWriter, _ *http.Request) { issue(w, fmt.Sprintf("planted-token-%d", issued.Add(1))) })
	server, c := serveTLS(t, fake.Config{})
	c.Credentials = nil
	manager := manage(t, c)
	for hour := int64(1); hour <= 3; hour++ {
		server.Fault(refusing(func(token string) bool { return token == fmt.Sprintf("planted-token-%d", hour) }))
		for range 3 {
			require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		}
		assert.Equal(t, hour+1, issued.Load())
	}

	account(t, func(w http.ResponseWriter, _ *http.Request) { issue(w, "planted-token-of-the-new-key") })
	server.Fault(refusing(func(token string) bool { return token != "planted-token-of-the-new-key" }))
	require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
}

// W7: the tokens of a machine in Google's cloud come from its metadata server, which may be busy, or know of no account.
func TestMetadataServer(t *testing.T) {
	var status atomic.Int64
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status := int(status.Load()); status != 200 {
			w.WriteHeader(status)
			return
		}
		issue(w, token)
	}))
	t.Cleanup(metadata.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata.URL, "http://"))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir()) // where gcloud keeps its own
	server, c := serveTLS(t, fake.Config{Tokens: []string{token}})
	c.Credentials = nil
	c.Store.MaxAttempts = 1
	for code, kind := range map[int64]error{429: walstorage.ErrUnavailable, 403: walstorage.ErrAccessDenied, 404: walstorage.ErrAccessDenied} {
		status.Store(code)
		err := manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))
		assert.Equal(t, kind, walstorage.KindOf(err), "%d: %v", code, err)
	}
	assert.Empty(t, server.Requests())
	status.Store(200)
	assert.NoError(t, manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
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
		"502":         {refused(502), walstorage.ErrUnavailable},
		"429":         {refused(429), walstorage.ErrUnavailable},
		"cut":         {fmt.Errorf("auth: cannot fetch token: %w", io.ErrUnexpectedEOF), walstorage.ErrUnavailable},
		"no JSON":     {json.Unmarshal([]byte("<html>"), &struct{}{}), walstorage.ErrUnavailable},
		"no file":     {fmt.Errorf("credentials: %w", &fs.PathError{Op: "open", Path: "token", Err: syscall.ENOENT}), walstorage.ErrAccessDenied},
		"slow":        {context.DeadlineExceeded, walstorage.ErrUnavailable},
		"STS 503":     {errors.New("credentials: status code 503: busy"), walstorage.ErrUnavailable},
		"STS 400":     {errors.New("credentials: status code 400: no"), walstorage.ErrAccessDenied},
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
