package s3_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// everywhere is a client for which every host is the fake, over TLS.
func everywhere(t *testing.T, cfg fake.Config) (*fake.Server, *http.Client) {
	server, c := serveTLS(t, cfg)
	address := strings.TrimPrefix(c.Endpoint, "https://")
	transport := c.HTTPClient.Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "example.com"}
	t.Cleanup(transport.CloseIdleConnections)
	return server, &http.Client{Transport: transport}
}

// J24: in every place that a bucket may be, and with every client that may be handed in, an upload is one request over TLS,
// to the host that it belongs to, with a plain body of its length, the checksum in a header, the condition, and no header
// that is not expected. What a ready client is set to does not change that.
func TestWireFormOfEveryVariant(t *testing.T) {
	const (
		regional = "eu-central-1.amazonaws.com"
		many     = "mfzwi23gnjvgw"
		kmsKey   = "arn:aws:kms:eu-central-1:111122223333:key/1234"
	)
	encrypted := []string{"X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"}
	session := []string{"X-Amz-S3session-Token"}
	tests := map[string]struct {
		c           s3.Config
		environment map[string]string
		ready       func(*sdk.Options)
		host        string
		also        []string
	}{
		"bucket":                   {c: s3.Config{Bucket: bucket}, host: bucket + ".s3." + regional},
		"bucket in the path":       {c: s3.Config{Bucket: bucket, PathStyle: true}, host: "s3." + regional},
		"bucket, encrypted":        {c: s3.Config{Bucket: bucket, KMSKeyID: kmsKey}, host: bucket + ".s3." + regional, also: encrypted},
		"dual stack":               {c: s3.Config{Bucket: bucket}, environment: map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true"}, host: bucket + ".s3.dualstack." + regional},
		"FIPS":                     {c: s3.Config{Bucket: bucket}, environment: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, host: bucket + ".s3-fips." + regional},
		"private endpoint":         {c: s3.Config{Bucket: bucket, Endpoint: "https://bucket.vpce-1.s3." + regional}, host: bucket + ".bucket.vpce-1.s3." + regional},
		"access point":             {c: s3.Config{Bucket: accessPoint}, host: "ap-123456789012.s3-accesspoint." + regional},
		"access point, encrypted":  {c: s3.Config{Bucket: accessPoint, KMSKeyID: kmsKey}, host: "ap-123456789012.s3-accesspoint." + regional, also: encrypted},
		"access point of many":     {c: s3.Config{Bucket: "arn:aws:s3::123456789012:accesspoint/" + many + ".mrap"}, host: many + ".mrap.accesspoint.s3-global.amazonaws.com", also: []string{"X-Amz-Region-Set"}},
		"directory":                {c: s3.Config{Bucket: directoryBucket}, host: directoryBucket + ".s3express-euc1-az1." + regional, also: session},
		"directory, encrypted":     {c: s3.Config{Bucket: directoryBucket, KMSKeyID: kmsKey}, host: directoryBucket + ".s3express-euc1-az1." + regional, also: slices.Concat(session, encrypted)},
		"directory, no session":    {c: s3.Config{Bucket: directoryBucket}, environment: map[string]string{"AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": "true"}, host: directoryBucket + ".s3express-euc1-az1." + regional},
		"checksums of environment": {c: s3.Config{Bucket: bucket}, environment: map[string]string{"AWS_REQUEST_CHECKSUM_CALCULATION": "when_supported", "AWS_MAX_ATTEMPTS": "9", "AWS_RETRY_MODE": "adaptive"}, host: bucket + ".s3." + regional},
		"ready client": {c: s3.Config{Bucket: bucket}, host: bucket + ".s3." + regional, ready: func(o *sdk.Options) {
			o.RetryMaxAttempts, o.RetryMode = 9, aws.RetryModeAdaptive
			o.ContinueHeaderThresholdBytes = 1
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
		}},
		"ready client, accelerated":  {c: s3.Config{Bucket: bucket}, host: bucket + ".s3-accelerate.amazonaws.com", ready: func(o *sdk.Options) { o.UseAccelerate = true }},
		"ready client, directory":    {c: s3.Config{Bucket: directoryBucket}, host: directoryBucket + ".s3express-euc1-az1." + regional, also: session, ready: func(*sdk.Options) {}},
		"ready client, access point": {c: s3.Config{Bucket: accessPoint, KMSKeyID: kmsKey}, host: "ap-123456789012.s3-accesspoint." + regional, also: encrypted, ready: func(*sdk.Options) {}},
	}
	data := make([]byte, 3<<20) // beyond where the SDK by itself would wait for 100 Continue
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, client := everywhere(t, fake.Config{Buckets: []string{directoryBucket, "ap-123456789012", many}})
			for variable, value := range test.environment {
				t.Setenv(variable, value)
			}
			c := test.c
			if test.ready != nil {
				o := sdk.Options{Region: "eu-central-1", Credentials: keys(), HTTPClient: client}
				test.ready(&o)
				c.Client = sdk.New(o)
			} else {
				c.Region, c.Credentials, c.HTTPClient = "eu-central-1", keys(), client
			}

			err := open(t, c).Put(t.Context(), "a/b.wal", objectstore.NewBody(data), drivertest.Checksum(data))

			if name != "directory, no session" { // which the fake insists on
				require.NoError(t, err)
			}
			assert.Equal(t, 1, server.Count("PutObject"), "one request for an upload")
			for _, r := range server.Requests() {
				assert.Equal(t, test.host, r.Header.Get("Host"), r.Op)
				if r.Op == "CreateSession" {
					drivertest.Headers(t, r.Op, r.Header, slices.Concat(allowed, encrypted), nil)
					continue
				}
				assert.Equal(t, "PutObject", r.Op)
				assert.Equal(t, "a/b.wal", r.Key)
				assert.Equal(t, data, r.Body)
				assert.Equal(t, int64(len(data)), r.ContentLength)
				assert.Empty(t, r.TransferEncoding)
				assert.Equal(t, encoded(data), r.Header.Get("X-Amz-Checksum-Crc32c"))
				assert.Equal(t, "*", r.Header.Get("If-None-Match"))
				assert.Equal(t, "UNSIGNED-PAYLOAD", r.Header.Get("X-Amz-Content-Sha256"), "the body is hashed once")
				must := slices.Concat(test.also, []string{"If-None-Match", "X-Amz-Checksum-Crc32c", "Authorization"})
				drivertest.Headers(t, r.Op, r.Header, slices.Concat(allowed, []string{"Content-Type"}), must)
			}
		})
	}
}
