package s3_test

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// wrong are the changes to a configuration that are refused, by the field that has to be named: those of every driver, and
// ours.
func wrong() map[string][]func(*s3.Config) {
	type config = s3.Config
	ready := sdk.New(sdk.Options{Region: "eu-central-1"})
	// besides makes a change to a configuration that has a ready client.
	besides := func(change func(*config)) func(*config) {
		return func(c *config) {
			*c = config{Bucket: c.Bucket, Client: ready, Store: c.Store}
			change(c)
		}
	}
	return ours.Wrong(besides, map[string][]func(*config){
		"Bucket": {
			func(c *config) { c.Bucket = "" },
			func(c *config) { c.Bucket = "a/b" },
			func(c *config) { c.Bucket = "a b" },
			func(c *config) { c.Bucket = ".." },
			func(c *config) { c.Bucket = "b?X-Amz-Signature=x" },
			func(c *config) { c.Bucket = "arn:aws:s3 x" },
			func(c *config) { c.Bucket = strings.Repeat("a", 256) },
		},
		"Provider": {
			func(c *config) { c.Provider = "amazon" },
			func(c *config) { c.Provider = "AWS" },
			func(c *config) { c.Provider = "backblaze-b2" },
			func(c *config) { c.Provider = "aws-express" }, // of a bucket that is no directory bucket
		},
		"Region": {
			func(c *config) { c.Endpoint = "" },
			func(c *config) { c.Region = "eu central" },
			func(c *config) { c.Region = "evil.example/" },
			besides(func(c *config) { c.Region = "eu-central-1" }),
		},
		"Endpoint": {
			func(c *config) { c.Endpoint, c.Region, c.Provider = "", "eu-central-1", "minio" },
			func(c *config) { c.Endpoint = "https://storage.googleapis.com" },
		},
		"PathStyle":   {besides(func(c *config) { c.PathStyle = true })},
		"Credentials": {besides(func(c *config) { c.Credentials = keys() })},
		"KMSKeyID": {
			func(c *config) { c.KMSKeyID = "a\r\nX-Evil: 1" },
			func(c *config) { c.Bucket, c.KMSKeyID = directoryBucket, "alias/segments" },
			func(c *config) { c.Bucket, c.KMSKeyID = directoryBucket, "arn:aws:kms:eu-central-1:1:alias/segments" },
		},
		"NoChecksum": {func(c *config) { c.Bucket, c.NoChecksum = directoryBucket, true }},
	})
}

// A2: each wrong value of each field is refused with the name of the field and without what may be secret (W11), and no
// field is forgotten.
func TestConfig(t *testing.T) {
	configtest.Run(t, configtest.Table[s3.Config]{
		Valid: s3.Config{Bucket: bucket, Endpoint: "http://localhost:1", Store: objectstore.Config{Cluster: "c"}},
		Open:  ours.Try,
		Wrong: wrong(),
		Any:   map[string]string{"Client": "a ready client makes other fields wrong"},
	})
}

// invalid are the wrong values for the suite.
func invalid(t *testing.T) map[string]func() error {
	return configtest.First(config("http://localhost:1"), wrong(), func(c s3.Config) error { return ours.Try(t, c) })
}
