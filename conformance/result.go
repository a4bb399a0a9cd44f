package conformance

// Result is what became of one case, for who keeps tables of them.
type Result struct {
	// Suite is the name of the entry point, such as "Run": an id is one case of a suite, and may be in two of them.
	Suite string
	// ID is the id of the case, such as "C9".
	ID string
	// Outcome says how it ended.
	Outcome Outcome
	// Reason is why the case was skipped, "" for one that ran.
	Reason string
}

// Outcome is how a case ended.
type Outcome string

// The outcomes. A case that a filter of the test binary left out has none.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// result returns the outcome as others see it.
func (o outcome) result(suite, id string) Result {
	switch {
	case o.bad():
		return Result{Suite: suite, ID: id, Outcome: Failed}
	case o.skipped:
		return Result{Suite: suite, ID: id, Outcome: Skipped, Reason: o.reason}
	}
	return Result{Suite: suite, ID: id, Outcome: Passed}
}
