package azurite

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/protocols"
)

// What networks do to requests does not harm segments in a real server: a proxy before it loses, cuts and damages. The
// handles have a shared access signature.
func TestFaults(t *testing.T) {
	address := integration.Azurite.Address(t)
	name := newContainer(t, address)
	sas := signature(t, address, name)
	values, err := url.ParseQuery(sas)
	require.NoError(t, err)
	cfg := ours.Faults(protocols.Azure(), func(url string) azure.Config { return withSAS(url, name, sas) })
	cfg.URL = smallPages(t, address)
	cfg.ListLarge = 101
	cfg.Secrets = []string{sas, values.Get("sig"), url.QueryEscape(values.Get("sig"))}
	integration.RunFaults(t, integration.Azurite, cfg)
}
