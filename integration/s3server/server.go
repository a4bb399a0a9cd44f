package s3server

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Server is a server that speaks Amazon S3's protocol, for a package of tests each: its methods are the tests. What
// .ci/integration calls it is what s3.Config.Provider calls it, too.
type Server struct {
	integration.Server
	// Limited is what a bucket policy calls the user whom policies bind.
	Limited string
	// Patience is how long an answer may take that is worth waiting for, where that is more than s3.Config waits unless
	// it is told to. 0 is what s3.Config has.
	Patience time.Duration
}

func (s Server) provider() string { return string(s.Server) }

// What .ci/integration starts the servers with.
const (
	accessKey = "integration"
	secretKey = "integration-secret"
	region    = "us-east-1"

	// Somebody whom bucket policies apply to: they do not bind the first user.
	limitedKey    = "limited"
	limitedSecret = "limited-secret"
)

func keys(accessKey, secretKey string) aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")
}

// ours is the package that is tested.
var ours = drivertest.Driver[s3.Config, *s3.Driver]{New: s3.New, NewDriver: s3.NewDriver}

// config is a configuration for a bucket of the server at that address.
func (s Server) config(url, bucket string) s3.Config {
	return s3.Config{
		Bucket: bucket, Endpoint: url, Provider: s.provider(), Region: region, Credentials: keys(accessKey, secretKey),
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

// patient is config for many who ask for one thing at once.
func (s Server) patient(url, bucket string) s3.Config {
	c := s.config(url, bucket)
	c.ResponseHeaderTimeout, c.StallTimeout = s.Patience, s.Patience
	return c
}

// client is a client of the SDK's, for what a driver does not do.
func client(tb testing.TB, url string) *sdk.Client {
	// No connection is kept: its goroutines would count as those of the case that opened it.
	transport := &http.Transport{DisableKeepAlives: true}
	return sdk.New(sdk.Options{
		BaseEndpoint: &url, UsePathStyle: true, Region: region, Credentials: keys(accessKey, secretKey),
		HTTPClient: &http.Client{Transport: transport},
	})
}

// forbid lets the limited user do everything in the bucket but delete the object key.
func (s Server) forbid(tb testing.TB, c *sdk.Client, bucket, key string) {
	resource := "arn:aws:s3:::" + bucket
	policy, err := json.Marshal(map[string]any{
		"Version": "2012-10-17",
		"Statement": []map[string]any{
			{"Effect": "Allow", "Principal": s.Limited, "Action": "s3:*", "Resource": []string{resource, resource + "/*"}},
			{"Effect": "Deny", "Principal": s.Limited, "Action": "s3:DeleteObject", "Resource": resource + "/" + key},
		},
	})
	require.NoError(tb, err)
	_, err = c.PutBucketPolicy(tb.Context(), &sdk.PutBucketPolicyInput{Bucket: &bucket, Policy: aws.String(string(policy))})
	require.NoError(tb, err)
}

// newBucket makes a bucket for one test. It goes with the server, which ends with the tests: an upload that was cancelled
// may land at any time (W1), and versitygw keeps the empty folders that such uploads have made.
func newBucket(tb testing.TB, url string) string {
	bucket := "walhop-" + strings.ToLower(rand.Text())
	_, err := client(tb, url).CreateBucket(tb.Context(), &sdk.CreateBucketInput{Bucket: &bucket})
	require.NoError(tb, err)
	return bucket
}
