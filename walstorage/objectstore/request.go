package objectstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// request is what one call, one page or one batch asks of the store, repeated until it is answered or a limit ends it.
type request struct {
	o   *operation
	ctx context.Context // the caller's, ended by Close too
	id  walstorage.SegmentID
	// limit is when the last attempt may begin, the zero time for no limit.
	limit    time.Time
	attempts int
	panics   int
}

// leg counts the attempts of one request to the driver, which Config.MaxAttempts limits.
type leg struct{ attempts int }

// request begins a request of the operation.
func (o *operation) request(ctx context.Context, id walstorage.SegmentID) *request {
	r := &request{o: o, ctx: ctx, id: id}
	retryTime := o.m.cfg.MaxRetryTime
	if _, bounded := ctx.Deadline(); retryTime == 0 && !bounded {
		retryTime = defaultMaxRetryTime
	}
	if retryTime > 0 {
		r.limit = time.Now().Add(retryTime)
	}
	return r
}

// fail makes an error of the request.
func (r *request) fail(kind, cause error) error {
	return &walstorage.Error{Op: r.o.op.Op, ID: r.id, Attempts: r.sent(), Kind: kind, Cause: cause}
}

// sent is the number of requests that an error tells: those of the operation, but for a delete, whose errors are about
// single segments, those of the batch.
func (r *request) sent() int {
	if r.o.op.Op == walstorage.OpDelete {
		return r.attempts
	}
	return r.o.attempts
}

// ended makes the error of a call whose context has ended: ErrClosed if Close did it, else the caller's own context
// error. last is what the store had said by then, nil if nothing.
func (r *request) ended(last error) error {
	cause := context.Cause(r.ctx)
	last = said(last)
	if errors.Is(cause, errClosing) {
		return r.fail(walstorage.ErrClosed, last)
	}
	kind := r.ctx.Err()
	switch {
	case cause == kind:
		return r.fail(kind, last)
	case last == nil:
		return r.fail(kind, cause)
	}
	return r.fail(kind, fmt.Errorf("%w; the store had said: %w", cause, last))
}

// said is the error of an earlier attempt as a part of another text: without what that text says itself.
func said(err error) error {
	if e, ok := err.(*walstorage.Error); ok {
		return &walstorage.Error{Kind: e.Kind, Cause: e.Cause, RetryAfter: e.RetryAfter}
	}
	return err
}

// do repeats an attempt until it has an answer or a limit is reached.
func (r *request) do(l *leg, g *gate, call string, timeout time.Duration, run func(ctx context.Context) error) error {
	var last error
	for {
		sent, err := r.attempt(l, g, call, timeout, last, run)
		if ended := r.ctx.Err(); sent && last != nil && ended != nil && walstorage.KindOf(err) == ended {
			return r.ended(last) // what the store had said before says more than that this attempt was cut off
		}
		if !sent || err == nil || !r.retryable(err) {
			return err
		}
		if ended := r.pause(l, err); ended != nil {
			return ended
		}
		last = err
	}
}

// maxPanics is the number of panics in one call after which it is not repeated any more.
const maxPanics = 3

// retryable tells whether the same request may be answered if it is sent again: after ErrUnavailable, and after a panic
// of the driver a few times (Aiven-Open/tiered-storage-for-apache-kafka#820).
func (r *request) retryable(err error) bool {
	if errors.Is(err, walstorage.ErrUnavailable) {
		return true
	}
	var panicked *PanicError
	return errors.As(err, &panicked) && r.panics < maxPanics
}

// pause waits before the request is repeated: full jitter, or what the store asked for if that is longer. It returns the
// error of the call if there is to be no repetition.
func (r *request) pause(l *leg, last error) error {
	cfg := &r.o.m.cfg
	if cfg.MaxAttempts > 0 && l.attempts >= cfg.MaxAttempts {
		return r.exhausted(last)
	}
	wait := backoff(cfg.Seed, r.id, r.attempts, cfg.BackoffBase, cfg.BackoffCap)
	wait = max(wait, r.retryAfter(last))
	if !r.limit.IsZero() && !time.Now().Add(wait).Before(r.limit) {
		return r.exhausted(last)
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.ctx.Done():
		}
	}
	if r.ctx.Err() != nil { // first, whatever woke us (D2)
		return r.ended(last)
	}
	return nil
}

// exhausted is the error of a call that may not be repeated: the last failure, with the number of attempts. "Not found"
// is no answer to an upload: it means that a create was refused as existing and the object was not there.
func (r *request) exhausted(last error) error {
	e, ok := last.(*walstorage.Error)
	if !ok || e.Kind != nil && e.Kind != walstorage.ErrUnavailable {
		return r.fail(walstorage.ErrUnavailable, said(last))
	}
	return &walstorage.Error{Op: r.o.op.Op, ID: r.id, Attempts: r.sent(), RetryAfter: e.RetryAfter, Kind: e.Kind, Cause: e.Cause}
}

// retryAfter is the pause that the store asked for with its last answer, within the cap.
func (r *request) retryAfter(err error) time.Duration {
	var e *walstorage.Error
	if !errors.As(err, &e) {
		return 0
	}
	return min(max(e.RetryAfter, 0), r.o.m.cfg.RetryAfterCap)
}

// errRetryTime ends a wait at the gate that would last beyond Config.MaxRetryTime.
var errRetryTime = errors.New("the retry time is over")

// attempt waits at the gate and sends one request. sent is false if a limit or the context ended the wait: then the error
// is that of the call, which is over. last is the failure of the attempt before, nil if there was none. The error is a
// *walstorage.Error.
func (r *request) attempt(l *leg, g *gate, call string, timeout time.Duration, last error, run func(ctx context.Context) error) (sent bool, err error) {
	p, waitErr := g.enter(r.ctx, r.limit, timeout)
	if waitErr != nil {
		if last == nil { // no request of this call was sent: what others were told is the best that can be said
			last = g.lastFailure()
		}
		switch {
		case r.ctx.Err() != nil:
			return false, r.ended(last)
		case last == nil:
			return false, r.fail(walstorage.ErrUnavailable, waitErr)
		}
		return false, r.exhausted(last)
	}
	r.attempts++
	r.o.attempts++
	l.attempts++
	result := silent
	defer func() { g.done(p, result, r.retryAfter(err), err) }()
	err = r.send(call, timeout, run)
	result = r.outcome(err)
	return true, err
}

// outcome is what the result of an attempt tells the gate about the store.
func (r *request) outcome(err error) outcome {
	if err == nil {
		return answered
	}
	var panicked *PanicError
	switch kind := walstorage.KindOf(err); {
	case kind == walstorage.ErrUnavailable, kind == nil && errors.As(err, &panicked):
		return failed
	case kind == walstorage.ErrClosed, kind == context.Canceled, kind == context.DeadlineExceeded:
		return silent
	}
	return answered
}

// send runs one attempt between its two hooks, with its own deadline.
func (r *request) send(call string, timeout time.Duration, run func(ctx context.Context) error) (err error) {
	hooks := &r.o.m.cfg.Hooks
	attempt := walstorage.Attempt{Operation: r.o.op, Number: r.o.attempts, Call: call}
	start := time.Now()
	ctx := hooks.StartAttempt(r.ctx, attempt)
	finished := false
	defer func() {
		result := walstorage.AttemptResult{Duration: time.Since(start), Err: err}
		if !finished {
			result.Err = r.fail(nil, errUnfinished)
		}
		hooks.EndAttempt(ctx, attempt, result)
	}()
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if raw := contain(func() error { return run(timed) }); raw != nil {
		err = r.classify(raw, timed, timeout)
	}
	finished = true
	return err
}

// contain runs a piece of the driver and turns a panic of it into an error.
func contain(run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run()
}

// classify turns what a driver returned into the error of the Manager (W7). A definite answer of the store stands, even
// if the context ended while it came. Everything else is the caller's context error if that has ended, and otherwise
// ErrUnavailable if the attempt's own deadline is over: that is not the caller's (H8). A context error for which there
// is no reason is a time-out inside the driver's library.
func (r *request) classify(raw error, attempt context.Context, timeout time.Duration) error {
	var panicked *PanicError
	if errors.As(raw, &panicked) {
		r.panics++
		return r.fail(nil, redact(raw))
	}
	kind := kindOf(raw)
	switch kind {
	case nil, walstorage.ErrUnavailable, context.Canceled, context.DeadlineExceeded:
		switch {
		case r.ctx.Err() != nil:
			return r.ended(causeOf(raw, r.ctx.Err()))
		case attempt.Err() != nil:
			return r.unavailable(raw, &timedOut{after: timeout, err: causeOf(raw, context.DeadlineExceeded)})
		case kind != nil:
			return r.unavailable(raw, causeOf(raw, walstorage.ErrUnavailable))
		}
	}
	return r.fail(kind, causeOf(raw, kind))
}

func (r *request) unavailable(raw, cause error) error {
	e := &walstorage.Error{Op: r.o.op.Op, ID: r.id, Attempts: r.sent(), Kind: walstorage.ErrUnavailable, Cause: cause}
	var told *walstorage.Error
	if errors.As(raw, &told) {
		e.RetryAfter = max(told.RetryAfter, 0)
	}
	return e
}

// kindOf is the kind of a driver's error. That of a *DeleteError is what all its failures have in common, or none.
func kindOf(raw error) error {
	var partial *DeleteError
	if !errors.As(raw, &partial) {
		return walstorage.KindOf(raw)
	}
	var kind error
	for i, failure := range partial.Failures {
		switch k := walstorage.KindOf(failure.Err); {
		case i == 0:
			kind = k
		case k != kind:
			return nil
		}
	}
	return kind
}

// causeOf is what raw adds to the kind: its text without secrets, and without the kind said twice.
func causeOf(raw, kind error) error {
	if raw == kind {
		return nil
	}
	if e, ok := raw.(*walstorage.Error); ok && e.Kind == kind && e.Op == "" {
		return redact(e.Cause)
	}
	return redact(raw)
}

// timedOut says that an attempt had no answer within its own deadline.
type timedOut struct {
	after time.Duration
	err   error // nil if the driver said no more
}

func (t *timedOut) Error() string {
	if t.err == nil {
		return fmt.Sprintf("no answer within %v", t.after)
	}
	return fmt.Sprintf("no answer within %v: %v", t.after, t.err)
}

func (t *timedOut) As(target any) bool { return t.err != nil && errors.As(t.err, target) }
