package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
)

// caseTimeout is enough for the longest case on the slowest server, which takes less than half of it.
const caseTimeout = 3 * time.Minute

// Run runs conformance.Run on a server, but for the cases that gaps.txt has a line for. The results are held to the record.
func Run(t *testing.T, server Server, cfg conformance.Config) {
	t.Helper()
	cfg.Timeout, cfg.Skip, cfg.Report = caseTimeout, Gaps(t, server, "Run"), caseresults.Record(t, string(server))
	conformance.Run(t, cfg)
}

// RunFaults runs conformance.RunFaults on a server, as Run does.
func RunFaults(t *testing.T, server Server, cfg conformance.FaultsConfig) {
	t.Helper()
	cfg.Timeout, cfg.Skip, cfg.Report = caseTimeout, Gaps(t, server, "RunFaults"), caseresults.Record(t, string(server))
	conformance.RunFaults(t, cfg)
}

// Check does with two handles on one store what an operator does before a cluster is switched to it, which finds nothing.
func Check(t *testing.T, store, other walstorage.WalStorageManager) {
	t.Helper()
	require.NoError(t, check.Check(t.Context(), store, check.Options{Other: other}))
}
