package httpstore

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Settings shape a transport. All of them are positive.
type Settings struct {
	// Parallelism is the number of requests that are expected at once: twice as many idle connections are kept.
	Parallelism int
	// DialTimeout limits the opening of a connection, and the TLS handshake again.
	DialTimeout time.Duration
	// ResponseHeaderTimeout limits how long an answer may take to begin once the request has been sent.
	ResponseHeaderTimeout time.Duration
}

// Configure shapes a transport for many small requests to one host at once: HTTP/1.1, so that the loss of one connection
// is the loss of one request, and so many idle connections that a burst finds them open (net/http by itself keeps two for
// a host).
func Configure(t *http.Transport, settings Settings) {
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	t.DialContext = (&net.Dialer{Timeout: settings.DialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = settings.DialTimeout
	t.ResponseHeaderTimeout = settings.ResponseHeaderTimeout
	t.MaxIdleConns = 0 // no limit beside the one for a host: there is one host
	t.MaxIdleConnsPerHost = 2 * settings.Parallelism
	t.IdleConnTimeout = 90 * time.Second
	t.DisableCompression = true // bytes come back as they were put
}
