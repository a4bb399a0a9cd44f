package conformance

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// Group M: closing ends everything, once, and takes nothing with it.
var lifecycleCases = []testCase{
	{
		id: "M1", priority: 1, rule: "W12",
		title: "closing twice is nil",
		run: func(c *T) {
			unused, used := c.open(), c.open()
			c.uploadNew(used, []byte("data"))
			for _, m := range []*handle{unused, used} {
				for range 3 {
					require.NoError(c, m.Close(), "Close")
				}
			}
		},
	},
	{
		id: "M2", priority: 1, rule: "W12",
		title: "closing from several goroutines beside all other calls: each call ends well or with ErrClosed",
		run: func(c *T) {
			setup := c.open()
			data := c.bytes(2000)
			there := c.uploadNew(setup, data)
			for range 5 {
				m := c.open()
				const callers = 15
				own := c.newIDs(callers)
				var errs recordedErrors
				if !c.returns("closing beside other calls", func() {
					c.together(callers+3, func(i int) {
						if i >= callers {
							errs.add(m.Close())
							return
						}
						for _, call := range c.callsOn(own[i], there) {
							if call.op == walstorage.OpDelete {
								continue // the segment is shared
							}
							if err := call.do(c.Context(), m); err != nil && !errors.Is(err, walstorage.ErrClosed) {
								errs.add(err)
							}
						}
					})
				}) {
					return
				}
				require.Empty(c, errs.errs, "errors of calls beside Close")
			}
			c.wantWhole(setup, there, data, "after other handles were closed in the middle of their calls")
		},
	},
	{
		id: "M3", priority: 1, rule: "W12",
		title: "every call after Close is ErrClosed, without a request",
		run: func(c *T) {
			m, other := c.open(), c.open()
			data := c.bytes(100)
			there, uploaded := c.uploadNew(m, data), c.newID()
			require.NoError(c, m.Close())
			for _, call := range c.callsOn(uploaded, there) {
				c.noRequest(m, call.name+" after Close", func() {
					c.wantKind(call.do(c.Context(), m), walstorage.ErrClosed, call.name+" after Close")
				})
			}
			c.wantMissing(other, uploaded, "uploaded after Close")
			c.wantWhole(other, there, data, "deleted after Close")
		},
	},
	{
		id: "M4", priority: 1, rule: "W12", needs: needDriver,
		title: "Close ends the calls under way, waits until they have let go, and closes the driver last",
		costs: "A broker that shuts down hangs on a store that does not answer, or frees a buffer that is still being sent.",
		run: func(c *T) {
			faults, began := stalled()
			m := c.openFaultyWith(faults, patient)
			calls := c.callsOn(c.newID(), c.newID())
			done := make(chan struct{})
			errs := make([]error, len(calls))
			go func() {
				defer close(done)
				c.together(len(calls), func(i int) { errs[i] = calls[i].do(c.Context(), m) })
			}()
			for range calls {
				<-began
			}
			if !c.returns("Close returns while five calls are under way on a store that does not answer", func() {
				if err := m.Close(); err != nil {
					c.Errorf("Close: %v", err)
				}
			}) {
				return
			}
			if n := faults.busy(); n > 0 {
				c.Errorf("Close has returned while %d calls of the driver go on", n)
			}
			if !c.waitFor(done, "the calls that Close ended return") {
				return
			}
			for i, err := range errs {
				c.wantKind(err, walstorage.ErrClosed, calls[i].name+" that Close ended")
			}
		},
	},
	{
		id: "M5", priority: 1, rule: "W12",
		title: "after calls of every outcome and Close no goroutine is left (this is checked after every other case too)",
		run: func(c *T) {
			m := c.open()
			there := c.uploadNew(m, c.bytes(1000))
			cancelled, cancel := context.WithCancel(c.Context())
			cancel()
			for range 10 {
				for _, call := range c.callsOn(c.newID(), there) {
					if call.op == walstorage.OpDelete {
						continue
					}
					require.NoError(c, call.do(c.Context(), m), call.name)
					require.Error(c, call.do(cancelled, m), "%s with a cancelled context", call.name)
				}
			}
			if c.storage.cfg.Driver != nil {
				for i := range 5 {
					c.stalledCall(i)
				}
			}
			require.NoError(c, m.Close())
		},
	},
	{
		id: "M6", priority: 1, rule: "W10",
		title: "a list that is never ranged over, and one that is left early, hold nothing",
		run: func(c *T) {
			ids := c.storeMany(20)
			m := c.open()
			for range 100 {
				_ = m.ListSegments(c.Context(), walstorage.ListOptions{})
				for range m.ListSegments(c.Context(), walstorage.ListOptions{}) {
					break
				}
			}
			if !c.returns("Close after lists that were left early", func() { _ = m.Close() }) {
				return
			}
			c.wantListed(c.open(), walstorage.ListOptions{}, ids, "after lists that were left early")
		},
	},
	{
		id: "M8", priority: 2, rule: "W3",
		title: "Close deletes nothing",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(1000)
			id := c.uploadNew(m, data)
			require.NoError(c, m.Close())
			c.wantWhole(c.open(), id, data, "after the handle that uploaded it was closed")
			if c.storage.cfg.Driver == nil {
				return
			}
			keys, err := rawKeys(c.Context(), c.driver(), c.storage.home.prefix+"/")
			require.NoError(c, err)
			require.Len(c, keys, 1, "objects after Close")
		},
	},
}
