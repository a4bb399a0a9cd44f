package conformance

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// leakPatience is how long goroutines may take to end once the last handle of a case is closed. It is a bound on a poll
// and not a pause: a case that leaks nothing does not wait.
const leakPatience = 5 * time.Second

// labels numbers the runs of cases within this process.
var labels atomic.Int64

// caseLabel marks the goroutines of one run of one case. A goroutine inherits the label of the one that starts it, so
// what a case's handles have left running can be told from what other tests of the process run beside it.
type caseLabel struct{ value string }

const labelKey = "walhop-conformance"

func newLabel(id string) caseLabel {
	return caseLabel{value: id + "-" + strconv.FormatInt(labels.Add(1), 10)}
}

func (l caseLabel) do(f func()) {
	pprof.Do(context.Background(), pprof.Labels(labelKey, l.value), func(context.Context) { f() })
}

// leaks waits until no goroutine carries the label, as long as patience at most, and returns the stacks of those that do
// and hold none of the parts given.
func (l caseLabel) leaks(shared map[string]string, patience time.Duration) []string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := l.running(shared)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-deadline.C:
			return left
		case <-time.After(pause):
		}
	}
}

// count returns the number of goroutines that carry the label now, but for those that are shared.
func (l caseLabel) count(shared map[string]string) (n int) {
	for _, stack := range l.running(shared) {
		for line := range strings.Lines(stack) { // the number of goroutines that have it comes first, behind a title of the whole
			if of, _, found := strings.Cut(line, " @ "); found {
				many, _ := strconv.Atoi(of) // it is a number
				n += many
				break
			}
		}
	}
	return n
}

// running returns the stacks of the goroutines that carry the label now.
func (l caseLabel) running(shared map[string]string) []string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil
	}
	mark := strconv.Quote(labelKey) + ":" + strconv.Quote(l.value)
	var left []string
stacks:
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(stack, mark) {
			continue
		}
		for part := range shared {
			if strings.Contains(stack, part) {
				continue stacks
			}
		}
		left = append(left, strings.TrimSpace(stack))
	}
	return left
}
