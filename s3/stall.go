package s3

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// stall ends an attempt in which no byte has moved for some time (W6, W8).
type stall struct {
	after  time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// stalled is the cause of the cancellation of an attempt in which nothing moved.
type stalled struct{ after time.Duration }

func (s *stalled) Error() string { return fmt.Sprintf("no byte moved for %v", s.after) }

func watch(ctx context.Context, after time.Duration) (context.Context, *stall) {
	watched, cancel := context.WithCancelCause(ctx)
	s := &stall{after: after, ctx: watched, cancel: cancel}
	s.timer = time.AfterFunc(after, func() { cancel(&stalled{after: after}) })
	return watched, s
}

// moved puts the end off. A transport may still read from a body whose attempt is over: that winds up nothing again.
func (s *stall) moved() {
	if s.ctx.Err() == nil {
		s.timer.Reset(s.after)
	}
}

// end releases what the watch holds.
func (s *stall) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// cause is the *stalled if the watch has ended the attempt, else nil.
func (s *stall) cause() error {
	if cause, ok := context.Cause(s.ctx).(*stalled); ok {
		return cause
	}
	return nil
}

// upload is the body of an upload, whose every read counts as a movement. It hides the rest of Body, so that nothing
// passes the count by.
type upload struct {
	body  *objectstore.Body
	stall *stall
}

var _ io.ReadSeeker = (*upload)(nil)

func (u *upload) Read(p []byte) (int, error) {
	u.stall.moved()
	return u.body.Read(p)
}

func (u *upload) Seek(offset int64, whence int) (int64, error) { return u.body.Seek(offset, whence) }
