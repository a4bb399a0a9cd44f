package drivertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Answer is what came back from a fake.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Request is one made by hand, so that a fake is not proven by the client that it is there to prove. The headers are names
// and values in turn.
func Request(tb testing.TB, method, path string, body io.Reader, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(tb.Context(), method, path, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// Ask has a fake answer a request without a network.
func Ask(tb testing.TB, fake http.Handler, r *http.Request) Answer {
	w := httptest.NewRecorder()
	fake.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	require.NoError(tb, err)
	return Answer{w.Code, w.Header(), string(text)}
}
