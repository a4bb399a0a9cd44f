package conformance

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
)

var faultCreateCases = []testCase{
	overWire("C9", 0, func(c *T) {
		m := c.openFaults()
		for situation, fault := range map[string]faultproxy.Fault{
			"the connection is reset after the commit":           {Reset: faultproxy.AfterServer},
			"the connection ends after the commit":               {Reset: faultproxy.InAnswer},
			"the server commits and answers that it has failed":  {Answer: c.wire.cfg.Answers.Internal.raw(), At: faultproxy.AfterServer},
			"the server commits and answers that it is too busy": {Answer: c.wire.cfg.Answers.Throttled.raw(), At: faultproxy.AfterServer},
		} {
			more := 1
			if fault.Reset == faultproxy.InAnswer {
				more = 0 // the head of the answer may be all that there is to it
			}
			c.meetsOnce(m, walstorage.OpUpload, fault, more, situation)
			found, err := c.list(c.direct(), walstorage.ListOptions{})
			require.NoError(c, err)
			for id, infos := range found {
				require.Len(c, infos, 1, "%s: segment %s is listed more than once", situation, id)
			}
		}
	}),

	overWire("C10", 0, func(c *T) {
		m, clean := c.openFaults(), c.direct()
		for _, size := range []int{2000, 1999} {
			id, mine, theirs := c.newID(), c.bytes(2000), c.bytes(size)
			came, goOn := make(chan struct{}), make(chan struct{})
			c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
				if r.Operation != string(walstorage.OpUpload) || r.Number != 1 {
					return faultproxy.Fault{}
				}
				close(came)
				return faultproxy.Fault{Wait: goOn, Reset: faultproxy.BeforeServer}
			})
			var err error
			var upload sync.WaitGroup
			upload.Go(func() { err = m.UploadSegment(c.Context(), id, mine) })
			if !c.waitFor(came, "the request of an upload") {
				return
			}
			c.upload(clean, id, theirs)
			close(goOn)
			upload.Wait()
			c.wantKind(err, walstorage.ErrSegmentExists, "the request was lost and another writer was faster")
			c.wantRequests(walstorage.OpUpload, 2, "the request was lost and another writer was faster")
			c.wantWhole(clean, id, theirs, "the other writer's segment")
		}
	}),

	overWire("C11", 0, func(c *T) {
		m := c.openFaults(attempts(10))
		call := c.call(walstorage.OpUpload)
		c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
			switch r.Operation {
			case string(walstorage.OpUpload):
				if r.Number == 1 {
					return faultproxy.Fault{Reset: faultproxy.AfterServer}
				}
			case string(walstorage.OpStat), string(walstorage.OpFetch):
				return answering(c.wire.cfg.Answers.Denied)
			}
			return faultproxy.Fault{}
		})
		err := call.run(c.Context(), m)
		c.wantKind(err, walstorage.ErrUnavailable, "the answer is lost and the check is refused")
		c.wire.proxy.Script(nil)
		require.NoError(c, call.run(c.Context(), m), "the same upload again")
		call.settled("after the same upload again")
	}),

	overWire("C12", 0, func(c *T) {
		m := c.openFaults()
		call := c.call(walstorage.OpUpload)
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		c.onWire(call.op, faultproxy.Fault{Stall: faultproxy.AfterServer, Stalled: cancel})
		var err error
		if c.returns("an upload that is cancelled while its answer is missing", func() { err = call.run(ctx, m) }) {
			c.wantKind(err, context.Canceled, "the answer is missing and the caller cancels")
			c.wire.proxy.Script(nil)
			require.NoError(c, call.run(c.Context(), m), "the same upload again")
			call.settled("after the same upload again")
		}
	}),

	overWire("C13", needConflict, func(c *T) {
		conflict := answering(c.wire.cfg.Answers.Conflict)
		m := c.openFaults()
		usual := c.requestsOf(walstorage.OpUpload, m)
		call := c.call(walstorage.OpUpload)
		c.onWire(call.op, conflict, conflict)
		require.NoError(c, call.run(c.Context(), m), "two conflicts")
		c.wantRequests(call.op, usual+2, "two conflicts")
		call.settled("after two conflicts")
		c.meetsAlways(c.openFaults(attempts(4)), walstorage.OpUpload, conflict, "conflicts")
		c.wantRequests(walstorage.OpUpload, 4, "nothing but conflicts, and four attempts allowed")
		if c.wire.cfg.Driver != nil {
			// A manager that is told "exists" looks, and finds nothing or somebody else's segment under way.
			c.alwaysOnWire(walstorage.OpUpload, conflict)
			err := put(c.Context(), c.faultsDriver(), c.key(c.newID()), c.bytes(500))
			c.wantKind(err, walstorage.ErrUnavailable, "the driver, of a conflict")
		}
	}),

	overWire("C14", 0, func(c *T) {
		m, clean := c.openFaults(), c.direct()
		for _, exists := range c.wire.cfg.Answers.Exists {
			data, id := c.bytes(500), c.newID()
			c.upload(clean, id, data)
			c.onWire(walstorage.OpUpload, answering(exists))
			require.NoError(c, m.UploadSegment(c.Context(), id, data), "%d, and the same bytes are stored", exists.Status)
			c.onWire(walstorage.OpUpload, answering(exists))
			c.wantKind(m.UploadSegment(c.Context(), id, c.bytes(500)), walstorage.ErrSegmentExists, http.StatusText(exists.Status)+", and other bytes are stored")
			c.wantRequests(walstorage.OpUpload, 1, "other bytes are stored")
			c.wantWhole(clean, id, data, "after refused creates")
		}
		if c.wire.cfg.Driver == nil {
			c.Logf("without FaultsConfig.Driver it is not looked at what a driver says of 304")
			return
		}
		// 304 is no answer to a create: it says that nothing has changed, and not that the object exists.
		driver := c.faultsDriver()
		id, data := c.newID(), c.bytes(500)
		c.onWire(walstorage.OpUpload, status(http.StatusNotModified))
		err := put(c.Context(), driver, c.key(id), data)
		if err == nil || errors.Is(err, walstorage.ErrSegmentExists) {
			c.Errorf("the driver says %v of a create that is answered with 304, want an error of another kind", err)
		}
		c.wantMissing(clean, id, "after a create that was answered with 304")
	}),

	{
		id: "C15", priority: 2, rule: "W2",
		title: "429 in a race of creates: one wins, the others get ErrSegmentExists, and nobody sends more than was refused",
		run: func(c *T) {
			const writers = 8 // fewer than the failures in a row that shut the gate
			m, clean := c.openFaults(), c.direct()
			id := c.newID()
			c.onWire(walstorage.OpUpload, sliceOf(writers, status(http.StatusTooManyRequests))...)
			contents := make([][]byte, writers)
			for i := range contents {
				contents[i] = c.bytes(1000)
			}
			errs := make([]error, writers)
			c.together(writers, func(i int) { errs[i] = m.UploadSegment(c.Context(), id, contents[i]) })
			won := -1
			for i, err := range errs {
				switch {
				case err == nil && won >= 0:
					c.Fatalf("creates %d and %d of one segment with different bytes have both succeeded", won, i)
				case err == nil:
					won = i
				case !errors.Is(err, walstorage.ErrSegmentExists):
					c.Fatalf("a create that lost the race got %v, want ErrSegmentExists", err)
				}
			}
			require.GreaterOrEqual(c, won, 0, "no create has succeeded")
			c.wantRequests(walstorage.OpUpload, 2*writers, "eight creates, each refused once")
			c.wantWhole(clean, id, contents[won], "the winner's segment")
		},
	},
}

// sliceOf returns n times the same fault.
func sliceOf(n int, fault faultproxy.Fault) []faultproxy.Fault {
	faults := make([]faultproxy.Fault, n)
	for i := range faults {
		faults[i] = fault
	}
	return faults
}
