package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shrinkAttempts is how many runs a shrink takes at most.
const shrinkAttempts = 300

// runSeed runs the plan of a seed, of which only the steps in keep, all if it is nil.
func runSeed(t *testing.T, seed uint64, keep []int) Outcome {
	return runBroken(t, seed, keep, func(*Break) {})
}

// runBroken is runSeed with guards of the broker taken away.
func runBroken(t *testing.T, seed uint64, keep []int, take func(*Break)) Outcome {
	plan := NewPlan(seed)
	take(&plan.Config.Break)
	return try(t, fmt.Sprint("seed ", seed), plan.Config, func(c *Cluster) { plan.Run(c, keep) })
}

// shrink returns fewer of the steps of a plan, as numbers, that still end in a violation of the same kind, and how they
// end. run runs the plan with those steps alone. It drops ever smaller runs of steps, as long as that changes nothing
// (ddmin).
func shrink(steps int, found Outcome, run func(keep []int) Outcome) (keep []int, fewer Outcome) {
	for i := range steps {
		keep = append(keep, i)
	}
	fewer = found
	kind := kindOfViolation(found.Violations[0])
	attempts := 0
	for size := steps / 2; size >= 1; {
		dropped := false
		for at := 0; at < len(keep) && attempts < shrinkAttempts; {
			attempts++
			less := slices.Delete(slices.Clone(keep), at, min(len(keep), at+size))
			if o := run(less); len(o.Violations) > 0 && kindOfViolation(o.Violations[0]) == kind {
				keep, fewer, dropped = less, o, true
			} else {
				at += size
			}
		}
		if size == 1 && (!dropped || attempts >= shrinkAttempts) {
			break
		}
		size = max(1, size/2)
	}
	return keep, fewer
}

// kindOfViolation is what a violation says without time and numbers.
func kindOfViolation(text string) string {
	if _, after, ok := strings.Cut(text, ": "); ok {
		text = after
	}
	var b strings.Builder
	for _, r := range text {
		if (r < '0' || r > '9') && r != '.' && r != '-' {
			b.WriteRune(r)
		}
		if b.Len() > 60 {
			break
		}
	}
	return b.String()
}
