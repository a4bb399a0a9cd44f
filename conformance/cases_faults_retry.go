package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

var faultRetryCases = []testCase{
	{
		id: "J1", priority: 1, rule: "W7",
		title: "500, 502 or 504 once: every call is repeated and succeeds, with one request more",
		run: func(c *T) {
			c.oneAnswer(everyOp, c.wire.cfg.Answers.Internal, FaultAnswer{Status: http.StatusBadGateway}, FaultAnswer{Status: http.StatusGatewayTimeout})
		},
	},
	{
		id: "J2", priority: 1, rule: "W7",
		title: "503 once: every call is repeated and succeeds, with one request more",
		run: func(c *T) {
			c.oneAnswer(everyOp, c.wire.cfg.Answers.Throttled, FaultAnswer{Status: http.StatusServiceUnavailable})
		},
	},
	{
		id: "J3", priority: 1, rule: "W7", virtual: true,
		title: "Retry-After, in seconds or as a date, is waited for, up to the cap",
		costs: "A store that asks for a pause and gets none throttles harder; one that could ask for an hour would stop a broker.",
		run: func(c *T) {
			// In real time as short as the header can say.
			limit, ops, answers := time.Second, []walstorage.Op{walstorage.OpUpload}, []FaultAnswer{c.wire.cfg.Answers.Throttled}
			if c.wire.virtual {
				limit, ops, answers = 40*time.Second, everyOp, append(answers, FaultAnswer{Status: http.StatusTooManyRequests})
			}
			m := c.openFaults(func(store *objectstore.Config) { store.RetryAfterCap, store.MaxRetryTime = limit, 10*limit })
			for _, op := range ops {
				for _, answer := range answers {
					for _, wait := range []struct {
						situation string
						value     func() string
						least     time.Duration
					}{
						{"in seconds", func() string { return fmt.Sprint(max(1, int(limit.Seconds())/2)) }, max(time.Second, limit/2)},
						{"as a date", func() string { return time.Now().Add(max(2*time.Second, limit)).UTC().Format(http.TimeFormat) }, max(time.Second, limit-time.Second)},
						{"an hour", func() string { return "3600" }, limit},
					} {
						situation := fmt.Sprintf("%s answered with %d, Retry-After %s", op, answer.Status, wait.situation)
						call := c.call(op)
						c.onWire(op, answering(answer.with("Retry-After", wait.value())))
						began := time.Now()
						require.NoError(c, call.run(c.Context(), m), situation)
						if took := time.Since(began); took < wait.least || took > limit+c.prompt {
							c.Errorf("%s: the call was repeated after %v, want at least %v and at most a little over %v", situation, took, wait.least, limit)
						}
					}
				}
			}
		},
	},
	{
		id: "J4", priority: 1, rule: "W7", virtual: true,
		title: "throttled for a long time: ErrUnavailable for all who wait, under a load that is bounded and spread",
		costs: "Brokers that all repeat their requests keep a store down that could have recovered.",
		run: func(c *T) {
			callers, lasts := 20, time.Second
			if c.wire.virtual {
				callers, lasts = 50, time.Minute
			}
			m := c.openFaults(func(store *objectstore.Config) {
				*store = objectstore.Config{
					Prefix: store.Prefix, Cluster: store.Cluster, Seed: store.Seed, Hooks: store.Hooks,
					MaxRetryTime: lasts, AttemptTimeout: time.Minute,
				}
			})
			id, data := c.newIDs(callers), c.bytes(100)
			c.alwaysOnWire(walstorage.OpUpload, answering(c.wire.cfg.Answers.Throttled))
			errs := make([]error, callers)
			began := time.Now()
			c.together(callers, func(i int) { errs[i] = m.UploadSegment(c.Context(), id[i], data) })
			took := time.Since(began)
			for i, err := range errs {
				c.wantKind(err, walstorage.ErrUnavailable, fmt.Sprintf("caller %d of %d", i, callers))
			}
			if took > lasts+c.prompt {
				c.Errorf("the calls took %v, and their retries were limited to %v", took, lasts)
			}
			// One request for each caller, a few before all have seen that it is no use, and one probe a second and some
			// at the beginning for all.
			most := 2*callers + int(lasts/time.Second) + 10
			requests := c.wire.proxy.Requests()
			if len(requests) > most {
				c.Errorf("%d requests were sent in %v for %d calls, want at most %d", len(requests), took, callers, most)
			}
			pauses := make(map[time.Duration]bool)
			for i := 1; i < len(requests); i++ {
				pauses[requests[i].Came.Sub(requests[i-1].Came)] = true
			}
			if len(requests) > callers && len(pauses) < 3 {
				c.Errorf("the pauses between %d requests are all alike", len(requests))
			}
			c.wire.proxy.Script(nil)
			require.NoError(c, m.UploadSegment(c.Context(), id[0], data), "when the store answers again")
		},
	},
	{
		id: "J5", priority: 1, rule: "W7",
		title: "503 to an upload is tried again, whether the store has carried it out or not",
		costs: "A library that takes a create for something that cannot be repeated fails uploads in every throttling.",
		run: func(c *T) {
			m := c.openFaults()
			for _, answer := range []FaultAnswer{c.wire.cfg.Answers.Throttled, {Status: http.StatusServiceUnavailable}, {Status: http.StatusTooManyRequests}} {
				for _, at := range []faultproxy.Point{faultproxy.BeforeServer, faultproxy.AfterServer} {
					situation := fmt.Sprintf("an upload answered with %d, carried out: %t", answer.Status, at == faultproxy.AfterServer)
					call := c.call(walstorage.OpUpload)
					fault := faultproxy.Fault{Answer: answer.raw(), At: at}
					c.onWire(call.op, fault, fault, fault)
					require.NoError(c, call.run(c.Context(), m), situation)
					c.wantRequests(call.op, 4, situation)
					call.settled(situation)
				}
			}
		},
	},
	{
		id: "J6", priority: 1, rule: "W7",
		title: "408, and what else the protocol has for a request that came too slowly, is tried again",
		run: func(c *T) {
			c.oneAnswer(everyOp, FaultAnswer{Status: http.StatusRequestTimeout})
			// The answer to a HEAD has no body that could say more than its status.
			c.oneAnswer([]walstorage.Op{walstorage.OpUpload, walstorage.OpFetch}, c.wire.cfg.Answers.Transient...)
		},
	},
	{
		id: "J10", priority: 1, rule: "W5",
		title: "every attempt of an upload sends the same name and the same bytes, whole",
		costs: "A body that was read by the first attempt and is not rewound makes an empty segment of the second, and the create is then refused for ever.",
		run: func(c *T) {
			m := c.openFaults()
			for _, size := range []int{0, 1, 300_000} {
				id, data := c.newID(), c.bytes(size)
				c.onWire(
					walstorage.OpUpload,
					answering(c.wire.cfg.Answers.Internal),
					faultproxy.Fault{Reset: faultproxy.BeforeServer},
					faultproxy.Fault{Reset: faultproxy.InBody},
					answering(c.wire.cfg.Answers.Throttled),
				)
				require.NoError(c, m.UploadSegment(c.Context(), id, data), "four attempts failed, with %d bytes", size)
				c.wantWhole(c.direct(), id, data, "after five attempts")
				var first *faultproxy.Request
				for _, r := range c.wire.proxy.Requests() {
					if r.Operation != string(walstorage.OpUpload) || !r.Whole {
						continue
					}
					content, err := c.wire.content(r)
					require.NoError(c, err, "attempt %d: FaultsConfig.Content", r.Number)
					c.wantBytes(data, content, fmt.Sprintf("attempt %d", r.Number))
					if first == nil {
						first = &r
					}
					require.Equal(c, pathOf(first.URI), pathOf(r.URI), "attempt %d: the name", r.Number)
					require.Equal(c, first.Host, r.Host, "attempt %d: the host", r.Number)
				}
				c.wantRequests(walstorage.OpUpload, 5, "four attempts failed")
			}
		},
	},
	brownOut,
	{
		id: "J19", priority: 1, rule: "W7",
		title: "refused, wrong, missing, existing and out of range: one request, and the right kind",
		costs: "Each repetition of what cannot succeed delays the fallback to the leader, and hides a wrong permission.",
		run: func(c *T) {
			m, clean := c.openFaults(attempts(10)), c.direct()
			for _, op := range everyOp {
				call := c.call(op)
				c.alwaysOnWire(op, answering(c.wire.cfg.Answers.Denied))
				c.wantKind(call.run(c.Context(), m), walstorage.ErrAccessDenied, string(op)+" refused")
				c.wantRequests(op, 1, string(op)+" refused")
			}
			// The answer to a HEAD has no body that could say what is wrong with it.
			for _, op := range []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch, walstorage.OpDelete, walstorage.OpList} {
				call := c.call(op)
				c.alwaysOnWire(op, status(http.StatusBadRequest))
				err := call.run(c.Context(), m)
				if err == nil || errors.Is(err, walstorage.ErrUnavailable) || errors.Is(err, walstorage.ErrSegmentNotFound) {
					c.Errorf("%s answered with 400: got %v, want an error that is not worth a retry", op, err)
				}
				c.wantRequests(op, 1, string(op)+" answered with 400")
			}
			id, data := c.newID(), c.bytes(1000)
			c.upload(clean, id, data)
			c.wire.proxy.Script(nil)
			c.wantKind(m.UploadSegment(c.Context(), id, c.bytes(1000)), walstorage.ErrSegmentExists, "other bytes over a segment")
			c.wantRequests(walstorage.OpUpload, 1, "other bytes over a segment")
			c.wire.proxy.Script(nil)
			c.wantKind(m.FetchSegment(c.Context(), id, 900, make([]byte, 101)), walstorage.ErrInvalidRange, "a range that ends beyond the segment")
			c.wantRequests(walstorage.OpFetch, 1, "a range that ends beyond the segment")
			c.wire.proxy.Script(nil)
			c.wantKind(m.FetchSegment(c.Context(), id, 1000, make([]byte, 1)), walstorage.ErrInvalidRange, "a range that begins at the end")
			c.wantRequests(walstorage.OpFetch, 1, "a range that begins at the end")
			missing := c.newID()
			c.wire.proxy.Script(nil)
			c.wantKind(m.FetchSegment(c.Context(), missing, 0, make([]byte, 1)), walstorage.ErrSegmentNotFound, "a missing segment")
			c.wantRequests(walstorage.OpFetch, 1, "a missing segment")
			_, err := m.StatSegment(c.Context(), missing)
			c.wantKind(err, walstorage.ErrSegmentNotFound, "a missing segment")
			c.wantRequests(walstorage.OpStat, 1, "a missing segment")
		},
	},
	{
		id: "J20", priority: 1, rule: "W8", virtual: true,
		title: "attempts and time never exceed their limits: one layer retries, and no other below it",
		costs: "Two layers multiply: where each tries five times a store in trouble gets 25 requests for one.",
		run: func(c *T) {
			for _, most := range []int{1, 3} {
				m := c.openFaults(attempts(most))
				for _, op := range everyOp {
					answers := []FaultAnswer{c.wire.cfg.Answers.Throttled, c.wire.cfg.Answers.Internal, {Status: http.StatusTooManyRequests}}
					if op == walstorage.OpUpload {
						answers = append(answers, FaultAnswer{Status: http.StatusRequestTimeout}, FaultAnswer{Status: http.StatusBadGateway}, FaultAnswer{Status: http.StatusGatewayTimeout})
					}
					for _, answer := range answers {
						situation := fmt.Sprintf("%s always answered with %d, and %d attempts allowed", op, answer.Status, most)
						c.meetsAlways(m, op, answering(answer), situation)
						c.wantRequests(op, most, situation)
					}
				}
				// Below a driver net/http repeats by itself what has no body, on a connection that was used before.
				situation := fmt.Sprintf("an upload whose connection is always reset, and %d attempts allowed", most)
				c.meetsAlways(m, walstorage.OpUpload, faultproxy.Fault{Reset: faultproxy.BeforeServer}, situation)
				c.wantRequests(walstorage.OpUpload, most, situation)
			}
			lasts := 200 * time.Millisecond
			if c.wire.virtual {
				lasts = 5 * time.Second
				if c.brief {
					lasts = time.Second
				}
			}
			m := c.openFaults(func(store *objectstore.Config) {
				store.MaxRetryTime, store.BackoffBase, store.BackoffCap = lasts, 20*time.Millisecond, 40*time.Millisecond
			})
			for _, op := range everyOp {
				call := c.call(op)
				c.alwaysOnWire(op, answering(c.wire.cfg.Answers.Throttled))
				began := time.Now()
				c.wantKind(call.run(c.Context(), m), walstorage.ErrUnavailable, string(op)+" throttled for longer than its retry time")
				took := time.Since(began)
				if took > lasts+c.prompt || took < lasts/2 {
					c.Errorf("%s: the retries have ended after %v, and were limited to %v", op, took, lasts)
				}
				ctx, cancel := context.WithTimeout(c.Context(), lasts/2)
				call = c.call(op)
				c.alwaysOnWire(op, answering(c.wire.cfg.Answers.Throttled))
				began = time.Now()
				err := call.run(ctx, m)
				cancel()
				if took := time.Since(began); took > lasts/2+c.prompt {
					c.Errorf("%s: the call has ended after %v, and its context after %v", op, took, lasts/2)
				}
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, walstorage.ErrUnavailable) {
					c.Errorf("%s: throttled for longer than its context lasts: %v", op, err)
				}
			}
		},
	},
	{
		id: "J21", priority: 2, rule: "W7", needs: needExpired,
		title: "credentials that have expired are renewed once, and the call succeeds; where that does not help it is ErrAccessDenied, soon",
		run: func(c *T) {
			for _, op := range []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch, walstorage.OpDelete, walstorage.OpList} {
				c.meetsOnce(c.openFaults(), op, answering(c.wire.cfg.Answers.Expired), 1, string(op)+" with credentials that have expired")
				call := c.call(op)
				m := c.openFaults()
				c.alwaysOnWire(op, answering(c.wire.cfg.Answers.Expired))
				c.wantKind(call.run(c.Context(), m), walstorage.ErrAccessDenied, string(op)+" with credentials that are always expired")
				if n := c.wire.proxy.Count(string(op)); n > 3 {
					c.Errorf("%s with credentials that are always expired: %d requests", op, n)
				}
			}
		},
	},
	{
		id: "J24", priority: 1, rule: "W4",
		title: "the wire form, over TLS: HTTP/1.1, an upload of any size is one request with one plain body, and no header is there that is not allowed",
		costs: "Stores that are not Amazon's keep the framing of a chunked upload as bytes of the object, or refuse what they do not know.",
		run:   wireForm,
	},
	randomFaults,
}

// oneAnswer gives the first request of each operation each of the answers: the call must send one more and succeed.
func (c *T) oneAnswer(ops []walstorage.Op, answers ...FaultAnswer) {
	m := c.openFaults()
	for _, op := range ops {
		for _, answer := range answers {
			c.meetsOnce(m, op, answering(answer), 1, fmt.Sprintf("%s answered with %d once", op, answer.Status))
		}
	}
}

// content is the segment in an upload.
func (w *wire) content(r faultproxy.Request) ([]byte, error) {
	if w.cfg.Content == nil {
		return r.Body, nil
	}
	request, err := http.NewRequest(r.Method, "http://"+r.Host+r.URI, nil)
	if err != nil {
		return nil, err
	}
	request.Header = r.Header.Clone()
	return w.cfg.Content(request, slices.Clone(r.Body))
}

// pathOf is a request's address without what may differ between attempts.
func pathOf(uri string) string {
	for i, r := range uri {
		if r == '?' {
			return uri[:i]
		}
	}
	return uri
}

// wireForm is J24.
func wireForm(c *T) {
	proxy, server := c.wire.startTLS(c)
	m := c.openFaultsAt(endpointOf(server))
	usual := []string{"Host", "Content-Length", "User-Agent", "Accept-Encoding"}
	for _, op := range everyOp {
		call := c.call(op)
		proxy.Script(nil)
		require.NoError(c, call.run(c.Context(), m), "%s over TLS", op)
		call.settled(fmt.Sprintf("after %s over TLS", op))
		for _, r := range proxy.Requests() {
			if r.Operation != string(op) {
				continue
			}
			require.Equal(c, "HTTP/1.1", r.Proto, "%s: over HTTP/2 all requests share one connection and its loss", op)
			require.Empty(c, r.Trailer, "%s has a trailer", op)
			require.NotContains(c, r.Header.Get("Content-Encoding"), "aws-chunked", op)
			require.Empty(c, r.Header.Get("X-Amz-Trailer"), op)
			require.Empty(c, r.Header.Get("Expect"), "%s: a round trip more", op)
			if allowed, limited := c.wire.cfg.Headers[op]; limited {
				for name := range r.Header {
					if !slices.ContainsFunc(slices.Concat(usual, allowed), func(other string) bool { return http.CanonicalHeaderKey(other) == name }) {
						c.Errorf("%s: the header %s is not in FaultsConfig.Headers", op, name)
					}
				}
			}
			for name, value := range c.wire.cfg.Required[op] {
				if got := r.Header.Get(name); got == "" || value != "" && got != value {
					c.Errorf("%s: the header %s is %q, want %q", op, name, got, value)
				}
			}
		}
		if op == walstorage.OpUpload {
			c.wantOneBody(proxy, faultCallSize)
		}
	}
	size := hugeSize
	if c.brief {
		size = 1 << 20
	}
	proxy.Script(nil)
	id, data := c.newID(), c.bytes(size)
	require.NoError(c, m.UploadSegment(c.Context(), id, data), "an upload of %d bytes over TLS", size)
	c.wantOneBody(proxy, size)
	proxy.Script(nil) // lets go of the record
	require.NoError(c, m.DeleteSegments(c.Context(), id))
}

// wantOneBody checks that an upload came as one request with one plain body of the size given.
func (c *T) wantOneBody(proxy *faultproxy.Proxy, size int) {
	require.Equal(c, 1, proxy.Count(string(walstorage.OpUpload)), "requests for one upload of %d bytes", size)
	for _, r := range proxy.Requests() {
		if r.Operation != string(walstorage.OpUpload) {
			continue
		}
		if c.wire.cfg.Content == nil {
			require.Empty(c, r.TransferEncoding, "the body of an upload of %d bytes is chunked", size)
			require.Equal(c, int64(size), r.ContentLength, "the length of the body of an upload of %d bytes", size)
		}
		content, err := c.wire.content(r)
		require.NoError(c, err, "FaultsConfig.Content")
		require.Len(c, content, size, "the segment in the body of an upload")
	}
}

// startTLS puts another proxy before the case's server, with TLS.
func (w *wire) startTLS(c *T) (*faultproxy.Proxy, *faultproxy.Server) {
	proxy, err := faultproxy.New(w.behind)
	require.NoError(c, err)
	server := faultproxy.ListenTLS(proxy)
	c.Cleanup(server.Close)
	return proxy, server
}
