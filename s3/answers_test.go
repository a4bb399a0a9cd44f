package s3_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
)

// What comes back over the wire, byte for byte: an answer that is cut, garbled, or that belongs to another question is no
// success of any operation, and none of them hangs. Where nothing is named here the kind is walstorage.ErrUnavailable.
func TestAnswersOverTheWire(t *testing.T) {
	const (
		created = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n"
		part    = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/9\r\n"
		success = "success" // in place of the name of a kind
	)
	unclassified, exists := "", walstorage.ErrSegmentExists.Error()
	tests := map[string]struct {
		text string
		want map[string]string // by the operation, "" for no kind
	}{
		"created":                     {created, map[string]string{"PutObject": success, "HeadObject": success}},
		"continue, and created":       {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9) + created, map[string]string{"PutObject": success, "HeadObject": success}},
		"hints, and created":          {"HTTP/1.1 103 Early Hints\r\nETag: \"y\"\r\n\r\n" + created, map[string]string{"PutObject": success, "HeadObject": success}},
		"continue, and no more":       {"HTTP/1.1 100 Continue\r\n\r\n", nil},
		"another protocol":            {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", nil},
		"no HTTP":                     {"220 mail.invalid ESMTP\r\n", nil},
		"HTTP/2":                      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", nil},
		"half a status":               {"HTTP/1.1 200", nil},
		"half a head":                 {"HTTP/1.1 200 OK\r\nETag: \"x\"\r\n", nil},
		"an ETag with nothing in it":  {"HTTP/1.1 200 OK\r\nETag: \r\nContent-Length: 0\r\n\r\n", map[string]string{"HeadObject": success}},
		"two lengths":                 {"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", nil},
		"a length below zero":         {"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: -5\r\n\r\n", nil},
		"no more content":             {"HTTP/1.1 204 No Content\r\nETag: \"x\"\r\n\r\n", map[string]string{"PutObject": success}},
		"a number that is none":       {"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nX-Amz-Object-Size: many\r\nContent-Length: 0\r\n\r\n", map[string]string{"HeadObject": success}},
		"a date that is none":         {part + "Last-Modified: yesterday\r\nContent-Length: 4\r\n\r\ndata", nil},
		"the part":                    {part + "Content-Length: 4\r\n\r\ndata", map[string]string{"GetObject": success, "HeadObject": success}},
		"the part, one byte short":    {part + "Content-Length: 4\r\n\r\ndat", map[string]string{"HeadObject": success}},
		"the part, in broken chunks":  {part + "Transfer-Encoding: chunked\r\n\r\n4\r\ndat", nil},
		"the part, in no chunks":      {part + "Transfer-Encoding: chunked\r\n\r\nzz\r\ndata", nil},
		"the part, and more":          {part + "\r\ndata and more", nil},
		"parts":                       {"HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=x\r\nContent-Length: 4\r\n\r\n--x", map[string]string{"HeadObject": success}},
		"exists, with no text":        {"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n", map[string]string{"PutObject": exists, "GetObject": unclassified, "HeadObject": unclassified, "DeleteObjects": unclassified, "ListObjectsV2": unclassified}},
		"exists, in another language": {"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 13\r\n\r\n<html></html>", map[string]string{"PutObject": exists, "GetObject": unclassified, "HeadObject": unclassified, "DeleteObjects": unclassified, "ListObjectsV2": unclassified}},
		"exists, cut":                 {"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 99\r\n\r\n<Error><Code>Precon", map[string]string{"PutObject": exists, "HeadObject": unclassified}},
		"a conflict, cut":             {"HTTP/1.1 409 Conflict\r\nContent-Length: 99\r\n\r\n<Error><Code>Cond", map[string]string{"HeadObject": unclassified}},
		"a conflict without a code":   {"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n", map[string]string{"PutObject": unclassified, "GetObject": unclassified, "HeadObject": unclassified, "DeleteObjects": unclassified, "ListObjectsV2": unclassified}},
		"not found, cut":              {"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\n<Error><Code>NoSuchK", map[string]string{"HeadObject": walstorage.ErrBucketNotFound.Error()}},
		"beyond the end":              {"HTTP/1.1 416 Range\r\nContent-Length: 0\r\n\r\n", map[string]string{"PutObject": unclassified, "GetObject": walstorage.ErrInvalidRange.Error(), "HeadObject": unclassified, "DeleteObjects": unclassified, "ListObjectsV2": unclassified}},
		"... by its code":             {"HTTP/1.1 416 Range\r\nContent-Length: 40\r\n\r\n<Error><Code>InvalidRange</Code></Error>", map[string]string{"PutObject": unclassified, "GetObject": walstorage.ErrInvalidRange.Error(), "HeadObject": unclassified, "DeleteObjects": unclassified, "ListObjectsV2": unclassified}},
		"a status beyond all":         {"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for op, call := range operations {
				synctest.Test(t, func(t *testing.T) {
					_, c := ours.InPipes(t, drivertest.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						conn, _, err := http.NewResponseController(w).Hijack()
						if err != nil {
							return
						}
						text := test.text
						if end := strings.LastIndex(text, "\r\n\r\n"); end >= 0 && r.Method == http.MethodHead {
							text = text[:end+4] // a body, which such an answer has not, net/http remarks to the log
						}
						_, _ = io.WriteString(conn, text)
						_ = conn.Close()
					}), config(""))
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()

					err := call(ctx, open(t, c))

					got := success
					if err != nil {
						got = ""
						if kind := walstorage.KindOf(err); kind != nil {
							got = kind.Error()
						} else if _, several := err.(interface{ Unwrap() []error }); several {
							got = walstorage.ErrUnavailable.Error()
						}
					}
					want, named := test.want[op]
					if !named {
						want = walstorage.ErrUnavailable.Error()
					}
					assert.Equal(t, want, got, "%s: %v", op, err)
					assert.NoError(t, ctx.Err())
				})
			}
		})
	}
}

// J16, E14 (W10): what is no list, or has an entry that is none, is unavailable and is asked for again; nothing that it
// defines is expanded.
func TestListsThatAreNone(t *testing.T) {
	list := func(entries string) string {
		return "<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>" + entries + "</ListBucketResult>"
	}
	const rest = "<Size>1</Size></Contents>"
	for name, document := range map[string]string{
		"an entry without a key":        list("<Contents>" + rest),
		"an entry with an empty key":    list("<Contents><Key></Key>" + rest),
		"an entry with nothing in it":   list("<Contents/>"),
		"a size below zero":             list("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
		"a size beyond 64 bits":         list("<Contents><Key>a</Key><Size>9223372036854775808</Size></Contents>"),
		"a size that is no number":      list("<Contents><Key>a</Key><Size>1.5</Size></Contents>"),
		"no size":                       list("<Contents><Key>a</Key></Contents>"),
		"a time that is none":           list("<Contents><Key>a</Key><LastModified>yesterday</LastModified>" + rest),
		"an element in a key":           list("<Contents><Key>a<b>c</b></Key>" + rest),
		"cut after an entry":            strings.TrimSuffix(list("<Contents><Key>a</Key>"+rest), "</ListBucketResult>"),
		"an end that nobody can read":   "<ListBucketResult><IsTruncated>perhaps</IsTruncated></ListBucketResult>",
		"an end with nothing in it":     "<ListBucketResult><IsTruncated></IsTruncated></ListBucketResult>",
		"another document":              "<html><body>Sign in</body></html>",
		"no document":                   "",
		"no text":                       "\xff\xfe<\x00L\x00",
		"another character set":         `<?xml version="1.0" encoding="ISO-8859-1"?>` + list(""),
		"an entity that grows":          `<!DOCTYPE l [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>` + list("<Contents><Key>&b;</Key>"+rest),
		"an entity of somewhere else":   `<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/hostname">]>` + list("<Contents><Key>&a;</Key>"+rest),
		"elements in elements for long": "<ListBucketResult>" + strings.Repeat("<Owner>", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bufio.NewReader(strings.NewReader(document))), ContentLength: -1, Request: r}, nil
			})}
			page, next, err := open(t, c).List(t.Context(), "c/", "")
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
			assert.Empty(t, page)
			assert.Empty(t, next)
		})
	}
}

// Uploads, reads, Warm and Close at once: each call succeeds or says that the driver is closed, Close waits for all, and the
// race detector has nothing to say. What was acknowledged is there.
func TestCloseAmongEverything(t *testing.T) {
	for _, kind := range []string{bucket, directoryBucket} {
		t.Run(kind, func(t *testing.T) {
			for round := range 10 {
				closeAmongEverything(t, kind, round)
			}
		})
	}
}

func closeAmongEverything(t *testing.T, kind string, round int) {
	server, c := serveTLS(t, fake.Config{Buckets: []string{directoryBucket}})
	c.Bucket, c.PathStyle = kind, kind == bucket
	var closed atomic.Bool
	transport := c.HTTPClient.Transport
	c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if closed.Load() {
			t.Errorf("%s %s is sent after Close has returned", r.Method, r.URL.Path)
		}
		return transport.RoundTrip(r)
	})}
	manager, err := s3.New(t.Context(), c)
	require.NoError(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	stored := map[string]bool{}
	check := func(what string, err error) {
		if err != nil && !errors.Is(err, walstorage.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				id := drivertest.Segment(t)
				data := fmt.Append(nil, id)
				err := manager.UploadSegment(t.Context(), id, data)
				clear(data) // ours again
				check("upload", err)
				if err == nil {
					mu.Lock()
					stored[drivertest.Key(t, id)] = true
					mu.Unlock()
					check("fetch", manager.FetchSegment(t.Context(), id, 0, data))
				}
			}
		})
		if i < 3 {
			all.Go(func() { check("warm", manager.Warm(t.Context())) })
		}
	}
	for range 2 {
		all.Go(func() {
			time.Sleep(time.Duration(2*round) * time.Millisecond) // nothing waits for it: at any moment
			check("close", manager.Close())
			closed.Store(true)
		})
	}
	all.Wait()
	for key := range stored {
		data, found := server.Object(kind, key)
		require.True(t, found, "an upload that was acknowledged is not there")
		assert.NotContains(t, string(data), "\x00")
	}
}
