package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomRun tells the story of a seed.
func randomRun(t *testing.T, seed uint64) *Trace {
	plan := NewPlan(seed)
	return Run(t, plan.Config, func(c *Cluster) { plan.Run(c, nil) })
}

// TestDeterminism: two runs of one seed are the same run (D3).
func TestDeterminism(t *testing.T) {
	seeds := 50
	if raced {
		seeds = 4
	}
	differ := 0
	for seed := range uint64(seeds) {
		one, other := randomRun(t, seed), randomRun(t, seed)
		first, events := one.Hash()
		second, _ := other.Hash()
		require.Greater(t, events, uint64(100), "seed %d: a story in which nothing happens proves nothing", seed)
		if first != second {
			differ++
			t.Logf("seed %d has the traces %016x and %016x%s", seed, first, second, firstDifference(one, other))
		}
	}
	fmt.Printf("determinism: %d seeds, %d traces differ\n", seeds, differ)
	require.Zero(t, differ)
}

// firstDifference shows where two traces part, if they were kept.
func firstDifference(one, other *Trace) string {
	for i := range min(len(one.all), len(other.all)) {
		if one.all[i] != other.all[i] {
			from := max(0, i-12)
			return fmt.Sprintf(":\n%s\none:\n%s\nother:\n%s", strings.Join(one.all[from:i], "\n"),
				strings.Join(one.all[i:min(i+8, len(one.all))], "\n"), strings.Join(other.all[i:min(i+8, len(other.all))], "\n"))
		}
	}
	return ""
}
