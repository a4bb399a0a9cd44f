package faultproxy

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A range that is ignored is answered with the whole object, D13: from the server where the object is not known, and else
// without touching the request, whose signature may cover the range.
func TestWholeObject(t *testing.T) {
	const object = "0123456789"
	for name, whole := range map[string]func(*http.Request) []byte{
		"not known": nil,
		"unknown":   func(*http.Request) []byte { return nil },
		"known":     func(*http.Request) []byte { return []byte(object) },
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			proxy, err := New(Config{Whole: whole, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.Header.Get("Range")
				http.ServeContent(w, r, "object", time.Time{}, bytes.NewReader([]byte(object)))
			})})
			require.NoError(t, err)
			server := Pipe(proxy)
			defer server.Close()
			proxy.Script(func(r Request) Fault { return Fault{WholeObject: r.Number == 1} })
			get := func() (int, string, string) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/object", nil)
				require.NoError(t, err)
				request.Header.Set("Range", "bytes=2-4")
				answer, err := server.Client.Do(request)
				require.NoError(t, err)
				defer func() { _ = answer.Body.Close() }()
				body, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				return answer.StatusCode, string(body), answer.Header.Get("Content-Range")
			}

			status, body, contentRange := get()

			require.Equal(t, []any{200, object, ""}, []any{status, body, contentRange})
			require.Equal(t, name == "known", asked != "", "the server was asked for a range")
			status, body, contentRange = get()
			require.Equal(t, []any{206, "234", "bytes 2-4/10"}, []any{status, body, contentRange}, "without a fault")
		})
	}
}
