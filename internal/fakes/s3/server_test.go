package s3_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/fakes/s3"
)

// ask sends a request by hand.
func ask(t *testing.T, server *s3.Server, method, path, body string, header ...string) drivertest.Answer {
	return drivertest.Ask(t, server, drivertest.Request(t, method, path, strings.NewReader(body), header...))
}

// Answers as S3 documents them.
func TestAnswers(t *testing.T) {
	tests := []struct {
		name         string
		method, path string
		body         string
		header       []string
		status       int
		contains     string
	}{
		{"create", "PUT", "/b/new", "data", []string{"If-None-Match", "*"}, 200, ""},
		{"create what exists", "PUT", "/b/k", "data", []string{"If-None-Match", "*"}, 412, "<Code>PreconditionFailed</Code>"},
		{"overwrite", "PUT", "/b/k", "data", nil, 200, ""},
		{"the check value of CRC-32C", "PUT", "/b/new", "123456789", []string{"X-Amz-Checksum-Crc32c", "4waSgw=="}, 200, ""},
		{"the check value of CRC-32", "PUT", "/b/new", "123456789", []string{"X-Amz-Checksum-Crc32", "y/Q5Jg=="}, 200, ""},
		{"another CRC-32C", "PUT", "/b/new", "123456780", []string{"X-Amz-Checksum-Crc32c", "4waSgw=="}, 400, "<Code>BadDigest</Code>"},
		{"another CRC-32", "PUT", "/b/new", "123456780", []string{"X-Amz-Checksum-Crc32", "y/Q5Jg=="}, 400, "<Code>BadDigest</Code>"},
		{"the MD5", "PUT", "/b/new", "data", []string{"Content-Md5", drivertest.MD5("data")}, 200, ""},
		{"another MD5", "PUT", "/b/new", "data", []string{"Content-Md5", drivertest.MD5("date")}, 400, "<Code>BadDigest</Code>"},
		{"another SHA-256", "PUT", "/b/new", "data", []string{"X-Amz-Content-Sha256", strings.Repeat("0", 64)}, 400, "<Code>XAmzContentSHA256Mismatch</Code>"},
		{"chunks", "PUT", "/b/new", "data", []string{"Content-Encoding", "aws-chunked"}, 501, ""},
		{"no bucket", "PUT", "/none/k", "data", nil, 404, "<Code>NoSuchBucket</Code>"},
		{"get", "GET", "/b/k", "", nil, 200, "0123456789"},
		{"range", "GET", "/b/k", "", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"range over the end", "GET", "/b/k", "", []string{"Range", "bytes=8-100"}, 206, "89"},
		{"range beyond the end", "GET", "/b/k", "", []string{"Range", "bytes=10-11"}, 416, "<Code>InvalidRange</Code>"},
		{"no key", "GET", "/b/none", "", nil, 404, "<Code>NoSuchKey</Code>"},
		{"head", "HEAD", "/b/k", "", nil, 200, ""},
		{"head of no key", "HEAD", "/b/none", "", nil, 404, ""},
		{"head of the bucket", "HEAD", "/b", "", nil, 200, ""},
		{"delete without a digest", "POST", "/b?delete", "<Delete><Object><Key>k</Key></Object></Delete>", nil, 400, "InvalidRequest"},
		{"delete of nothing", "POST", "/b?delete", "<Delete></Delete>", []string{"Content-Md5", drivertest.MD5("<Delete></Delete>")}, 400, "MalformedXML"},
		{"a directory bucket without a session", "GET", "/d--x-s3/k", "", nil, 403, "AccessDenied"},
		{"something else", "PATCH", "/b/k", "", nil, 501, "NotImplemented"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := s3.New(s3.Config{Buckets: []string{"b", "d--x-s3"}})
			server.Store("b", "k", []byte("0123456789"))
			got := ask(t, server, test.method, test.path, test.body, test.header...)
			assert.Equal(t, test.status, got.Status, got.Body)
			assert.Contains(t, got.Body, test.contains)
			_, stored := server.Object("b", "new")
			assert.Equal(t, strings.HasSuffix(test.path, "/new") && test.status == 200, stored)
			if test.method == http.MethodHead {
				assert.Empty(t, got.Body)
			}
		})
	}
}

// Of creates at once one wins.
func TestCreatesAtOnce(t *testing.T) {
	server := s3.New(s3.Config{Buckets: []string{"b"}})
	drivertest.CreatesAtOnce(t, server, 200, func(name, body string) (status int) {
		return ask(t, server, "PUT", "/b/"+name, body, "If-None-Match", "*").Status
	})
}

// A delete names each key, deleted or not, there or not.
func TestDelete(t *testing.T) {
	server := s3.New(s3.Config{Buckets: []string{"b"}})
	for _, key := range []string{"x", "y"} {
		server.Store("b", key, nil)
	}
	server.Fault(func(s3.Request) s3.Fault { return s3.Fault{Keys: map[string]string{"y": "AccessDenied"}} })
	const body = "<Delete><Object><Key>x</Key></Object><Object><Key>y</Key></Object><Object><Key>none</Key></Object></Delete>"
	got := ask(t, server, "POST", "/b?delete", body, "Content-Md5", drivertest.MD5(body))
	assert.Equal(t, 200, got.Status)
	assert.Contains(t, got.Body, "<Deleted><Key>x</Key></Deleted><Deleted><Key>none</Key></Deleted>")
	assert.Contains(t, got.Body, "<Error><Key>y</Key><Code>AccessDenied</Code>")
	assert.Equal(t, []string{"y"}, server.Keys("b"))
}

// A list comes in pages that lose nothing, also where the last is full.
func TestPages(t *testing.T) {
	server := s3.New(s3.Config{Buckets: []string{"b"}, PageSize: 3})
	for i := range 6 {
		server.Store("b", fmt.Sprintf("a/%d", i), nil)
	}
	server.Store("b", "a0", nil)
	first := ask(t, server, "GET", "/b?list-type=2&prefix=a/", "")
	assert.Contains(t, first.Body, "<IsTruncated>true</IsTruncated>")
	_, rest, _ := strings.Cut(first.Body, "<NextContinuationToken>")
	token, _, _ := strings.Cut(rest, "<")
	second := ask(t, server, "GET", "/b?list-type=2&prefix=a/&continuation-token="+token, "")
	assert.Contains(t, second.Body, "<IsTruncated>false</IsTruncated>")
	for i := range 6 {
		page := first
		if i >= 3 {
			page = second
		}
		assert.Contains(t, page.Body, fmt.Sprintf("<Key>a/%d</Key>", i))
	}
	assert.NotContains(t, first.Body+second.Body, "a0")
}
