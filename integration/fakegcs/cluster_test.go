package fakegcs

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// Three brokers over a bucket replicate everything, without a difference.
func TestCluster(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	integration.Cluster(t, "gs://"+newBucket(t, address)+"/cluster?endpoint="+address)
}
