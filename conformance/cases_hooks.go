package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Group O: the hooks are how an operator sees a store. A manager that is not made of objectstore.Manager has them by
// walstorage.Observe; one that calls none is not asked.
var hookCases = []testCase{
	{
		id: "O1", priority: 1, rule: "Hooks",
		title: "the hooks of an operation and of its attempts are called once at the start and once at the end, however it ends",
		run: func(c *T) {
			w := &watch{}
			m := c.openWatched(w)
			for _, way := range c.ways(m) {
				c.wantTold(w, way.situation, way.op, way.do)
			}
			c.uploadNew(m, []byte("in the list"))
			for name, leave := range map[string]func() bool{
				"that is left":             func() bool { return true },
				"whose loop panics":        func() bool { panic("the caller's own") },
				"whose goroutine is ended": func() bool { runtime.Goexit(); return true },
			} {
				// Which error the hooks are told is the manager's affair: only the caller's loop has gone wrong.
				w.take()
				c.breakOff(m, leave)
				t := w.take()
				ends := 0
				for _, told := range t.operations {
					ends += told.ends
				}
				if len(t.operations) != 1 || ends != 1 || len(t.problems) > 0 {
					c.Errorf("a list %s: OperationStart was called %d times, OperationDone %d times, want once each; %s", name, len(t.operations), ends, strings.Join(t.problems, "; "))
				}
				for i, attempt := range t.attempts {
					if attempt.ends != 1 {
						c.Errorf("a list %s: AttemptDone was called %d times for attempt %d, want once", name, attempt.ends, i+1)
					}
				}
			}
			there := c.uploadNew(m, []byte("there"))
			require.NoError(c, m.Close())
			for _, call := range c.callsOn(c.newID(), there) {
				c.wantTold(w, call.name+" after Close", call.op, func() error { return call.do(c.Context(), m) })
			}
			if c.storage.cfg.Driver != nil {
				c.wantToldUnderFaults()
			}
		},
	},
	{
		id: "O2", priority: 1, rule: "Hooks",
		title: "the hooks are told the segment, the bytes, the duration, the number of attempts and the kind of error that the caller gets",
		costs: "Throughput, latency and error rates on the operator's screen are not those of the store.",
		run: func(c *T) {
			w := &watch{}
			m := c.openWatched(w)
			for _, way := range c.ways(m) {
				var err error
				begin := time.Now()
				told, attempts := c.wantTold(w, way.situation, way.op, func() error { err = way.do(); return err })
				elapsed := time.Since(begin)
				if told == nil {
					continue
				}
				want := walstorage.Operation{Op: way.op, ID: way.id, Segments: way.segments, Bytes: way.bytes}
				require.Equal(c, want, told.Operation, "%s: what OperationStart was told", way.situation)
				require.Equal(c, *way.done, told.result.Segments, "%s: segments that OperationDone was told", way.situation)
				require.Equal(c, walstorage.KindOf(err), walstorage.KindOf(told.result.Err),
					"%s: the kind of what OperationDone was told, %v; the caller got %v", way.situation, told.result.Err, err)
				c.wantDuration(told.result.Duration, 0, elapsed, way.situation)
				if len(attempts) > 0 {
					require.Equal(c, len(attempts), told.result.Attempts, "%s: attempts that OperationDone was told", way.situation)
				}
				for i, attempt := range attempts {
					require.Equal(c, want, attempt.Operation, "%s: the operation of attempt %d", way.situation, i+1)
					require.Equal(c, i+1, attempt.Number, "%s: the number of an attempt", way.situation)
					c.wantDuration(attempt.result.Duration, 0, elapsed, way.situation+", an attempt")
				}
			}
			const pause = 5 * time.Millisecond
			c.uploadNew(m, []byte("there"))
			told, _ := c.wantTold(w, "a list with a slow loop", walstorage.OpList, func() error {
				for _, err := range m.ListSegments(c.Context(), walstorage.ListOptions{}) {
					if err != nil {
						return err
					}
					<-time.After(pause)
				}
				return nil
			})
			if told != nil {
				c.wantDuration(told.result.Duration, pause, c.prompt, "a list with a slow loop, whose time counts")
			}
			if c.storage.cfg.Driver != nil {
				c.wantRetryTold()
			}
		},
	},
	{
		id: "O3", priority: 1, rule: "Hooks",
		title: "a missing or existing segment, a cancel and a closed manager are told by their kinds, so that nobody counts them as failures of the store",
		costs: "Every follower that looks for a segment too early, and every broker that shuts down, raises the alarm for a broken store.",
		run: func(c *T) {
			w := &watch{}
			m := c.openWatched(w)
			there, missing := c.uploadNew(m, []byte("there")), c.newID()
			cancelled, cancel := context.WithCancel(c.Context())
			cancel()
			late, cancelLate := context.WithDeadline(c.Context(), time.Now().Add(-time.Second))
			defer cancelLate()
			stat := func(ctx context.Context, m *handle, id walstorage.SegmentID) func() error {
				return func() error { _, err := m.StatSegment(ctx, id); return err }
			}
			closed := c.openWatched(w)
			require.NoError(c, closed.Close())
			for _, answer := range []struct {
				situation string
				op        walstorage.Op
				kind      error
				do        func() error
			}{
				{"a stat of a missing segment", walstorage.OpStat, walstorage.ErrSegmentNotFound, stat(c.Context(), m, missing)},
				{"a fetch of a missing segment", walstorage.OpFetch, walstorage.ErrSegmentNotFound, func() error {
					return m.FetchSegment(c.Context(), missing, 0, make([]byte, 1))
				}},
				{"an upload of other bytes", walstorage.OpUpload, walstorage.ErrSegmentExists, func() error {
					return m.UploadSegment(c.Context(), there, []byte("other bytes"))
				}},
				{"a cancelled stat", walstorage.OpStat, context.Canceled, stat(cancelled, m, there)},
				{"a stat after its deadline", walstorage.OpStat, context.DeadlineExceeded, stat(late, m, there)},
				{"a stat after Close", walstorage.OpStat, walstorage.ErrClosed, stat(c.Context(), closed, there)},
			} {
				told, attempts := c.wantTold(w, answer.situation, answer.op, answer.do)
				if told != nil && walstorage.KindOf(told.result.Err) != answer.kind {
					c.Errorf("%s: OperationDone was told %v, want an error of kind %q", answer.situation, told.result.Err, answer.kind)
				}
				for _, attempt := range attempts {
					if kind := walstorage.KindOf(attempt.result.Err); attempt.result.Err != nil && kind != answer.kind {
						c.Errorf("%s: AttemptDone was told %v, want an error of kind %q", answer.situation, attempt.result.Err, answer.kind)
					}
				}
			}
			if c.storage.cfg.Driver == nil {
				return
			}
			// Cancelled under way.
			faults, began := stalled()
			w = &watch{}
			m = c.openFaultyWith(faults, func(store *objectstore.Config) { patient(store); store.Hooks = w.hooks() })
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			go func() { <-began; cancel() }()
			told, attempts := c.wantTold(w, "a stat cancelled under way", walstorage.OpStat, stat(ctx, m, there))
			if told != nil && walstorage.KindOf(told.result.Err) != context.Canceled {
				c.Errorf("a stat cancelled under way: OperationDone was told %v", told.result.Err)
			}
			for _, attempt := range attempts {
				if walstorage.KindOf(attempt.result.Err) != context.Canceled {
					c.Errorf("a stat cancelled under way: AttemptDone was told %v", attempt.result.Err)
				}
			}
		},
	},
	{
		id: "O4", priority: 2, rule: "Hooks",
		title: "a hook that panics takes its own call with it and nothing else",
		costs: "A mistake in somebody's metrics code stops replication for good.",
		run: func(c *T) {
			var armed atomic.Value // the hook that panics, "" for none
			armed.Store("")
			called := false
			bang := func(hook string) {
				if armed.Load() == hook {
					panic(hook)
				}
			}
			c.storage.remember(c.storage.home)
			m := c.openWith(c.storage.home, walstorage.Hooks{
				OperationStart: func(ctx context.Context, _ walstorage.Operation) context.Context {
					called = true
					bang("OperationStart")
					return ctx
				},
				OperationDone: func(context.Context, walstorage.Operation, walstorage.OperationResult) { bang("OperationDone") },
				AttemptStart: func(ctx context.Context, _ walstorage.Attempt) context.Context {
					bang("AttemptStart")
					return ctx
				},
				AttemptDone: func(context.Context, walstorage.Attempt, walstorage.AttemptResult) { bang("AttemptDone") },
			})
			data := c.bytes(100)
			id := c.uploadNew(m, data)
			if !called {
				c.Skip(noHooks)
			}
			for _, hook := range []string{"OperationStart", "OperationDone", "AttemptStart", "AttemptDone"} {
				armed.Store(hook)
				m.mayPanic = true
				for _, call := range c.callsOn(c.newID(), c.newID()) {
					if !c.returns(call.name+" whose "+hook+" panics", func() {
						defer func() { _ = recover() }() // of a list
						_ = call.do(c.Context(), m)
					}) {
						return
					}
				}
				armed.Store("")
				m.mayPanic = false
				if !c.returns("calls after a panic in "+hook, func() { c.wantWhole(m, id, data, "after a panic in "+hook) }) {
					return
				}
			}
			c.returns("Close after hooks have panicked", func() { _ = m.Close() })
		},
	},
	{
		id: "O5", priority: 1, rule: "Hooks",
		title: "what is fit for a label has few values, whatever segments and errors there are: the operation, the call, the kind of error",
		costs: "A metrics system gets a new time series with every segment, a hundred a second, until it stops.",
		run: func(c *T) {
			w := &watch{}
			m := c.openWatched(w)
			var told taken
			for range 3 {
				for _, way := range c.ways(m) {
					_ = way.do()
				}
				t := w.take()
				told.operations, told.attempts = append(told.operations, t.operations...), append(told.attempts, t.attempts...)
			}
			ops := []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch, walstorage.OpStat, walstorage.OpDelete, walstorage.OpList}
			labels := make(map[string]bool)
			for _, operation := range told.operations {
				labels[fmt.Sprint("operation ", operation.Op, ", kind ", walstorage.KindOf(operation.result.Err))] = true
				if !slices.Contains(ops, operation.Op) {
					c.Errorf("an operation is called %q", operation.Op)
				}
			}
			for _, attempt := range told.attempts {
				labels[fmt.Sprint("attempt ", attempt.Op, ", call ", attempt.Call, ", kind ", walstorage.KindOf(attempt.result.Err))] = true
				if !slices.Contains([]string{"Put", "Get", "Stat", "Delete", "List"}, attempt.Call) {
					c.Errorf("the call of an attempt is %q, want the name of a method of objectstore.Driver", attempt.Call)
				}
			}
			c.Logf("%d operations and %d attempts had %d combinations of labels", len(told.operations), len(told.attempts), len(labels))
		},
	},
	{
		id: "O7", priority: 2, rule: "Hooks",
		title: "contexts lead from the caller through the operation and the attempt to the driver, so that spans have parents",
		costs: "A trace of a slow fetch ends at the store's door: nobody sees which request it was.",
		run: func(c *T) {
			w := &watch{}
			m := c.openWatched(w)
			ctx := context.WithValue(c.Context(), callerKey{}, "the caller's span")
			there := c.uploadNew(m, []byte("there"))
			for _, call := range c.callsOn(c.newID(), there) {
				told, _ := c.wantTold(w, call.name, call.op, func() error { return call.do(ctx, m) })
				if told != nil && told.caller != "the caller's span" {
					c.Errorf("%s: OperationStart does not get the caller's context", call.name)
				}
			}
			if c.storage.cfg.Driver == nil {
				return
			}
			w = &watch{}
			faults := &faultDriver{}
			seen := func(ctx context.Context, method string) {
				attempt, _ := ctx.Value(attemptKey{}).(*toldAttempt)
				switch {
				case attempt == nil || attempt.Call != method:
					c.Errorf("the driver's %s does not get the context of its attempt", method)
				case ctx.Value(callerKey{}) != "the caller's span":
					c.Errorf("the driver's %s does not get what the caller has put into the context", method)
				}
			}
			faults.onPut = func(_ int, call putCall) error { seen(call.ctx, "Put"); return call.next() }
			faults.onGet = func(_ int, call getCall) error { seen(call.ctx, "Get"); return call.next() }
			faults.onStat = func(_ int, call statCall) (objectstore.Object, error) {
				seen(call.ctx, "Stat")
				return call.next()
			}
			faults.onDelete = func(_ int, call deleteCall) error { seen(call.ctx, "Delete"); return call.next() }
			faults.onList = func(_ int, call listCall) ([]objectstore.Object, string, error) {
				seen(call.ctx, "List")
				return call.next()
			}
			m = c.openFaultyWith(faults, func(store *objectstore.Config) { store.Hooks = w.hooks() })
			there = c.newID()
			require.NoError(c, m.UploadSegment(ctx, there, []byte("there")))
			for _, call := range c.callsOn(c.newID(), there) {
				require.NoError(c, call.do(ctx, m), call.name)
			}
		},
	},
	{
		id: "O9", priority: 2, rule: "W11", needs: needDriver,
		title: "what is logged while a store is down holds no payload and nothing of a signed URL or a credential",
		run: func(c *T) {
			const secret = "sig=PlantedSecret0123456789"
			var log logText
			refusal := walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("Put \"https://account.example/container/x?sv=1&%s\": 503 slow down", secret))
			down := true
			m := c.openFaultyWith(&faultDriver{onPut: func(_ int, call putCall) error {
				if down {
					return refusal
				}
				return call.next()
			}}, func(store *objectstore.Config) {
				store.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				store.GateFailures, store.MaxAttempts = 2, 4
			})
			payload := "PayloadThatNobodyMayRead"
			for range 3 {
				require.Error(c, m.UploadSegment(c.Context(), c.newID(), []byte(payload)))
			}
			down = false
			require.NoError(c, m.UploadSegment(c.Context(), c.newID(), []byte(payload)))
			for _, text := range append(slices.Clone(c.storage.cfg.Secrets), secret, "PlantedSecret", payload) {
				if strings.Contains(log.String(), text) {
					c.Errorf("the log holds a secret or a payload: %s", strings.ReplaceAll(log.String(), text, "<it>"))
				}
			}
		},
	},
}

// way is a call that ends in one way or another, and what its hooks have to be told.
type way struct {
	situation string
	op        walstorage.Op
	id        walstorage.SegmentID
	segments  int   // that the call names
	bytes     int64 // of the buffer
	done      *int  // segments that OperationDone is told, known when do has returned
	do        func() error
}

// ways returns calls of every method that end well, in an answer of the store, in an argument error, in the context's
// end, and without a request. Each can be made once.
func (c *T) ways(m *handle) []way {
	ctx := c.Context()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	data := c.bytes(1000)
	there, missing, fresh, never := c.uploadNew(m, data), c.newID(), c.newID(), c.newID()
	extra := []walstorage.SegmentID{c.uploadNew(m, data), c.newID(), c.uploadNew(m, data)}
	invalid := walstorage.SegmentID{}
	stat := func(ctx context.Context, id walstorage.SegmentID) func() error {
		return func() error { _, err := m.StatSegment(ctx, id); return err }
	}
	told := func(n int) *int { return &n }
	var yielded int // by the last list: one segment may come twice (W10), and is counted twice
	list := func(ctx context.Context, options walstorage.ListOptions) func() error {
		return func() error {
			yielded = 0
			for _, err := range m.ListSegments(ctx, options) {
				if err != nil {
					return err
				}
				yielded++
			}
			return nil
		}
	}
	broker, idle := int32(1000+c.intn(1<<30)), int32(99)
	for range 2 {
		c.upload(m, c.newIDAt(broker, 0, time.Now()), data)
	}
	return []way{
		{"an upload", walstorage.OpUpload, fresh, 1, 1000, told(1), func() error { return m.UploadSegment(ctx, fresh, data) }},
		{"the same upload again", walstorage.OpUpload, fresh, 1, 1000, told(1), func() error { return m.UploadSegment(ctx, fresh, data) }},
		{"an upload of other bytes", walstorage.OpUpload, fresh, 1, 3, told(1), func() error { return m.UploadSegment(ctx, fresh, []byte("new")) }},
		{"an upload of no bytes", walstorage.OpUpload, missing, 1, 0, told(1), func() error { return m.UploadSegment(ctx, missing, nil) }},
		{"an upload of the zero id", walstorage.OpUpload, invalid, 1, 3, told(1), func() error { return m.UploadSegment(ctx, invalid, []byte("new")) }},
		{"a cancelled upload", walstorage.OpUpload, never, 1, 1000, told(1), func() error { return m.UploadSegment(cancelled, never, data) }},
		{"a fetch", walstorage.OpFetch, there, 1, 900, told(1), func() error { return m.FetchSegment(ctx, there, 100, make([]byte, 900)) }},
		{"a fetch beyond the end", walstorage.OpFetch, there, 1, 1001, told(1), func() error { return m.FetchSegment(ctx, there, 0, make([]byte, 1001)) }},
		{"a fetch of nothing", walstorage.OpFetch, there, 1, 0, told(1), func() error { return m.FetchSegment(ctx, there, 0, nil) }},
		{"a fetch at a negative offset", walstorage.OpFetch, there, 1, 1, told(1), func() error { return m.FetchSegment(ctx, there, -1, make([]byte, 1)) }},
		{"a fetch of a missing segment", walstorage.OpFetch, never, 1, 1, told(1), func() error { return m.FetchSegment(ctx, never, 0, make([]byte, 1)) }},
		{"a cancelled fetch", walstorage.OpFetch, there, 1, 1, told(1), func() error { return m.FetchSegment(cancelled, there, 0, make([]byte, 1)) }},
		{"a stat", walstorage.OpStat, there, 1, 0, told(1), stat(ctx, there)},
		{"a stat of a missing segment", walstorage.OpStat, never, 1, 0, told(1), stat(ctx, never)},
		{"a stat of the zero id", walstorage.OpStat, invalid, 1, 0, told(1), stat(ctx, invalid)},
		{"a cancelled stat", walstorage.OpStat, there, 1, 0, told(1), stat(cancelled, there)},
		{"a list", walstorage.OpList, invalid, 0, 0, &yielded, list(ctx, walstorage.ListOptions{BrokerID: &broker})},
		{"a list of a broker that has nothing", walstorage.OpList, invalid, 0, 0, &yielded, list(ctx, walstorage.ListOptions{BrokerID: &idle})},
		{"a list between bounds that hold nothing", walstorage.OpList, invalid, 0, 0, &yielded, list(ctx, walstorage.ListOptions{CreatedAfter: time.UnixMilli(2), CreatedBefore: time.UnixMilli(1)})},
		{"a cancelled list", walstorage.OpList, invalid, 0, 0, &yielded, list(cancelled, walstorage.ListOptions{})},
		{"a delete of one", walstorage.OpDelete, fresh, 1, 0, told(1), func() error { return m.DeleteSegments(ctx, fresh) }},
		{"a delete of three, one of them missing", walstorage.OpDelete, invalid, 3, 0, told(3), func() error { return m.DeleteSegments(ctx, extra...) }},
		{"a delete of none", walstorage.OpDelete, invalid, 0, 0, told(0), func() error { return m.DeleteSegments(ctx) }},
		{"a cancelled delete", walstorage.OpDelete, there, 1, 0, told(1), func() error { return m.DeleteSegments(cancelled, there) }},
		{"a delete of what was never there", walstorage.OpDelete, never, 1, 0, told(1), func() error { return m.DeleteSegments(ctx, never) }},
	}
}

// breakOff ranges over a list, in a goroutine of its own, until leave returns true at its first segment, panics or ends
// the goroutine.
func (c *T) breakOff(m *handle, leave func() bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // the caller's own
		for range m.WalStorageManager.ListSegments(c.Context(), walstorage.ListOptions{}) {
			if leave() {
				break
			}
		}
	}()
	c.waitFor(done, "a list that is broken off")
}

// wantDuration checks a duration that was told.
func (c *T) wantDuration(told, least, most time.Duration, situation string) {
	if told < least || told > most {
		c.Errorf("%s: the hooks were told that it took %v, it was at least %v and at most %v", situation, told, least, most)
	}
}

// wantToldUnderFaults is O1 for what only a store that fails brings about.
func (c *T) wantToldUnderFaults() {
	there := c.uploadNew(c.open(), []byte("there"))
	unavailable := walstorage.NewError(walstorage.ErrUnavailable, errors.New("503"))
	refused := walstorage.NewError(walstorage.ErrAccessDenied, errors.New("403"))
	for _, fault := range []struct {
		name   string
		faults *faultDriver
		limit  int
	}{
		{"fails once", failingOnce(unavailable), 0},
		{"fails for good", failing(refused), 0},
		{"fails until the limit", failing(unavailable), 3},
		{"fails in a way that has no name", failing(errors.New("odd")), 0},
		{"says that its own time has run out", failing(context.DeadlineExceeded), 2},
	} {
		w := &watch{}
		m := c.openFaultyWith(fault.faults, func(store *objectstore.Config) {
			store.Hooks, store.MaxAttempts = w.hooks(), fault.limit
		})
		for _, call := range c.callsOn(c.newID(), there) {
			situation := call.name + " on a store that " + fault.name
			_, attempts := c.wantTold(w, situation, call.op, func() error { return call.do(c.Context(), m) })
			if fault.limit > 0 && len(attempts) != fault.limit {
				c.Errorf("%s: %d attempts were told, want %d", situation, len(attempts), fault.limit)
			}
		}
	}
	for _, call := range c.callsOn(c.newID(), there) {
		w := &watch{}
		faults, began := stalled()
		m := c.openFaultyWith(faults, func(store *objectstore.Config) { patient(store); store.Hooks = w.hooks() })
		ctx, cancel := context.WithCancel(c.Context())
		go func() { <-began; cancel() }()
		c.wantTold(w, call.name+" cancelled under way", call.op, func() error { return call.do(ctx, m) })
		cancel()
	}
}

// failingOnce returns faults under which the first call of each method fails with err.
func failingOnce(err error) *faultDriver {
	first := func(n int, next func() error) error {
		if n == 1 {
			return err
		}
		return next()
	}
	return &faultDriver{
		onPut: func(n int, call putCall) error { return first(n, call.next) },
		onGet: func(n int, call getCall) error { return first(n, call.next) },
		onStat: func(n int, call statCall) (object objectstore.Object, _ error) {
			return object, first(n, func() (err error) { object, err = call.next(); return err })
		},
		onDelete: func(n int, call deleteCall) error { return first(n, call.next) },
		onList: func(n int, call listCall) (page []objectstore.Object, next string, _ error) {
			return page, next, first(n, func() (err error) { page, next, err = call.next(); return err })
		},
	}
}

// wantRetryTold is O2 for an upload whose first attempt fails: two attempts of a known length, one error.
func (c *T) wantRetryTold() {
	const length = 10 * time.Millisecond
	w := &watch{}
	m := c.openFaultyWith(&faultDriver{onPut: func(n int, call putCall) error {
		<-time.After(length)
		if n == 1 {
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("503"))
		}
		return call.next()
	}}, func(store *objectstore.Config) { store.Hooks = w.hooks() })
	id := c.newID()
	begin := time.Now()
	told, attempts := c.wantTold(w, "an upload whose first attempt fails", walstorage.OpUpload, func() error {
		return m.UploadSegment(c.Context(), id, []byte("data"))
	})
	elapsed := time.Since(begin)
	if told == nil {
		return
	}
	require.Len(c, attempts, 2, "attempts of an upload whose first one fails")
	require.Equal(c, 2, told.result.Attempts, "attempts that OperationDone was told")
	require.Equal(c, walstorage.ErrUnavailable, walstorage.KindOf(attempts[0].result.Err), "what the end of the first attempt was told")
	require.NoError(c, attempts[1].result.Err, "what the end of the second attempt was told")
	c.wantDuration(told.result.Duration, 2*length, elapsed, "an upload of two attempts")
	for _, attempt := range attempts {
		c.wantDuration(attempt.result.Duration, length, elapsed-length, "one attempt of two")
	}
}

// logText is a log in memory.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
