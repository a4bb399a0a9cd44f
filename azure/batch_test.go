package azure_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// part is one part of an answer to a batch.
func part(header, answer string) string {
	return "--b\r\nContent-Type: application/http\r\n" + header + "\r\n" + answer + "\r\n"
}

// numbered is the part with that number and status.
func numbered(id int, status string) string {
	return part(fmt.Sprintf("Content-ID: %d\r\n", id), "HTTP/1.1 "+status+"\r\n\r\n")
}

// refused is the part with that number, and a refusal of that status and code.
func refused(id int, status, code string) string {
	return part(fmt.Sprintf("Content-ID: %d\r\n", id), "HTTP/1.1 "+status+"\r\nx-ms-error-code: "+code+"\r\n\r\n")
}

// W9: whatever stands in the answer to a batch of three, a blob counts as deleted only if the answer says so of it, and once:
// every other is deleted by itself. The answers are to a batch that has deleted nothing; each single delete is refused.
func TestWhatABatchDoesNotSay(t *testing.T) {
	const mixed, end = "multipart/mixed; boundary=b", "--b--\r\n"
	done := numbered(0, "202 Accepted") + numbered(1, "202 Accepted") + numbered(2, "202 Accepted")
	all := []string{"a", "b", "c"}
	tests := map[string]struct {
		kind, body string
		singles    []string
		failed     map[string]error // beside the singles, which are
	}{
		"all":                            {mixed, done + end, nil, nil},
		"in another order":               {mixed, numbered(2, "202 Accepted") + refused(0, "403 Forbidden", "AuthorizationFailure") + numbered(1, "202 Accepted") + end, nil, map[string]error{"a": walstorage.ErrAccessDenied}},
		"a number twice, refused first":  {mixed, numbered(0, "202 Accepted") + refused(1, "403 Forbidden", "AuthorizationFailure") + numbered(1, "202 Accepted") + end, []string{"b", "c"}, nil},
		"a number twice, refused second": {mixed, numbered(0, "202 Accepted") + numbered(1, "202 Accepted") + refused(1, "403 Forbidden", "AuthorizationFailure") + end, []string{"b", "c"}, nil},
		"the same number always":         {mixed, numbered(2, "202 Accepted") + numbered(2, "202 Accepted") + numbered(2, "202 Accepted") + end, all, nil},
		"one missing":                    {mixed, numbered(0, "202 Accepted") + numbered(1, "202 Accepted") + end, all, nil},
		"one too many":                   {mixed, done + numbered(3, "202 Accepted") + end, all, nil},
		"one too many, a number again":   {mixed, done + numbered(1, "202 Accepted") + end, all, nil},
		"no part":                        {mixed, end, all, nil},
		"nothing":                        {mixed, "", all, nil},
		"cut in a part":                  {mixed, numbered(0, "202 Accepted") + "--b\r\nContent-Type: appl", all, nil},
		"no boundary":                    {"multipart/mixed", done + end, all, nil},
		"another boundary":               {"multipart/mixed; boundary=c", done + end, all, nil},
		"a kind that is none":            {";", done + end, all, nil},
		"no kind":                        {"", done + end, all, nil},
		"a page of a proxy":              {"text/html", "<html>hello</html>", all, nil},
		"a part that is no answer":       {mixed, numbered(0, "202 Accepted") + part("Content-ID: 1\r\n", "hello") + numbered(2, "202 Accepted") + end, all, nil},
		"an empty part":                  {mixed, numbered(0, "202 Accepted") + part("Content-ID: 1\r\n", "") + numbered(2, "202 Accepted") + end, all, nil},
		"a number of 30 digits":          {mixed, numbered(0, "202 Accepted") + part("Content-ID: "+strings.Repeat("1", 30)+"\r\n", "HTTP/1.1 202 Accepted\r\n\r\n") + numbered(2, "202 Accepted") + end, all, nil},
		"not found":                      {mixed, numbered(0, "202 Accepted") + refused(1, "404 Not Found", "BlobNotFound") + numbered(2, "202 Accepted") + end, nil, nil},
		"not found, by somebody":         {mixed, numbered(0, "202 Accepted") + numbered(1, "404 Not Found") + numbered(2, "202 Accepted") + end, nil, map[string]error{"b": nil}},
		"moved":                          {mixed, numbered(0, "202 Accepted") + numbered(1, "307 Temporary Redirect") + numbered(2, "202 Accepted") + end, nil, map[string]error{"b": nil}},
		"busy":                           {mixed, numbered(0, "202 Accepted") + refused(1, "503 Busy", "ServerBusy") + numbered(2, "202 Accepted") + end, nil, map[string]error{"b": walstorage.ErrUnavailable}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var singles []string
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				answer := &http.Response{StatusCode: 202, Header: http.Header{"Content-Type": {test.kind}}, Body: io.NopCloser(strings.NewReader(test.body)), Request: r}
				if test.kind == "" {
					answer.Header.Del("Content-Type")
				}
				if r.Method == http.MethodDelete {
					_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
					singles = append(singles, key)
					answer.StatusCode, answer.Header = 403, http.Header{"X-Ms-Error-Code": {"AuthorizationFailure"}}
					answer.Body = http.NoBody
				}
				return answer, nil
			})}

			err := open(t, c).Delete(t.Context(), all)

			assert.Equal(t, test.singles, singles)
			want := map[string]error{}
			for key, kind := range test.failed {
				want[key] = kind
			}
			for _, key := range test.singles {
				want[key] = walstorage.ErrAccessDenied
			}
			if len(want) == 0 {
				assert.NoError(t, err)
				return
			}
			var partial *objectstore.DeleteError
			require.ErrorAs(t, err, &partial)
			got := map[string]error{}
			for _, failure := range partial.Failures {
				got[failure.Key] = walstorage.KindOf(failure.Err)
			}
			assert.Equal(t, want, got)
		})
	}
}
