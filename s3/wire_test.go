package s3_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

func encoded(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, checksum(data)))
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(t *testing.T, cfg fake.Config) (*fake.Server, s3.Config) {
	cfg.Buckets = append(cfg.Buckets, bucket)
	server := fake.New(cfg)
	listening := httptest.NewUnstartedServer(server)
	listening.Config.ErrorLog = log.New(io.Discard, "", 0)
	listening.StartTLS()
	t.Cleanup(listening.Close)
	c := config(listening.URL)
	c.HTTPClient = listening.Client()
	return server, c
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
			driver := open(t, c)

			require.NoError(t, driver.Put(t.Context(), "a/b.wal", objectstore.NewBody(data), checksum(data)))

			requests := server.Requests()
			require.Len(t, requests, 1, "one request for an upload")
			r := requests[0]
			assert.Equal(t, "HTTP/1.1", r.Proto)
			assert.Equal(t, data, r.Body)
			assert.Equal(t, int64(len(data)), r.ContentLength)
			assert.Empty(t, r.TransferEncoding)
			assert.Equal(t, "*", r.Header.Get("If-None-Match"))
			for _, header := range test.also {
				assert.NotEmpty(t, r.Header.Get(header), header)
			}
			if slices.Contains(test.also, "X-Amz-Checksum-Crc32c") {
				assert.Equal(t, encoded(data), r.Header.Get("X-Amz-Checksum-Crc32c"))
			}
			for _, header := range test.never {
				assert.Empty(t, r.Header.Get(header), header)
			}
			for header := range r.Header {
				if !slices.Contains(slices.Concat(allowed, test.also, []string{"If-None-Match", "Content-Type"}), header) {
					t.Errorf("header %s: %q", header, r.Header.Get(header))
				}
			}
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
			server.Store(bucket, "a/1", []byte("0123456789"))
			driver := open(t, c)

			dst := make([]byte, 4)
			require.NoError(t, driver.Get(t.Context(), "a/1", 3, dst))
			assert.Equal(t, "3456", string(dst))
			object, err := driver.Stat(t.Context(), "a/1")
			require.NoError(t, err)
			assert.Equal(t, int64(10), object.Size)
			page, next, err := driver.List(t.Context(), "a/", "")
			require.NoError(t, err)
			assert.Len(t, page, 1)
			assert.Empty(t, next)
			require.NoError(t, driver.Delete(t.Context(), []string{"a/1", "a/2"}))
			assert.Empty(t, server.Keys(bucket))

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
				assert.Equal(t, "HTTP/1.1", r.Proto)
				for _, header := range also[r.Op] {
					assert.NotEmpty(t, r.Header.Get(header), "%s: %s", r.Op, header)
				}
				for header := range r.Header {
					if !slices.Contains(slices.Concat(allowed, also[r.Op]), header) {
						t.Errorf("%s: header %s: %q", r.Op, header, r.Header.Get(header))
					}
				}
			}
		})
	}
}

// The package's own client speaks HTTP/1.1 although the server offers more, trusts the certificates of AWS_CA_BUNDLE, and
// uses its connections again, as many as were open at once.
func TestOwnTransport(t *testing.T) {
	server := fake.New(fake.Config{Buckets: []string{bucket}})
	var connections atomic.Int64
	listening := httptest.NewUnstartedServer(server)
	listening.EnableHTTP2 = true
	listening.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	listening.StartTLS()
	t.Cleanup(listening.Close)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	require.NoError(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw}), 0o600))
	t.Setenv("AWS_CA_BUNDLE", bundle)

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

// Warm opens connections that the first uploads then use.
func TestWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, network, c := inMemory(t, fake.Config{})
		driver := open(t, c)
		server.Fault(always("HeadBucket", fake.Fault{Delay: time.Millisecond})) // so that they are under way at once
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

		for status, kind := range map[int]error{403: walstorage.ErrAccessDenied, 404: walstorage.ErrBucketNotFound, 503: walstorage.ErrUnavailable} {
			server.Fault(always("HeadBucket", fake.Fault{Status: status}))
			assert.Equal(t, kind, walstorage.KindOf(driver.Warm(t.Context())))
		}
	})
}

// An answer that does not begin in time ends the attempt of the package's own client.
func TestResponseHeaderTimeout(t *testing.T) {
	server, url := serve(t, fake.Config{})
	c := config(url)
	c.ResponseHeaderTimeout = 20 * time.Millisecond
	driver := open(t, c)
	server.Fault(always("GetObject", fake.Fault{Wait: make(chan struct{})}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := operations["GetObject"](ctx, driver)
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
	assert.NoError(t, ctx.Err())
}

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
