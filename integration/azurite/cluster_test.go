package azurite

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// Three brokers over a container replicate everything, without a difference.
func TestCluster(t *testing.T) {
	address := integration.Azurite.Address(t)
	integration.Cluster(t, "azblob://"+newContainer(t, address)+"/cluster?account="+account+"&endpoint="+address+"/"+account,
		"AZURE_STORAGE_KEY="+accountKey)
}
