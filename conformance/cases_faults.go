package conformance

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// faultCases are the cases of RunFaults, in the order in which they run.
var faultCases = slices.Concat(faultCreateCases, faultReadCases, faultRetryCases)

// overWire is a case of Run that RunFaults has too: the same id, rule and title, with what is done over the wire.
func overWire(id string, needs need, run func(c *T)) testCase {
	at := slices.IndexFunc(storageCases, func(tc testCase) bool { return tc.id == id })
	tc := storageCases[at]
	tc.needs, tc.run = needs, run
	return tc
}

var faultCreateCases = []testCase{
	overWire("C9", 0, func(c *T) {
		m := c.openFaults()
		for _, point := range []faultproxy.Point{faultproxy.AfterServer, faultproxy.InAnswer} {
			situation := fmt.Sprintf("answer lost (%d)", point)
			call := c.call(walstorage.OpUpload)
			c.onWire(call.op, faultproxy.Fault{Reset: point})
			require.NoError(c, call.run(c.Context(), m), situation)
			call.settled(situation)
			if point == faultproxy.AfterServer {
				c.wantRequests(call.op, 2, situation)
			}
		}
	}),
}

var faultReadCases = []testCase{
	{
		id: "D13", priority: 1, rule: "W6",
		title: "a server that ignores the range and answers 200 with the whole object: the right bytes, or an error",
		costs: "The first bytes of the segment land where others were asked for: a follower drops them by their checksum, for every slice but the first.",
		run: func(c *T) {
			m := c.openFaults(func(store *objectstore.Config) { store.MaxAttempts = 3 })
			call := c.call(walstorage.OpFetch)
			c.onWire(call.op, faultproxy.Fault{WholeObject: true})
			require.NoError(c, call.run(c.Context(), m), "the range ignored once")
			c.alwaysOnWire(call.op, faultproxy.Fault{WholeObject: true})
			if err := call.run(c.Context(), m); err != nil { // the bytes of a success are checked
				c.wantKind(err, walstorage.ErrUnavailable, "the range ignored always")
			}
		},
	},
}

var faultRetryCases = []testCase{
	{
		id: "J1", priority: 1, rule: "W7",
		title: "500, 502 or 504 once: every call is repeated and succeeds, with one request more",
		run: func(c *T) {
			c.oneAnswer(c.wire.cfg.Answers.Internal, FaultAnswer{Status: http.StatusBadGateway}, FaultAnswer{Status: http.StatusGatewayTimeout})
		},
	},
	{
		id: "J2", priority: 1, rule: "W7",
		title: "503 once: every call is repeated and succeeds, with one request more",
		run: func(c *T) {
			c.oneAnswer(c.wire.cfg.Answers.Throttled, FaultAnswer{Status: http.StatusServiceUnavailable})
		},
	},
	brownOut,
}

// oneAnswer gives the first request of each operation each of the answers: the call must send one more and succeed.
func (c *T) oneAnswer(answers ...FaultAnswer) {
	m := c.openFaults()
	for _, op := range everyOp {
		usual := c.requestsOf(op, m)
		for _, answer := range answers {
			situation := fmt.Sprintf("%s answered with %d once", op, answer.Status)
			call := c.call(op)
			c.onWire(op, answering(answer))
			require.NoError(c, call.run(c.Context(), m), situation)
			c.wantRequests(op, usual+1, situation)
			call.settled(situation)
		}
	}
}
