package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBrokenGuards: seeds see that a guard of the broker is missing.
func TestBrokenGuards(t *testing.T) {
	for _, guard := range []struct {
		name  string
		first uint64 // the first seed to try; there is none below that shows it, which would only take time
		seeds int
		take  func(*Break)
	}{
		{"FetchFromLeader asks nothing (S1)", 1, 40, func(b *Break) { b.FetchAsksNothing = true }},
		{"reports are not checked (B3)", 1, 40, func(b *Break) { b.NoReportChecks = true }},
		{"the sample is overwritten (B2)", 40, 100, func(b *Break) { b.OverwrittenSample = true }},
		{"the high watermark waits for the ISR alone (B2)", 40, 100, func(b *Break) { b.HighWatermarkOfISR = true }},
		{"epochs repeat (B6)", 1, 40, func(b *Break) { b.EpochsRepeat = true }},
	} {
		t.Run(guard.name, func(t *testing.T) {
			t.Parallel()
			seed, o := firstFailure(t, guard.first, guard.seeds, guard.take)
			require.NotEmpty(t, o.Violations, "not found")
			t.Logf("seed %d: %s", seed, o.Violations[0])
		})
	}
}

// firstFailure returns the first of some seeds that fails with guards taken away, and how it ends; an empty outcome if
// none does.
func firstFailure(t *testing.T, first uint64, seeds int, take func(*Break)) (seed uint64, o Outcome) {
	for seed = first; seed < first+uint64(seeds); seed++ {
		if o := runBroken(t, seed, nil, take); len(o.Violations) > 0 {
			return seed, o
		}
	}
	return 0, Outcome{}
}
