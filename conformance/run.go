package conformance

import (
	"fmt"
	"testing"
)

// Run proves a store: it runs every case of groups A to I, L, M, O and P as a subtest of t, named by its id. See the
// package documentation for what to give it. Cases run one after another, each in its own place of the store; tests
// that call Run may run in parallel with each other.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	newStorageRunner(cfg).runAll(t, storageCases)
}

// newStorageRunner returns the runner of a checked configuration.
func newStorageRunner(cfg Config) *runner {
	return &runner{
		suite: "Run",
		given: cfg.given(), skip: cfg.Skip, timeout: cfg.Timeout, prompt: promptly, patience: leakPatience, tidyRounds: tidyRounds,
		seed: cfg.Seed, shared: cfg.Shared, report: cfg.Report,
		attach: func(c *T) func() []string {
			c.storage = newStorage(cfg, c)
			return func() []string { return c.storage.tidy(c) }
		},
	}
}

// runAll runs the cases as subtests and prints how many passed, failed and were skipped.
func (r *runner) runAll(t *testing.T, cases []testCase) {
	t.Helper()
	var passed, failed, skipped int
	for _, tc := range cases {
		t.Run(tc.id, func(t *testing.T) {
			out := r.run(t, t.Name(), tc)
			result := out.result(r.suite, tc.id)
			switch result.Outcome {
			case Failed:
				failed++
			case Skipped:
				skipped++
			case Passed:
				passed++
			}
			if r.report != nil {
				r.report(result)
			}
			tc.report(t, out)
		})
	}
	if testing.Verbose() {
		fmt.Printf("conformance: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
	}
}
