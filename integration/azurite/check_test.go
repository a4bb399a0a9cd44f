package azurite

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// What an operator runs before a cluster is switched to a store finds nothing.
func TestCheck(t *testing.T) {
	address := integration.Azurite.Address(t)
	c := config(address, newContainer(t, address))
	integration.Check(t, ours.Manage(t, c), ours.Manage(t, c))
}
