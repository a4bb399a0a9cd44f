package s3server

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// Cluster runs examples/cluster: three brokers over a bucket replicate everything, without a difference.
func (s Server) Cluster(t *testing.T) {
	url := s.Address(t)
	integration.Cluster(t, "s3://"+newBucket(t, url)+"/cluster?endpoint="+url+"&provider="+s.provider(),
		"AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey)
}
