package sim

import (
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

// Outcome is what a run has come to that was tried and not told.
type Outcome struct {
	// Violations are what happened that must not, and Told is the story of the last events before the first.
	Violations []string
	Told       string
	// Trace is what happened, Counts how often what was reached.
	Trace  *Trace
	Counts map[string]int
}

// storyOver ends a story at its first violation.
type storyOver struct{}

// try tells a story as Run does, and fails nothing: what would fail a test is a violation of the outcome. It may be called
// by several goroutines of a test at once.
func try(t *testing.T, name string, cfg Config, story func(c *Cluster)) (o Outcome) {
	defer watch(name, realTimeLimit)()
	cfg.quiet = true
	var c *Cluster
	defer func() { // a bubble whose goroutines all wait for each other, or do not end
		if value := recover(); value != nil {
			o.Violations = append(o.Violations, fmt.Sprintf("the run cannot go on: %v", value))
			if c != nil {
				o.Violations = append(c.Violations(), o.Violations...)
				o.Trace, o.Counts, o.Told = c.trace, c.Counts(), c.trace.Story()
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		c = newCluster(t, cfg.withDefaults())
		defer c.end()
		defer func() {
			switch value := recover().(type) {
			case nil, storyOver:
			default:
				c.violate("panic in the story: %v\n%s", value, debug.Stack())
			}
		}()
		c.startAll()
		story(c)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return Outcome{Violations: c.violations, Told: c.told, Trace: c.trace, Counts: c.counts}
}
