package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every case is reported once, in order, with what became of it and why it did not run.
func TestReport(t *testing.T) {
	cfg := modelConfig(flaws{})
	cfg.Skip = map[string]string{"L10": "not what is tested here"}
	cfg.ListLarge = 3
	var results []Result
	cfg.Report = func(result Result) { results = append(results, result) }
	t.Run("run", func(t *testing.T) { Run(t, cfg) })

	require.Len(t, results, len(storageCases))
	for i, result := range results {
		require.Equal(t, storageCases[i].id, result.ID)
		switch result.ID {
		case "L10":
			assert.Equal(t, Result{Suite: "Run", ID: "L10", Outcome: Skipped, Reason: "not what is tested here"}, result)
		case "C9":
			assert.Equal(t, Result{Suite: "Run", ID: "C9", Outcome: Skipped, Reason: "the configuration has no Config.Driver"}, result)
		case "C1":
			assert.Equal(t, Result{Suite: "Run", ID: "C1", Outcome: Passed}, result)
		}
	}
	assert.Equal(t, Result{Suite: "Run", ID: "C1", Outcome: Failed}, outcome{failed: true, skipped: true, reason: "no reason for a failure"}.result("Run", "C1"))
}
