package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// faultCases are the cases of RunFaults, in the order in which they run.
var faultCases = inOrder(slices.Concat(faultCreateCases, faultReadCases, faultListCases, faultRetryCases, faultNetworkCases, faultConnectionCases, faultIntegrityCases))

// inOrder sorts cases by group and number.
func inOrder(cases []testCase) []testCase {
	slices.SortFunc(cases, func(a, b testCase) int {
		return cmp.Or(strings.Compare(a.group(), b.group()), cmp.Compare(len(a.id), len(b.id)), strings.Compare(a.id, b.id))
	})
	return cases
}

// overWire is a case of Run that RunFaults has too: the same id, rule, title and meaning, and what is done over the wire.
func overWire(id string, needs need, run func(c *T)) testCase {
	at := slices.IndexFunc(storageCases, func(tc testCase) bool { return tc.id == id })
	tc := storageCases[at]
	tc.needs, tc.run = needs, run
	return tc
}

// attempts limits how often a request is sent.
func attempts(n int) func(*objectstore.Config) {
	return func(store *objectstore.Config) { store.MaxAttempts = n }
}

// deadline limits how long an attempt takes, whatever its size.
func deadline(d time.Duration) func(*objectstore.Config) {
	return func(store *objectstore.Config) {
		store.AttemptTimeout, store.AttemptTimeoutPerMiB, store.BulkAttemptTimeout = d, time.Nanosecond, d
	}
}

// meetsOnce lets the first request of a call meet the fault: the call must succeed all the same, and have its effect. more is
// the number of requests that it then takes beside the usual one: 0 does not look.
func (c *T) meetsOnce(m *handle, op walstorage.Op, fault faultproxy.Fault, more int, situation string) {
	usual := 0
	if more > 0 {
		usual = c.requestsOf(op, m)
	}
	call := c.call(op)
	c.onWire(op, fault)
	began := time.Now()
	if err := call.run(c.Context(), m); err != nil {
		c.Fatalf("%s: %s: %v", situation, op, err)
	}
	// Nothing stalls here, and pauses between attempts are short.
	if took := time.Since(began); took > c.prompt {
		c.Errorf("%s: %s took %v", situation, op, took)
	}
	if more > 0 {
		c.wantRequests(op, usual+more, situation)
	}
	call.settled(fmt.Sprintf("%s: after %s", situation, op))
}

// meetsAlways lets every request of a call meet the fault: the call must end in bounded time, with ErrUnavailable, which is
// not the caller's deadline (H8). m must have a limit of attempts.
func (c *T) meetsAlways(m *handle, op walstorage.Op, fault faultproxy.Fault, situation string) {
	call := c.call(op)
	c.alwaysOnWire(op, fault)
	var err error
	if !c.returns(situation+", always: "+string(op), func() { err = call.run(c.Context(), m) }) {
		return
	}
	c.wantKind(err, walstorage.ErrUnavailable, situation+", always: "+string(op))
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		c.Errorf("%s, always: %s: the error passes for the caller's own context error: %v", situation, op, err)
	}
}
