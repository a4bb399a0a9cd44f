package s3_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage/objectstore"
)

func encoded(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, drivertest.Checksum(data)))
}

// allowed are the headers that a request may have, beside what the case adds.
var allowed = []string{
	"Accept-Encoding", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Authorization", "Content-Length", "Host", "User-Agent",
	"X-Amz-Content-Sha256", "X-Amz-Date", "X-Amz-Security-Token",
}

// J24, AutoMQ/automq#3206: over TLS, where the SDK's own choice is chunks with a trailer, an upload is one request with a
// plain body.
func TestWireFormOverTLS(t *testing.T) {
	data := []byte("whole record batches")
	tests := map[string]struct {
		change func(*s3.Config)
		also   []string // further headers, which the upload must have
		never  []string
		signed bool // the signature covers the body
	}{
		"plain":       {func(*s3.Config) {}, []string{"X-Amz-Checksum-Crc32c"}, nil, false},
		"SSE-KMS":     {func(c *s3.Config) { c.KMSKeyID = "alias/segments" }, []string{"X-Amz-Checksum-Crc32c", "X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"}, nil, false},
		"no checksum": {func(c *s3.Config) { c.NoChecksum = true }, nil, []string{"X-Amz-Checksum-Crc32c"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, c := serveTLS(t, fake.Config{})
			test.change(&c)

			drivertest.OneUpload(t, server, open(t, c), "a/b.wal", data)

			r := server.Requests()[0]
			assert.Equal(t, data, r.Body)
			assert.Equal(t, int64(len(data)), r.ContentLength)
			assert.Empty(t, r.TransferEncoding)
			assert.Equal(t, "*", r.Header.Get("If-None-Match"))
			if slices.Contains(test.also, "X-Amz-Checksum-Crc32c") {
				assert.Equal(t, encoded(data), r.Header.Get("X-Amz-Checksum-Crc32c"))
			}
			for _, header := range test.never {
				assert.Empty(t, r.Header.Get(header), header)
			}
			drivertest.Headers(t, r.Op, r.Header, slices.Concat(allowed, []string{"Content-Type"}), slices.Concat(test.also, []string{"If-None-Match"}))
			if test.signed {
				assert.Len(t, r.Header.Get("X-Amz-Content-Sha256"), 64)
			} else {
				assert.Equal(t, "UNSIGNED-PAYLOAD", r.Header.Get("X-Amz-Content-Sha256"), "the body is hashed once")
			}
		})
	}
}

// Each other operation is one request too, and has no header that is not expected.
func TestWireFormOfTheOtherOperations(t *testing.T) {
	for name, noChecksum := range map[string]bool{"plain": false, "no checksum": true} {
		t.Run(name, func(t *testing.T) {
			server, c := serveTLS(t, fake.Config{Old: noChecksum})
			c.NoChecksum = noChecksum

			drivertest.OtherCalls(t, server, open(t, c))

			also := map[string][]string{
				"GetObject":     {"Range"},
				"HeadObject":    {"X-Amz-Checksum-Mode"},
				"DeleteObjects": {"Content-Type", "X-Amz-Checksum-Crc32c", "X-Amz-Sdk-Checksum-Algorithm"},
			}
			if noChecksum {
				also["HeadObject"] = nil
				also["DeleteObjects"] = []string{"Content-Type", "Content-Md5"}
			}
			requests := server.Requests()
			require.Len(t, requests, 4)
			for _, r := range requests {
				drivertest.Headers(t, r.Op, r.Header, allowed, also[r.Op])
			}
		})
	}
}

// The package's own client speaks HTTP/1.1 although the server offers more, trusts the certificates of AWS_CA_BUNDLE, and
// uses its connections again, as many as were open at once.
func TestOwnTransport(t *testing.T) {
	server := fake.New(fake.Config{Buckets: []string{bucket}})
	drivertest.OwnTransport(t, subject(), server, func(listening *httptest.Server) objectstore.Driver {
		listening.EnableHTTP2 = true
		listening.StartTLS()
		bundle := filepath.Join(t.TempDir(), "bundle.pem")
		require.NoError(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw}), 0o600))
		t.Setenv("AWS_CA_BUNDLE", bundle)
		return open(t, config(listening.URL))
	})
}

// H10: what the caller's context carries reaches the HTTP client.
func TestContextValues(t *testing.T) { drivertest.ContextValues(t, subject()) }

// A certificate that nobody trusts is reported and not tried again: no time mends it.
func TestUntrustedCertificate(t *testing.T) { drivertest.UntrustedCertificate(t, subject()) }

// Warm opens connections that the first uploads then use.
func TestWarm(t *testing.T) { drivertest.Warm(t, subject()) }

// An answer that does not begin in time ends the attempt of the package's own client.
func TestResponseHeaderTimeout(t *testing.T) { drivertest.ResponseHeaderTimeout(t, subject()) }

// M7: Close leaves the caller's HTTP client alone: the next driver finds its connections open.
func TestCloseLeavesTheCallersClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, c := inMemory(t, fake.Config{})
		for range 3 {
			driver := open(t, c)
			require.NoError(t, operations["ListObjectsV2"](t.Context(), driver))
			require.NoError(t, driver.Close())
		}
		assert.Equal(t, 1, network.Dialled())
	})
}
