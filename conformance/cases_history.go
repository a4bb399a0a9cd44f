package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// historyCase lets several callers create, fetch and delete one segment at once and looks for one order of their calls,
// in which each takes effect at a moment between its beginning and its end, that explains all answers. Two fetches beside
// a create may disagree about it in any order: no rule says that what is not acknowledged does not come and go. And a call
// whose request is repeated, since the store was busy or its answer was lost, may take effect at two moments: a round with
// one is not judged (inSomeOrder).
var historyCase = testCase{
	id: "L6", priority: 2, rule: "W2",
	title: "creates, fetches and deletes of one segment at once have answers that some order of them explains",
	costs: "A segment that was created is gone though nobody has deleted it since, or one that is deleted comes back.",
	run: func(c *T) {
		const callers, steps, contents, rounds = 4, 8, 2, 15
		handles := []*handle{c.open(), c.open()}
		c.inSomeOrder(rounds, handles, func(round int) (unexplained string) {
			id := c.newID()
			values := make([][]byte, contents)
			for i := range values {
				values[i] = c.bytes(300) // of one size: a fetch asks for all of whichever is there
			}
			plan := make([][steps]historyCall, callers)
			// In every second round the callers take their time: what takes effect late has to meet a later call.
			pause := func(n int) time.Duration { return time.Duration(round%2*n) * time.Microsecond }
			for i := range plan {
				for n := range plan[i] {
					plan[i][n] = historyCall{pause: pause(c.intn(300)), caller: i, kind: historyMix[c.intn(len(historyMix))], value: c.intn(contents)}
				}
			}
			began := time.Now()
			c.together(callers, func(i int) {
				for n := range plan[i] {
					call := &plan[i][n]
					if call.pause > 0 {
						<-time.After(call.pause)
					}
					call.begin = time.Since(began)
					c.makeHistory(handles[i%len(handles)], id, values, call)
					call.end = time.Since(began)
				}
			})
			var history []historyCall
			for _, calls := range plan {
				history = append(history, calls[:]...)
			}
			last := historyCall{caller: callers, kind: historyFetch, begin: time.Since(began)}
			c.makeHistory(handles[0], id, values, &last)
			last.end = time.Since(began)
			history = append(history, last)
			for _, call := range history {
				if call.wrong != "" {
					c.Fatalf("round %d: %s: %s", round, call, call.wrong)
				}
			}
			if !explained(history) {
				return "no order of these calls explains their answers:\n" + historyText(history)
			}
			return ""
		})
	},
}

// historyKind is what a call of a history does.
type historyKind int

const (
	historyCreate historyKind = iota
	historyFetch
	historyDelete
)

// historyMix is how often calls are of each kind: a delete ends a story, and the other calls tell it.
var historyMix = []historyKind{historyCreate, historyCreate, historyCreate, historyFetch, historyFetch, historyFetch, historyFetch, historyDelete}

// historyCall is one call and its answer.
type historyCall struct {
	// pause is how long the caller waits before.
	pause  time.Duration
	caller int
	kind   historyKind
	// value is what a create has written, and what a fetch has read, noValue for nothing.
	value int
	// refused tells that a create has found other bytes.
	refused bool
	// wrong is an answer that no order could explain.
	wrong      string
	begin, end time.Duration
}

// noValue is the state of a segment that is not there.
const noValue = -1

// makeHistory makes the call and notes its answer.
func (c *T) makeHistory(m *handle, id walstorage.SegmentID, values [][]byte, call *historyCall) {
	var err error
	switch call.kind {
	case historyCreate:
		err = m.UploadSegment(c.Context(), id, values[call.value])
		if call.refused = errors.Is(err, walstorage.ErrSegmentExists); call.refused {
			err = nil
		}
	case historyFetch:
		dst := make([]byte, len(values[0]))
		err = m.FetchSegment(c.Context(), id, 0, dst)
		call.value = noValue
		switch {
		case errors.Is(err, walstorage.ErrSegmentNotFound):
			err = nil
		case err == nil:
			if call.value = slices.IndexFunc(values, func(value []byte) bool { return bytes.Equal(value, dst) }); call.value < 0 {
				call.wrong = "bytes that nobody has written"
			}
		}
	case historyDelete:
		err = m.DeleteSegments(c.Context(), id)
	}
	if err != nil {
		call.wrong = err.Error()
	}
}

// after returns what the call leaves of a segment that holds value, and whether its answer is right then.
func (h historyCall) after(value int) (left int, right bool) {
	switch {
	case h.kind == historyDelete:
		return noValue, true
	case h.kind == historyFetch:
		return value, value == h.value
	case h.refused:
		return value, value != noValue && value != h.value
	}
	return h.value, value == noValue || value == h.value
}

// explained tells whether there is an order of the calls, on a segment that is not there at first, that explains all
// answers and keeps every call that has ended before another began before it, unless both are fetches. There are less
// than 64 calls.
func explained(history []historyCall) bool {
	type state struct {
		made  uint64 // one bit for each call
		value int
	}
	failed := make(map[state]bool)
	var search func(at state) bool
	search = func(at state) bool {
		if at.made == 1<<len(history)-1 {
			return true
		}
		if failed[at] {
			return false
		}
		// When the first call ended that is still to be made: the first of all, and the first that is no fetch.
		first, firstChange := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		for i, call := range history {
			if at.made&(1<<i) != 0 {
				continue
			}
			first = min(first, call.end)
			if call.kind != historyFetch {
				firstChange = min(firstChange, call.end)
			}
		}
		for i, call := range history {
			limit := first
			if call.kind == historyFetch {
				limit = firstChange
			}
			if at.made&(1<<i) != 0 || call.begin > limit {
				continue
			}
			if left, right := call.after(at.value); right && search(state{at.made | 1<<i, left}) {
				return true
			}
		}
		failed[at] = true
		return false
	}
	return search(state{value: noValue})
}

// String tells of a call in a line.
func (h historyCall) String() string {
	what := ""
	switch {
	case h.kind == historyDelete:
		what = "deletes it"
	case h.kind == historyFetch && h.value == noValue:
		what = "finds nothing"
	case h.kind == historyFetch:
		what = fmt.Sprintf("reads content %d", h.value)
	case h.refused:
		what = fmt.Sprintf("creates it with content %d and is told that it exists", h.value)
	default:
		what = fmt.Sprintf("creates it with content %d", h.value)
	}
	return fmt.Sprintf("caller %d, from %v to %v, %s", h.caller, h.begin, h.end, what)
}

// historyText tells of the calls in the order of their beginning.
func historyText(history []historyCall) string {
	slices.SortFunc(history, func(a, b historyCall) int { return int(a.begin - b.begin) })
	var lines []string
	for _, call := range history {
		lines = append(lines, call.String())
	}
	return strings.Join(lines, "\n")
}
