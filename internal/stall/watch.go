package stall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// Watch watches one attempt. Its methods may be called concurrently.
type Watch struct {
	after  time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// stalled is the cause of the cancellation of an attempt in which nothing moved.
type stalled struct{ after time.Duration }

func (s *stalled) Error() string { return fmt.Sprintf("no byte moved for %v", s.after) }

// Start begins to watch. The context that it returns ends with ctx, with End, and once nothing has moved for the time
// given, which is positive.
func Start(ctx context.Context, after time.Duration) (context.Context, *Watch) {
	watched, cancel := context.WithCancelCause(ctx)
	w := &Watch{after: after, ctx: watched, cancel: cancel}
	w.timer = time.AfterFunc(after, func() { cancel(&stalled{after: after}) })
	return watched, w
}

// Moved puts the end off. A transport may still read from a body whose attempt is over: that winds up nothing again.
func (w *Watch) Moved() {
	if w.ctx.Err() == nil {
		w.timer.Reset(w.after)
	}
}

// End releases what the watch holds, and ends its context.
func (w *Watch) End() {
	w.timer.Stop()
	w.cancel(nil)
}

// Cause makes the error of an attempt that the watch has ended: walstorage.ErrUnavailable, with the failure that came of
// it in the text and for errors.As. It is nil if the attempt did not end by the watch.
func (w *Watch) Cause(failure error) error {
	cause, ok := context.Cause(w.ctx).(*stalled)
	if !ok {
		return nil
	}
	return walstorage.NewError(walstorage.ErrUnavailable, &stalledError{stalled: cause, err: failure})
}

// stalledError says that an attempt was ended because nothing moved, and where that was. It has no Unwrap: the failure
// holds a context error, which is not the caller's (W7).
type stalledError struct{ stalled, err error }

func (e *stalledError) Error() string      { return e.stalled.Error() + ": " + e.err.Error() }
func (e *stalledError) As(target any) bool { return errors.As(e.err, target) }
