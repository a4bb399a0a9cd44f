package sim

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seedsFlag  = flag.Int("seeds", 0, "how many seeds TestSeeds runs, 0 for the default")
	firstFlag  = flag.Uint64("first", 1, "the first of them")
	seedFlag   = flag.Int64("seed", -1, "the one seed that TestSeeds runs")
	failFlag   = flag.Int("failures", 5, "how many of them may fail before no more are tried")
	shrinkFlag = flag.Bool("shrink", true, "whether a failed seed is shrunk to fewer steps")
	stepsFlag  = flag.String("steps", "", "the numbers of the steps of that seed to do, as a failure prints them; empty for all")
)

// TestSeeds runs random stories, one for each seed, with every fault that the simulator knows, and looks at every step
// whether what must hold holds: among that, that every acknowledged record is on every replica, once and in order (Jepsen on
// Bufstream 0.1.0). With -seed=N it runs the story of one seed and prints its trace; a failure prints the
// command that repeats it, with the few steps that it takes.
func TestSeeds(t *testing.T) {
	if *seedFlag >= 0 {
		oneSeed(t, uint64(*seedFlag))
		return
	}
	seeds := *seedsFlag
	if seeds == 0 {
		if seeds = 200; raced {
			seeds = 20
		}
	}
	result := manySeeds(t, *firstFlag, seeds)
	unreached := result.unreached(seeds)
	result.print(t)
	for _, o := range result.failed {
		t.Errorf("seed %d: %s", o.seed, o.Violations[0])
	}
	if len(result.failed) > 0 && *shrinkFlag {
		tell(t, result.failed[0])
	}
	fmt.Printf("sim: %d seeds, %d violations, %d faults unreached\n", result.ran, len(result.failed), len(unreached))
	if len(unreached) > 0 && len(result.failed) == 0 {
		t.Errorf("never reached: %s", strings.Join(unreached, "; "))
	}
}

// TestPastSeeds runs the seeds of 10,000 that have ended in a violation, each of them of an invariant that asked for
// more than the rules promise.
func TestPastSeeds(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{396, 449, 802, 1776, 1940, 5144, 5795, 7574} {
		o := runSeed(t, seed, nil)
		require.Empty(t, o.Violations, "seed %d", seed)
	}
}

func oneSeed(t *testing.T, seed uint64) {
	var keep []int
	for _, step := range strings.Split(*stepsFlag, ",") {
		if n, err := strconv.Atoi(step); err == nil {
			keep = append(keep, n)
		}
	}
	o := runSeed(t, seed, keep)
	hash, events := o.Trace.Hash()
	if len(o.Violations) > 0 {
		t.Errorf("seed %d: %s\nthe last that happened:\n%s", seed, strings.Join(o.Violations, "\n"), o.Told)
	}
	t.Logf("%d events in the trace", events)
	fmt.Printf("sim: seed %d, %d violations, trace %016x\n", seed, len(o.Violations), hash)
}

// tell shrinks a failed seed and prints its story.
func tell(t *testing.T, f failure) {
	plan := NewPlan(f.seed)
	keep, o := shrink(len(plan.Steps), f.Outcome, func(keep []int) Outcome { return runSeed(t, f.seed, keep) })
	var steps, numbers []string
	for i, step := range plan.Steps {
		if slices.Contains(keep, i) {
			steps = append(steps, fmt.Sprintf("%4d  %s", i, step))
			numbers = append(numbers, strconv.Itoa(i))
		}
	}
	t.Errorf("seed %d: %s\nthe last that happened:\n%s\nthe steps that it takes:\n%s\nto repeat it:\n"+
		"go test ./internal/sim -run TestSeeds -seed=%d -steps=%s -v", f.seed, o.Violations[0], o.Told,
		strings.Join(steps, "\n"), f.seed, strings.Join(numbers, ","))
}

type failure struct {
	seed uint64
	Outcome
}

// found is what many seeds have come to.
type found struct {
	ran    int
	failed []failure // sorted by seed
	counts map[string]int
	took   time.Duration
	events uint64
}

// manySeeds runs seeds, as many at once as there are processors. Each is a run of its own, whatever runs beside it.
func manySeeds(t *testing.T, first uint64, seeds int) found {
	var mu sync.Mutex
	f := found{counts: map[string]int{}}
	next := first
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= first+uint64(seeds) || len(f.failed) >= *failFlag {
			return 0, false
		}
		next++
		return next - 1, true
	}
	begun := time.Now()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed, ok := take()
				if !ok {
					return
				}
				o := runSeed(t, seed, nil)
				mu.Lock()
				f.ran++
				for what, n := range o.Counts {
					f.counts[what] += n
				}
				if o.Trace != nil {
					_, events := o.Trace.Hash()
					f.events += events
				}
				if len(o.Violations) > 0 {
					f.failed = append(f.failed, failure{seed, o})
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	f.took = time.Since(begun)
	slices.SortFunc(f.failed, func(a, b failure) int { return int(int64(a.seed) - int64(b.seed)) })
	return f
}

// print prints what was reached, and how often.
func (f *found) print(t *testing.T) {
	var names []string
	for name := range f.counts {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%10d  %s\n", f.counts[name], name)
	}
	t.Logf("reached by %d seeds in %s, %d events:\n%s", f.ran, f.took.Round(time.Millisecond), f.events, b.String())
}

// unreached returns what must be reached by so many seeds and was not.
func (f *found) unreached(seeds int) (names []string) {
	for _, r := range mustReach {
		if seeds >= r.by && f.counts[r.what] == 0 {
			names = append(names, r.what)
		}
	}
	return names
}
