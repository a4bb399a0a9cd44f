package integration

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// SmallPages starts a proxy before a server that adds a parameter to requests that operation says are lists, such as one that
// asks for few entries in a page, and returns its URL. The driver's own request names no size, and the server's pages are so
// large that cases which need a second one would take minutes. Requests must not be signed over their query.
func SmallPages(tb testing.TB, address string, operation func(*http.Request) walstorage.Op, parameter, value string) string {
	tb.Helper()
	server, err := url.Parse(address)
	require.NoError(tb, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			if operation(r.In) == walstorage.OpList {
				query := r.Out.URL.Query()
				query.Set(parameter, value)
				r.Out.URL.RawQuery = query.Encode()
			}
		},
	})
	tb.Cleanup(transport.CloseIdleConnections)
	tb.Cleanup(proxy.Close)
	return proxy.URL
}

// LongLists tells whether the test is a case of conformance.Run that wants lists of several pages (E10, E11): those go
// through SmallPages.
func LongLists(tb testing.TB) bool {
	return strings.HasSuffix(tb.Name(), "/E10") || strings.HasSuffix(tb.Name(), "/E11")
}
