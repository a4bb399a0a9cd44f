package versitygw

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// Three brokers over a bucket replicate everything, without a difference.
func TestCluster(t *testing.T) {
	url := integration.VersityGW.Address(t)
	integration.Cluster(t, "s3://"+newBucket(t, url)+"/cluster?endpoint="+url+"&provider=versitygw",
		"AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey)
}
