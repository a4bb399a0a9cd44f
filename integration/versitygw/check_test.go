package versitygw

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/s3"
)

// What an operator runs before a cluster is switched to a store finds nothing.
func TestCheck(t *testing.T) {
	url := integration.VersityGW.Address(t)
	c := config(url, newBucket(t, url))
	manager, err := s3.New(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, manager.Close()) }()
	other, err := s3.New(t.Context(), c)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.NoError(t, check.Check(t.Context(), manager, check.Options{Other: other}))
}
