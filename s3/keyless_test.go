package s3_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/walstorage"
)

// sources are the services of AWS that give credentials, and how each is named.
var sources = map[string]func(t *testing.T, url string) aws.CredentialsProvider{
	"instance": func(t *testing.T, url string) aws.CredentialsProvider {
		t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
		return nil
	},
	"container": func(_ *testing.T, url string) aws.CredentialsProvider {
		return endpointcreds.New(url, func(o *endpointcreds.Options) { o.Retryer = aws.NopRetryer{} })
	},
	"STS": func(t *testing.T, url string) aws.CredentialsProvider {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte("a.b.c"), 0o600))
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
		t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/broker")
		t.Setenv("AWS_ENDPOINT_URL_STS", url)
		t.Setenv("AWS_MAX_ATTEMPTS", "1") // of the SDK's own, which wait for seconds
		return nil
	},
}

// W7, J21: what a service that gives credentials answers is its own and not the store's, on every path: without a role
// the bucket is not missing, and nor is the segment; a refusal is no expiry. A service that is down or busy is tried again.
func TestAnswersOfACredentialsService(t *testing.T) {
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, test := range []struct {
		source, name string
		answer       http.HandlerFunc
		kind         error
	}{
		{"instance", "403", status(403), walstorage.ErrAccessDenied},
		{"instance", "404", status(404), walstorage.ErrAccessDenied},
		{"container", "400", status(400), walstorage.ErrAccessDenied},
		{"container", "404", status(404), walstorage.ErrAccessDenied},
		{"container", "429", status(429), walstorage.ErrUnavailable},
		{"container", "503", status(503), walstorage.ErrUnavailable},
		{"container", "cut", cut, walstorage.ErrUnavailable},
		{"container", "no server", nil, walstorage.ErrUnavailable},
		{"STS", "400", status(400), walstorage.ErrAccessDenied},
		{"STS", "404", status(404), walstorage.ErrAccessDenied},
		{"STS", "408", status(408), walstorage.ErrUnavailable},
		{"STS", "503", status(503), walstorage.ErrUnavailable},
		{"STS", "cut", cut, walstorage.ErrUnavailable},
		{"STS", "no server", nil, walstorage.ErrUnavailable},
	} {
		t.Run(test.source+" "+test.name, func(t *testing.T) {
			service := httptest.NewServer(test.answer)
			if test.answer == nil {
				service.Close()
			} else {
				defer service.Close()
			}
			server, url := serve(t, fake.Config{})
			c := config(url)
			c.Credentials = sources[test.source](t, service.URL)
			driver := open(t, c)
			check := func(what string, err error) {
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", what, err)
				var own *walstorage.Error
				require.ErrorAs(t, err, &own)
				assert.Zero(t, own.RetryAfter, "%s: the service's wish is not for the store's gate", what)
			}
			check("Warm", driver.Warm(t.Context()))
			for what, call := range operations {
				check(what, call(t.Context(), driver))
			}
			assert.Empty(t, server.Requests())
		})
	}
}

// status answers with that status, and tells when to come again.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Amz-Bucket-Region", "af-south-1")
		w.WriteHeader(code)
	}
}

// without is a provider that fails.
type without struct{ err error }

func (w without) Retrieve(context.Context) (aws.Credentials, error) { return aws.Credentials{}, w.err }

// W7: what a provider of the caller's own fails with, in a session too.
func TestFailuresOfAProvider(t *testing.T) {
	answer := func(status int, err error) error {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err}
	}
	_, missing := os.ReadFile(filepath.Join(t.TempDir(), "token"))
	for name, test := range map[string]struct{ err, kind error }{
		"a refusal":             {errors.New("no"), walstorage.ErrAccessDenied},
		"STS has no such role":  {answer(404, errors.New("no")), walstorage.ErrAccessDenied},
		"STS says expired":      {answer(400, &smithy.GenericAPIError{Code: "ExpiredTokenException"}), walstorage.ErrAccessDenied},
		"STS is throttled":      {answer(400, &smithy.GenericAPIError{Code: "Throttling"}), walstorage.ErrUnavailable},
		"STS is down":           {answer(503, errors.New("busy")), walstorage.ErrUnavailable},
		"no answer":             {&smithyhttp.ResponseError{Err: quiet{}}, walstorage.ErrAccessDenied},
		"an answer that is cut": {answer(200, fmt.Errorf("read: %w", io.ErrUnexpectedEOF)), walstorage.ErrUnavailable},
		"one that is none":      {answer(200, &smithy.DeserializationError{Err: errors.New("<html>")}), walstorage.ErrUnavailable},
		"refused":               {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, walstorage.ErrUnavailable},
		"no name":               {&net.DNSError{Err: "no such host", Name: "sts.invalid"}, walstorage.ErrUnavailable},
		"a time-out":            {fmt.Errorf("asked: %w", context.DeadlineExceeded), walstorage.ErrUnavailable},
		"a missing file":        {missing, walstorage.ErrAccessDenied},
		"a certificate":         {&smithyhttp.RequestSendError{Err: untrusted()}, nil},
		"another store's error": {walstorage.NewError(walstorage.ErrSegmentNotFound, nil), walstorage.ErrAccessDenied},
	} {
		for _, in := range []string{bucket, directoryBucket} {
			t.Run(name+" "+in, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, c := express(t)
					c.Bucket, c.Credentials = in, without{test.err}
					driver := open(t, c)
					for what, call := range operations {
						err := call(t.Context(), driver)
						require.Error(t, err)
						assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", what, err)
					}
					assert.Empty(t, server.Requests())
				})
			})
		}
	}
}

// quiet is an error of no known type.
type quiet struct{}

func (quiet) Error() string { return "quiet" }

func untrusted() error { return &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}} }
