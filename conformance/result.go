package conformance

// Result is what became of one case, for who keeps tables of them.
type Result struct {
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
func (o outcome) result(id string) Result {
	switch {
	case o.bad():
		return Result{ID: id, Outcome: Failed}
	case o.skipped:
		return Result{ID: id, Outcome: Skipped, Reason: o.reason}
	}
	return Result{ID: id, Outcome: Passed}
}
