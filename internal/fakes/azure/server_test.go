package azure_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/fakes/azure"
)

// ask sends a request by hand. Without a header for it, it is authorised by a SAS.
func ask(t *testing.T, server *azure.Server, method, path, body string, header ...string) drivertest.Answer {
	t.Helper()
	r := drivertest.Request(t, method, path, strings.NewReader(body), append([]string{"x-ms-version", "2025-11-05"}, header...)...)
	if r.Header.Get("Authorization") == "" {
		query := r.URL.Query()
		query.Set("sig", "any")
		r.URL.RawQuery = query.Encode()
	}
	return drivertest.Ask(t, server, r)
}

// Answers as Azure documents them.
func TestAnswers(t *testing.T) {
	const list = "?restype=container&comp=list"
	tests := []struct {
		name         string
		method, path string
		body         string
		header       []string
		status       int
		code         string
	}{
		{"create", "PUT", "/b/new", "data", []string{"If-None-Match", "*"}, 201, ""},
		{"create what exists", "PUT", "/b/k", "data", []string{"If-None-Match", "*"}, 409, "BlobAlreadyExists"},
		{"overwrite", "PUT", "/b/k", "data", nil, 201, ""},
		{"another condition", "PUT", "/b/new", "data", []string{"If-None-Match", `"tag"`}, 400, "UnsupportedHeader"},
		{"the check value of CRC-64/NVME", "PUT", "/b/new", "123456789", []string{"x-ms-content-crc64", "iJh5CoYUi64="}, 201, ""},
		{"another CRC-64", "PUT", "/b/new", "123456780", []string{"x-ms-content-crc64", "iJh5CoYUi64="}, 400, "Crc64Mismatch"},
		{"the MD5", "PUT", "/b/new", "data", []string{"Content-MD5", drivertest.MD5("data")}, 201, ""},
		{"another MD5", "PUT", "/b/new", "data", []string{"Content-MD5", drivertest.MD5("date")}, 400, "Md5Mismatch"},
		{"an append blob", "PUT", "/b/new", "", []string{"x-ms-blob-type", "AppendBlob"}, 400, "InvalidHeaderValue"},
		{"a block", "PUT", "/b/new?comp=block&blockid=AA", "data", nil, 405, "UnsupportedHttpVerb"},
		{"no version", "PUT", "/b/new", "data", []string{"x-ms-version", ""}, 400, "MissingRequiredHeader"},
		{"no container", "PUT", "/none/k", "data", nil, 404, "ContainerNotFound"},
		{"the account in the path", "GET", "/account/b/k", "", nil, 200, ""},
		{"range", "GET", "/b/k", "", []string{"x-ms-range", "bytes=2-4"}, 206, ""},
		{"range over the end", "GET", "/b/k", "", []string{"Range", "bytes=8-100"}, 206, ""},
		{"range beyond the end", "GET", "/b/k", "", []string{"x-ms-range", "bytes=10-11"}, 416, "InvalidRange"},
		{"no blob", "GET", "/b/none", "", nil, 404, "BlobNotFound"},
		{"head", "HEAD", "/b/k", "", nil, 200, ""},
		{"head of no blob", "HEAD", "/b/none", "", nil, 404, "BlobNotFound"},
		{"head in no container", "HEAD", "/none/none", "", nil, 404, "ContainerNotFound"},
		{"delete", "DELETE", "/b/k", "", nil, 202, ""},
		{"delete of no blob", "DELETE", "/b/none", "", nil, 404, "BlobNotFound"},
		{"list", "GET", "/b" + list, "", nil, 200, ""},
		{"list of no container", "GET", "/none" + list, "", nil, 404, "ContainerNotFound"},
		{"list after no marker", "GET", "/b" + list + "&marker=%25", "", nil, 400, "OutOfRangeInput"},
		{"batch of nothing", "POST", "/b?restype=container&comp=batch", "", nil, 400, "InvalidInput"},
		{"something else", "PATCH", "/b/k", "", nil, 405, "UnsupportedHttpVerb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := azure.New(azure.Config{Containers: []string{"b"}})
			server.StoreWith("b", "k", []byte("0123456789"), map[string]string{"color": "red"})
			got := ask(t, server, test.method, test.path, test.body, append([]string{"x-ms-blob-type", "BlockBlob"}, test.header...)...)
			assert.Equal(t, test.status, got.Status, got.Body)
			assert.Equal(t, test.code, got.Header.Get("x-ms-error-code"))
			if test.code != "" && test.method != http.MethodHead {
				assert.Contains(t, got.Body, "<Code>"+test.code+"</Code>")
			}
			_, stored := server.Object("b", "new")
			assert.Equal(t, strings.HasSuffix(test.path, "/new") && test.status == 201, stored)
			switch test.name {
			case "range":
				assert.Equal(t, "234", got.Body)
				assert.Equal(t, "bytes 2-4/10", got.Header.Get("Content-Range"))
			case "range over the end":
				assert.Equal(t, "89", got.Body)
			case "head":
				assert.Equal(t, "10", got.Header.Get("Content-Length"))
				assert.Equal(t, "red", got.Header.Get("x-ms-meta-color"))
			}
			if test.method == http.MethodHead {
				assert.Empty(t, got.Body)
			}
		})
	}
}

// Metadata goes along with a blob.
func TestMetadata(t *testing.T) {
	server := azure.New(azure.Config{Containers: []string{"b"}})
	ask(t, server, "PUT", "/b/k", "data", "x-ms-blob-type", "BlockBlob", "x-ms-meta-Color", "red")
	assert.Equal(t, "red", ask(t, server, "HEAD", "/b/k", "").Header.Get("x-ms-meta-color"))
}

// Of creates at once one wins.
func TestCreatesAtOnce(t *testing.T) {
	server := azure.New(azure.Config{Containers: []string{"b"}})
	drivertest.CreatesAtOnce(t, server, 201, func(name, body string) (status int) {
		return ask(t, server, "PUT", "/b/"+name, body, "x-ms-blob-type", "BlockBlob", "If-None-Match", "*").Status
	})
}

// Who asks is looked at: a signature is computed, a SAS and a token are known or not.
func TestAuthorisation(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("secret"))
	date := time.Now().UTC().Format(http.TimeFormat)
	// By hand what the documentation says of a GET of a blob with a range.
	mac := hmac.New(sha256.New, []byte("secret"))
	_, _ = mac.Write([]byte("GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" + date + "\nx-ms-range:bytes=0-1\nx-ms-version:2025-11-05\n/account/b/a%2Fk\ntimeout:30"))
	signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	tests := map[string]struct {
		authorization, date string
		status              int
		code                string
	}{
		"shared key":       {"SharedKey account:" + signature, date, 206, ""},
		"another account":  {"SharedKey other:" + signature, date, 403, "AuthenticationFailed"},
		"another key":      {"SharedKey account:" + base64.StdEncoding.EncodeToString([]byte("no")), date, 403, "AuthenticationFailed"},
		"another time":     {"SharedKey account:" + signature, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 403, "AuthenticationFailed"},
		"a wrong clock":    {"SharedKey account:" + signature, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 403, "AuthenticationFailed"},
		"token":            {"Bearer good", date, 206, ""},
		"another token":    {"Bearer bad", date, 401, "InvalidAuthenticationInfo"},
		"something else":   {"Basic good", date, 401, "NoAuthenticationInformation"},
		"a SAS not known":  {"", date, 403, "AuthenticationFailed"},
		"nothing at all -": {"-", date, 401, "NoAuthenticationInformation"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := azure.New(azure.Config{Containers: []string{"b"}, Keys: []string{key}, Tokens: []string{"good"}, Signatures: []string{"known"}})
			server.Store("b", "a/k", []byte("data"))
			got := ask(t, server, "GET", "/b/a%2Fk?timeout=30", "", "Authorization", test.authorization, "x-ms-date", test.date, "x-ms-range", "bytes=0-1")
			assert.Equal(t, test.status, got.Status, got.Body)
			assert.Equal(t, test.code, got.Header.Get("x-ms-error-code"))
		})
	}
}

// batch is the body of a Blob Batch that deletes the blobs at these paths.
func batch(paths ...string) string {
	var body strings.Builder
	for i, path := range paths {
		fmt.Fprintf(&body, "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: %d\r\n\r\nDELETE %s HTTP/1.1\r\n\r\n\r\n", i, path)
	}
	body.WriteString("--batch_1--\r\n")
	return body.String()
}

// A batch answers each of its parts, deleted or not, there or not, and authorises each.
func TestBatch(t *testing.T) {
	server := azure.New(azure.Config{Containers: []string{"b", "c"}, Signatures: []string{"any", "other"}})
	for _, key := range []string{"x", "y", "z"} {
		server.Store("b", key, nil)
	}
	server.Store("c", "x", nil)
	server.Fault(func(azure.Request) azure.Fault { return azure.Fault{Keys: map[string]string{"y": "LeaseIdMissing"}} })
	got := ask(t, server, "POST", "/b?restype=container&comp=batch",
		batch("/b/x?sig=other", "/account/b/y?sig=any", "/b/none?sig=any", "/c/x?sig=any", "/b/z", "/b/z?sig=unknown"),
		"Content-Type", "multipart/mixed; boundary=batch_1")
	assert.Equal(t, 202, got.Status)
	assert.Contains(t, got.Header.Get("Content-Type"), "multipart/mixed; boundary=")
	for i, answer := range []string{"202 Accepted", "412 ", "404 ", "400 ", "401 ", "403 "} {
		_, part, found := strings.Cut(got.Body, fmt.Sprintf("Content-Id: %d\r\n", i))
		require.True(t, found, got.Body)
		_, part, _ = strings.Cut(part, "HTTP/1.1 ")
		assert.True(t, strings.HasPrefix(part, answer), "part %d: %.20s", i, part)
	}
	assert.Equal(t, []string{"y", "z"}, server.Keys("b"))
	assert.Equal(t, []string{"x"}, server.Keys("c"))

	many := make([]string, 257)
	for i := range many {
		many[i] = "/b/z?sig=any"
	}
	got = ask(t, server, "POST", "/b?restype=container&comp=batch", batch(many...), "Content-Type", "multipart/mixed; boundary=batch_1")
	assert.Equal(t, 202, got.Status)
	assert.Contains(t, got.Body, "ExceedsMaxBatchRequestCount")
	assert.Equal(t, []string{"y", "z"}, server.Keys("b"), "nothing of a batch that is too large is carried out")
	for _, body := range []string{"--batch_1\r\nContent-Type: text/plain\r\n\r\nhello\r\n--batch_1--\r\n", batch("\x00")} {
		got = ask(t, server, "POST", "/b?restype=container&comp=batch", body, "Content-Type", "multipart/mixed; boundary=batch_1")
		assert.Equal(t, "InvalidInput", got.Header.Get("x-ms-error-code"))
	}
	got = ask(t, azure.New(azure.Config{NoBatch: true}), "POST", "/b?restype=container&comp=batch", batch("/b/z?sig=any"), "Content-Type", "multipart/mixed; boundary=batch_1")
	assert.Equal(t, 501, got.Status)
}

// A list comes in pages that lose nothing, also where the last is full, and a name that XML cannot hold is encoded.
func TestPages(t *testing.T) {
	server := azure.New(azure.Config{Containers: []string{"b"}, PageSize: 3})
	for i := range 5 {
		server.Store("b", fmt.Sprintf("a/%d", i), nil)
	}
	server.Store("b", "a/\x01 b", []byte("123"))
	server.Store("b", "a0", nil)
	const list = "/b?restype=container&comp=list&prefix=a/"
	first := ask(t, server, "GET", list, "")
	_, rest, _ := strings.Cut(first.Body, "<NextMarker>")
	marker, _, _ := strings.Cut(rest, "<")
	require.NotEmpty(t, marker)
	second := ask(t, server, "GET", list+"&marker="+marker, "")
	assert.Contains(t, second.Body, "<NextMarker></NextMarker>")
	assert.Contains(t, first.Body, `<Name Encoded="true">a%2F%01+b</Name>`)
	assert.Contains(t, first.Body, "<Content-Length>3</Content-Length>")
	for i := range 5 {
		page := first
		if i >= 2 {
			page = second
		}
		assert.Contains(t, page.Body, fmt.Sprintf("<Name>a/%d</Name>", i))
	}
	assert.NotContains(t, first.Body+second.Body, "a0")
	one := ask(t, server, "GET", list+"&maxresults=1", "")
	assert.Equal(t, 1, strings.Count(one.Body, "<Name"))
	none := ask(t, server, "GET", "/b?restype=container&comp=list&prefix=zz", "")
	assert.Contains(t, none.Body, "<Blobs></Blobs>")
}

// What came over the wire can be looked at afterwards.
func TestRequests(t *testing.T) {
	server := azure.New(azure.Config{Containers: []string{"b"}})
	ask(t, server, "PUT", "/b/a%2Fk", "data", "x-ms-blob-type", "BlockBlob")
	ask(t, server, "GET", "/b/a/k", "")
	requests := server.Requests()
	require.Len(t, requests, 2)
	assert.Equal(t, "data", string(requests[0].Body))
	for i, op := range []string{"PutBlob", "GetBlob"} {
		assert.Equal(t, op, requests[i].Op)
		assert.Equal(t, "a/k", requests[i].Key)
		assert.Equal(t, "any", requests[i].Credential())
		assert.Equal(t, 1, server.Count(op))
	}
}
