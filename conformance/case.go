package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// need is something of a Config that a case cannot do without.
type need uint

const (
	// needDriver asks for Config.Driver: the suite puts faults between the driver and a Manager.
	needDriver need = 1 << iota
	// needPeer asks for Config.Peer: a second process.
	needPeer
	// needInvalid asks for Config.Invalid.
	needInvalid
	// needNoBucket asks for Config.NoBucket.
	needNoBucket
	// needDenied asks for Config.Denied.
	needDenied
	// needUndeletable asks for Config.Undeletable.
	needUndeletable
	// needMaxObjectSize asks for Config.MaxObjectSize.
	needMaxObjectSize
	// needMetadataInvalid asks for MetadataConfig.Invalid.
	needMetadataInvalid
	// needDamage asks for MetadataConfig.Damage.
	needDamage
	// needUnknown asks for MetadataConfig.Unknown.
	needUnknown
	// needSweep asks for CrashConfig.Sweep.
	needSweep
	// needFaultsDriver asks for FaultsConfig.Driver.
	needFaultsDriver
	// needHandler asks for FaultsConfig.Handler: the case takes minutes, but in virtual time.
	needHandler
	// needConflict asks for FaultAnswers.Conflict.
	needConflict
	// needExpired asks for FaultAnswers.Expired.
	needExpired
	// needWithoutToken asks for FaultsConfig.WithoutToken.
	needWithoutToken

	lastNeed = needWithoutToken
)

// needNames tells a skip its reason, and the documentation what to give.
var needNames = map[need]string{
	needDriver:          "Config.Driver",
	needPeer:            "Config.Peer",
	needInvalid:         "Config.Invalid",
	needNoBucket:        "Config.NoBucket",
	needDenied:          "Config.Denied",
	needUndeletable:     "Config.Undeletable",
	needMaxObjectSize:   "Config.MaxObjectSize",
	needMetadataInvalid: "MetadataConfig.Invalid",
	needDamage:          "MetadataConfig.Damage",
	needUnknown:         "MetadataConfig.Unknown",
	needSweep:           "CrashConfig.Sweep",
	needFaultsDriver:    "FaultsConfig.Driver",
	needHandler:         "FaultsConfig.Handler (virtual time)",
	needConflict:        "FaultsConfig.Answers.Conflict",
	needExpired:         "FaultsConfig.Answers.Expired",
	needWithoutToken:    "FaultsConfig.WithoutToken",
}

// missing returns the names of what is needed and not given, "" if nothing is missing.
func (n need) missing(given need) string {
	var names []string
	for bit := need(1); bit <= lastNeed; bit <<= 1 {
		if n&bit != 0 && given&bit == 0 {
			names = append(names, needNames[bit])
		}
	}
	return strings.Join(names, " and ")
}

// testCase is one case of the suite.
type testCase struct {
	// id is stable: third parties cite it, and it is the name of the subtest.
	id string
	// priority is 1 for what every store must pass in its first release, 2 for the rest.
	priority int
	// rule names the clause of the contract that the case checks, a key of rules.
	rule string
	// title says in one line what must hold.
	title string
	// costs says what breaking the rule in this way does to the user's data. Empty means what rules says.
	costs string
	// needs is what the case cannot do without; it is skipped, with that reason, where the configuration lacks it.
	needs need
	// virtual says that the case of RunFaults runs in virtual time where there is a FaultsConfig.Handler.
	virtual bool
	// run is the case.
	run func(c *T)
}

// explain is what a failure of the case begins with.
func (tc testCase) explain() string {
	costs := tc.costs
	if costs == "" {
		costs = rules[tc.rule].costs
	}
	return fmt.Sprintf("%s failed: %s\nThe rule it checks, %s. %s\nWhat breaking it means: %s",
		tc.id, tc.title, tc.rule, rules[tc.rule].says, costs)
}

// group returns the letter of the case's group.
func (tc testCase) group() string { return tc.id[:1] }

// T is what a case works with: a testing.TB that records, and the store under test.
type T struct {
	*recorder
	testCase
	storage  *storage    // set in the cases of Run and RunCrash
	metadata *topic      // set in the cases of RunMetadata
	crash    CrashConfig // set in the cases of RunCrash
	wire     *wire       // set in the cases of RunFaults
	prompt   time.Duration
	delivery time.Duration
	rounds   int  // how often tidy deletes
	brief    bool // as runner.brief
	label    caseLabel
	shared   map[string]string
	seed     uint64
	prints   bool
}

// outcome is how one case ended.
type outcome struct {
	failures []string
	logs     []string
	failed   bool
	skipped  bool
	reason   string
	// leftBehind names the objects that the case could not remove from the store.
	leftBehind []string
	// leaked holds the stacks of goroutines that the case's handles left running after Close.
	leaked []string
}

// bad tells whether anything at all is wrong.
func (o outcome) bad() bool { return o.failed || len(o.leftBehind) > 0 || len(o.leaked) > 0 }

// runner runs cases: for a test, or for a test of the suite itself.
type runner struct {
	// suite is the name of the entry point, as suites has it.
	suite string
	// given is what the configuration has.
	given need
	// skip holds the reasons of Config.Skip by case id.
	skip map[string]string
	// timeout is the watchdog's.
	timeout time.Duration
	// prompt is how soon a call must end once its context has.
	prompt time.Duration
	// delivery is how long an event may take to a subscriber.
	delivery time.Duration
	// patience is how long the goroutines of a case may take to end after its last handle was closed.
	patience time.Duration
	// tidyRounds is how often the store is cleared after a case before what is left counts as left behind.
	tidyRounds int
	seed       uint64
	// brief has cases that try their luck many times try it less often: for the tests of the suite itself, which run every
	// case on a hundred wrong stores whose flaws show at once.
	brief bool
	// prints tells that a case may print its figures on a line of their own.
	prints bool
	// shared holds parts of stacks of goroutines that no leak is made of.
	shared map[string]string
	// inBubble runs a case in virtual time; it may be nil.
	inBubble func(outer testing.TB, rec *recorder, body func())
	// report is told of each case that a test has run; it may be nil.
	report func(Result)
	// attach gives the case its store; the function it returns is called after the case and says what is left behind.
	attach func(c *T) (after func() (leftBehind []string))
}

// run runs one case under the name given, in a goroutine of its own under the watchdog.
func (r *runner) run(outer testing.TB, name string, tc testCase) outcome {
	if reason, ok := r.skip[tc.id]; ok {
		return outcome{skipped: true, reason: reason}
	}
	if missing := tc.needs.missing(r.given); missing != "" {
		return outcome{skipped: true, reason: "the configuration has no " + missing}
	}
	var leftBehind []string
	rec := newRecorder(outer, name)
	c := &T{recorder: rec, testCase: tc, prompt: r.prompt, delivery: r.delivery, rounds: r.tidyRounds, seed: r.seed, prints: r.prints}
	label := newLabel(tc.id)
	c.label, c.shared, c.brief = label, r.shared, r.brief
	body := func() {
		var after func() []string
		rec.protect(func() { after = r.attach(c) })
		if after != nil {
			rec.protect(func() { tc.run(c) })
			rec.protect(func() { leftBehind = after() })
		}
		rec.unwind()
	}
	virtual := tc.virtual && r.inBubble != nil
	done := make(chan struct{})
	go func() {
		defer close(done)
		label.do(func() {
			if virtual {
				r.inBubble(outer, rec, body)
			} else {
				body()
			}
		})
	}()
	watchdog := time.NewTimer(r.timeout)
	defer watchdog.Stop()
	select {
	case <-done:
	case <-watchdog.C:
		if !virtual { // nobody outside of a bubble may wake it
			rec.cancel() // what still listens to its context may end
		}
		rec.Errorf("the case has not ended after %v; the stacks of all goroutines:\n%s", r.timeout, allStacks())
		return rec.outcome()
	}
	out := rec.outcome()
	out.leftBehind = leftBehind
	if !out.skipped {
		out.leaked = label.leaks(r.shared, r.patience)
	}
	return out
}

// report hands the outcome to the test of the case.
func (tc testCase) report(t testing.TB, out outcome) {
	t.Helper()
	for _, line := range out.logs {
		t.Log(line)
	}
	if out.bad() {
		t.Error(tc.explain())
	}
	for _, failure := range out.failures {
		t.Error(failure)
	}
	if len(out.leftBehind) > 0 {
		t.Errorf("left behind in the store after the case deleted all that it had stored (rules W9, W10): %s", strings.Join(out.leftBehind, ", "))
	}
	for _, stack := range out.leaked {
		t.Errorf("still running after every handle of the case was closed (rules W8, W12):\n%s", stack)
	}
	if out.skipped && !out.bad() {
		t.Skip(tc.id + " is skipped: " + out.reason)
	}
}

func allStacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
