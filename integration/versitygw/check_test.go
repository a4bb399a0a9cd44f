package versitygw

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// What an operator runs before a cluster is switched to a store finds nothing.
func TestCheck(t *testing.T) {
	url := integration.VersityGW.Address(t)
	c := config(url, newBucket(t, url))
	integration.Check(t, ours.Manage(t, c), ours.Manage(t, c))
}
