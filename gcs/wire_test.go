package gcs_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// allowed are the headers that a request may have, by operation.
func allowed(op string) []string {
	headers := []string{"Accept-Encoding", "Authorization", "Host", "User-Agent", "X-Goog-Api-Client"}
	switch op {
	case fake.Insert:
		return append(headers, "Content-Type")
	case fake.Read:
		headers = append(headers, "Range")
	}
	return append(headers, "X-Goog-Gcs-Idempotency-Token")
}

// J24: over TLS an upload is one request, which creates and does not replace (W2), and whose checksum the service is to
// verify (W4).
func TestWireFormOverTLS(t *testing.T) {
	server, c := serveTLS(t, fake.Config{})
	driver := open(t, c)
	for size, name := range map[int]string{0: "a/empty.wal", 20: "a/small.wal", 1 << 20: "a/large.wal"} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 5)
		}

		drivertest.OneUpload(t, server, driver, name, data)

		requests := server.Requests()
		r := requests[len(requests)-1]
		assert.Equal(t, fake.Insert, r.Op)
		assert.Equal(t, "multipart", r.Query.Get("uploadType"))
		assert.Equal(t, "0", r.Query.Get("ifGenerationMatch"))
		assert.Equal(t, name, r.Key)
		assert.Equal(t, string(data), string(r.Media()))
		var metadata map[string]string
		require.NoError(t, json.Unmarshal(r.Metadata(), &metadata))
		assert.Equal(t, map[string]string{
			"bucket": bucket, "name": name, "contentType": "application/octet-stream", "crc32c": encoded(data),
		}, metadata)
		assert.Equal(t, []string{"chunked"}, r.TransferEncoding, "sent as it is read")
		assert.Equal(t, token, r.Token())
		drivertest.Headers(t, r.Op, r.Header, allowed(r.Op), nil)
	}
}

// encoded is a checksum as the service writes it.
func encoded(data []byte) string {
	sum := drivertest.Checksum(data)
	text, _ := json.Marshal([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return string(text[1 : len(text)-1])
}

// Each other operation is one request too, of what is needed and no more, and has no header that is not expected.
func TestWireFormOfTheOtherOperations(t *testing.T) {
	server, c := serveTLS(t, fake.Config{})

	object, listed := drivertest.OtherCalls(t, server, open(t, c))
	assert.Equal(t, drivertest.Checksum([]byte("0123456789")), object.CRC32C)
	assert.False(t, listed.Stored.IsZero())

	requests := server.Requests()
	require.Len(t, requests, 5)
	want := []string{fake.Read, fake.Get, fake.List, fake.Delete, fake.Delete}
	for i, r := range requests {
		assert.Equal(t, want[i], r.Op)
		assert.False(t, r.XML)
		assert.Equal(t, token, r.Token())
		drivertest.Headers(t, r.Op, r.Header, allowed(r.Op), nil)
	}
	assert.Equal(t, "bytes=3-6", requests[0].Header.Get("Range"))
	assert.Equal(t, "gzip", requests[0].Header.Get("Accept-Encoding"), "bytes come back as they were put (K6)")
	assert.Equal(t, "1000", requests[2].Query.Get("maxResults"))
	assert.Equal(t, "noAcl", requests[2].Query.Get("projection"))
	assert.Regexp(t, `^nextPageToken,prefixes,items\((name|size|timeCreated)(,(name|size|timeCreated)){2}\)$`, requests[2].Query.Get("fields"))
}

// K6, googleapis/google-cloud-go#1800, fsouza/fake-gcs-server#1226: what is gzip comes back as it was put, in ranges too, and
// its checksum is that of the bytes as they are.
func TestGzipStaysGzip(t *testing.T) {
	_, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	data := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}
	require.NoError(t, driver.Put(t.Context(), "k", objectstore.NewBody(data), drivertest.Checksum(data)))
	dst := make([]byte, len(data))
	require.NoError(t, driver.Get(t.Context(), "k", 0, dst))
	assert.Equal(t, data, dst)
	require.NoError(t, driver.Get(t.Context(), "k", 5, dst[:7]))
	assert.Equal(t, data[5:12], dst[:7])
	object, err := driver.Stat(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, drivertest.Checksum(data), object.CRC32C)
}

// The variable that the SDK takes an emulator's address from changes nothing: what is configured counts.
func TestEmulatorVariableHasNoEffect(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1")
	server, url := serve(t, fake.Config{Tokens: []string{token}})
	server.Store(bucket, "there", []byte("data"))
	driver := open(t, config(url))
	for op, call := range operations {
		assert.NoError(t, call(t.Context(), driver), op)
	}
}

// The package's own client speaks HTTP/1.1 although the server offers more, and uses its connections again, as many as
// were open at once.
func TestOwnTransport(t *testing.T) {
	server := fake.New(fake.Config{Buckets: []string{bucket}})
	drivertest.OwnTransport(t, subject(), server, func(listening *httptest.Server) objectstore.Driver {
		drivertest.PlainHTTP2(listening)
		return open(t, config(listening.URL))
	})
}

// J25: a connection that the server has closed while nobody looked is nobody's concern.
func TestClosedKeepAlive(t *testing.T) {
	drivertest.ClosedKeepAlive(t, fake.New(fake.Config{Buckets: []string{bucket}}),
		func(url string) *objectstore.Manager { return manage(t, config(url)) })
}

// J13: an answer that does not begin in time is none, with the package's own client.
func TestResponseHeaderTimeout(t *testing.T) { drivertest.ResponseHeaderTimeout(t, subject()) }

// A certificate that nobody trusts is reported and not tried again: no time mends it.
func TestUntrustedCertificate(t *testing.T) { drivertest.UntrustedCertificate(t, subject()) }

// Warm opens connections that the first uploads then use, and asks for one object at most.
func TestWarm(t *testing.T) {
	drivertest.Warm(t, subject())

	server, url := serve(t, fake.Config{})
	require.NoError(t, open(t, config(url)).Warm(t.Context()))
	assert.Equal(t, "1", server.Requests()[0].Query.Get("maxResults"))
}

// H10: what the caller's context carries reaches the transport.
func TestContextValues(t *testing.T) { drivertest.ContextValues(t, subject()) }
