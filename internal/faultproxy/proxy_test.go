package faultproxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
)

// object is what the server of these tests serves.
const object = "0123456789abcdef"

// server serves object, with ranges, and says in headers what it was sent. seen counts the requests that it has carried
// out.
func server(seen *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		seen.Add(1)
		w.Header().Set("X-Body", string(body))
		w.Header().Set("X-Host", r.Host)
		w.Header().Set("X-User-Agent", r.Header.Get("User-Agent"))
		w.Header().Set("X-Accept-Encoding", r.Header.Get("Accept-Encoding"))
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength, len(r.TransferEncoding)))
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(object))
		}
	})
}

func newProxy(t *testing.T, cfg faultproxy.Config) *faultproxy.Proxy {
	proxy, err := faultproxy.New(cfg)
	require.NoError(t, err)
	return proxy
}

// served serves a proxy over a socket, and returns a client for it.
func served(t *testing.T, cfg faultproxy.Config) (*faultproxy.Proxy, *faultproxy.Server, *http.Client) {
	proxy := newProxy(t, cfg)
	listening := faultproxy.Listen(proxy)
	t.Cleanup(listening.Close)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return proxy, listening, &http.Client{Transport: transport}
}

// request makes a request with a body, and with a range if it is a GET.
func request(t *testing.T, method, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if method == http.MethodGet {
		r.Header.Set("Range", "bytes=2-11")
	}
	return r
}

func read(t *testing.T, answer *http.Response) (string, error) {
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, answer.Body.Close())
	return string(body), err
}

// Without a script everything passes as it is, and is recorded: to a handler, and to a server elsewhere.
func TestPassesOn(t *testing.T) {
	var seen atomic.Int64
	elsewhere := httptest.NewServer(server(&seen))
	t.Cleanup(elsewhere.Close)
	for name, cfg := range map[string]faultproxy.Config{
		"a handler": {Handler: server(&seen)},
		"a URL":     {URL: elsewhere.URL},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, listening, client := served(t, cfg)

			r := request(t, http.MethodPut, listening.URL+"/key?a=b", "body")
			r.Host = "signed.example.com"
			r.Header["User-Agent"] = nil
			answer, err := client.Do(r)
			require.NoError(t, err)
			got, err := read(t, answer)
			require.NoError(t, err)
			assert.Equal(t, object, got)
			assert.Equal(t, "body", answer.Header.Get("X-Body"))
			assert.Equal(t, "signed.example.com", answer.Header.Get("X-Host"), "signatures cover it")
			assert.Empty(t, answer.Header.Get("X-User-Agent"), "nothing is added")
			assert.Empty(t, answer.Header.Get("X-Accept-Encoding"), "nothing is added")
			assert.Equal(t, "4 0", answer.Header.Get("X-Length"))

			answer, err = client.Do(request(t, http.MethodGet, listening.URL+"/key", ""))
			require.NoError(t, err)
			got, err = read(t, answer)
			require.NoError(t, err)
			assert.Equal(t, http.StatusPartialContent, answer.StatusCode)
			assert.Equal(t, object[2:12], got)

			answer, err = client.Do(request(t, http.MethodHead, listening.URL+"/key", ""))
			require.NoError(t, err)
			_, err = read(t, answer)
			require.NoError(t, err)
			assert.Equal(t, int64(len(object)), answer.ContentLength)

			chunked := request(t, http.MethodPut, listening.URL+"/nothing", "")
			chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader("in chunks")), -1
			answer, err = client.Do(chunked)
			require.NoError(t, err)
			_, err = read(t, answer)
			require.NoError(t, err)
			assert.Equal(t, http.StatusNoContent, answer.StatusCode)
			assert.Equal(t, "in chunks", answer.Header.Get("X-Body"))
			assert.Equal(t, "-1 1", answer.Header.Get("X-Length"))

			requests := proxy.Requests()
			require.Len(t, requests, 4)
			assert.Equal(t, 2, proxy.Count(http.MethodPut))
			first, last := requests[0], requests[3]
			assert.Equal(t, "/key?a=b", first.URI)
			assert.Equal(t, "signed.example.com", first.Host)
			assert.Equal(t, "HTTP/1.1", first.Proto)
			assert.Equal(t, "body", string(first.Body))
			assert.True(t, first.Whole)
			assert.Equal(t, int64(4), first.ContentLength)
			assert.Empty(t, first.TransferEncoding)
			assert.Equal(t, []string{"chunked"}, last.TransferEncoding)
			assert.Equal(t, 2, last.Number)
			assert.Equal(t, 4, last.Total)

			proxy.Script(nil)
			assert.Empty(t, proxy.Requests(), "a new script begins a new record")
			assert.Zero(t, proxy.Count(http.MethodPut))
		})
	}
}

// A server that insists on its name gets it, and one that hangs up does so to the client too.
func TestServersOfTheirOwnKind(t *testing.T) {
	var seen atomic.Int64
	elsewhere := httptest.NewServer(server(&seen))
	t.Cleanup(elsewhere.Close)
	_, listening, client := served(t, faultproxy.Config{URL: elsewhere.URL, Host: "store.example.com"})
	answer, err := client.Do(request(t, http.MethodGet, listening.URL, ""))
	require.NoError(t, err)
	_, err = read(t, answer)
	require.NoError(t, err)
	assert.Equal(t, "store.example.com", answer.Header.Get("X-Host"))
	_, err = client.Do(request(t, http.MethodPut, listening.URL+"/abort", "body"))
	require.Error(t, err)

	_, listening, client = served(t, faultproxy.Config{Handler: server(&seen)})
	_, err = client.Do(request(t, http.MethodPut, listening.URL+"/abort", "body"))
	require.Error(t, err)
}

// Each fault, over a socket: what the client sees, and whether the server has carried the request out.
func TestFaults(t *testing.T) {
	teapot := &faultproxy.Answer{Status: http.StatusTeapot, Header: http.Header{"Retry-After": {"7"}}, Body: []byte("short and stout")}
	tests := map[string]struct {
		method string
		fault  faultproxy.Fault
		status int    // 0: no answer
		body   string // that comes, whole or not
		cut    bool   // the body ends with an error
		seen   int64
		check  func(t *testing.T, answer *http.Response, recorded faultproxy.Request)
	}{
		"an answer": {
			method: http.MethodPut, fault: faultproxy.Fault{Answer: teapot}, status: http.StatusTeapot, body: "short and stout",
			check: func(t *testing.T, answer *http.Response, recorded faultproxy.Request) {
				assert.Equal(t, "7", answer.Header.Get("Retry-After"))
				assert.Equal(t, "the body", string(recorded.Body))
			},
		},
		"an answer to a HEAD": {method: http.MethodHead, fault: faultproxy.Fault{Answer: teapot}, status: http.StatusTeapot},
		"an answer after the server": {
			method: http.MethodPut, fault: faultproxy.Fault{Answer: teapot, At: faultproxy.AfterServer}, status: http.StatusTeapot, body: "short and stout", seen: 1,
		},
		"an early answer": {
			method: http.MethodPut, fault: faultproxy.Fault{Answer: teapot, At: faultproxy.BeforeBody}, status: http.StatusTeapot, body: "short and stout",
			check: func(t *testing.T, answer *http.Response, recorded faultproxy.Request) {
				assert.Equal(t, "7", answer.Header.Get("Retry-After"))
				assert.Empty(t, recorded.Body)
			},
		},
		"reset before the body": {method: http.MethodPut, fault: faultproxy.Fault{Reset: faultproxy.BeforeBody}},
		"reset in the body": {
			method: http.MethodPut, fault: faultproxy.Fault{Reset: faultproxy.InBody},
			check: func(t *testing.T, _ *http.Response, recorded faultproxy.Request) {
				assert.Equal(t, "the ", string(recorded.Body))
				assert.False(t, recorded.Whole)
			},
		},
		"reset before the server": {method: http.MethodPut, fault: faultproxy.Fault{Reset: faultproxy.BeforeServer}},
		"reset after the server":  {method: http.MethodPut, fault: faultproxy.Fault{Reset: faultproxy.AfterServer}, seen: 1},
		"a bit of the request": {
			method: http.MethodPut, fault: faultproxy.Fault{FlipRequest: true}, status: http.StatusOK, body: object, seen: 1,
			check: func(t *testing.T, answer *http.Response, recorded faultproxy.Request) {
				assert.Equal(t, "the body", string(recorded.Body), "what the client has sent")
				assert.Equal(t, "the cody", answer.Header.Get("X-Body"), "what has come to the server")
			},
		},
		"a bit of the answer": {method: http.MethodGet, fault: faultproxy.Fault{FlipAnswer: true}, status: http.StatusPartialContent, body: "23456689ab", seen: 1},
		"the whole object":    {method: http.MethodGet, fault: faultproxy.Fault{WholeObject: true}, status: http.StatusOK, body: object, seen: 1},
		"another answer": {
			method: http.MethodGet, seen: 1, status: http.StatusPartialContent, body: "other",
			fault: faultproxy.Fault{Edit: func(a *faultproxy.Answer) {
				a.Body = []byte("other")
				a.Header.Set("Content-Range", "bytes 1-5/16")
			}},
			check: func(t *testing.T, answer *http.Response, _ faultproxy.Request) {
				assert.Equal(t, "bytes 1-5/16", answer.Header.Get("Content-Range"))
				assert.Equal(t, int64(5), answer.ContentLength)
			},
		},
		"less than its length": {
			method: http.MethodGet, fault: faultproxy.Fault{Cut: faultproxy.CutLength, Bytes: 4}, status: http.StatusPartialContent, body: "2345", cut: true, seen: 1,
			check: func(t *testing.T, answer *http.Response, _ faultproxy.Request) {
				assert.Equal(t, int64(10), answer.ContentLength)
			},
		},
		"half of a chunked body": {
			method: http.MethodGet, fault: faultproxy.Fault{Cut: faultproxy.CutChunked, Bytes: 4}, status: http.StatusPartialContent, body: "2345", cut: true, seen: 1,
			check: func(t *testing.T, answer *http.Response, _ faultproxy.Request) {
				assert.Equal(t, int64(-1), answer.ContentLength)
			},
		},
		"a clean end": {
			method: http.MethodGet, fault: faultproxy.Fault{Cut: faultproxy.CutClean, Bytes: 4}, status: http.StatusPartialContent, body: "2345", seen: 1,
			check: func(t *testing.T, answer *http.Response, _ faultproxy.Request) {
				assert.Equal(t, int64(4), answer.ContentLength)
				assert.Equal(t, "bytes 2-11/16", answer.Header.Get("Content-Range"), "the head says what it has said")
			},
		},
		"reset in the answer": {method: http.MethodGet, fault: faultproxy.Fault{Reset: faultproxy.InAnswer, Bytes: 4}, status: http.StatusPartialContent, cut: true, seen: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			proxy, listening, client := served(t, faultproxy.Config{Handler: server(&seen)})
			proxy.Script(func(faultproxy.Request) faultproxy.Fault { return test.fault })
			body := "the body"
			if test.method != http.MethodPut {
				body = ""
			}

			answer, err := client.Do(request(t, test.method, listening.URL+"/key", body))

			if test.status == 0 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Equal(t, test.status, answer.StatusCode)
				got, err := read(t, answer)
				assert.Equal(t, test.cut, err != nil, "%v", err)
				if test.fault.Reset != faultproxy.InAnswer { // a reset takes away what was on its way
					assert.Equal(t, test.body, got)
				}
			}
			assert.Equal(t, test.seen, seen.Load(), "requests that the server has carried out")
			require.Len(t, proxy.Requests(), 1)
			if test.check != nil {
				test.check(t, answer, proxy.Requests()[0])
			}
		})
	}
}

// A stall lasts until the client has gone, or the proxy is closed; an hour of it takes no time in a bubble.
func TestStalls(t *testing.T) {
	for point, seen := range map[faultproxy.Point]int64{
		faultproxy.BeforeBody: 0, faultproxy.BeforeServer: 0, faultproxy.AfterServer: 1, faultproxy.InAnswer: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			var carriedOut atomic.Int64
			proxy := newProxy(t, faultproxy.Config{Handler: server(&carriedOut)})
			pipe := faultproxy.Pipe(proxy)
			defer pipe.Close()
			stalled := false
			proxy.Script(func(faultproxy.Request) faultproxy.Fault {
				return faultproxy.Fault{Stall: point, Bytes: 3, Stalled: func() { stalled = true }}
			})
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			answer, err := pipe.Client.Do(request(t, http.MethodPut, pipe.URL+"/key", "body").WithContext(ctx))
			if point == faultproxy.InAnswer {
				require.NoError(t, err)
				var got string
				got, err = read(t, answer)
				assert.Equal(t, object[:3], got)
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, time.Hour, time.Since(began))
			synctest.Wait()
			assert.True(t, stalled)
			assert.Equal(t, seen, carriedOut.Load())
			assert.Equal(t, 1, pipe.Opened())
			assert.Zero(t, pipe.CloseIdle())
		})
	}
}

// A delay and a gate come before everything else.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int64
		proxy := newProxy(t, faultproxy.Config{Handler: server(&seen)})
		pipe := faultproxy.Pipe(proxy)
		defer pipe.Close()
		gate := make(chan struct{})
		proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
			if r.Number == 1 {
				return faultproxy.Fault{Delay: time.Minute}
			}
			return faultproxy.Fault{Wait: gate}
		})
		time.AfterFunc(3*time.Minute, func() { close(gate) })
		began := time.Now()
		for _, after := range []time.Duration{time.Minute, 3 * time.Minute} {
			answer, err := pipe.Client.Do(request(t, http.MethodGet, pipe.URL, ""))
			require.NoError(t, err)
			_, err = read(t, answer)
			require.NoError(t, err)
			assert.Equal(t, after, time.Since(began))
		}
		assert.Equal(t, int64(2), seen.Load())
		assert.Equal(t, time.Minute, proxy.Requests()[1].Came.Sub(proxy.Requests()[0].Came))
	})
}

// An early answer comes although nothing of the body is ever read: over a pipe, which buffers nothing, the client is
// still sending.
func TestEarlyAnswerReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int64
		proxy := newProxy(t, faultproxy.Config{Handler: server(&seen)})
		pipe := faultproxy.Pipe(proxy)
		defer pipe.Close()
		proxy.Script(func(faultproxy.Request) faultproxy.Fault {
			return faultproxy.Fault{Answer: &faultproxy.Answer{Status: http.StatusServiceUnavailable}, At: faultproxy.BeforeBody}
		})
		body := &counting{Reader: bytes.NewReader(make([]byte, 1<<20))}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, pipe.URL, body)
		require.NoError(t, err)
		r.ContentLength = 1 << 20
		answer, err := pipe.Client.Do(r)
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		_, err = read(t, answer)
		require.NoError(t, err)
		assert.Less(t, body.n.Load(), int64(1<<18))
		assert.Empty(t, proxy.Requests()[0].Body)
		assert.Zero(t, seen.Load())
	})
}

type counting struct {
	io.Reader
	n atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Connections on which nothing happens are closed from the server's side, and the next request opens another.
func TestCloseIdle(t *testing.T) {
	var seen atomic.Int64
	_, listening, client := served(t, faultproxy.Config{Handler: server(&seen)})
	for n := range 2 {
		answer, err := client.Do(request(t, http.MethodGet, listening.URL, ""))
		require.NoError(t, err)
		_, err = read(t, answer)
		require.NoError(t, err)
		assert.Equal(t, n+1, listening.Opened())
		// The server learns that a connection is idle a moment after the client has read the answer.
		require.Eventually(t, func() bool { return listening.CloseIdle() == 1 }, 10*time.Second, time.Millisecond)
		client.CloseIdleConnections() // or the client could try the dead one
	}
}

// With TLS the client that comes with the server reaches it, over HTTP/1.1.
func TestTLS(t *testing.T) {
	var seen atomic.Int64
	proxy := newProxy(t, faultproxy.Config{Handler: server(&seen)})
	listening := faultproxy.ListenTLS(proxy)
	t.Cleanup(listening.Close)
	require.True(t, strings.HasPrefix(listening.URL, "https://"))
	answer, err := listening.Client.Do(request(t, http.MethodPut, listening.URL, "body"))
	require.NoError(t, err)
	_, err = read(t, answer)
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1", proxy.Requests()[0].Proto)
	proxy.Script(func(faultproxy.Request) faultproxy.Fault { return faultproxy.Fault{Reset: faultproxy.AfterServer} })
	_, err = listening.Client.Do(request(t, http.MethodPut, listening.URL, "body"))
	require.Error(t, err)
}

// A proxy stands before one server.
func TestConfig(t *testing.T) {
	for name, cfg := range map[string]faultproxy.Config{
		"nothing":        {},
		"both":           {Handler: http.NotFoundHandler(), URL: "http://127.0.0.1:1"},
		"no scheme":      {URL: "127.0.0.1:9000"},
		"another scheme": {URL: "ftp://127.0.0.1"},
		"no host":        {URL: "http://"},
	} {
		_, err := faultproxy.New(cfg)
		require.Error(t, err, name)
	}
}
