package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// W11, I8: no text that leaves the Manager holds a secret, whatever a library puts into its errors. Bucket, key, status
// and request id stay, or nobody could find the cause.
func TestErrorsCarryNoSecrets(t *testing.T) {
	const secret = "S3cr3t/+Value=="
	escaped := url.QueryEscape(secret)
	tests := map[string]struct {
		text string
		keep []string
	}{
		"a SAS URL, as azblob shows it (4.13)": {
			`Put "https://acct.blob.core.windows.net/box/wal/k.wal?se=2026-01-01&sig=` + escaped + `&sp=rw": dial tcp 10.0.0.1:443: connect: connection refused`,
			[]string{"https://acct.blob.core.windows.net/box/wal/k.wal", "connection refused", "10.0.0.1:443"},
		},
		"a presigned S3 URL": {
			"GET https://b.s3.amazonaws.com/wal/k.wal?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F2026&X-Amz-Signature=" + escaped + ": 403 AccessDenied RequestID: 4442587FB7D0A2F9",
			[]string{"https://b.s3.amazonaws.com/wal/k.wal:", "403 AccessDenied", "4442587FB7D0A2F9"},
		},
		"a signed GCS URL": {
			"https://storage.googleapis.com/b/k?GoogleAccessId=svc@p.iam.gserviceaccount.com&Signature=" + escaped,
			nil,
		},
		"a user in a URL": {
			"proxyconnect https://user:" + escaped + "@proxy.example:3128/x: 407",
			[]string{"https://proxy.example:3128/x", "407"},
		},
		"a password that breaks the URL": {
			`parse "https://user:` + secret + `?x@host/k": invalid port`,
			[]string{"https://host/k", "invalid port"},
		},
		"a password that looks like a query": {"parse https://user:" + secret + "?a=b@host/k", nil},
		"an IPv6 host":                       {"GET http://[::1]:9000/b/k?sig=" + secret, []string{"http://[::1]:9000/b/k"}},
		"a query without a host": {
			"PUT /bucket/wal/k.wal?X-Amz-Security-Token=" + escaped + "&x-id=PutObject failed",
			[]string{"/bucket/wal/k.wal", "failed"},
		},
		"a fragment": {"https://h/k#access_token=" + escaped, []string{"https://h/k"}},
		"an Authorization header": {
			"headers: Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=" + secret + "\nstatus 403",
			[]string{"status 403"},
		},
		"an Authorization header in JSON":      {`{"Authorization":"Bearer ` + secret + `"}`, nil},
		"a bearer token alone":                 {"refused Bearer " + secret, []string{"refused"}},
		"a shared key":                         {"SharedKey acct:" + secret, nil},
		"a connection string":                  {"DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=" + secret + ";EndpointSuffix=core.windows.net", []string{"AccountName=acct"}},
		"a session token in a header":          {"X-Amz-Security-Token: " + secret, nil},
		"a secret key in XML-like text":        {"aws_secret_access_key = " + secret, nil},
		"a name whose value is empty":          {"sig=\n X-Amz-Security-Token: " + secret, nil}, // found by FuzzText
		"a name whose value is a name":         {"password: client_secret = " + secret, nil},
		"form fields":                          {"grant_type=x&client_secret=" + secret + "&refresh_token=" + secret, []string{"grant_type=x"}},
		"a token of the metadata service":      {`{"access_token":"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.` + strings.Repeat("A", 20) + `"}`, nil},
		"a token of Google's in JSON":          {`{"access_token": "` + secret + `", "token_type": "Bearer"}`, []string{"token_type"}},
		"a token of Google's alone":            {"refused ya29.c.b0S3cr3t-x_y.z, try again", []string{"refused", "try again"}},
		"a private key":                        {"parse -----BEGIN PRIVATE KEY-----\nS3cr3t\nS3cr3t==\n-----END PRIVATE KEY----- failed", []string{"parse", "failed"}},
		"a private key in JSON, cut":           {`open {"private_key":"-----BEGIN RSA PRIVATE KEY-----\nS3cr3t\nS3cr3t`, []string{"open"}},
		"an AWS key id":                        {"InvalidAccessKeyId AKIAIOSFODNN7EXAMPLE", []string{"InvalidAccessKeyId"}},
		"nothing secret is left as it is":      {"SlowDown: please reduce your request rate, RequestID: 44425, HostID: a/b+c=", []string{"SlowDown: please reduce your request rate, RequestID: 44425, HostID: a/b+c="}},
		"a signature that does not match":      {"SignatureDoesNotMatch: the request signature we calculated does not match", []string{"SignatureDoesNotMatch: the request signature we calculated does not match"}},
		"a question in a text":                 {"is the bucket there? name=wal", []string{"is the bucket there? name=wal"}},
		"a path of the local file system":      {"open /var/wal/1/2026070412/30/5-x.wal: permission denied", []string{"/var/wal/1/2026070412/30/5-x.wal: permission denied"}},
		"a body that the library has appended": {"<Error><Code>X</Code><StringToSign>sig=" + secret + "</StringToSign></Error>", []string{"<Code>X</Code>"}},
	}
	parts := []string{secret, escaped, "S3cr3t", "AKIAIOSFODNN7EXAMPLE", "eyJhbGci", "gserviceaccount"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var texts []string
			note := func(err error) {
				if err != nil {
					texts = append(texts, err.Error(), fmt.Sprintf("%+v", err))
				}
			}
			hooks := walstorage.Hooks{
				AttemptDone:   func(_ context.Context, _ walstorage.Attempt, r walstorage.AttemptResult) { note(r.Err) },
				OperationDone: func(_ context.Context, _ walstorage.Operation, r walstorage.OperationResult) { note(r.Err) },
			}
			manager, driver := newManager(t, objectstore.Config{Hooks: hooks, MaxAttempts: 1}, memory.Config{})
			for _, err := range []error{
				errors.New(test.text),
				walstorage.NewError(walstorage.ErrUnavailable, errors.New(test.text)),
				walstorage.NewError(walstorage.ErrAccessDenied, fmt.Errorf("driver: %w", errors.New(test.text))),
				fmt.Errorf("%s: %w", test.text, walstorage.ErrUnavailable),
				&objectstore.DeleteError{Failures: []objectstore.DeleteFailure{{Key: keyOf(segment(1)), Err: errors.New(test.text)}}},
			} {
				driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: err} })
				for _, name := range []string{"upload", "delete", "list"} {
					result := calls[name].run(t.Context(), manager)
					require.Error(t, result)
					note(result)
				}
			}
			driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Panic: test.text} })
			note(calls["stat"].run(t.Context(), manager))

			require.Len(t, texts, 2*(5*3*3+2+1))
			for _, text := range texts {
				for _, part := range parts {
					require.NotContains(t, text, part)
				}
			}
			for _, keep := range test.keep {
				assert.Contains(t, texts[0], keep)
			}
		})
	}
}

// W11, I5: the library's error is reached all the same; a *url.Error comes as a copy without the query, which is where
// net/http puts it.
func TestURLErrorIsReachedWithoutItsQuery(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	original := &url.Error{Op: "Put", URL: "https://u:p@acct/box/k?sig=abc", Err: dial}
	manager, driver := newManager(t, objectstore.Config{MaxAttempts: 1}, memory.Config{})
	driver.Fault(func(memory.Call) memory.Fault {
		return memory.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("azblob: %w", original))}
	})

	err := manager.UploadSegment(t.Context(), segment(1), nil)

	var reached *url.Error
	require.ErrorAs(t, err, &reached)
	require.Equal(t, "https://acct/box/k", reached.URL)
	require.Equal(t, "Put", reached.Op)
	require.Equal(t, "https://u:p@acct/box/k?sig=abc", original.URL, "the library's own stays as it is")
	var below *net.OpError
	require.ErrorAs(t, err, &below)
	require.Same(t, dial, below)
	require.ErrorAs(t, error(reached), &below, "what is below has no secret and is still unwrapped")

	inner := &url.Error{Op: "Get", URL: "https://a/b", Err: errors.New("redirect to https://c/d?sig=abc")}
	driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: inner} })
	require.ErrorAs(t, manager.UploadSegment(t.Context(), segment(1), nil), &reached)
	require.NotContains(t, reached.Error(), "abc")
}
