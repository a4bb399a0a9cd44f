package azurite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/integration"
)

// What an operator runs before a cluster is switched to a store finds nothing.
func TestCheck(t *testing.T) {
	address := integration.Azurite.Address(t)
	c := config(address, newContainer(t, address))
	manager, err := azure.New(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, manager.Close()) }()
	other, err := azure.New(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.NoError(t, check.Check(t.Context(), manager, check.Options{Other: other}))
}
