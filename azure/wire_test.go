package azure_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

func hex32(data []byte) string { return fmt.Sprintf("%08x", checksum(data)) }

// encoded is the CRC-64/NVME as it goes over the wire.
func encoded(data []byte) string {
	sum := crc64.Checksum(data, crc64.MakeTable(0x9A6C9329AC4BC9B5))
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, sum))
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(t *testing.T, cfg fake.Config) (*fake.Server, azure.Config) {
	server := newFake(t, cfg)
	listening := httptest.NewUnstartedServer(server)
	listening.Config.ErrorLog = log.New(io.Discard, "", 0)
	listening.StartTLS()
	t.Cleanup(listening.Close)
	c := config(listening.URL)
	c.HTTPClient = listening.Client()
	return server, c
}

// closing is a server whose idle connections can be closed.
type closing struct {
	url  string
	mu   sync.Mutex
	idle map[net.Conn]bool
}

// closeIdle closes the connections that wait for a request.
func (c *closing) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.idle {
		_ = conn.Close()
		delete(c.idle, conn)
	}
}

func serveClosing(t *testing.T, handler http.Handler) *closing {
	c := &closing{idle: map[net.Conn]bool{}}
	listening := httptest.NewUnstartedServer(handler)
	listening.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if state == http.StateIdle {
			c.idle[conn] = true
		} else {
			delete(c.idle, conn)
		}
	}
	listening.Start()
	t.Cleanup(listening.Close)
	c.url = listening.URL
	return c
}

// allowed are the headers that a request may have, beside what the case adds.
var allowed = []string{"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "Host", "User-Agent", "X-Ms-Version"}

// J24: over TLS too an upload is exactly one request with a plain body, the checksum in a header, and no header that is
// not expected.
func TestWireFormOverTLS(t *testing.T) {
	data := []byte("whole record batches")
	tests := map[string]struct {
		change func(*azure.Config)
		also   []string // further headers, which the upload must have
	}{
		"shared key": {func(*azure.Config) {}, []string{"Authorization", "X-Ms-Date", "X-Ms-Content-Crc64"}},
		"SAS":        {func(c *azure.Config) { c.AccountKey, c.SAS = "", "?"+sas }, []string{"X-Ms-Content-Crc64"}},
		"token":      {func(c *azure.Config) { c.AccountKey, c.Credential = "", &credential{} }, []string{"Authorization", "X-Ms-Content-Crc64"}},
		"MD5":        {func(c *azure.Config) { c.MD5 = true }, []string{"Authorization", "X-Ms-Date", "Content-Md5"}},
	}
	for name, test := range tests {
		for size, data := range map[string][]byte{"": data, ", empty": {}} {
			t.Run(name+size, func(t *testing.T) {
				server, c := serveTLS(t, fake.Config{})
				test.change(&c)
				driver := open(t, c)

				require.NoError(t, driver.Put(t.Context(), "a/b.wal", objectstore.NewBody(data), checksum(data)))

				requests := server.Requests()
				require.Len(t, requests, 1, "one request for an upload")
				r := requests[0]
				assert.Equal(t, "PutBlob", r.Op)
				assert.Equal(t, "a/b.wal", r.Key)
				assert.Equal(t, "HTTP/1.1", r.Proto)
				assert.Equal(t, data, r.Body)
				assert.Equal(t, int64(len(data)), r.ContentLength)
				assert.Empty(t, r.TransferEncoding)
				assert.Equal(t, "*", r.Header.Get("If-None-Match"))
				assert.Equal(t, "BlockBlob", r.Header.Get("X-Ms-Blob-Type"))
				assert.Equal(t, hex32(data), r.Header.Get("X-Ms-Meta-Walhopcrc32c"))
				for _, header := range test.also {
					assert.NotEmpty(t, r.Header.Get(header), header)
				}
				if slices.Contains(test.also, "X-Ms-Content-Crc64") {
					assert.Equal(t, encoded(data), r.Header.Get("X-Ms-Content-Crc64"))
				}
				expected := slices.Concat(allowed, test.also, []string{"If-None-Match", "X-Ms-Blob-Type", "X-Ms-Meta-Walhopcrc32c"})
				for header := range r.Header {
					if !slices.Contains(expected, header) {
						t.Errorf("header %s: %q", header, r.Header.Get(header))
					}
				}
				stored, found := server.Object(bucket, "a/b.wal")
				assert.True(t, found)
				assert.Equal(t, string(data), string(stored))
			})
		}
	}
}

// Each other operation is one request too, and has no header that is not expected.
func TestWireFormOfTheOtherOperations(t *testing.T) {
	server, c := serveTLS(t, fake.Config{})
	server.Store(bucket, "a/1", []byte("0123456789"))
	driver := open(t, c)

	dst := make([]byte, 4)
	require.NoError(t, driver.Get(t.Context(), "a/1", 3, dst))
	assert.Equal(t, "3456", string(dst))
	object, err := driver.Stat(t.Context(), "a/1")
	require.NoError(t, err)
	assert.Equal(t, int64(10), object.Size)
	assert.WithinDuration(t, time.Now(), object.Stored, time.Minute)
	assert.False(t, object.HasCRC32C)
	page, next, err := driver.List(t.Context(), "a/", "")
	require.NoError(t, err)
	assert.Len(t, page, 1)
	assert.Empty(t, next)
	require.NoError(t, driver.Delete(t.Context(), []string{"a/1", "a/2"}))
	assert.Empty(t, server.Keys(bucket))
	require.NoError(t, driver.Delete(t.Context(), []string{"a/1"}))

	also := map[string][]string{"GetBlob": {"X-Ms-Range"}, "BlobBatch": {"Content-Type"}}
	requests := server.Requests()
	require.Len(t, requests, 5)
	for _, r := range requests {
		assert.Equal(t, "HTTP/1.1", r.Proto)
		for _, header := range also[r.Op] {
			assert.NotEmpty(t, r.Header.Get(header), "%s: %s", r.Op, header)
		}
		for header := range r.Header {
			if !slices.Contains(slices.Concat(allowed, also[r.Op], []string{"Authorization", "X-Ms-Date"}), header) {
				t.Errorf("%s: header %s: %q", r.Op, header, r.Header.Get(header))
			}
		}
	}
	// Of those allowed, only what each needs.
	assert.Equal(t, "bytes=3-6", requests[0].Header.Get("X-Ms-Range"))
	assert.Equal(t, "comp=list&prefix=a%2F&restype=container", requests[2].Query)
	assert.Equal(t, "comp=batch&restype=container", requests[3].Query)
}

// An emulator has the account in the path; keys, lists and batches work there too.
func TestAccountInThePath(t *testing.T) {
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url+"/"+account+"/"))
	data := []byte("data")
	require.NoError(t, driver.Put(t.Context(), "a/k", objectstore.NewBody(data), checksum(data)))
	assert.Equal(t, []string{"a/k"}, server.Keys(bucket))
	page, _, err := driver.List(t.Context(), "", "")
	require.NoError(t, err)
	assert.Len(t, page, 1)
	require.NoError(t, driver.Delete(t.Context(), []string{"a/k", "a/l"}))
	assert.Empty(t, server.Keys(bucket))
}

// W2, J20: a ready client works, whose retries, which it has many of, are not used; its policies are.
func TestReadyClient(t *testing.T) {
	server, url := serve(t, fake.Config{})
	server.Store(bucket, "there", []byte("data"))
	key, err := container.NewSharedKeyCredential(account, accountKey)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := container.NewClientWithSharedKeyCredential(url+"/"+bucket, key, &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: transport},
		Retry:     policy.RetryOptions{MaxRetries: 10, RetryDelay: time.Nanosecond, MaxRetryDelay: time.Nanosecond, TryTimeout: time.Nanosecond},
		Telemetry: policy.TelemetryOptions{ApplicationID: "ours"},
	}})
	require.NoError(t, err)
	driver := open(t, azure.Config{Client: client})
	for op, call := range operations {
		server.Fault(nil)
		require.NoError(t, call(t.Context(), driver), op)
		for name, fault := range map[string]fake.Fault{"503": {Status: 503, Code: "ServerBusy"}, "dropped": {Drop: true}} {
			if name == "dropped" && (op == "GetBlob" || op == "GetBlobProperties" || op == "ListBlobs") {
				continue // net/http itself repeats them on another connection
			}
			server.Fault(always(op, fault))
			before := server.Count(op)
			err := call(t.Context(), driver)
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%s, %s: %v", op, name, err)
			assert.Equal(t, before+1, server.Count(op), "%s, %s: one attempt", op, name)
		}
	}
	for _, r := range server.Requests() {
		assert.True(t, strings.HasPrefix(r.Header.Get("User-Agent"), "ours "), r.Header.Get("User-Agent"))
	}
}

// marker is a key of a context value.
type marker struct{}

// H10: the values of the caller's context reach the HTTP client, for traces.
func TestContextValuesReachTheClient(t *testing.T) {
	server, url := serve(t, fake.Config{})
	server.Store(bucket, "there", []byte("data"))
	var seen atomic.Int64
	c := config(url)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Context().Value(marker{}) == "ours" {
			seen.Add(1)
		}
		return transport.RoundTrip(r)
	})}
	driver := open(t, c)
	for op, call := range operations {
		before := seen.Load()
		require.NoError(t, call(context.WithValue(t.Context(), marker{}, "ours"), driver), op)
		assert.Equal(t, before+1, seen.Load(), op)
	}
}

// The package's own client speaks HTTP/1.1 although the server offers more, and uses its connections again, as many as
// were open at once.
func TestOwnTransport(t *testing.T) {
	server := newFake(t, fake.Config{})
	var connections atomic.Int64
	listening := httptest.NewUnstartedServer(server)
	listening.Config.Protocols = new(http.Protocols)
	listening.Config.Protocols.SetHTTP1(true)
	listening.Config.Protocols.SetUnencryptedHTTP2(true)
	listening.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	listening.Start()
	t.Cleanup(listening.Close)

	// Fifty requests at once, twice: the second time no connection is opened, where the SDK's ten idle ones would not do.
	driver := open(t, config(listening.URL))
	arrived, gate := make(chan struct{}, 50), make(chan struct{})
	var first int64
	for round := range 2 {
		server.Fault(func(fake.Request) fake.Fault {
			arrived <- struct{}{}
			return fake.Fault{Wait: gate}
		})
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				data := []byte{byte(i)}
				assert.NoError(t, driver.Put(t.Context(), fmt.Sprintf("%d/%d", round, i), objectstore.NewBody(data), checksum(data)))
			})
		}
		for range 50 {
			<-arrived
		}
		close(gate)
		all.Wait()
		gate = make(chan struct{})
		if round == 0 {
			first = connections.Load()
			assert.Equal(t, int64(50), first)
		}
	}
	assert.Equal(t, first, connections.Load())
	for _, r := range server.Requests() {
		assert.Equal(t, "HTTP/1.1", r.Proto)
		assert.Empty(t, r.Header.Get("Accept-Encoding"), "bytes come back as they were put")
	}
}

// A certificate that nobody trusts is reported and not tried again: no time mends it.
func TestUntrustedCertificate(t *testing.T) {
	_, c := serveTLS(t, fake.Config{})
	c.HTTPClient = nil
	err := manage(t, c).UploadSegment(t.Context(), segment(t), []byte("data"))
	require.Error(t, err)
	assert.NoError(t, walstorage.KindOf(err))
	assert.ErrorContains(t, err, "certificate")
}

// J13: an answer that does not begin in time is none, with the package's own client; and a server that takes no connection
// is unavailable (J7).
func TestOwnTimeouts(t *testing.T) {
	server, url := serve(t, fake.Config{})
	server.Fault(always("GetBlob", fake.Fault{Wait: make(chan struct{})}))
	c := config(url)
	c.ResponseHeaderTimeout = 50 * time.Millisecond
	err := operations["GetBlob"](t.Context(), open(t, c))
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
	server.Close()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	err = operations["GetBlob"](t.Context(), open(t, config("http://"+listener.Addr().String())))
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
}

// Warm opens connections that the first uploads then use.
func TestWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, network, c := inMemory(t, fake.Config{})
		server.Store(bucket, "k", []byte("x"))
		driver := open(t, c)
		server.Fault(always("ListBlobs", fake.Fault{Delay: time.Millisecond})) // so that they are under way at once
		require.NoError(t, driver.Warm(t.Context()))
		warm := network.Dialled()
		assert.Equal(t, 8, warm)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				data := []byte{byte(i)}
				assert.NoError(t, driver.Put(t.Context(), fmt.Sprint(i), objectstore.NewBody(data), checksum(data)))
			})
		}
		all.Wait()
		assert.Equal(t, warm, network.Dialled())

		for fault, kind := range map[*fake.Fault]error{
			{Status: 403}: walstorage.ErrAccessDenied, {Status: 404, Code: "ContainerNotFound"}: walstorage.ErrBucketNotFound, {Status: 503}: walstorage.ErrUnavailable,
		} {
			server.Fault(always("ListBlobs", *fault))
			assert.Equal(t, kind, walstorage.KindOf(driver.Warm(t.Context())))
		}
	})
}
