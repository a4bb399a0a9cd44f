package gcs_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// raw is a server that answers each request with these bytes, and then ends the connection, or keeps it.
func raw(t *testing.T, answer string, keep bool) (url string) {
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			connection, err := listening.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, connection)
			mu.Unlock()
			all.Go(func() {
				if !keep {
					defer func() { _ = connection.Close() }()
				}
				requests := bufio.NewReader(connection)
				for more := true; more; more = keep {
					request, err := http.ReadRequest(requests)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					_, _ = io.WriteString(connection, answer)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listening.Close()
		mu.Lock()
		for _, connection := range open {
			_ = connection.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return "http://" + listening.Addr().String()
}

// W8, J11: what no server of HTTP should send is an error, and ends the operation, whichever it is. After a change of protocol
// net/http reads the connection whatever becomes of the context.
func TestAnswersThatAreHardlyHTTP(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, test := range map[string]struct {
		answer string
		keep   bool
		kind   error
	}{
		"nothing":                         {"", false, walstorage.ErrUnavailable},
		"half a status line":              {"HTTP/1.", false, walstorage.ErrUnavailable},
		"another protocol":                {"SSH-2.0-OpenSSH\r\n\r\n", true, walstorage.ErrUnavailable},
		"headers without end":             {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 12<<20), true, walstorage.ErrUnavailable},
		"a change of protocol":            {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", true, walstorage.ErrUnavailable},
		"a length that is no number":      {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", true, walstorage.ErrUnavailable},
		"two lengths":                     {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", true, walstorage.ErrUnavailable},
		"a chunk that is none":            {chunked + "zz\r\n{}\r\n0\r\n\r\n", true, walstorage.ErrUnavailable},
		"cut in a chunk":                  {chunked + "ff\r\n{\"kind\":", false, walstorage.ErrUnavailable},
		"cut between chunks":              {chunked + "1\r\n{\r\n", false, walstorage.ErrUnavailable},
		"cut in the body":                 {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"name\":", false, walstorage.ErrUnavailable},
		"many hints and then nothing":     {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10), false, walstorage.ErrUnavailable},
		"a hint and then an answer":       {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", true, walstorage.ErrAccessDenied},
		"an answer of the last protocol":  {"HTTP/1.0 403 Forbidden\r\n\r\nno", false, walstorage.ErrAccessDenied},
		"a status that there is not":      {"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", true, walstorage.ErrUnavailable},
		"an error with a body that lasts": {"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\nx", true, walstorage.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(raw(t, test.answer, test.keep))
			if test.kind == walstorage.ErrUnavailable {
				c.StallTimeout = 500 * time.Millisecond
			}
			driver := open(t, c)
			for op, call := range operations {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				returned := make(chan error, 1)
				go func() { returned <- call(ctx, driver) }()
				select {
				case err := <-returned:
					assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", op, err)
				case <-time.After(30 * time.Second):
					t.Errorf("%s goes on although its context has ended", op)
				}
				cancel()
			}
		})
	}
}
