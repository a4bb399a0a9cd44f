package azure_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

func hex32(data []byte) string { return fmt.Sprintf("%08x", drivertest.Checksum(data)) }

// encoded is the CRC-64/NVME as it goes over the wire.
func encoded(data []byte) string {
	sum := crc64.Checksum(data, crc64.MakeTable(0x9A6C9329AC4BC9B5))
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, sum))
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

				drivertest.OneUpload(t, server, open(t, c), "a/b.wal", data)

				r := server.Requests()[0]
				assert.Equal(t, "PutBlob", r.Op)
				assert.Equal(t, "a/b.wal", r.Key)
				assert.Equal(t, data, r.Body)
				assert.Equal(t, int64(len(data)), r.ContentLength)
				assert.Empty(t, r.TransferEncoding)
				assert.Equal(t, "*", r.Header.Get("If-None-Match"))
				assert.Equal(t, "BlockBlob", r.Header.Get("X-Ms-Blob-Type"))
				assert.Equal(t, hex32(data), r.Header.Get("X-Ms-Meta-Walhopcrc32c"))
				if slices.Contains(test.also, "X-Ms-Content-Crc64") {
					assert.Equal(t, encoded(data), r.Header.Get("X-Ms-Content-Crc64"))
				}
				drivertest.Headers(t, r.Op, r.Header, allowed,
					slices.Concat(test.also, []string{"If-None-Match", "X-Ms-Blob-Type", "X-Ms-Meta-Walhopcrc32c"}))
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
	driver := open(t, c)

	object, _ := drivertest.OtherCalls(t, server, driver)
	assert.WithinDuration(t, time.Now(), object.Stored, time.Minute)
	assert.False(t, object.HasCRC32C)
	require.NoError(t, driver.Delete(t.Context(), []string{"a/1"}))

	also := map[string][]string{"GetBlob": {"X-Ms-Range"}, "BlobBatch": {"Content-Type"}}
	requests := server.Requests()
	require.Len(t, requests, 5)
	for _, r := range requests {
		assert.Equal(t, "HTTP/1.1", r.Proto)
		drivertest.Headers(t, r.Op, r.Header, slices.Concat(allowed, []string{"Authorization", "X-Ms-Date"}), also[r.Op])
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
	require.NoError(t, driver.Put(t.Context(), "a/k", objectstore.NewBody(data), drivertest.Checksum(data)))
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
			server.Always(op, fault)
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

// H10: the values of the caller's context reach the HTTP client, for traces.
func TestContextValues(t *testing.T) { drivertest.ContextValues(t, subject()) }

// The package's own client speaks HTTP/1.1 although the server offers more, and uses its connections again, as many as
// were open at once.
func TestOwnTransport(t *testing.T) {
	server := newFake(fake.Config{})
	drivertest.OwnTransport(t, subject(), server, func(listening *httptest.Server) objectstore.Driver {
		drivertest.PlainHTTP2(listening)
		return open(t, config(listening.URL))
	})
	for _, r := range server.Requests() {
		assert.Empty(t, r.Header.Get("Accept-Encoding"), "bytes come back as they were put")
	}
}

// A certificate that nobody trusts is reported and not tried again: no time mends it.
func TestUntrustedCertificate(t *testing.T) { drivertest.UntrustedCertificate(t, subject()) }

// J13: an answer that does not begin in time is none, with the package's own client; and a server that takes no connection
// is unavailable (J7).
func TestOwnTimeouts(t *testing.T) {
	drivertest.ResponseHeaderTimeout(t, subject())

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	err = operations["GetBlob"](t.Context(), open(t, config("http://"+listener.Addr().String())))
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
}

// Warm opens connections that the first uploads then use.
func TestWarm(t *testing.T) { drivertest.Warm(t, subject()) }
