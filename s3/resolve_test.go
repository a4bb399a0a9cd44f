package s3_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
)

const accessPoint = "arn:aws:s3:eu-central-1:123456789012:accesspoint/ap"

// silent is a client through which nothing may go.
func silent(t *testing.T) *http.Client {
	return &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("a request was sent: %s %s", r.Method, r.URL)
		return nil, http.ErrHandlerTimeout
	})}
}

// refused proves that a configuration is refused before any request, with the field named and no secret told (W11).
func refused(t *testing.T, c s3.Config, field string) {
	t.Helper()
	_, err := s3.NewDriver(t.Context(), c)
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	assert.ErrorContains(t, err, "s3.Config: "+field+": ")
	for _, secret := range []string{accessKey, secretKey, sessionToken} {
		assert.NotContains(t, err.Error(), secret)
	}
}

// A2: what the SDK could not make a request of, alone or together with the other fields, is refused by New and not by the
// first upload.
func TestConfigOfWhichNoRequestCanBeMade(t *testing.T) {
	for name, test := range map[string]struct {
		c     s3.Config
		field string
	}{
		"no ARN":                             {s3.Config{Bucket: "arn:"}, "Bucket"},
		"half an ARN":                        {s3.Config{Bucket: "arn:aws:s3"}, "Bucket"},
		"the ARN of a bucket":                {s3.Config{Bucket: "arn:aws:s3:::segments"}, "Bucket"},
		"the ARN of something else":          {s3.Config{Bucket: "arn:aws:sqs:eu-central-1:123456789012:segments"}, "Bucket"},
		"an access point of another region":  {s3.Config{Bucket: strings.Replace(accessPoint, "central", "west", 1)}, "Bucket"},
		"a directory bucket of no zone":      {s3.Config{Bucket: "segments--x-s3"}, "Bucket"},
		"a region with _":                    {s3.Config{Bucket: bucket, Region: "eu_central"}, "Region"},
		"a region that is none":              {s3.Config{Bucket: bucket, Region: "-"}, "Region"},
		"a region that is too long":          {s3.Config{Bucket: bucket, Region: strings.Repeat("a", 64)}, "Region"},
		"such a region with an endpoint":     {s3.Config{Bucket: bucket, Region: "eu_central", Endpoint: "https://store.invalid"}, "Region"},
		"a port out of range":                {s3.Config{Bucket: bucket, Endpoint: "https://store.invalid:65536"}, "Endpoint"},
		"path style for an access point":     {s3.Config{Bucket: accessPoint, PathStyle: true}, "PathStyle"},
		"path style of a store, and an ARN":  {s3.Config{Bucket: accessPoint, Endpoint: "https://store.invalid", Provider: "minio"}, "Bucket"},
		"a ready client without a region":    {s3.Config{Bucket: bucket, Client: sdk.New(sdk.Options{})}, "Client"},
		"a ready client with a wrong region": {s3.Config{Bucket: bucket, Client: sdk.New(sdk.Options{Region: "eu_central"})}, "Region"},
		"a ready client with a secret": {s3.Config{Bucket: bucket, Client: sdk.New(sdk.Options{
			Region: "eu-central-1", BaseEndpoint: aws.String("https://key:" + secretKey + "@store.invalid"),
		})}, "Endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.c
			if c.Client == nil {
				c.Credentials, c.HTTPClient = keys(), silent(t)
				if c.Region == "" {
					c.Region = "eu-central-1"
				}
			}
			refused(t, c, test.field)
		})
	}
}

// A2 (W11): what the environment says is checked like what the fields say, and its secrets are repeated no more than
// theirs.
func TestEnvironmentOfWhichNoRequestCanBeMade(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		field       string
	}{
		"a password":        {map[string]string{"AWS_ENDPOINT_URL": "https://" + accessKey + ":" + secretKey + "@store.invalid"}, "Endpoint"},
		"a signature":       {map[string]string{"AWS_ENDPOINT_URL_S3": "https://store.invalid?X-Amz-Signature=" + secretKey}, "Endpoint"},
		"no URL":            {map[string]string{"AWS_ENDPOINT_URL_S3": "::" + secretKey}, "Endpoint"},
		"FIPS":              {map[string]string{"AWS_USE_FIPS_ENDPOINT": "true", "AWS_ENDPOINT_URL_S3": "https://store.invalid"}, "Endpoint"},
		"dual stack":        {map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_ENDPOINT_URL_S3": "https://store.invalid"}, "Endpoint"},
		"a region of words": {map[string]string{"AWS_REGION": "eu central"}, "Region"},
		"a host as region":  {map[string]string{"AWS_REGION": "evil.invalid/"}, "Region"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_REGION", "eu-central-1")
			for variable, value := range test.environment {
				t.Setenv(variable, value)
			}
			refused(t, s3.Config{Bucket: bucket, Credentials: keys(), HTTPClient: silent(t)}, test.field)
		})
	}
}

// What can be sent is not refused, and is not sent by New, nor are credentials asked for; a context that has ended is told.
func TestNewSendsNothing(t *testing.T) {
	for name, c := range map[string]s3.Config{
		"a bucket":              {Bucket: bucket},
		"an old name":           {Bucket: "Old_Name.of..1999"},
		"an access point":       {Bucket: accessPoint},
		"... of many regions":   {Bucket: "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap"},
		"... of a directory":    {Bucket: "point--euc1-az1--xa-s3"},
		"a directory bucket":    {Bucket: directoryBucket},
		"an endpoint":           {Bucket: bucket, Endpoint: "https://store.invalid:8443/base/"},
		"... with path style":   {Bucket: bucket, Endpoint: "https://store.invalid", PathStyle: true},
		"... for an ARN":        {Bucket: accessPoint, Endpoint: "https://store.invalid"},
		"... for a directory":   {Bucket: directoryBucket, Endpoint: "https://store.invalid"},
		"... an address":        {Bucket: bucket, Endpoint: "http://[::1]:9000"},
		"the region of a store": {Bucket: bucket, Endpoint: "https://0123.r2.cloudflarestorage.com"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := &provider{}
			c.Region, c.Credentials, c.HTTPClient = "eu-central-1", asked, silent(t)
			driver, err := s3.NewDriver(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, driver.Close())
			assert.Zero(t, asked.asked.Load())

			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = s3.NewDriver(ended, c)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
}
