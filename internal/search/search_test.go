package search

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

var large = flag.Bool("large", false, "search the larger configurations as well, which takes minutes to hours")

var states = flag.Int("states", 4_000_000, "no depth is begun with more states than that seen in one of the larger configurations")

// named is a configuration with a name.
type named struct {
	name string
	cfg  Config
}

// small are the configurations that every run of the tests searches to the end.
var small = []named{
	{"crash, appends race with everything", Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 3, Crashes: 1}},
	{"3 epochs, crash", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 2, Crashes: 1, Joined: true}},
	{"unclean elections", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 3, Unclean: true, Joined: true}},
	{"compaction, batches of two", Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 4, Compactions: 1, BatchesOfTwo: true, Joined: true}},
	{"log start moves, tier rebuild", Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 3, Starts: 1}},
	// This one found that a log purged to its end must tell in which epoch it ended: without that an acknowledged record was
	// lost in ten steps.
	{"log start moves, unclean elections", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 2, Starts: 1, Unclean: true, Joined: true}},
	{"the broker truncates without Stop", Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 3, Rewinds: 1}},
	{"3 brokers", Config{Brokers: 3, Partitions: 1, Epochs: 2, Records: 2, Joined: true}},
	{"Read and Resign race, skips, retention", Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 2, StepByStep: true, Segments: 2, Skips: 1}},
	{"eviction, events in any order, skips", Config{Brokers: 2, Partitions: 1, Epochs: 1, Records: 3, StepByStep: true, Segments: 3, Skips: 1, MaxEntries: 1, Joined: true, Quiet: true}},
	{"eviction in two epochs", Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 3, StepByStep: true, Segments: 2, MaxEntries: 1, Joined: true, Quiet: true}},
	{"two partitions in a segment, eviction", Config{Brokers: 2, Partitions: 2, Epochs: 1, Records: 1, StepByStep: true, Segments: 2, MaxEntries: 1, Joined: true, Quiet: true}},
}

// larger are searched with -large. Most end at their bound of states.
var larger = []named{
	{"3 epochs, appends race with everything", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 3, Crashes: 1}},
	{"4 records, crash", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 4, Crashes: 1, Joined: true}},
	{"4 records, compaction, batches of two", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 4, Compactions: 1, BatchesOfTwo: true, Joined: true}},
	{"4 records, log start moves, crash", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 4, Starts: 1, Crashes: 1, Joined: true}},
	{"unclean elections, crash, appends race", Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 3, Crashes: 1, Unclean: true}},
	{"3 brokers, 3 epochs, crash, unclean", Config{Brokers: 3, Partitions: 1, Epochs: 3, Records: 2, Crashes: 1, Unclean: true, Joined: true}},
	{"everything", Config{
		Brokers: 2, Partitions: 1, Epochs: 3, Records: 4, Crashes: 1, Compactions: 1, Starts: 1, Rewinds: 1, Unclean: true, BatchesOfTwo: true,
	}},
	{"Read and Resign race, crash, reports", Config{
		Brokers: 2, Partitions: 1, Epochs: 2, Records: 3, Crashes: 1, StepByStep: true, Segments: 3, MaxEntries: 2, Skips: 1,
	}},
	{"Read and Resign race, 3 epochs", Config{
		Brokers: 2, Partitions: 1, Epochs: 3, Records: 3, StepByStep: true, Segments: 2, MaxEntries: 2, Quiet: true,
	}},
	{"3 epochs, eviction", Config{
		Brokers: 2, Partitions: 1, Epochs: 3, Records: 3, StepByStep: true, Segments: 3, MaxEntries: 1, Joined: true, Quiet: true,
	}},
	{"two partitions, two records each", Config{
		Brokers: 2, Partitions: 2, Epochs: 1, Records: 2, StepByStep: true, Segments: 3, MaxEntries: 2, Joined: true, Quiet: true,
	}},
	{"two partitions, two epochs", Config{
		Brokers: 2, Partitions: 2, Epochs: 2, Records: 1, StepByStep: true, Segments: 3, MaxEntries: 1, Joined: true, Quiet: true,
	}},
}

// TestLarger takes minutes.
func TestLarger(t *testing.T) {
	if !*large {
		t.Skip("the larger configurations are searched with -large")
	}
	for _, c := range larger {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.MaxStates = *states
			fmt.Println(c.name)
			fmt.Println(run(t, c.cfg))
		})
	}
}

// Every state that the small configurations can reach keeps the invariants, and all that a search is for was reached.
func TestSearch(t *testing.T) {
	sum := Result{Reached: map[string]int{}}
	for _, c := range small {
		t.Run(c.name, func(t *testing.T) {
			if raced { // a search is one goroutine
				c.cfg.MaxStates = 5_000
				run(t, c.cfg)
				return
			}
			r := run(t, c.cfg)
			assert.True(t, r.Exhausted)
			sum.States, sum.Depth = sum.States+r.States, max(sum.Depth, r.Depth)
			for what, n := range r.Reached {
				sum.Reached[what] += n
			}
		})
	}
	if raced {
		return
	}
	fmt.Println(sum)
	for _, what := range []string{
		"decision to append", "decision: gap", "decision: lineage", "decision: corrupt", "decision: inside a batch or a compaction gap", "eviction",
		"decision on a segment that retention has deleted", "append decided of the second slice of a segment",
	} {
		assert.NotZero(t, sum.Reached[what], what)
	}
	for _, what := range kindNames {
		assert.NotZero(t, sum.Reached[what], what)
	}
}

func run(t *testing.T, cfg Config) Result {
	t.Helper()
	begun := time.Now()
	r, err := Run(cfg)
	require.NoError(t, err)
	require.Empty(t, r.Problem, strings.Join(r.History, "\n"))
	all := ""
	if r.Exhausted {
		all = ", all there are"
	}
	t.Logf("%v%s: %d steps, %s", r, all, r.Steps, time.Since(begun).Round(time.Millisecond))
	return r
}

// A guard that is taken away is missed, and the history that shows it is a shortest one. The second defences are not
// missed while the first ones stand; they are where the first ones fall.
func TestGuards(t *testing.T) {
	two := Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 3}
	three := Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 3}
	with := func(cfg Config, change func(*Config)) Config {
		change(&cfg)
		return cfg
	}
	const (
		lost  = "an acknowledged record is lost"
		parts = "parts from the leader's"
		hole  = "a hole"
		wrong = "a batch is in the log that no leader wrote so"
	)
	for _, test := range []struct {
		name    string
		cfg     Config
		broken  Break
		problem string // empty: nothing is found
		steps   int    // of the history
	}{
		{"the gate (F6, C3)", three, Break{NoGate: true}, parts, 10},
		{"the gate, in two epochs: lineage stands in (F2)", two, Break{NoGate: true}, "", 0},
		{"lineage alone: the gate stands in", two, Break{NoLineage: true}, "", 0},
		{"lineage with the gate", two, Break{NoGate: true, NoLineage: true}, parts, 8},

		{"expectedOffset, in a broker that truncates without Stop (C5)", with(two, func(c *Config) { c.Rewinds = 1 }), Break{NoExpectedOffset: true}, hole, 7},
		{"expectedOffset, in one that keeps B5", two, Break{NoExpectedOffset: true}, "", 0},
		{"the epoch in AppendAsFollower (C5)", with(two, func(c *Config) { c.Crashes = 1 }), Break{NoAppendEpoch: true}, parts, 11},
		{"the epoch in AppendAsFollower, in a broker that joins the append (F7)", with(two, func(c *Config) { c.Crashes, c.Joined = 1, true }), Break{NoAppendEpoch: true}, "", 0},
		{"the check of reports (B3)", three, Break{NoReportCheck: true}, lost, 8},
		{"the entry's epoch (F1)", two, Break{AnyEpoch: true}, parts, 8},

		{"the epoch of the Read (L4), with slices of their own epoch (S4)", with(two, func(c *Config) { c.Crashes = 1 }), Break{EpochAtSealing: true}, "", 0},
		{"slices of their own epoch, with the epoch of the Read", with(two, func(c *Config) { c.Crashes = 1 }), Break{AnyEpochInSlice: true}, "", 0},
		{"the epoch of the Read and slices of their own epoch (C4)", with(two, func(c *Config) { c.Crashes = 1 }), Break{EpochAtSealing: true, AnyEpochInSlice: true}, parts, 9},
		{
			"the epoch of the Read, step by step",
			Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 2, StepByStep: true, Segments: 1, Quiet: true},
			Break{EpochAtSealing: true},
			"", 0,
		},
		{
			"the epoch of the Read and slices of their own epoch, step by step (C4)",
			Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 2, StepByStep: true, Segments: 1, Quiet: true},
			Break{EpochAtSealing: true, AnyEpochInSlice: true},
			wrong, 15,
		},

		{"the boundary (R4): the gate stands in", with(two, func(c *Config) { c.Records, c.Compactions, c.Joined = 4, 1, true }), Break{LaxBoundary: true}, "", 0},
		{"the slice's checksum (F3)", Config{Brokers: 2, Partitions: 1, Epochs: 1, Records: 4, Compactions: 1}, Break{NoChecksum: true}, wrong, 10},
		{"that a report has diverged: the gate stands in", two, Break{DeafToDiverged: true}, "", 0},
		{"FetchFromLeader asks nothing (S1)", two, Break{AsksNothing: true}, parts, 5},
		{"FetchFromLeader ends after an answer that diverged (S1)", with(three, func(c *Config) { c.Epochs, c.Joined = 4, true }), Break{EndsDiverged: true}, parts, 11},
	} {
		t.Run(test.name, func(t *testing.T) {
			if raced && (test.steps == 0 || test.steps > 8) {
				t.Skip("takes too long under the race detector, and a search is one goroutine")
			}
			test.cfg.Break = test.broken
			r, err := Run(test.cfg)
			require.NoError(t, err)
			t.Log(r, "\n"+strings.Join(r.History, "\n"))
			if test.problem == "" {
				assert.Empty(t, r.Problem)
				assert.True(t, r.Exhausted)
				return
			}
			assert.Contains(t, r.Problem, test.problem)
			assert.Len(t, r.History, test.steps)
		})
	}
}

// D3: two searches see the same.
func TestDeterminism(t *testing.T) {
	cfg := Config{Brokers: 2, Partitions: 1, Epochs: 2, Records: 1, StepByStep: true, Segments: 1, Crashes: 1}
	first, err := Run(cfg)
	require.NoError(t, err)
	second, err := Run(cfg)
	require.NoError(t, err)
	assert.Equal(t, first, second)
}

func TestValidate(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Brokers":    {Brokers: 4, Partitions: 1, Epochs: 1, Records: 1},
		"Partitions": {Brokers: 2, Epochs: 1, Records: 1},
		"Epochs":     {Brokers: 2, Partitions: 1, Epochs: 5, Records: 1},
		"Records":    {Brokers: 2, Partitions: 1, Epochs: 1, Records: 7},
		"Crashes":    {Brokers: 2, Partitions: 1, Epochs: 1, Records: 1, Crashes: -1},
	} {
		_, err := Run(cfg)
		assert.ErrorIs(t, err, walstorage.ErrInvalidArgument, field)
		assert.ErrorContains(t, err, field)
	}
}
