package fakegcs

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// What an operator runs before a cluster is switched to a store finds nothing.
func TestCheck(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	c := config(address, newBucket(t, address))
	integration.Check(t, ours.Manage(t, c), ours.Manage(t, c))
}
