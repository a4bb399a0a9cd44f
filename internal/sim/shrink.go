package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// attempts is how many runs a shrink takes at most.
const shrinkAttempts = 300

// runSeed runs the plan of a seed, of which only the steps in keep, all if it is nil.
func runSeed(t *testing.T, seed uint64, keep []int) Outcome {
	plan := NewPlan(seed)
	return try(t, fmt.Sprint("seed ", seed), plan.Config, func(c *Cluster) { plan.Run(c, keep) })
}

// shrink returns fewer steps of the plan of a seed that still end in a violation of the same kind, and how they end. It
// drops ever smaller runs of steps, as long as that changes nothing (ddmin).
func shrink(t *testing.T, seed uint64, found Outcome) (keep []int, fewer Outcome) {
	for i := range NewPlan(seed).Steps {
		keep = append(keep, i)
	}
	fewer = found
	kind := kindOfViolation(found.Violations[0])
	attempts := 0
	for size := len(keep) / 2; size >= 1; {
		dropped := false
		for at := 0; at < len(keep) && attempts < shrinkAttempts; {
			attempts++
			less := slices.Delete(slices.Clone(keep), at, min(len(keep), at+size))
			o := runSeed(t, seed, less)
			if len(o.Violations) > 0 && kindOfViolation(o.Violations[0]) == kind {
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
