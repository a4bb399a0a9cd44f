package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
)

var faultNetworkCases = []testCase{
	{
		id: "J7", priority: 1, rule: "W7",
		title: "a refused connection and a name that does not resolve are ErrUnavailable, and end with the trouble",
		run: func(c *T) {
			for situation, refusal := range map[string]error{
				"connection refused":         &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
				"a name that does not exist": &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "store.invalid", IsNotFound: true}},
				"a resolver that is down":    &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "store.invalid", IsTemporary: true}},
			} {
				var refuse atomic.Int64 // how many connections more
				dialer := net.Dialer{}
				transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					if refuse.Add(-1) >= 0 {
						return nil, refusal
					}
					return dialer.DialContext(ctx, network, address)
				}}
				c.Cleanup(transport.CloseIdleConnections)
				at := Endpoint{URL: c.wire.server.URL, Client: &http.Client{Transport: transport}}
				m, limited := c.openFaultsAt(at), c.openFaultsAt(at, attempts(3))
				for _, op := range everyOp {
					call := c.call(op)
					transport.CloseIdleConnections()
					refuse.Store(1000)
					var err error
					if c.returns(situation+": "+string(op), func() { err = call.run(c.Context(), limited) }) {
						c.wantKind(err, walstorage.ErrUnavailable, situation+": "+string(op))
						if tried := 1000 - refuse.Load(); tried != 3 {
							c.Errorf("%s: %s: %d connections were tried, and three attempts allowed", situation, op, tried)
						}
					}
					refuse.Store(2)
					require.NoError(c, call.run(c.Context(), m), "%s, twice: %s", situation, op)
					call.settled(fmt.Sprintf("%s, twice: after %s", situation, op))
				}
			}
			// The backend's own transport, and a port that no server is given by chance.
			m := c.openFaultsAt(Endpoint{URL: "http://127.0.0.1:1"}, attempts(2))
			var err error
			c.returns("an address where nobody listens", func() { err = m.UploadSegment(c.Context(), c.newID(), c.bytes(10)) })
			c.wantKind(err, walstorage.ErrUnavailable, "an address where nobody listens")
		},
	},
	{
		id: "J8", priority: 1, rule: "W7",
		title: "a connection that is reset before the body of the request, in its middle or behind it: the call is repeated and succeeds",
		run: func(c *T) {
			m, limited := c.openFaults(), c.openFaults(attempts(3))
			for _, op := range everyOp {
				for point, situation := range map[faultproxy.Point]string{
					faultproxy.BeforeBody:   "reset before the body",
					faultproxy.InBody:       "reset in the body",
					faultproxy.BeforeServer: "reset behind the body",
				} {
					fault := faultproxy.Fault{Reset: point}
					c.meetsOnce(m, op, fault, 1, situation)
					c.meetsAlways(limited, op, fault, situation)
				}
			}
		},
	},
	{
		id: "J9", priority: 1, rule: "W7",
		title: "a connection that is reset after the server has carried the request out: the call is repeated and succeeds (C9, F10)",
		run: func(c *T) {
			m, limited := c.openFaults(), c.openFaults(attempts(3))
			for _, op := range everyOp {
				fault := faultproxy.Fault{Reset: faultproxy.AfterServer}
				c.meetsOnce(m, op, fault, 1, "reset after the server")
				if op != walstorage.OpUpload { // whose repetition says "exists", which settles it
					c.meetsAlways(limited, op, fault, "reset after the server")
				}
			}
		},
	},
	{
		id: "J13", priority: 1, rule: "W8", virtual: true,
		title: "an answer that does not begin ends the attempt at its deadline, and the next one succeeds; the deadline is not the caller's (H8)",
		costs: "Publication is ordered: an upload that waits for ever holds up every partition behind it.",
		run: func(c *T) {
			carriedOut := everyOp
			if !c.wire.virtual { // each takes several deadlines
				carriedOut = []walstorage.Op{walstorage.OpUpload, walstorage.OpDelete}
			}
			c.stalls(everyOp, faultproxy.Fault{Stall: faultproxy.BeforeServer}, "no answer, and not carried out")
			c.stalls(carriedOut, faultproxy.Fault{Stall: faultproxy.AfterServer}, "no answer, but carried out")
		},
	},
	{
		id: "J14", priority: 1, rule: "W8", virtual: true,
		title: "a server that reads nothing of an upload ends the attempt at its deadline, and the next one succeeds",
		costs: "Publication is ordered: an upload that waits for ever holds up every partition behind it.",
		run: func(c *T) {
			size := 12 << 20 // more than sockets buffer: 4 MiB to send on Linux (tcp_wmem), and less to receive while nobody reads
			if c.wire.virtual {
				size = 300_000 // a pipe buffers nothing
			}
			patience := c.patience(size)
			m := c.openFaults(deadline(patience))
			id, data := c.newID(), c.bytes(size)
			c.onWire(walstorage.OpUpload, faultproxy.Fault{Stall: faultproxy.BeforeBody})
			began := time.Now()
			require.NoError(c, m.UploadSegment(c.Context(), id, data), "nothing was read of the first attempt")
			took := time.Since(began)
			if took < patience/2 || took > c.prompt {
				c.Errorf("the upload took %v, and the deadline of its first attempt was %v", took, patience)
			}
			c.wantWhole(c.direct(), id, data, "after the second attempt")
			c.stalls([]walstorage.Op{walstorage.OpUpload}, faultproxy.Fault{Stall: faultproxy.BeforeBody}, "nothing is read")
		},
	},
	{
		id: "J15", priority: 1, rule: "W8", virtual: true,
		title: "a download that stops in its middle ends the attempt at its deadline, and the next one succeeds",
		costs: "A follower waits for one slice until its stall limit, for every partition in the segment.",
		run: func(c *T) {
			after := []int{1500}
			if c.wire.virtual {
				after = append(after, 0, 1)
			}
			for _, bytes := range after {
				c.stalls([]walstorage.Op{walstorage.OpFetch}, faultproxy.Fault{Stall: faultproxy.InAnswer, Bytes: bytes}, fmt.Sprintf("the answer stops after %d bytes", bytes))
			}
			c.stalls([]walstorage.Op{walstorage.OpList}, faultproxy.Fault{Stall: faultproxy.InAnswer, Bytes: 20}, "the list stops after 20 bytes")
		},
	},
	{
		id: "J16", priority: 2, rule: "W7",
		title: "an error document under status 200 is no success",
		costs: "A leader publishes a segment that is not there, a sweeper believes deleted what is not, a list ends empty.",
		run: func(c *T) {
			m, limited := c.openFaults(), c.openFaults(attempts(3))
			document := answering(c.wire.cfg.Answers.Document)
			// The answer to a HEAD has no body that could show what it is.
			for _, op := range []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch, walstorage.OpDelete, walstorage.OpList} {
				call := c.call(op)
				c.onWire(op, document)
				if err := call.run(c.Context(), m); err == nil {
					call.settled("an error document under status 200, once: after " + string(op))
				}
				call = c.call(op)
				c.alwaysOnWire(op, document)
				if err := call.run(c.Context(), limited); err == nil {
					c.Errorf("%s: an error document under status 200, always: the call says that it has succeeded", op)
				}
			}
		},
	},
	{
		id: "J25", priority: 1, rule: "W7",
		title: "a kept connection that the server has closed meanwhile is not seen by the caller",
		costs: "After each quiet minute the first segment of every broker would fail.",
		run: func(c *T) {
			m := c.openFaults()
			for _, op := range everyOp {
				usual := c.requestsOf(op, m)
				call := c.call(op)
				before := c.wire.server.Opened()
				if n := c.wire.server.CloseIdle(); n == 0 {
					c.Logf("%s: no connection was kept", op)
				}
				require.NoError(c, call.run(c.Context(), m), "%s after the server has closed the connection", op)
				if n := c.wire.proxy.Count(string(op)); n > usual+1 {
					c.Errorf("%s after the server has closed the connection: %d requests", op, n)
				}
				call.settled(fmt.Sprintf("after the server has closed the connection: %s", op))
				if n := c.wire.server.Opened() - before; n > 2 {
					c.Errorf("%s after the server has closed the connection: %d connections were opened", op, n)
				}
				// Half-open: the server notices nothing before the request comes, and drops it then.
				c.meetsOnce(m, op, faultproxy.Fault{Reset: faultproxy.BeforeBody}, 0, "the connection is dropped as the request comes")
			}
		},
	},
	{
		id: "J29", priority: 1, rule: "W8", virtual: true,
		title: "an answer that comes before the body of the upload was read ends the attempt, with its meaning, and a success that comes so early is none",
		costs: "A library that goes on sending waits for ever, with the caller's buffer in its hands; one that believes the answer reports what is not stored.",
		run: func(c *T) {
			size := 12 << 20 // more than sockets buffer: 4 MiB to send on Linux (tcp_wmem), and less to receive while nobody reads
			if c.wire.virtual {
				size = 300_000 // a pipe buffers nothing
			}
			m, clean := c.openFaults(deadline(c.patience(size)), attempts(10)), c.direct()
			early := func(a FaultAnswer) faultproxy.Fault {
				return faultproxy.Fault{Answer: a.raw(), At: faultproxy.BeforeBody}
			}
			for _, answer := range []FaultAnswer{
				c.wire.cfg.Answers.Throttled, c.wire.cfg.Answers.Internal, {Status: http.StatusOK}, {Status: http.StatusCreated}, {Status: http.StatusNoContent},
			} {
				situation := fmt.Sprintf("%d before the body was read", answer.Status)
				id, data := c.newID(), c.bytes(size)
				c.onWire(walstorage.OpUpload, early(answer))
				var err error
				if !c.returns(situation, func() { err = m.UploadSegment(c.Context(), id, data) }) {
					return
				}
				if answer.Status >= http.StatusInternalServerError {
					require.NoError(c, err, situation)
				}
				if err == nil {
					c.wantWhole(clean, id, data, situation+", and the upload has succeeded")
				} else {
					c.wantMissing(clean, id, situation+", and the upload has failed")
				}
			}
			c.onWire(walstorage.OpUpload, early(c.wire.cfg.Answers.Denied))
			var err error
			c.returns("refused before the body was read", func() { err = m.UploadSegment(c.Context(), c.newID(), c.bytes(size)) })
			c.wantKind(err, walstorage.ErrAccessDenied, "refused before the body was read")
			id, data := c.newID(), c.bytes(size)
			c.upload(clean, id, data)
			for _, exists := range c.wire.cfg.Answers.Exists {
				c.onWire(walstorage.OpUpload, early(exists))
				c.returns("\"exists\" before the body was read", func() { err = m.UploadSegment(c.Context(), id, c.bytes(size)) })
				c.wantKind(err, walstorage.ErrSegmentExists, "\"exists\" before the body was read, and other bytes are stored")
				c.onWire(walstorage.OpUpload, early(exists))
				c.returns("\"exists\" before the body was read", func() { err = m.UploadSegment(c.Context(), id, data) })
				require.NoError(c, err, "\"exists\" before the body was read, and the same bytes are stored")
			}
			c.wantWhole(clean, id, data, "after early answers")
		},
	},
	overWire("I8", 0, func(c *T) {
		limited := c.openFaults(attempts(2))
		// A server that repeats in its answer what it was sent, as some do to explain a wrong signature.
		echo := func(code int) func(faultproxy.Request) faultproxy.Fault {
			return func(r faultproxy.Request) faultproxy.Fault {
				var text strings.Builder
				fmt.Fprintf(&text, "%s http://%s%s\n", r.Method, r.Host, r.URI)
				_ = r.Header.Write(&text)
				return answering(FaultAnswer{Status: code, Header: http.Header{"Content-Type": {"text/plain"}}, Body: text.String()})
			}
		}
		for situation, script := range map[string]func(faultproxy.Request) faultproxy.Fault{
			"reset": func(faultproxy.Request) faultproxy.Fault { return faultproxy.Fault{Reset: faultproxy.BeforeServer} },
			"cut": func(faultproxy.Request) faultproxy.Fault {
				return faultproxy.Fault{Cut: faultproxy.CutLength, Bytes: 10}
			},
			"refused":        func(faultproxy.Request) faultproxy.Fault { return answering(c.wire.cfg.Answers.Denied) },
			"not understood": echo(http.StatusBadRequest),
			"forbidden":      echo(http.StatusForbidden),
			"failed":         echo(http.StatusInternalServerError),
		} {
			for _, op := range everyOp {
				call := c.call(op)
				c.wire.proxy.Script(script)
				err := call.run(c.Context(), limited) // the handle looks for the secrets
				if err == nil {
					continue // an answer without a body cannot be cut
				}
				if strings.Contains(err.Error(), "?") && strings.Contains(err.Error(), "=") {
					c.Logf("%s, %s: %v", situation, op, err)
				}
			}
		}
		// And one that cannot be reached.
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }}
		m := c.openFaultsAt(Endpoint{URL: c.wire.server.URL, Client: &http.Client{Transport: transport}}, attempts(2))
		for _, op := range everyOp {
			call := c.call(op)
			require.Error(c, call.run(c.Context(), m), "%s without a network", op)
		}
	}),
}

// patience is the deadline of attempts in a case in which something stalls: in real time as short as this machine lets a
// call of the size be, which is measured. What has to be prompt may take two of them more.
func (c *T) patience(size int) time.Duration {
	if c.wire.virtual {
		return 300 * time.Millisecond
	}
	c.wire.proxy.Script(nil)
	m, id, data := c.openFaults(), c.newID(), c.bytes(size)
	began := time.Now()
	c.upload(m, id, data)
	require.NoError(c, m.FetchSegment(c.Context(), id, 0, data))
	patience := min(max(300*time.Millisecond, 20*time.Since(began)), 4*time.Second) // a server may be slow without any fault
	require.NoError(c, m.DeleteSegments(c.Context(), id))
	c.prompt += 2 * patience
	return patience
}

// stalls lets calls meet a fault after which nothing happens any more: once, after which they succeed within one
// deadline, and always.
func (c *T) stalls(ops []walstorage.Op, fault faultproxy.Fault, situation string) {
	patience := c.patience(faultCallSize)
	m := c.openFaults(deadline(patience))
	limited := c.openFaults(deadline(patience), attempts(2))
	for _, op := range ops {
		call := c.call(op)
		c.onWire(op, fault)
		began := time.Now()
		require.NoError(c, call.run(c.Context(), m), "%s, once: %s", situation, op)
		if took := time.Since(began); took < patience/2 || took > c.prompt {
			c.Errorf("%s, once: %s took %v, and the deadline of its first attempt was %v", situation, op, took, patience)
		}
		call.settled(fmt.Sprintf("%s, once: after %s", situation, op))
		if op == walstorage.OpUpload && fault.Stall == faultproxy.AfterServer {
			continue // the repetition says "exists", which settles it
		}
		began = time.Now()
		c.meetsAlways(limited, op, fault, situation)
		if took := time.Since(began); took > c.prompt {
			c.Errorf("%s, always: %s took %v, and two attempts have %v each", situation, op, took, patience)
		}
	}
}
