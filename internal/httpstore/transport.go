package httpstore

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Configure shapes a transport for many small requests to one host at once: HTTP/1.1, so that the loss of one connection
// is the loss of one request, and so many idle connections that a burst finds them open (net/http by itself keeps two for
// a host). The settings are those that Settings.WithDefaults returns.
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
