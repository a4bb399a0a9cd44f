package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShrink: a seed that fails comes down to a few steps, which fail in the same way each time.
func TestShrink(t *testing.T) {
	// Given a cluster whose leaders lead on in the same epoch after a crash, which one of the first seeds meets,
	seed, found := firstFailure(t, 1, 20, func(b *Break) { b.EpochsRepeat = true })
	require.NotEmpty(t, found.Violations)
	// when its steps are dropped as far as it still fails,
	run := func(keep []int) Outcome { return runBroken(t, seed, keep, func(b *Break) { b.EpochsRepeat = true }) }
	keep, fewer := shrink(len(NewPlan(seed).Steps), found, run)
	// then a few are left, and they fail again in the same way.
	require.Less(t, len(keep), 8)
	require.Equal(t, kindOfViolation(found.Violations[0]), kindOfViolation(fewer.Violations[0]))
	again := run(keep)
	require.Equal(t, fewer.Violations[0], again.Violations[0])
	require.Equal(t, fewer.Told, again.Told)
}

func TestKindOfViolation(t *testing.T) {
	one := kindOfViolation("at 3.1s: disk 2 t0: the log's end falls from 7 to 5 though nobody asked for a truncation")
	require.Equal(t, one, kindOfViolation("at 12m0.5s: disk 1 t3: the log's end falls from 70 to 51 though nobody asked for a truncation"))
	require.NotEqual(t, one, kindOfViolation("at 3.1s: disk 2 t0: diverged: the batch at 7 is of epoch 1"))
}
