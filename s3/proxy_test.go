package s3_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// everyPath makes requests in every way that there is: Warm, which makes the session of a directory bucket, an upload
// whose first attempt fails, one that meets an existing object, a read, a look, a list and a delete.
func everyPath(ctx context.Context, m *objectstore.Manager, id walstorage.SegmentID) error {
	data, got := []byte("whole record batches"), make([]byte, 20)
	if err := m.Warm(ctx); err != nil {
		return fmt.Errorf("warm: %w", err)
	}
	for range 2 {
		if err := m.UploadSegment(ctx, id, data); err != nil {
			return err
		}
	}
	if err := m.FetchSegment(ctx, id, 0, got); err != nil {
		return err
	}
	if string(got) != string(data) {
		return fmt.Errorf("%q came back", got)
	}
	if _, err := m.StatSegment(ctx, id); err != nil {
		return err
	}
	listed := 0
	for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
		if err != nil {
			return err
		}
		listed++
	}
	if listed != 1 {
		return fmt.Errorf("%d segments in the list", listed)
	}
	return m.DeleteSegments(ctx, id)
}

// sentOnEveryPath are the requests that everyPath sends, by the kind of the bucket.
func sentOnEveryPath(name string) map[string]int {
	sent := map[string]int{"HeadBucket": 9, "PutObject": 3, "GetObject": 1, "HeadObject": 2, "ListObjectsV2": 1, "DeleteObjects": 1}
	if name == directoryBucket {
		sent["CreateSession"] = 1
	}
	return sent
}

// came counts the requests of a bucket.
func came(server *fake.Server, name string) map[string]int {
	counts := map[string]int{}
	for _, r := range server.Requests() {
		if r.Bucket == name {
			counts[r.Op]++
		}
	}
	return counts
}

// failingOnce has the first upload to each bucket fail.
func failingOnce(server *fake.Server) {
	var mu sync.Mutex
	failed := map[string]bool{}
	server.Fault(func(r fake.Request) fake.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Op != "PutObject" || failed[r.Bucket] {
			return fake.Fault{}
		}
		failed[r.Bucket] = true
		return fake.Fault{Status: 503, Code: "SlowDown"}
	})
}

// J27: whatever is asked for, and however often, goes through the client that was handed in, with its transport and the
// certificates that it trusts: the request for a session, those of Warm and the repetition too. Another client would not
// be let in by the server.
func TestClientOnEveryPath(t *testing.T) {
	for name, ready := range map[string]bool{"HTTPClient": false, "Client": true} {
		for _, kind := range []string{bucket, directoryBucket} {
			t.Run(name+" "+kind, func(t *testing.T) {
				server, c := serveTLS(t, fake.Config{Buckets: []string{directoryBucket}})
				failingOnce(server)
				var through atomic.Int64
				trusting := c.HTTPClient.Transport
				c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
					through.Add(1)
					return trusting.RoundTrip(r)
				})}
				c.Bucket, c.PathStyle = kind, kind == bucket
				if ready {
					endpoint := c.Endpoint
					client := sdk.New(sdk.Options{
						Region: "eu-central-1", BaseEndpoint: &endpoint, UsePathStyle: c.PathStyle, Credentials: c.Credentials, HTTPClient: c.HTTPClient,
					})
					c = s3.Config{Bucket: kind, Client: client, Store: c.Store}
				}

				require.NoError(t, everyPath(t.Context(), manage(t, c), drivertest.Segment(t)))

				assert.Equal(t, sentOnEveryPath(kind), came(server, kind))
				assert.Equal(t, int64(len(server.Requests())), through.Load())
			})
		}
	}
}

// connects is a proxy that opens every connection to the address given. It lets in who has the password, and counts.
type connects struct {
	to      string
	opened  atomic.Int64
	refused atomic.Int64
	under   sync.WaitGroup
}

func (p *connects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	if r.Method != http.MethodConnect || user != "walhop" || password != secretKey {
		p.refused.Add(1)
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	there, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	p.opened.Add(1)
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	p.under.Go(func() {
		_, _ = io.Copy(there, buffered)
		_ = there.Close()
	})
	p.under.Go(func() {
		_, _ = io.Copy(here, there)
		_ = here.Close()
	})
}

// What the process behind the proxy is told.
const (
	proxyVariable  = "WALHOP_S3_THROUGH" // no name of a proxy: those are taken out of the environment
	bundleVariable = "WALHOP_S3_BUNDLE"
)

// J27: the package's own client goes through the proxy of the environment, on every path, with the certificates of the
// environment. net/http reads that once in a process, so it is another process that does it.
func TestProxyOfTheEnvironment(t *testing.T) {
	server := fake.New(fake.Config{Buckets: []string{bucket, directoryBucket}})
	failingOnce(server)
	listening := httptest.NewTLSServer(server)
	proxy := &connects{to: listening.Listener.Addr().String()}
	front := httptest.NewServer(proxy)
	defer func() {
		front.Close()
		server.Close()
		listening.Close()
		proxy.under.Wait()
	}()
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	require.NoError(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw}), 0o600))
	cmd := conformance.Reexecute(t, "TestProxyPeer")
	cmd.Env = append(cmd.Env, bundleVariable+"="+bundle,
		proxyVariable+"="+strings.Replace(front.URL, "http://", "http://walhop:"+secretKey+"@", 1))

	text, err := cmd.CombinedOutput()

	require.NoError(t, err, "%s", text)
	assert.NotContains(t, string(text), secretKey)
	for _, kind := range []string{bucket, directoryBucket} {
		assert.Equal(t, sentOnEveryPath(kind), came(server, kind))
	}
	assert.Positive(t, proxy.opened.Load())
	assert.Zero(t, proxy.refused.Load())
}

// TestProxyPeer is the other process of TestProxyOfTheEnvironment. In this one it does nothing.
func TestProxyPeer(t *testing.T) {
	proxy := os.Getenv(proxyVariable)
	if proxy == "" {
		return
	}
	t.Setenv("HTTPS_PROXY", proxy)
	t.Setenv("NO_PROXY", "")
	t.Setenv("AWS_CA_BUNDLE", os.Getenv(bundleVariable))
	for _, kind := range []string{bucket, directoryBucket} {
		// The server's certificate is for this name and those below it. Nobody answers at it but through the proxy.
		c := config("https://example.com:1")
		c.Bucket, c.PathStyle = kind, kind == bucket
		require.NoError(t, everyPath(t.Context(), manage(t, c), drivertest.Segment(t)))
	}
}

// W11, I8: a proxy that fails is told without its password, whichever way it fails, and whatever it sends back.
func TestProxyThatFails(t *testing.T) {
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "220 mail.invalid ESMTP "+r.Header.Get("Proxy-Authorization")+"\r\n")
			_ = conn.Close()
		}
	}))
	defer garbage.Close()
	refusing := httptest.NewServer(&connects{})
	defer refusing.Close()
	user := url.UserPassword("operator", secretKey)
	encoded := base64.StdEncoding.EncodeToString([]byte("operator:" + secretKey)) // which garbage sends back
	host := func(server *httptest.Server) string { return server.Listener.Addr().String() }
	for name, proxy := range map[string]*url.URL{
		"nobody there":     {Scheme: "http", User: user, Host: "127.0.0.1:1"},
		"no such port":     {Scheme: "http", User: user, Host: "127.0.0.1:99999"},
		"no such host":     {Scheme: "http", User: user, Host: "proxy.invalid:80"},
		"no such scheme":   {Scheme: "gopher", User: user, Host: "127.0.0.1:1"},
		"no TLS":           {Scheme: "https", User: user, Host: host(garbage)},
		"garbage":          {Scheme: "http", User: user, Host: host(garbage)},
		"a wrong password": {Scheme: "http", User: user, Host: host(refusing)},
		"SOCKS to nobody":  {Scheme: "socks5", User: user, Host: "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
			defer transport.CloseIdleConnections()
			c := config("https://store.invalid")
			c.HTTPClient, c.Store.MaxAttempts = &http.Client{Transport: transport}, 1
			manager := manage(t, c)
			for _, err := range []error{
				manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")),
				manager.DeleteSegments(t.Context(), drivertest.Segment(t)),
				manager.Warm(t.Context()),
			} {
				require.Error(t, err)
				assert.ErrorIs(t, err, walstorage.ErrUnavailable)
				for _, secret := range []string{secretKey, sessionToken, encoded} {
					assert.NotContains(t, err.Error(), secret)
				}
			}
		})
	}
}
