package gcs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/fakes/gcs"
)

// ask sends a request by hand.
func ask(t *testing.T, server *gcs.Server, method, path string, body io.Reader, header ...string) drivertest.Answer {
	return drivertest.Ask(t, server, drivertest.Request(t, method, path, body, header...))
}

const (
	object = "/storage/v1/b/b/o/k"
	upload = "/upload/storage/v1/b/b/o?uploadType=multipart&name=new"
)

// multipart is the body of an upload.
func multipart(metadata, media string) string {
	return "--cut\r\nContent-Type: application/json\r\n\r\n" + metadata + "\r\n--cut\r\nContent-Type: text/plain\r\n\r\n" + media + "\r\n--cut--\r\n"
}

var related = []string{"Content-Type", "multipart/related; boundary=cut"}

// Answers as the service documents them. "new" is there afterwards if the status is 200.
func TestAnswers(t *testing.T) {
	tests := []struct {
		name         string
		method, path string
		body         string
		header       []string
		status       int
		contains     string
	}{
		{"create", "POST", upload + "&ifGenerationMatch=0", multipart("{}", "data"), related, 200, `"size":"4"`},
		{"create what exists", "POST", "/upload/storage/v1/b/b/o?uploadType=multipart&name=k&ifGenerationMatch=0", multipart("{}", "data"), related, 412, "conditionNotMet"},
		{"replace the generation", "POST", "/upload/storage/v1/b/b/o?uploadType=multipart&name=k&ifGenerationMatch=1", multipart("{}", "data"), related, 200, `"generation":"3"`},
		{"replace another generation", "POST", "/upload/storage/v1/b/b/o?uploadType=multipart&name=k&ifGenerationMatch=7", multipart("{}", "data"), related, 412, ""},
		{"a name in the metadata", "POST", "/upload/storage/v1/b/b/o?uploadType=multipart", multipart(`{"name":"new"}`, "data"), related, 200, `"name":"new"`},
		{"no name", "POST", "/upload/storage/v1/b/b/o?uploadType=multipart", multipart("{}", "data"), related, 400, "required"},
		{"the check value of CRC-32C", "POST", upload, multipart(`{"crc32c":"4waSgw=="}`, "123456789"), related, 200, `"crc32c":"4waSgw=="`},
		{"another CRC-32C", "POST", upload, multipart(`{"crc32c":"4waSgw=="}`, "123456780"), related, 400, "doesn't match calculated CRC32C"},
		{"the MD5", "POST", upload, multipart(`{"md5Hash":"`+drivertest.MD5("data")+`"}`, "data"), related, 200, ""},
		{"another MD5", "POST", upload, multipart(`{"md5Hash":"`+drivertest.MD5("date")+`"}`, "data"), related, 400, "MD5"},
		{"one part", "POST", upload, "--cut\r\n\r\n{}\r\n--cut--\r\n", related, 400, ""},
		{"no end", "POST", upload, strings.TrimSuffix(multipart("{}", "data"), "--cut--\r\n"), related, 400, ""},
		{"no boundary", "POST", upload, multipart("{}", "data"), nil, 400, ""},
		{"no JSON", "POST", upload, multipart("{", "data"), related, 400, "parseError"},
		{"a resumable upload", "POST", "/upload/storage/v1/b/b/o?uploadType=resumable&name=new", "{}", nil, 501, ""},
		{"no bucket", "POST", "/upload/storage/v1/b/none/o?uploadType=multipart&name=new", multipart("{}", "data"), related, 404, "The specified bucket does not exist."},
		{"metadata", "GET", object, "", nil, 200, `"timeCreated"`},
		{"metadata of nothing", "GET", object + "none", "", nil, 404, "No such object: b/knone"},
		{"read", "GET", object + "?alt=media", "", nil, 200, "0123456789"},
		{"range", "GET", object + "?alt=media", "", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"range over the end", "GET", object + "?alt=media", "", []string{"Range", "bytes=8-100"}, 206, "89"},
		{"range beyond the end", "GET", object + "?alt=media", "", []string{"Range", "bytes=10-11"}, 416, ""},
		{"read of nothing", "GET", object + "none?alt=media", "", nil, 404, "No such object: b/knone"},
		{"XML read", "GET", "/b/k", "", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"XML read of nothing", "GET", "/b/none", "", nil, 404, "<Code>NoSuchKey</Code>"},
		{"an odd name", "GET", "/storage/v1/b/b/o/" + url.PathEscape("a/b c+%"), "", nil, 200, `"name":"a/b c+%"`},
		{"bucket", "GET", "/storage/v1/b/b", "", nil, 200, "storage#bucket"},
		{"no such bucket", "GET", "/storage/v1/b/none", "", nil, 404, "notFound"},
		{"list", "GET", "/storage/v1/b/b/o", "", nil, 200, `"kind":"storage#objects"`},
		{"list of some fields", "GET", "/storage/v1/b/b/o?fields=items(name,size)&prefix=k", "", nil, 200, `{"items":[{"name":"k","size":"10"}]}`},
		{"list of nothing", "GET", "/storage/v1/b/b/o?prefix=z&fields=items(name)", "", nil, 200, "{}"},
		{"a token of nobody's", "GET", "/storage/v1/b/b/o?pageToken=*", "", nil, 400, "pageToken"},
		{"delete", "DELETE", object, "", nil, 204, ""},
		{"delete nothing", "DELETE", object + "none", "", nil, 404, "No such object"},
		{"something else", "PATCH", object, "", nil, 501, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := gcs.New(gcs.Config{Buckets: []string{"b"}})
			server.Store("b", "k", []byte("0123456789"))
			server.Store("b", "a/b c+%", nil)
			got := ask(t, server, test.method, test.path, strings.NewReader(test.body), test.header...)
			assert.Equal(t, test.status, got.Status, got.Body)
			assert.Contains(t, got.Body, test.contains)
			_, stored := server.Object("b", "new")
			assert.Equal(t, test.status == 200 && test.method == "POST" && test.name != "replace the generation", stored)
		})
	}
}

// A body that ends early stores nothing, however well formed what came of it is: clients end the parts of a body that
// they cut.
func TestCutUpload(t *testing.T) {
	server := gcs.New(gcs.Config{Buckets: []string{"b"}})
	body := io.MultiReader(strings.NewReader(multipart("{}", "da")), iotest.ErrReader(errors.New("cut")))
	got := ask(t, server, "POST", upload, body, related...)
	assert.Equal(t, 400, got.Status)
	assert.Empty(t, server.Keys("b"))
	assert.Equal(t, "da", string(server.Requests()[0].Media()))
}

// Tokens, if any are named, are demanded of every request.
func TestTokens(t *testing.T) {
	server := gcs.New(gcs.Config{Buckets: []string{"b"}, Tokens: []string{"right"}})
	server.Store("b", "k", nil)
	for header, status := range map[string]int{"": 401, "Bearer wrong": 401, "Basic right": 401, "Bearer right": 200} {
		assert.Equal(t, status, ask(t, server, "GET", object, nil, "Authorization", header).Status, header)
	}
}

// Of creates at once one wins.
func TestCreatesAtOnce(t *testing.T) {
	const path = "/upload/storage/v1/b/b/o?uploadType=multipart&ifGenerationMatch=0&name="
	server := gcs.New(gcs.Config{Buckets: []string{"b"}})
	drivertest.CreatesAtOnce(t, server, 200, func(name, body string) (status int) {
		return ask(t, server, "POST", path+name, strings.NewReader(multipart("{}", body)), related...).Status
	})
}

// A list comes in pages that lose nothing, also where the last is full.
func TestPages(t *testing.T) {
	server := gcs.New(gcs.Config{Buckets: []string{"b"}, PageSize: 3})
	for i := range 6 {
		server.Store("b", fmt.Sprintf("a/%d", i), nil)
	}
	server.Store("b", "a0", nil)
	var found []string
	token := ""
	for page := range 2 {
		var list struct {
			NextPageToken string
			Items         []struct{ Name string }
		}
		got := ask(t, server, "GET", "/storage/v1/b/b/o?prefix=a/&pageToken="+url.QueryEscape(token), nil)
		require.NoError(t, json.Unmarshal([]byte(got.Body), &list))
		for _, item := range list.Items {
			found = append(found, item.Name)
		}
		token = list.NextPageToken
		assert.Equal(t, page == 1, token == "")
	}
	assert.Equal(t, []string{"a/0", "a/1", "a/2", "a/3", "a/4", "a/5"}, found)
}
