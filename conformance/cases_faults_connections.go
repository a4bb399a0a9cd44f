package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
)

// faultConnectionCases are about connections, who owns them and who waits for whom, and about servers that send their
// clients elsewhere or live at another time.
var faultConnectionCases = []testCase{
	{
		id: "J17", priority: 2, rule: "W7",
		title: "a redirect, as of a wrong region: the right result, or soon an error that says neither missing nor there",
		costs: "A wrong region looks like an empty store: followers fall back to the leader for ever and nobody learns why.",
		run: func(c *T) {
			m := c.openFaults(attempts(3))
			for _, code := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect} {
				for where, at := range map[string]string{"elsewhere": c.wire.clean.URL, "to itself": c.wire.server.URL, "nowhere": ""} {
					for _, op := range everyOp {
						if where == "to itself" && code == http.StatusTemporaryRedirect && c.brief {
							continue
						}
						call := c.call(op)
						c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
							if r.Operation != string(op) {
								return faultproxy.Fault{}
							}
							answer := FaultAnswer{Status: code}
							if at != "" {
								answer = answer.with("Location", at+r.URI)
							}
							return answering(answer)
						})
						situation := fmt.Sprintf("%s answered with %d, which leads %s", op, code, where)
						var err error
						if !c.returns(situation, func() { err = call.run(c.Context(), m) }) {
							return
						}
						switch {
						case err == nil:
							call.settled(situation)
						case errors.Is(err, walstorage.ErrSegmentNotFound), errors.Is(err, walstorage.ErrSegmentExists), errors.Is(err, walstorage.ErrInvalidRange):
							c.Errorf("%s: the error says what only the store itself can know: %v", situation, err)
						}
						const most = 3 * 11 // net/http follows ten redirects in each of three attempts
						if n := len(c.wire.proxy.Requests()); n > most {
							c.Errorf("%s: %d requests", situation, n)
						}
					}
				}
			}
		},
	},
	{
		id: "J22", priority: 2, rule: "W7",
		title: "a server whose clock is a quarter of an hour off: calls succeed, or are refused as what they are, and succeed when it is right again",
		costs: "One clock that is wrong makes every segment look missing, or every call hang.",
		run: func(c *T) {
			for _, skew := range []time.Duration{16 * time.Minute, -16 * time.Minute} {
				m := c.openFaults(attempts(3))
				for _, op := range everyOp {
					situation := fmt.Sprintf("%s, and the server's clock is off by %v", op, skew)
					call := c.call(op)
					c.alwaysOnWire(op, faultproxy.Fault{Edit: func(a *faultproxy.Answer) {
						a.Header.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
					}})
					for range 2 { // a client may learn the skew from the first answer
						var err error
						if !c.returns(situation, func() { err = call.run(c.Context(), m) }) {
							return
						}
						if err != nil {
							c.wantKind(err, walstorage.ErrAccessDenied, situation)
						}
					}
					call = c.call(op)
					// The answer that corrects a client may be a refusal.
					if err := call.run(c.Context(), m); err != nil {
						c.wantKind(err, walstorage.ErrAccessDenied, situation+", and right again")
						require.NoError(c, call.run(c.Context(), m), "%s, and right again, once more", situation)
					}
					call.settled(situation + ", and right again")
				}
			}
		},
	},
	{
		id: "J30", priority: 2, rule: "W12",
		title: "a request that hangs holds up no other call of its handle",
		costs: "One lost packet stops all uploads and fetches of a broker until the attempt's deadline.",
		run: func(c *T) {
			m := c.openFaults()
			for _, op := range []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch} {
				goOn := make(chan struct{})
				release := sync.OnceFunc(func() { close(goOn) })
				defer release()
				hung := c.call(op)
				c.onWire(op, faultproxy.Fault{Wait: goOn})
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					err = hung.run(c.Context(), m)
				}()
				if !c.poll(func() bool { return c.wire.proxy.Count(string(op)) > 0 }, "the request of "+string(op)) {
					return
				}
				for _, other := range everyOp {
					call := c.call(other)
					if !c.returns(fmt.Sprintf("%s beside one of %s that hangs", other, op), func() {
						require.NoError(c, call.run(c.Context(), m), "%s beside one of %s that hangs", other, op)
					}) {
						return
					}
				}
				release()
				c.waitFor(done, string(op)+" that is let go on")
				require.NoError(c, err, "%s that is let go on", op)
				hung.settled("after " + string(op) + " has hung")
			}
		},
	},
	{
		id: "L9", priority: 2, rule: "W12",
		title: "sixteen uploads at once, again and again, as at a hundred a second, and calls that fail: after the first hardly a connection is opened",
		costs: "Each upload pays for a connection, with TLS three round trips, and a broker runs out of ports at a hundred segments a second.",
		run: func(c *T) {
			const atOnce = 16
			waves := 12
			if c.brief {
				waves = 3
			}
			m, data := c.openFaults(), c.bytes(1000)
			c.alwaysOnWire(walstorage.OpUpload, faultproxy.Fault{Delay: 5 * time.Millisecond}) // so that they meet
			var slowest time.Duration
			wave := func() {
				ids := c.newIDs(atOnce)
				errs, began := make([]error, atOnce), time.Now()
				c.together(atOnce, func(i int) { errs[i] = m.UploadSegment(c.Context(), ids[i], data) })
				slowest = max(slowest, time.Since(began))
				require.NoError(c, errors.Join(errs...))
			}
			for range 2 {
				wave()
			}
			warm := c.wire.server.Opened()
			slowest = 0
			for range waves {
				wave()
			}
			opened := c.wire.server.Opened() - warm
			c.Logf("%d connections for the first uploads, %d more for the next %d, %v for sixteen at the most", warm, opened, waves*atOnce, slowest)
			if warm == 0 {
				c.Errorf("no connection was opened: does the handle use the endpoint?")
			}
			if opened > atOnce {
				c.Errorf("%d connections were opened for %d uploads, sixteen at once, after the first of them", opened, waves*atOnce)
			}
			// An answer that is an error uses a connection up where nobody reads and closes it. A server may close one with it.
			const failures = 20
			denied, missing := c.call(walstorage.OpUpload), c.newID()
			c.alwaysOnWire(walstorage.OpUpload, answering(c.wire.cfg.Answers.Denied))
			refused := c.openFaults()
			require.Error(c, refused.FetchSegment(c.Context(), missing, 0, data), "a missing segment")
			warm = c.wire.server.Opened()
			for range failures {
				require.Error(c, denied.run(c.Context(), refused), "an upload that is refused")
				require.Error(c, refused.FetchSegment(c.Context(), missing, 0, data), "a missing segment")
			}
			if opened := c.wire.server.Opened() - warm; opened > failures/2 {
				c.Errorf("%d connections were opened for %d calls one after another whose answers are errors", opened, 2*failures)
			}
		},
	},
	{
		id: "M7", priority: 2, rule: "W12",
		title: "Close leaves the caller's own HTTP client alone, and its connections",
		costs: "A broker that closes one of two stores makes the calls of the other one fail, or slow.",
		run: func(c *T) {
			transport := &http.Transport{MaxIdleConnsPerHost: 10}
			c.Cleanup(transport.CloseIdleConnections)
			at := Endpoint{URL: c.wire.server.URL, Client: &http.Client{Transport: transport}}
			one, two := c.openFaultsAt(at), c.openFaultsAt(at)
			data := c.bytes(1000)
			c.uploadNew(one, data)
			id := c.uploadNew(two, data)
			c.wantWhole(two, id, data, "before another handle with the same client was closed")
			opened := c.wire.server.Opened()
			require.NoError(c, one.Close())
			c.wantWhole(two, id, data, "after another handle with the same client was closed")
			if n := c.wire.server.Opened() - opened; n > 0 {
				c.Errorf("closing a handle has closed connections of the caller's client: another handle has opened %d", n)
			}
			require.NoError(c, two.Close())
			c.wantWhole(c.openFaultsAt(at), id, data, "on a new handle with a client whose other handles were closed")
		},
	},
}
