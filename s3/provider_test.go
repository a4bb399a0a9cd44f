package s3_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
)

// What a name sets is what goes over the wire, whether it is said or shown by the host of the endpoint, and a field that
// is set stands.
func TestProviderSettings(t *testing.T) {
	type wire struct {
		path, checksum bool
		region         string
	}
	plain := wire{false, true, "us-east-1"}
	tests := map[string]struct {
		provider, endpoint string
		change             func(*s3.Config)
		want               wire
	}{
		"Amazon's own":                    {"aws", "https://fake.invalid", nil, plain},
		"a private endpoint of Amazon's":  {"", "https://vpce-1.s3.eu-central-1.vpce.amazonaws.com", func(c *s3.Config) { c.Region = "eu-central-1" }, wire{false, true, "eu-central-1"}},
		"a store that nobody knows":       {"", "https://fake.invalid", nil, plain},
		"... with what its user knows":    {"compatible", "https://fake.invalid", func(c *s3.Config) { c.PathStyle, c.NoChecksum, c.Region = true, true, "x" }, wire{true, false, "x"}},
		"versitygw":                       {"versitygw", "https://fake.invalid", nil, wire{true, true, "us-east-1"}},
		"minio":                           {"minio", "https://fake.invalid", nil, wire{true, true, "us-east-1"}},
		"seaweedfs":                       {"seaweedfs", "https://fake.invalid", nil, wire{true, true, "us-east-1"}},
		"ceph":                            {"ceph", "https://fake.invalid", nil, wire{true, true, "us-east-1"}},
		"R2 by its name":                  {"cloudflare-r2", "https://fake.invalid", nil, wire{false, false, "auto"}},
		"R2 by its host":                  {"", "https://0123.eu.R2.cloudflarestorage.com", nil, wire{false, false, "auto"}},
		"R2 with a region":                {"", "https://0123.r2.cloudflarestorage.com", func(c *s3.Config) { c.Region = "us-east-1" }, wire{false, false, "us-east-1"}},
		"Wasabi by its host":              {"", "https://s3.eu-central-1.wasabisys.com", func(c *s3.Config) { c.Region = "eu-central-1" }, wire{true, true, "eu-central-1"}},
		"a refused one, against advice":   {"compatible", "https://s3.us-west-004.backblazeb2.com", nil, plain},
		"a host that only ends like one":  {"", "https://notbackblazeb2.com", nil, plain},
		"a host that only begins like it": {"", "https://wasabisys.com.fake.invalid", nil, plain},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{})
				c.Provider, c.Endpoint, c.PathStyle = test.provider, strings.Replace(test.endpoint, "https", "http", 1), false
				if test.change != nil {
					test.change(&c)
				}

				require.NoError(t, operations["PutObject"](t.Context(), open(t, c)))

				r := server.Requests()[0]
				assert.Equal(t, bucket, r.Bucket)
				got := wire{
					path:     !strings.HasPrefix(r.Header.Get("Host"), bucket+"."),
					checksum: r.Header.Get("X-Amz-Checksum-Crc32c") != "",
				}
				_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
				got.region = strings.Split(scope, "/")[2]
				assert.Equal(t, test.want, got)
			})
		})
	}
}

// W2: a store of which it is known that its creates are not atomic is refused before any request, by its name, by its
// endpoint, by an endpoint in the environment, and by that of a ready client. The error says which field, why, and what
// to do.
func TestProvidersThatAreRefused(t *testing.T) {
	tests := map[string]struct{ endpoint, advice, source string }{
		"backblaze-b2": {"https://s3.us-west-004.backblazeb2.com", "another store", "sathinduga/obsidian-s3-sync-and-backup#78"},
		"google-xml":   {"https://storage.googleapis.com", "package gcs", "request-preconditions"},
		"alibaba-oss":  {"https://oss-eu-central-1.aliyuncs.com", "another store", "tobi/walgit#67"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused := func(c s3.Config, field string) {
				_, err := s3.NewDriver(t.Context(), c)
				require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
				for _, part := range []string{"s3.Config: " + field + ": ", "If-None-Match", test.advice, test.source} {
					assert.ErrorContains(t, err, part)
				}
			}
			c := config("http://localhost:1")
			c.Provider = name
			refused(c, "Provider")
			refused(config(test.endpoint), "Endpoint")
			ready := sdk.New(sdk.Options{Region: "us-east-1", BaseEndpoint: &test.endpoint, Credentials: keys()})
			refused(s3.Config{Bucket: bucket, Client: ready}, "Endpoint")
			t.Setenv("AWS_ENDPOINT_URL_S3", test.endpoint)
			refused(config(""), "Endpoint")
		})
	}
}

// An endpoint in the environment is one like another: no region has to be named beside it.
func TestEndpointOfTheEnvironment(t *testing.T) {
	server, url := serve(t, fake.Config{})
	t.Setenv("AWS_ENDPOINT_URL_S3", url)
	c := config("")
	require.NoError(t, operations["PutObject"](t.Context(), open(t, c)))
	assert.Contains(t, server.Requests()[0].Header.Get("Authorization"), "/us-east-1/s3/")
}

// W7: the codes that a store has beside Amazon's are known with its name and without, on uploads and on single keys of a
// delete; a throttle is no refusal though it comes with 403.
func TestProviderCodes(t *testing.T) {
	tests := []struct {
		provider string
		status   int
		code     string
		kind     error
	}{
		{"minio", 503, "SlowDownWrite", walstorage.ErrUnavailable},
		{"minio", 503, "XMinioServerNotInitialized", walstorage.ErrUnavailable},
		{"minio", 400, "XAmzContentChecksumMismatch", walstorage.ErrCorrupt},
		{"minio", 507, "XMinioStorageFull", walstorage.ErrNoSpace},
		{"minio", 400, "XMinioAdminBucketQuotaExceeded", walstorage.ErrNoSpace},
		{"versitygw", 403, "QuotaExceeded", walstorage.ErrNoSpace},
		{"versitygw", 507, "InsufficientStorage", walstorage.ErrNoSpace},
		{"versitygw", 409, "ExistingObjectIsDirectory", walstorage.ErrUnavailable},
		{"versitygw", 404, "XAdminUserNotFound", walstorage.ErrAccessDenied},
		{"ceph", 403, "QuotaExceeded", walstorage.ErrNoSpace},
		{"ceph", 403, "UserSuspended", walstorage.ErrAccessDenied},
		{"seaweedfs", 503, "ErrTooManyRequest", walstorage.ErrUnavailable}, // by its status
		{"wasabi", 403, "RequestRateLimitExceeded", walstorage.ErrUnavailable},
		{"wasabi", 403, "AuthenticationLockout", walstorage.ErrAccessDenied},
	}
	server, url := serve(t, fake.Config{})
	for _, test := range tests {
		for _, provider := range []string{test.provider, ""} {
			c := config(url)
			c.Provider = provider
			driver := open(t, c)
			server.Always("PutObject", fake.Fault{Status: test.status, Code: test.code})
			assert.Equal(t, test.kind, walstorage.KindOf(operations["PutObject"](t.Context(), driver)), "%s with %q", test.code, provider)
		}
	}
	server.Always("DeleteObjects", fake.Fault{Keys: map[string]string{"k": "SlowDownWrite"}})
	err := operations["DeleteObjects"](t.Context(), open(t, config(url)))
	assert.ErrorIs(t, err, walstorage.ErrUnavailable)
}

// An error text that names the host of a refused endpoint would repeat what may be secret.
func TestRefusalRepeatsNoEndpoint(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_S3", "https://"+accessKey+":"+secretKey+"@s3.us-west-004.backblazeb2.com?token="+sessionToken)
	c := config("")
	c.HTTPClient = http.DefaultClient
	_, err := s3.NewDriver(t.Context(), c)
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	drivertest.Quiet(t, "", err, []string{accessKey, secretKey, sessionToken})
}
