package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// L6: what some order explains passes, and what none does is found.
func TestHistoriesAreExplained(t *testing.T) {
	create := func(caller, value int) historyCall {
		return historyCall{caller: caller, kind: historyCreate, value: value}
	}
	refused := func(caller, value int) historyCall {
		return historyCall{caller: caller, kind: historyCreate, value: value, refused: true}
	}
	fetch := func(caller, value int) historyCall {
		return historyCall{caller: caller, kind: historyFetch, value: value}
	}
	remove := func(caller int) historyCall { return historyCall{caller: caller, kind: historyDelete} }
	at := func(begin, end int, call historyCall) historyCall {
		call.begin, call.end = time.Duration(begin), time.Duration(end)
		return call
	}
	for _, h := range []struct {
		name    string
		history []historyCall
		right   bool
	}{
		{"nothing has happened", nil, true},
		{"one after the other", []historyCall{at(0, 1, create(0, 1)), at(2, 3, fetch(1, 1)), at(4, 5, remove(0)), at(6, 7, fetch(1, noValue))}, true},
		{"a fetch beside a create may come before it", []historyCall{at(0, 5, create(0, 1)), at(1, 2, fetch(1, noValue)), at(3, 4, fetch(1, 1))}, true},
		{"a segment comes and goes before it is acknowledged", []historyCall{at(0, 5, create(0, 1)), at(1, 2, fetch(1, 1)), at(3, 4, fetch(1, noValue))}, true},
		{"a segment goes once it is acknowledged", []historyCall{at(0, 5, create(0, 1)), at(1, 2, fetch(1, 1)), at(6, 7, fetch(1, noValue))}, false},
		{"a segment is read before anybody creates it", []historyCall{at(0, 1, fetch(1, 1)), at(2, 3, create(0, 1))}, false},
		{"two winners", []historyCall{at(0, 5, create(0, 1)), at(0, 5, create(1, 2)), at(6, 7, fetch(0, 2))}, false},
		{"two of the same bytes", []historyCall{at(0, 5, create(0, 1)), at(0, 5, create(1, 1)), at(6, 7, fetch(0, 1))}, true},
		{"a loser before there is a winner", []historyCall{at(0, 1, refused(0, 1)), at(2, 3, create(1, 2))}, false},
		{"a winner behind a delete", []historyCall{at(0, 1, create(0, 1)), at(2, 9, remove(1)), at(3, 8, create(0, 2)), at(10, 11, fetch(1, 2))}, true},
		{"a create that a delete before it has undone", []historyCall{at(0, 1, create(0, 1)), at(2, 3, remove(1)), at(4, 5, create(0, 2)), at(6, 7, fetch(1, noValue))}, false},
		{"a segment that comes back", []historyCall{at(0, 1, create(0, 1)), at(2, 3, remove(1)), at(4, 5, fetch(1, 1))}, false},
	} {
		require.Equal(t, h.right, explained(h.history), h.name)
		require.NotPanics(t, func() { _ = historyText(h.history) })
	}
}
