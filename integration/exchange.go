package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Client is a client for the requests of probes. Its connections are closed when the test ends.
func Client(tb testing.TB) *http.Client {
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Answer is what came back to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends a request and reads the answer.
func Send(tb testing.TB, client *http.Client, request *http.Request) Answer {
	tb.Helper()
	in, err := client.Do(request)
	require.NoError(tb, err)
	defer func() { _ = in.Body.Close() }()
	body, err := io.ReadAll(in.Body)
	require.NoError(tb, err)
	return Answer{in.StatusCode, in.Header, body}
}

// Object tells an answer that is an object, or a range of one: the status, the bytes, and which range it is.
func (a Answer) Object() string {
	return strings.TrimSpace(fmt.Sprint(a.Status, " ", string(a.Body), " ", a.Header.Get("Content-Range")))
}

// PageOf is the query for one page of a list, as Asker.Page is told of it: the names are what the protocol calls the size of
// a page and the token.
func PageOf(prefix, sizeName string, size int, tokenName, token string) url.Values {
	query := url.Values{"prefix": {prefix}}
	if size > 0 {
		query.Set(sizeName, strconv.Itoa(size))
	}
	if token != "" {
		query.Set(tokenName, token)
	}
	return query
}
