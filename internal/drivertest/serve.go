package drivertest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
)

// handler is a fake: Close ends its waits, so that what serves it can be closed.
type handler interface {
	http.Handler
	Close()
}

// Serve starts a fake over a socket.
func Serve(tb testing.TB, fake handler) (url string) {
	listening := httptest.NewServer(fake)
	tb.Cleanup(listening.Close)
	tb.Cleanup(fake.Close)
	return listening.URL
}

// ServeTLS starts a fake over TLS, and gives a client that trusts it.
func ServeTLS(tb testing.TB, fake handler) (url string, client *http.Client) {
	listening := httptest.NewUnstartedServer(fake)
	listening.Config.ErrorLog = log.New(io.Discard, "", 0)
	listening.StartTLS()
	tb.Cleanup(listening.Close)
	tb.Cleanup(fake.Close)
	return listening.URL, listening.Client()
}

// RoundTrip is a transport.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
