package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// call is one method of a manager, for the cases that try all of them.
type call struct {
	name string
	op   walstorage.Op
	do   func(ctx context.Context, m *handle) error
}

// callsOn returns one call of each method. The upload is of uploaded, the others are of there.
func (c *T) callsOn(uploaded, there walstorage.SegmentID) []call {
	return []call{
		{"UploadSegment", walstorage.OpUpload, func(ctx context.Context, m *handle) error {
			return m.UploadSegment(ctx, uploaded, []byte("new"))
		}},
		{"FetchSegment", walstorage.OpFetch, func(ctx context.Context, m *handle) error {
			return m.FetchSegment(ctx, there, 0, make([]byte, 1))
		}},
		{"StatSegment", walstorage.OpStat, func(ctx context.Context, m *handle) error {
			_, err := m.StatSegment(ctx, there)
			return err
		}},
		{"DeleteSegments", walstorage.OpDelete, func(ctx context.Context, m *handle) error {
			return m.DeleteSegments(ctx, there)
		}},
		{"ListSegments", walstorage.OpList, func(ctx context.Context, m *handle) error {
			n := 0
			for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
				if err != nil {
					return err
				}
				if n++; n > 100_000 {
					return errEndless
				}
			}
			return nil
		}},
	}
}

// stalled returns faults under which every call waits until its context has ended, as on a server that accepts and
// never answers. began is sent one value for each call that has come in.
func stalled() (faults *faultDriver, began chan string) {
	faults, began = &faultDriver{}, make(chan string, 1000)
	wait := func(ctx context.Context, method string) error {
		began <- method
		<-ctx.Done()
		return ctx.Err()
	}
	faults.onPut = func(_ int, call putCall) error { return wait(call.ctx, "Put") }
	faults.onGet = func(_ int, call getCall) error { return wait(call.ctx, "Get") }
	faults.onStat = func(_ int, call statCall) (objectstore.Object, error) {
		return objectstore.Object{}, wait(call.ctx, "Stat")
	}
	faults.onDelete = func(_ int, call deleteCall) error { return wait(call.ctx, "Delete") }
	faults.onList = func(_ int, call listCall) ([]objectstore.Object, string, error) {
		return nil, "", wait(call.ctx, "List")
	}
	return faults, began
}

// failing returns faults under which every call fails with err.
func failing(err error) *faultDriver {
	return &faultDriver{
		onPut:    func(int, putCall) error { return err },
		onGet:    func(int, getCall) error { return err },
		onStat:   func(int, statCall) (objectstore.Object, error) { return objectstore.Object{}, err },
		onDelete: func(int, deleteCall) error { return err },
		onList:   func(int, listCall) ([]objectstore.Object, string, error) { return nil, "", err },
	}
}

// patient is a Manager's configuration whose attempts outlast any case.
func patient(store *objectstore.Config) {
	store.AttemptTimeout = time.Hour
}

// wantContextError checks that err is the caller's own context error and not the other one (W7, H7).
func (c *T) wantContextError(err, want error, situation string) {
	other := context.Canceled
	if want == context.Canceled {
		other = context.DeadlineExceeded
	}
	if c.wantKind(err, want, situation) && errors.Is(err, other) {
		c.Errorf("%s: error %q is both %v and %v", situation, err, want, other)
	}
}

// Group H: a caller that gives up gets its own context error back, promptly, and nobody else notices.
var contextCases = []testCase{
	{
		id: "H1", priority: 1, rule: "W8",
		title: "a context cancelled before the call: context.Canceled, no request, and nothing has changed",
		costs: "A broker that has resigned goes on writing and deleting.",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(100)
			there, uploaded := c.uploadNew(m, data), c.newID()
			c.countsRequests(m)
			ctx, cancel := context.WithCancel(c.Context())
			cancel()
			for _, call := range c.callsOn(uploaded, there) {
				c.noRequest(m, call.name+" with a cancelled context", func() {
					c.wantContextError(call.do(ctx, m), context.Canceled, call.name+" with a cancelled context")
				})
			}
			c.wantMissing(m, uploaded, "an upload whose context was cancelled before")
			c.wantWhole(m, there, data, "after a delete whose context was cancelled before")
		},
	},
	{
		id: "H2", priority: 1, rule: "W8",
		title: "a deadline that has passed before the call: context.DeadlineExceeded, and nothing has changed",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(100)
			there, uploaded := c.uploadNew(m, data), c.newID()
			ctx, cancel := context.WithDeadline(c.Context(), time.Now().Add(-time.Second))
			defer cancel()
			for _, call := range c.callsOn(uploaded, there) {
				c.wantContextError(call.do(ctx, m), context.DeadlineExceeded, call.name+" after its deadline")
			}
			c.wantMissing(m, uploaded, "an upload whose deadline had passed before")
			c.wantWhole(m, there, data, "after a delete whose deadline had passed before")
		},
	},
	{
		id: "H3", priority: 1, rule: "W8",
		title: "an upload that is cancelled under way returns promptly with the context error, or has succeeded",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(c.size(512 << 10))
			for _, delay := range cancelDelays {
				id := c.newID()
				err, returned := c.cancelled(delay, func(ctx context.Context) error { return m.UploadSegment(ctx, id, data) })
				if !returned {
					return
				}
				if err != nil {
					c.wantContextError(err, context.Canceled, fmt.Sprintf("an upload cancelled after %v", delay))
				} else {
					c.wantWhole(m, id, data, "an upload that returned nil though its context was cancelled")
				}
			}
			c.stalledCall(0)
		},
	},
	{
		id: "H4", priority: 1, rule: "W1",
		title: "what a cancelled upload leaves is the whole segment or nothing, and the same upload again succeeds",
		run: func(c *T) {
			m, other := c.open(), c.open()
			data := c.bytes(c.size(512 << 10))
			for _, delay := range cancelDelays {
				id := c.newID()
				if _, returned := c.cancelled(delay, func(ctx context.Context) error { return m.UploadSegment(ctx, id, data) }); !returned {
					return
				}
				c.wantWholeOrMissing(other, id, data, fmt.Sprintf("an upload cancelled after %v", delay))
				require.NoError(c, m.UploadSegment(c.Context(), id, data), "the same upload again")
				c.wantWhole(other, id, data, "after the same upload again")
			}
			// A store may let go of a cancelled upload later, once its disk has answered; Close waits for that (W8).
			m.finish()
			require.Empty(c, c.residue(), "left by cancelled uploads")
		},
	},
	{
		id: "H5", priority: 1, rule: "W8",
		title: "a fetch that is cancelled under way returns promptly, and the next one works",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(c.size(512 << 10))
			id := c.uploadNew(m, data)
			for _, delay := range cancelDelays {
				dst := make([]byte, len(data))
				err, returned := c.cancelled(delay, func(ctx context.Context) error { return m.FetchSegment(ctx, id, 0, dst) })
				if !returned {
					return
				}
				if err != nil {
					c.wantContextError(err, context.Canceled, fmt.Sprintf("a fetch cancelled after %v", delay))
				} else {
					c.wantBytes(data, dst, "a fetch that returned nil though its context was cancelled")
				}
				c.wantWhole(m, id, data, "the fetch after a cancelled one")
			}
			for i := 1; i < 5; i++ {
				c.stalledCall(i) // FetchSegment, and the rest
			}
		},
	},
	{
		id: "H6", priority: 1, rule: "W8", needs: needDriver,
		title: "a call that waits between two attempts returns promptly when its context ends",
		run: func(c *T) {
			unavailable := walstorage.NewError(walstorage.ErrUnavailable, errors.New("503 slow down"))
			unavailable.RetryAfter = time.Hour
			there := c.uploadNew(c.open(), []byte("there"))
			for _, call := range c.callsOn(c.newID(), there) {
				faults := failing(unavailable)
				m := c.openFaulty(faults)
				ctx, cancel := context.WithCancel(c.Context())
				done := make(chan error, 1)
				go func() { done <- call.do(ctx, m) }()
				if !c.poll(func() bool { return faults.busy() == 0 && faults.attempted() > 0 }, call.name+": the first attempt") {
					cancel()
					return
				}
				cancel()
				select {
				case err := <-done:
					// Giving up at once, because the pause asked for is longer than it would wait, is right too.
					if !errors.Is(err, walstorage.ErrUnavailable) {
						c.wantContextError(err, context.Canceled, call.name+" cancelled while it waits for its next attempt")
					}
				case <-time.After(c.prompt):
					c.Fatalf("%s has not returned %v after it was cancelled while waiting for its next attempt", call.name, c.prompt)
				}
			}
		},
	},
	{
		id: "H7", priority: 1, rule: "W7",
		title: "a cancel and a deadline can be told apart",
		costs: "A broker that shuts down (cancel) looks like a store that is slow (deadline), or the other way round, in every alarm.",
		run: func(c *T) {
			m := c.open()
			there := c.uploadNew(m, []byte("there"))
			for _, call := range c.callsOn(c.newID(), there) {
				ctx, cancel := context.WithCancel(c.Context())
				cancel()
				err := call.do(ctx, m)
				c.wantContextError(err, context.Canceled, call.name+" cancelled")
				require.Equal(c, context.Canceled, walstorage.KindOf(err), "%s: the kind of %v", call.name, err)

				ctx, cancel = context.WithTimeout(c.Context(), 0)
				err = call.do(ctx, m)
				cancel()
				c.wantContextError(err, context.DeadlineExceeded, call.name+" after its deadline")
				require.Equal(c, context.DeadlineExceeded, walstorage.KindOf(err), "%s: the kind of %v", call.name, err)
			}
		},
	},
	{
		id: "H8", priority: 1, rule: "W7", needs: needDriver,
		title: "the deadline of one attempt is not reported as the caller's, and the next attempt is made",
		costs: "The leader believes that it has given up itself, and drops a segment that the store would have taken a moment later.",
		run: func(c *T) {
			// An attempt that hangs is ended by its own deadline, and the next one succeeds.
			faults := &faultDriver{}
			faults.onPut = func(n int, call putCall) error {
				if n == 1 {
					<-call.ctx.Done()
					return call.ctx.Err()
				}
				return call.next()
			}
			m := c.openFaultyWith(faults, func(store *objectstore.Config) { store.AttemptTimeout = c.prompt / 10 })
			data := c.bytes(500)
			id := c.uploadNew(m, data)
			c.wantWhole(m, id, data, "uploaded by the attempt after one that hung")

			// A failure for good whose cause is a deadline is that failure, and the caller's deadline has not passed.
			for _, kind := range []error{walstorage.ErrAccessDenied, nil} {
				m = c.openFaulty(failing(walstorage.NewError(kind, fmt.Errorf("reading the answer: %w", context.DeadlineExceeded))))
				for _, call := range c.callsOn(c.newID(), id) {
					err := call.do(c.Context(), m)
					require.Error(c, err, "%s on a store that fails every call", call.name)
					if errors.Is(err, context.DeadlineExceeded) {
						c.Errorf("%s: the caller's context has not ended, and the error says so: %v", call.name, err)
					}
				}
			}

			// Nothing but such failures, until the caller cancels: its own cancel is what it gets.
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			m = c.openFaulty(&faultDriver{onPut: func(n int, _ putCall) error {
				if n == 3 {
					cancel()
				}
				return walstorage.NewError(walstorage.ErrUnavailable, context.DeadlineExceeded)
			}})
			err := m.UploadSegment(ctx, c.newID(), data)
			require.Error(c, err)
			if errors.Is(err, context.DeadlineExceeded) {
				c.Errorf("cancelled between attempts that timed out: the error says that the caller's deadline has passed: %v", err)
			}
		},
	},
	{
		id: "H9", priority: 2, rule: "W8", needs: needDriver,
		title: "a deadline of the caller that is shorter than an attempt ends the call when it passes, as context.DeadlineExceeded",
		costs: "A follower that gives the store 100 ms before it asks its leader waits for the store's own time-outs instead.",
		run: func(c *T) {
			for _, call := range c.callsOn(c.newID(), c.newID()) {
				faults, _ := stalled()
				m := c.openFaultyWith(faults, patient)
				ctx, cancel := context.WithTimeout(c.Context(), 20*time.Millisecond)
				var err error
				returned := c.returns(call.name+" whose deadline passes under way", func() { err = call.do(ctx, m) })
				cancel()
				if !returned {
					return
				}
				c.wantContextError(err, context.DeadlineExceeded, call.name+" whose deadline passes under way")
			}
		},
	},
	{
		id: "H11", priority: 1, rule: "W8", needs: needDriver,
		title: "one caller's cancel does not disturb another's call",
		run: func(c *T) {
			// A cancel that reaches the other call may do so late: more than one look.
			for range 20 {
				c.cancelBesideAnother()
			}
		},
	},
}

// cancelBesideAnother cancels one of two uploads under way on one handle. The other must not notice.
func (c *T) cancelBesideAnother() {
	release := make(chan struct{})
	began := make(chan struct{}, 10)
	faults := &faultDriver{onPut: func(_ int, call putCall) error {
		began <- struct{}{}
		select {
		case <-call.ctx.Done():
			return call.ctx.Err()
		case <-release:
			return call.next()
		}
	}}
	m := c.openFaultyWith(faults, patient)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	given, kept := c.newID(), c.newID()
	data := c.bytes(1000)
	givenDone, keptDone := make(chan error, 1), make(chan error, 1)
	go func() { givenDone <- m.UploadSegment(ctx, given, data) }()
	go func() { keptDone <- m.UploadSegment(c.Context(), kept, data) }()
	<-began
	<-began
	cancel()
	c.wantContextError(<-givenDone, context.Canceled, "the upload that was cancelled")
	close(release)
	require.NoError(c, <-keptDone, "the upload beside it")
	c.wantWhole(m, kept, data, "uploaded beside one that was cancelled")
}

// cancelDelays are the times after which H3 to H5 cancel: before, during and after a call of a fast store.
var cancelDelays = []time.Duration{
	0, 10 * time.Microsecond, 30 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 400 * time.Microsecond,
	700 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond,
	8 * time.Millisecond,
}

// cancelled makes a call whose context is cancelled after delay and returns its error; returned is false, and the case
// has failed, if it does not return promptly.
func (c *T) cancelled(delay time.Duration, do func(ctx context.Context) error) (err error, returned bool) {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	timer := time.AfterFunc(delay, cancel)
	defer timer.Stop()
	returned = c.returns(fmt.Sprintf("a call cancelled after %v returns", delay), func() { err = do(ctx) })
	if !returned {
		return nil, false
	}
	return err, true
}

// stalledCall makes the i-th call of callsOn on a store that never answers, cancels it, and checks that it returns.
func (c *T) stalledCall(i int) {
	if c.storage.cfg.Driver == nil {
		return
	}
	faults, began := stalled()
	m := c.openFaultyWith(faults, patient)
	call := c.callsOn(c.newID(), c.newID())[i]
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call.do(ctx, m) }()
	<-began
	cancel()
	select {
	case err := <-done:
		c.wantContextError(err, context.Canceled, call.name+" cancelled while the store does not answer")
	case <-time.After(c.prompt):
		c.Fatalf("%s has not returned %v after it was cancelled while the store does not answer", call.name, c.prompt)
	}
	if n := faults.busy(); n != 0 {
		c.Errorf("%s has returned while %d of its attempts go on", call.name, n)
	}
}

// poll waits until done returns true, for the time of prompt calls at most.
func (c *T) poll(done func() bool, situation string) bool {
	limit := time.NewTimer(c.prompt)
	defer limit.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-limit.C:
			c.Errorf("%s: not after %v", situation, c.prompt)
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// reused overwrites buf after a call has returned, as a leader that fills it with its next segment does.
func reused(buf []byte) { copy(buf, bytes.Repeat([]byte{0xdb}, len(buf))) }
