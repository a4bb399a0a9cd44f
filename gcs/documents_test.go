package gcs_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// answering is a client to which every request has the same answer.
func answering(status int, header http.Header, body string) *http.Client {
	return &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{
			StatusCode: status, Header: header.Clone(), Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
		}, nil
	})}
}

// packed is a text as gzip.
func packed(t *testing.T, text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.String()
}

// document is an error document.
func document(code int, reason, message string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"errors":[{"reason":%q,"message":%q}]}}`, code, message, reason, message)
}

// W7: the status of an answer counts, and not the one that its document names: that may be about something else, behind
// whoever has answered.
func TestDocumentThatNamesAnotherStatus(t *testing.T) {
	for op, call := range operations {
		for _, named := range []int{0, 200, 304, 403, 404, 412, 416} {
			c := config("http://fake.invalid")
			c.HTTPClient = answering(503, nil, document(named, "notFound", "No such object: segments/k"))
			err := call(t.Context(), open(t, c))
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%s %d: %v", op, named, err)
		}
	}
	c := config("http://fake.invalid")
	c.HTTPClient = answering(403, nil, document(503, "forbidden", "no"))
	err := operations[fake.Insert](t.Context(), open(t, c))
	assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "%v", err)
}

// W7, K6: reads ask for bytes as they are stored, and so an error may come packed. It says the same, by one request.
func TestPackedErrors(t *testing.T) {
	for kind, test := range map[error]struct {
		status          int
		reason, message string
	}{
		walstorage.ErrUnavailable:     {403, "rateLimitExceeded", "slow down"},
		walstorage.ErrSegmentNotFound: {404, "notFound", "No such object: segments/k"},
		walstorage.ErrAccessDenied:    {403, "forbidden", "no"},
	} {
		for name, body := range map[string]string{"json": document(test.status, test.reason, test.message), "text": test.message} {
			if name == "text" && kind == walstorage.ErrUnavailable {
				continue // its reason is all that tells
			}
			requests := 0
			c := config("http://fake.invalid")
			client := answering(test.status, http.Header{"Content-Encoding": {"gzip"}}, packed(t, body))
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				requests++
				return client.Transport.RoundTrip(r)
			})}
			err := operations[fake.Read](t.Context(), open(t, c))
			assert.Equal(t, kind, walstorage.KindOf(err), "%v", err)
			assert.ErrorContains(t, err, test.message)
			assert.Equal(t, 1, requests)
		}
	}
	// What calls itself packed and is not is read as it is; half of it says nothing where all hangs on its text.
	for body, kind := range map[string]error{
		document(404, "notFound", "No such object"):                 walstorage.ErrSegmentNotFound,
		packed(t, document(404, "notFound", "No such object"))[:30]: walstorage.ErrUnavailable,
		packed(t, document(404, "notFound", "No such object"))[:5]:  walstorage.ErrUnavailable,
	} {
		c := config("http://fake.invalid")
		c.HTTPClient = answering(404, http.Header{"Content-Encoding": {"gzip"}}, body)
		err := operations[fake.Read](t.Context(), open(t, c))
		assert.Equal(t, kind, walstorage.KindOf(err), "%v", err)
	}
}

// W7: an error document says why a read has failed too, of which the SDK keeps the text alone.
func TestReasonOfAFailedRead(t *testing.T) {
	for reason, kind := range map[string]error{
		"rateLimitExceeded": walstorage.ErrUnavailable, "userRateLimitExceeded": walstorage.ErrUnavailable, "forbidden": walstorage.ErrAccessDenied,
	} {
		c := config("http://fake.invalid")
		c.HTTPClient = answering(403, nil, document(403, reason, "no"))
		err := operations[fake.Read](t.Context(), open(t, c))
		assert.Equal(t, kind, walstorage.KindOf(err), "%v", err)
	}
}

// An error page of any size is no error text of that size, packed or not, and one without end is no call without end.
func TestLargeErrorPages(t *testing.T) {
	page := strings.Repeat("<html>", 1<<17)
	pages := map[string]string{"": page, "gzip": packed(t, page)}
	for _, status := range []int{403, 404, 503} {
		for coding, body := range pages {
			c := config("http://fake.invalid")
			c.HTTPClient = answering(status, http.Header{"Content-Encoding": {coding}}, body)
			for op, call := range operations {
				err := call(t.Context(), open(t, c))
				require.Error(t, err, op)
				assert.Less(t, len(err.Error()), 10_000, op)
			}
		}
	}
	c := config("http://fake.invalid")
	c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 503, Body: io.NopCloser(endless{}), ContentLength: -1, Request: r}, nil
	})}
	for op, call := range operations {
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(call(t.Context(), open(t, c))), op)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// W10: what stands in a list and is no object makes the list an error: neither a panic nor an object without a name. A
// prefix was not asked for, and stands for objects that are not told.
func TestListsOfSomethingElse(t *testing.T) {
	for body, right := range map[string]bool{
		`{"items":[null]}`:                                         false,
		`{"items":[{}]}`:                                           false,
		`{"items":[{"name":""}]}`:                                  false,
		`{"items":[{"name":null,"size":"1"}]}`:                     false,
		`{"items":[{"name":5}]}`:                                   false,
		`{"items":[{"name":"a/x","size":"-1"}]}`:                   false,
		`{"items":{"name":"a/x"}}`:                                 false,
		`{"items":[{"name":"a/x"}],"prefixes":[""]}`:               false,
		`{"prefixes":["a/"]}`:                                      false,
		`{"items":[{"name":"a/x","size":"18446744073709551615"}]}`: false,
		`{"nextPageToken":5}`:                                      false,
		`{"items":null}`:                                           true,
		`{"items":[],"prefixes":[],"nextPageToken":null}`:          true,
		`{"items":[{"name":"a/x","timeCreated":"yesterday"}]}`:     true, // a store that tells no time
	} {
		c := config("http://fake.invalid")
		c.HTTPClient = answering(200, nil, body)
		_, next, err := open(t, c).List(t.Context(), "a/", "")
		if right {
			assert.NoError(t, err, body)
			assert.Empty(t, next, body)
			continue
		}
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%s: %v", body, err)
	}
	// A client that is handed in: its answers are not seen by the transport.
	for name, options := range modes {
		server, c := handed(t, fake.Config{}, options...)
		driver := open(t, c)
		for _, body := range []string{`{"items":[null]}`, `{"items":[{}]}`, `{"prefixes":["a/"]}`} {
			server.Always(fake.List, fake.Fault{Document: body})
			_, _, err := driver.List(t.Context(), "a/", "")
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%s %s: %v", name, body, err)
		}
	}
}

// W2: a look at an object whose size is not told decides nothing. The SDK tells it as 0 bytes, and our own upload, whose
// answer was lost, would be another's.
func TestStatThatTellsNoSize(t *testing.T) {
	for _, answer := range []string{`{"name":%q}`, `{"name":%q,"size":null}`, `{"name":%q,"kind":"storage#object","crc32c":"AAAAAA=="}`} {
		synctest.Test(t, func(t *testing.T) {
			server, _, c := inMemory(t, fake.Config{})
			manager, id := manage(t, c), drivertest.Segment(t)
			server.Fault(func(r fake.Request) fake.Fault {
				switch {
				case r.Op == fake.Insert && r.Number == 1:
					return fake.Fault{DropAfter: true}
				case r.Op == fake.Get && r.Number == 1:
					return fake.Fault{Document: fmt.Sprintf(answer, drivertest.Key(t, id))}
				}
				return fake.Fault{}
			})
			assert.NoError(t, manager.UploadSegment(t.Context(), id, []byte("ours")), answer)
			assert.Equal(t, 2, server.Count(fake.Get))
		})
	}
}

// An HTTP client that is handed in may panic, or give what no transport should: the call ends with an error of no kind or
// with one, and the process goes on, although some of it happens in goroutines of the SDK.
func TestHTTPClientThatMisbehaves(t *testing.T) {
	for name, answer := range map[string]func() (*http.Response, error){
		"panics":           func() (*http.Response, error) { panic("the client's") },
		"nothing":          func() (*http.Response, error) { return nil, nil },
		"200 without body": func() (*http.Response, error) { return &http.Response{StatusCode: 200}, nil },
		"404 without body": func() (*http.Response, error) { return &http.Response{StatusCode: 404}, nil },
		"503 without body": func() (*http.Response, error) { return &http.Response{StatusCode: 503}, nil },
		"206 without body": func() (*http.Response, error) {
			return &http.Response{StatusCode: 206, Header: http.Header{"Content-Range": {"bytes 0-3/4"}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
				return answer()
			})}
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				if op == fake.Delete && strings.HasPrefix(name, "2") {
					continue // an answer that says nothing is what a delete has
				}
				require.Error(t, err, op)
				var panicked *objectstore.PanicError
				assert.Equal(t, name == "panics", errors.As(err, &panicked), "%s: %v", op, err)
			}
			c.Store.MaxAttempts = 2
			assert.Error(t, manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		})
	}
}

// J22: a date to wait for is by the clock of the service.
func TestRetryAfterByTheClockOfTheService(t *testing.T) {
	drivertest.RetryAfterOfAnotherClock(t, ours, config(""))
}
