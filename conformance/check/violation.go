package check

import "fmt"

// CleanupCase is the Case of a [Violation] that is no case of package conformance: a delete of all segments of the check
// left some, though they went on a second try; or some could not be removed at all, or nobody can tell whether they were.
// Then Err names the segments, which are to be deleted by hand.
const CleanupCase = "cleanup"

// Violation is one thing that the store does and must not do.
type Violation struct {
	// Case is the id of the case, as in package conformance, or [CleanupCase].
	Case string
	// Rule is the rule of walstorage.WalStorageManager that is broken, "W1" to "W12".
	Rule string
	// Title says in one line what must hold.
	Title string
	// Means says what breaking it does to the user's data.
	Means string
	// Err says what was seen instead. Where the manager returned an error, errors.Is and errors.As reach it.
	Err error
}

// Error returns all of it in one line.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s (rule %s: %s): %v; what this means: %s", v.Case, v.Rule, v.Title, v.Err, v.Means)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }
