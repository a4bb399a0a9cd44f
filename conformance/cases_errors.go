package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// kinds are the kinds of errors of W7.
var kinds = []error{
	walstorage.ErrSegmentNotFound, walstorage.ErrSegmentExists, walstorage.ErrInvalidRange, walstorage.ErrInvalidArgument,
	walstorage.ErrTooLarge, walstorage.ErrCorrupt, walstorage.ErrAccessDenied, walstorage.ErrBucketNotFound,
	walstorage.ErrNoSpace, walstorage.ErrUnavailable, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded,
}

// failure is an error that the suite has provoked, with what it should be.
type failure struct {
	situation string
	op        walstorage.Op
	id        walstorage.SegmentID
	kind      error
	requests  bool // whether the store had to be asked to find out
	err       error
}

// provoke makes every error that can be had of a manager without faults.
func (c *T) provoke() []failure {
	m := c.open()
	ctx := c.Context()
	there, missing := c.uploadNew(m, c.bytes(10)), c.newID()
	invalid := walstorage.SegmentID{}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, statMissing := m.StatSegment(ctx, missing)
	_, statInvalid := m.StatSegment(ctx, invalid)
	_, statCancelled := m.StatSegment(cancelled, there)
	failures := []failure{
		{"a fetch of a missing segment", walstorage.OpFetch, missing, walstorage.ErrSegmentNotFound, true, m.FetchSegment(ctx, missing, 0, make([]byte, 1))},
		{"a stat of a missing segment", walstorage.OpStat, missing, walstorage.ErrSegmentNotFound, true, statMissing},
		{"an upload of other bytes", walstorage.OpUpload, there, walstorage.ErrSegmentExists, true, m.UploadSegment(ctx, there, c.bytes(10))},
		{"a fetch beyond the end", walstorage.OpFetch, there, walstorage.ErrInvalidRange, true, m.FetchSegment(ctx, there, 5, make([]byte, 6))},
		{"a fetch at a negative offset", walstorage.OpFetch, there, walstorage.ErrInvalidArgument, false, m.FetchSegment(ctx, there, -1, make([]byte, 1))},
		{"a fetch of the zero id", walstorage.OpFetch, invalid, walstorage.ErrInvalidArgument, false, m.FetchSegment(ctx, invalid, 0, make([]byte, 1))},
		{"a stat of the zero id", walstorage.OpStat, invalid, walstorage.ErrInvalidArgument, false, statInvalid},
		{"an upload of the zero id", walstorage.OpUpload, invalid, walstorage.ErrInvalidArgument, false, m.UploadSegment(ctx, invalid, []byte{1})},
		{"a cancelled fetch", walstorage.OpFetch, there, context.Canceled, false, m.FetchSegment(cancelled, there, 0, make([]byte, 1))},
		{"a cancelled stat", walstorage.OpStat, there, context.Canceled, false, statCancelled},
		{"a cancelled upload", walstorage.OpUpload, missing, context.Canceled, false, m.UploadSegment(cancelled, missing, []byte{1})},
	}
	closed := c.open()
	c.wantMissing(closed, missing, "before closing")
	require.NoError(c, closed.Close())
	for _, call := range c.callsOn(missing, there) {
		id := there
		switch call.op {
		case walstorage.OpUpload:
			id = missing
		case walstorage.OpList:
			id = walstorage.SegmentID{}
		case walstorage.OpDelete:
			continue // its errors are of another type, see F6
		}
		failures = append(failures, failure{call.name + " after Close", call.op, id, walstorage.ErrClosed, false, call.do(ctx, closed)})
	}
	return failures
}

// Group I: errors say what happened, to a program by kind and to a person by text, and give nothing away.
var errorCases = []testCase{
	{
		id: "I1", priority: 1, rule: "W7",
		title: "every kind of error comes from every method that can give it",
		run: func(c *T) {
			for _, f := range c.provoke() {
				c.wantKind(f.err, f.kind, f.situation)
			}
			if c.storage.cfg.Driver == nil {
				return
			}
			for _, kind := range []error{
				walstorage.ErrTooLarge, walstorage.ErrCorrupt, walstorage.ErrAccessDenied, walstorage.ErrBucketNotFound,
				walstorage.ErrNoSpace, walstorage.ErrUnavailable,
			} {
				for _, call := range c.callsOn(c.newID(), c.newID()) {
					faults := failing(walstorage.NewError(kind, errors.New("the store says so")))
					m := c.openFaulty(faults)
					ctx, cancel := context.WithCancel(c.Context())
					if kind == walstorage.ErrUnavailable || kind == walstorage.ErrCorrupt {
						// Worth another attempt: what the caller gets is its own context error or the kind.
						cancelAfter(faults, 3, cancel)
						err := call.do(ctx, m)
						cancel()
						if !errors.Is(err, kind) && !errors.Is(err, context.Canceled) {
							c.Errorf("%s on a store that says %q: got %v", call.name, kind, err)
						}
						continue
					}
					c.wantKind(call.do(ctx, m), kind, call.name+" on a store that fails so")
					cancel()
					if n := faults.attempted(); n != 1 {
						c.Errorf("%s on a store that says %q was tried %d times, want once", call.name, kind, n)
					}
				}
			}
		},
	},
	{
		id: "I2", priority: 1, rule: "W7",
		title: "fetch, range and stat of a missing segment give the same ErrSegmentNotFound, whether it never was or is gone, and ask once",
		run: func(c *T) {
			m := c.open()
			neverBroker := c.newIDAt(4711, 0, c.newID().Created()) // no broker of this id has stored anything
			never := c.newID()
			gone := c.uploadNew(m, c.bytes(100))
			c.uploadNew(m, c.bytes(100)) // the minute's folder stays in use
			require.NoError(c, m.DeleteSegments(c.Context(), gone))
			for name, id := range map[string]walstorage.SegmentID{
				"of a broker that has stored nothing": neverBroker, "that never was": never, "that was deleted": gone,
			} {
				before := m.attempts.Load()
				c.wantMissing(m, id, "a segment "+name)
				err := m.FetchSegment(c.Context(), id, 50, make([]byte, 10))
				c.wantKind(err, walstorage.ErrSegmentNotFound, "a range of a segment "+name)
				if sent := m.attempts.Load() - before; sent > 3 {
					c.Errorf("a stat, a fetch and a range of a segment %s: %d requests were sent, want one each", name, sent)
				}
			}
		},
	},
	{
		id: "I3", priority: 1, rule: "W7", needs: needNoBucket,
		title: "a missing bucket is no missing segment",
		costs: "A wrong bucket name looks like an empty store: followers fall back to the leader for ever and nobody learns why.",
		run: func(c *T) {
			opened, err := c.storage.cfg.NoBucket(c)
			if err == nil {
				c.wantNoBucket(c.wrap(opened), c.newID())
				return
			}
			c.wantKind(err, walstorage.ErrBucketNotFound, "opening a bucket that does not exist")
			if errors.Is(err, walstorage.ErrSegmentNotFound) {
				c.Errorf("opening a bucket that does not exist calls a segment missing: %v", err)
			}
		},
	},
	{
		id: "I4", priority: 1, rule: "W7", needs: needDenied,
		title: "a refused request is ErrAccessDenied and never a missing segment, whether the segment is there or not",
		costs: "A wrong permission looks like missing data: every follower falls back across zones for good, and no alarm names the cause.",
		run: func(c *T) {
			there, missing := c.uploadNew(c.open(), []byte("there")), c.newID()
			m := c.wrap(c.storage.cfg.Denied(c, c.storage.home.config()))
			for name, id := range map[string]walstorage.SegmentID{"there": there, "not there": missing} {
				for _, call := range c.callsOn(c.newID(), id) {
					err := call.do(c.Context(), m)
					c.wantKind(err, walstorage.ErrAccessDenied, fmt.Sprintf("%s refused, the segment is %s", call.name, name))
					if errors.Is(err, walstorage.ErrSegmentNotFound) {
						c.Errorf("%s refused, the segment is %s: the error calls it missing: %v", call.name, name, err)
					}
				}
			}
			c.wantWhole(c.open(), there, []byte("there"), "after refused requests")
		},
	},
	{
		id: "I5", priority: 1, rule: "W7", needs: needDriver,
		title: "the store's own error can be reached behind the kind by errors.As",
		costs: "Whoever looks into a failure sees a word and not the request id or the system's error.",
		run: func(c *T) {
			for _, kind := range []error{walstorage.ErrAccessDenied, walstorage.ErrNoSpace, nil} {
				m := c.openFaulty(failing(walstorage.NewError(kind, fmt.Errorf("request 42: %w", markedError{errors.New("the library's own")}))))
				for _, call := range c.callsOn(c.newID(), c.newID()) {
					err := call.do(c.Context(), m)
					require.Error(c, err, "%s on a store that fails every call", call.name)
					var marked markedError
					if !errors.As(err, &marked) {
						c.Errorf("%s: the driver's own error cannot be reached behind %v", call.name, err)
					}
				}
			}
		},
	},
	{
		id: "I6", priority: 1, rule: "W7",
		title: "every error is a *walstorage.Error with the operation, the segment and the number of requests",
		costs: "A log line says that something failed and not what.",
		run: func(c *T) {
			m := c.open()
			c.uploadNew(m, []byte("one request, so that requests are known to be counted"))
			counts := c.countsRequests(m)
			for _, f := range c.provoke() {
				var e *walstorage.Error
				if !errors.As(f.err, &e) {
					c.Errorf("%s: error %v is no *walstorage.Error", f.situation, f.err)
					continue
				}
				if e.Op != f.op {
					c.Errorf("%s: the error's operation is %q, want %q", f.situation, e.Op, f.op)
				}
				if e.ID != f.id {
					c.Errorf("%s: the error's segment is %s, want %s", f.situation, e.ID, f.id)
				}
				switch {
				case f.requests && counts && e.Attempts < 1:
					c.Errorf("%s: the error tells %d requests, want at least one", f.situation, e.Attempts)
				case !f.requests && e.Attempts != 0:
					c.Errorf("%s: the error tells %d requests, want none", f.situation, e.Attempts)
				}
			}
		},
	},
	{
		id: "I7", priority: 1, rule: "W7",
		title: "the text of an error names the operation and the segment",
		costs: "Whoever reads the log cannot tell which segment of which broker it is about.",
		run: func(c *T) {
			for _, f := range c.provoke() {
				if f.err == nil {
					c.Errorf("%s: no error", f.situation)
					continue
				}
				text := f.err.Error()
				if !strings.Contains(text, string(f.op)) {
					c.Errorf("%s: the text does not name the operation %q: %s", f.situation, f.op, text)
				}
				if f.id != (walstorage.SegmentID{}) && !strings.Contains(text, f.id.UUID.String()) {
					c.Errorf("%s: the text does not name the segment %s: %s", f.situation, f.id, text)
				}
			}
		},
	},
	{
		id: "I8", priority: 1, rule: "W11", needs: needDriver,
		title: "signed URLs, query strings and credentials in a driver's error do not reach the text of the error",
		run: func(c *T) {
			const secret = "c2VjcmV0LXNpZ25hdHVyZQ"
			link := "https://account.example.com/bucket/key?sv=2026&sig=" + secret + "&X-Amz-Signature=" + secret
			for name, cause := range map[string]error{
				"a url.Error":         &url.Error{Op: "Put", URL: link, Err: errors.New("connection refused")},
				"a wrapped url.Error": fmt.Errorf("sending the request: %w", &url.Error{Op: "Get", URL: link, Err: errors.New("EOF")}),
				"a URL in a text":     errors.New("PUT " + link + ": 403 Forbidden"),
				"user information":    errors.New("dial https://user:" + secret + "@account.example.com/bucket: refused"),
			} {
				for _, kind := range []error{walstorage.ErrAccessDenied, nil} {
					m := c.openFaulty(failing(walstorage.NewError(kind, cause)))
					for _, call := range c.callsOn(c.newID(), c.newID()) {
						err := call.do(c.Context(), m)
						require.Error(c, err, "%s on a store that fails every call", call.name)
						if strings.Contains(err.Error(), secret) {
							c.Errorf("%s: the text of the error shows the secret in %s: %s", call.name, name,
								strings.ReplaceAll(err.Error(), secret, "<the secret>"))
						}
					}
				}
			}
		},
	},
	{
		id: "I11", priority: 1, rule: "W7",
		title: "an error is of one kind and no other, and KindOf agrees with errors.Is",
		costs: "Two parts of a broker that ask in another order decide differently about one failure.",
		run: func(c *T) {
			for _, f := range c.provoke() {
				for _, kind := range kinds {
					if is := errors.Is(f.err, kind); is != (kind == f.kind) {
						c.Errorf("%s: errors.Is(%v, %q) is %t", f.situation, f.err, kind, is)
					}
				}
				if got := walstorage.KindOf(f.err); got != f.kind {
					c.Errorf("%s: KindOf is %v, want %v", f.situation, got, f.kind)
				}
			}
		},
	},
	{
		id: "I12", priority: 1, rule: "W7",
		title: "kinds survive wrapping and a decorating manager",
		run: func(c *T) {
			m := c.open()
			observed := &handle{c: c, WalStorageManager: walstorage.Observe(m.WalStorageManager, walstorage.Hooks{})}
			missing := c.newID()
			err := fmt.Errorf("replica 3: %w", observed.FetchSegment(c.Context(), missing, 0, make([]byte, 1)))
			c.wantKind(err, walstorage.ErrSegmentNotFound, "wrapped and observed")
			var e *walstorage.Error
			if !errors.As(err, &e) || e.ID != missing {
				c.Errorf("the segment cannot be told from the wrapped error %v", err)
			}
			joined := errors.Join(errors.New("another failure"), err)
			c.wantKind(joined, walstorage.ErrSegmentNotFound, "joined with another error")
		},
	},
}

// cancelAfter calls cancel at the n-th call of any method; until then the faults stay as they are.
func cancelAfter(faults *faultDriver, n int, cancel func()) {
	faults.mu.Lock()
	defer faults.mu.Unlock()
	faults.onEnter = func(total int) {
		if total == n {
			cancel()
		}
	}
}
