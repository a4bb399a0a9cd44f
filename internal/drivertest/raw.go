package drivertest

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
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Raw is an answer as it goes over the wire, and the kind of the error that it leads to, whatever was asked.
type Raw struct {
	Bytes string
	// Keep leaves the connection open after the answer.
	Keep bool
	Kind error
}

// hardlyHTTP are answers that no server of HTTP should send, and some that one may.
func hardlyHTTP() map[string]Raw {
	return map[string]Raw{
		"nothing":                        {"", false, walstorage.ErrUnavailable},
		"half a status line":             {"HTTP/1.", false, walstorage.ErrUnavailable},
		"another protocol":               {"SSH-2.0-OpenSSH\r\n\r\n", true, walstorage.ErrUnavailable},
		"headers without end":            {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 12<<20), true, walstorage.ErrUnavailable},
		"a change of protocol":           {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", true, walstorage.ErrUnavailable},
		"a length that is no number":     {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", true, walstorage.ErrUnavailable},
		"two lengths":                    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", true, walstorage.ErrUnavailable},
		"many hints and then nothing":    {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10), false, walstorage.ErrUnavailable},
		"a hint and then an answer":      {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", true, walstorage.ErrAccessDenied},
		"an answer of the last protocol": {"HTTP/1.0 403 Forbidden\r\n\r\n", false, walstorage.ErrAccessDenied},
		"a status that there is not":     {"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", true, walstorage.ErrUnavailable},
	}
}

// HardlyHTTP proves W8 and J11: an answer that no server of HTTP should send is an error, and ends the operation, whichever
// it is. After a change of protocol net/http reads the connection, whatever becomes of the context. config is the
// configuration for a server at that URL; more are answers beside ours.
func HardlyHTTP[C any, D objectstore.Driver](t *testing.T, d Driver[C, D], config func(url string) C, operations map[string]Operation, more map[string]Raw) {
	answers := hardlyHTTP()
	for name, answer := range more {
		answers[name] = answer
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(raw(t, answer))
			stall := fieldsOf(&c).StallTimeout
			*stall = time.Minute
			if answer.Kind == walstorage.ErrUnavailable {
				*stall = 500 * time.Millisecond
			}
			driver := d.Open(t, c)
			for op, call := range operations {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				returned := make(chan error, 1)
				go func() { returned <- call(ctx, driver) }()
				select {
				case err := <-returned:
					assert.Equal(t, answer.Kind, walstorage.KindOf(err), "%s: %v", op, err)
				case <-time.After(30 * time.Second):
					t.Errorf("%s goes on although its context has ended", op)
				}
				cancel()
			}
		})
	}
}

// raw starts a server that has this answer to each request.
func raw(t *testing.T, answer Raw) (url string) {
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
				if !answer.Keep {
					defer func() { _ = connection.Close() }()
				}
				requests := bufio.NewReader(connection)
				for more := true; more; more = answer.Keep {
					request, err := http.ReadRequest(requests)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					_, _ = io.WriteString(connection, answer.Bytes)
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
