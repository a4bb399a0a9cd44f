package kafkalog

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/integration/kafka"
)

// What .ci/integration starts versitygw with.
const (
	accessKey = "integration"
	secretKey = "integration-secret"
)

// Three walhop brokers run for a minute at 20 MB/s, with their segments in a real S3 server and the events of these on a
// topic of a real Kafka broker, and every follower's log is its leader's in the end. Then again with the Kafka broker
// killed in the middle, and started again: it costs the use of the store for that long, and nothing else.
func TestCluster(t *testing.T) {
	const lasts = time.Minute
	cluster := kafka.Start(t, kafka.Config{})
	run := func(topic string) integration.ClusterRun {
		return integration.ClusterRun{
			Flags: []string{
				"-store", "s3://" + newBucket(t) + "?provider=versitygw&endpoint=" + integration.VersityGW.Address(t),
				"-metadata", fmt.Sprintf("kafka://%s/%s?replication_factor=1", cluster.Bootstrap(), topic),
				"-rate", "20", "-duration", lasts.String(),
			},
			Variables: []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey},
		}
	}
	t.Run("undisturbed", func(t *testing.T) { run("undisturbed").Run(t) })
	t.Run("killed", func(t *testing.T) {
		killed := run("killed")
		killed.Meanwhile = func() {
			require.NoError(t, sleep(t.Context(), lasts/2))
			began := time.Now()
			cluster.Broker(1).Kill(t)
			cluster.Broker(1).Start(t)
			t.Attr("broker-away", time.Since(began).Round(100*time.Millisecond).String())
		}
		killed.Run(t)
	})
}

// newBucket makes a bucket, which goes with the server.
func newBucket(t *testing.T) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	url, bucket := integration.VersityGW.Address(t), "walhop-"+strings.ToLower(rand.Text())
	client := s3.New(s3.Options{
		BaseEndpoint: &url, UsePathStyle: true, Region: "us-east-1", HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
	return bucket
}
