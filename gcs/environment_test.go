package gcs_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"

	"github.com/walhop/walhop/gcs"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// account writes the file of a service account whose tokens the handler issues, and names it in the environment.
func account(t *testing.T, issuer http.HandlerFunc) (text string) {
	listening := httptest.NewServer(issuer)
	t.Cleanup(listening.Close)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	written, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "walhop@example.invalid", "private_key_id": "1", "token_uri": listening.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(file, written, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	return string(written)
}

// issue answers a request for a token.
func issue(w http.ResponseWriter, token string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"access_token":"` + token + `","token_type":"Bearer","expires_in":3600}`))
}

// W11: the credentials of the environment are not sent as plain text, in whatever letters the endpoint says that it is http.
func TestPlainEndpointInCapitals(t *testing.T) {
	account(t, func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a token was asked for")
		issue(w, token)
	})
	server, url := serve(t, fake.Config{})
	for _, scheme := range []string{"http", "HTTP", "Http"} {
		c := config(scheme + strings.TrimPrefix(url, "http"))
		c.Credentials = nil
		require.NoError(t, open(t, c).Warm(t.Context()))
	}
	for _, r := range server.Requests() {
		assert.Empty(t, r.Token())
	}
}

// W11: who puts the key itself where the name of its file belongs does not find it in the error, and is told what to look
// at.
func TestKeyInPlaceOfItsFile(t *testing.T) {
	text := account(t, func(http.ResponseWriter, *http.Request) {})
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", text)
	_, err := gcs.New(t.Context(), gcs.Config{Bucket: bucket, Store: objectstore.Config{Cluster: "c"}})
	assert.Equal(t, walstorage.ErrInvalidArgument, walstorage.KindOf(err))
	assert.ErrorContains(t, err, "Credentials")
	assert.ErrorContains(t, err, "GOOGLE_APPLICATION_CREDENTIALS")
	for i := 0; i+8 <= len(text); i += 8 {
		assert.NotContains(t, err.Error(), text[i:i+8])
	}
}

// The variable that the SDK takes an emulator's address from is parsed even where it is not used: what is no URL is refused
// by its name, and what may be a secret in it is not repeated (W11).
func TestEmulatorVariableThatIsNoURL(t *testing.T) {
	_, url := serve(t, fake.Config{})
	for value, right := range map[string]bool{
		"http://user:planted@ho%st": false, "http://planted:port": false,
		"http://127.0.0.1:1": true, "user:planted@ho%st": true, "%": true,
	} {
		t.Setenv("STORAGE_EMULATOR_HOST", value)
		manager, err := gcs.New(t.Context(), config(url))
		if right {
			require.NoError(t, err, value)
			assert.NoError(t, manager.Warm(t.Context()), value)
			assert.NoError(t, manager.Close())
			continue
		}
		assert.Equal(t, walstorage.ErrInvalidArgument, walstorage.KindOf(err), value)
		assert.ErrorContains(t, err, "STORAGE_EMULATOR_HOST")
		assert.NotContains(t, err.Error(), "planted")
	}
}

// A2: a client that cannot be used is refused when it is handed in, by the name of its field: one that speaks gRPC, whose
// errors would all look like a service that is down, and one that nobody has made, which would panic.
func TestClientThatIsNotSupported(t *testing.T) {
	grpc, err := storage.NewGRPCClient(t.Context(), option.WithEndpoint("127.0.0.1:1"), option.WithoutAuthentication(), storage.WithDisabledClientMetrics())
	require.NoError(t, err)
	t.Cleanup(func() { _ = grpc.Close() })
	for client, why := range map[*storage.Client]string{grpc: "gRPC", {}: "storage.NewClient"} {
		_, err := gcs.New(context.Background(), gcs.Config{Bucket: bucket, Client: client, Store: objectstore.Config{Cluster: "c"}})
		assert.Equal(t, walstorage.ErrInvalidArgument, walstorage.KindOf(err))
		assert.ErrorContains(t, err, "gcs.Config: Client: ")
		assert.ErrorContains(t, err, why)
	}
}

// W11: the variable that makes the SDK write down what it sends and gets does not make it write down tokens.
func TestSDKDoesNotLogTokens(t *testing.T) {
	for _, level := range []string{"debug", "info"} {
		t.Setenv("GOOGLE_SDK_GO_LOGGING_LEVEL", level)
		account(t, func(w http.ResponseWriter, _ *http.Request) { issue(w, token) })
		server, c := serveTLS(t, fake.Config{Tokens: []string{token}})
		c.Credentials = nil
		server.Store(bucket, "there", []byte("data"))
		written, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		require.NoError(t, err)
		stderr := os.Stderr
		os.Stderr = written
		func() {
			defer func() { os.Stderr = stderr }()
			driver := open(t, c)
			for op, call := range operations {
				assert.NoError(t, call(t.Context(), driver), op)
			}
		}()
		require.NoError(t, written.Close())
		text, err := os.ReadFile(written.Name())
		require.NoError(t, err)
		assert.NotContains(t, string(text), token)
		assert.NotContains(t, string(text), "assertion")
	}
}

// W11: the credentials of a sovereign cloud are not sent to Google's own because nobody has said where its store is.
func TestCredentialsOfASovereignCloud(t *testing.T) {
	text := account(t, func(http.ResponseWriter, *http.Request) { t.Error("a token was asked for") })
	_, err := gcs.NewDriver(t.Context(), gcs.Config{Bucket: bucket})
	require.NoError(t, err)
	text = strings.Replace(text, "{", `{"universe_domain":"cloud.example",`, 1)
	require.NoError(t, os.WriteFile(os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"), []byte(text), 0o600))
	_, err = gcs.NewDriver(t.Context(), gcs.Config{Bucket: bucket})
	assert.Equal(t, walstorage.ErrInvalidArgument, walstorage.KindOf(err))
	assert.ErrorContains(t, err, "gcs.Config: Endpoint: ")
	assert.ErrorContains(t, err, "https://storage.cloud.example")
	_, err = gcs.NewDriver(t.Context(), gcs.Config{Bucket: bucket, Endpoint: "https://storage.cloud.example"})
	assert.NoError(t, err)
}
