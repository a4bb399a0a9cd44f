package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Trace is what happened in a run. It keeps the last events for the story that a failure tells, and a hash of all.
// Events of one instant count in the order of their text, so that it cannot matter which goroutine ran first.
type Trace struct {
	now func() time.Duration

	mu     sync.Mutex
	hash   uint64
	events uint64
	at     time.Duration
	during []event // of the instant at
	last   []event // ring of the events before
	next   int
	all    []string // every event, where keepAll asks for it
}

// keepAll keeps every event of every trace, so that two runs of one seed can be compared. It is for whoever looks for the
// cause of a difference.
const keepAll = false

// storyLength is how many events a failure shows.
const storyLength = 80

type event struct {
	at   time.Duration
	who  string
	what string // a format of args
	args [4]int64
	n    int
}

func (e event) String() string {
	args := make([]any, e.n)
	for i := range args {
		args[i] = e.args[i]
	}
	return fmt.Sprintf("%14.6fms  %-16s %s", float64(e.at)/float64(time.Millisecond), e.who, fmt.Sprintf(e.what, args...))
}

func newTrace(now func() time.Duration) *Trace {
	return &Trace{now: now, hash: fnvOffset, last: make([]event, 0, 2*storyLength)}
}

// add notes an event. what is a format of at most four integers.
func (t *Trace) add(who, what string, args ...int64) {
	e := event{at: t.now(), who: who, what: what, n: len(args)}
	copy(e.args[:], args)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.at != t.at {
		t.settle()
		t.at = e.at
	}
	t.during = append(t.during, e)
}

// settle hashes the events of the instant that has passed.
func (t *Trace) settle() {
	slices.SortFunc(t.during, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what), slices.Compare(a.args[:], b.args[:]))
	})
	for _, e := range t.during {
		h := addNumber(t.hash, int64(e.at))
		h = addString(addString(h, e.who), e.what)
		for _, arg := range e.args[:e.n] {
			h = addNumber(h, arg)
		}
		t.hash = h
		t.events++
		if keepAll {
			t.all = append(t.all, e.String())
		}
		if len(t.last) < cap(t.last) {
			t.last = append(t.last, e)
		} else {
			t.last[t.next] = e
			t.next = (t.next + 1) % len(t.last)
		}
	}
	t.during = t.during[:0]
}

// Hash returns the hash of all events so far, and their number.
func (t *Trace) Hash() (hash, events uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	return t.hash, t.events
}

// Story returns the last events, one a line.
func (t *Trace) Story() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	var b strings.Builder
	events := append(slices.Clone(t.last[t.next:]), t.last[:t.next]...)
	for _, e := range events[max(0, len(events)-storyLength):] {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}
