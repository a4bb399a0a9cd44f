package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/walhop/walhop/metadata"
)

// Everything that calls code which is not ours goes through this file: a panic there becomes an error, counted and
// reported, and the loops go on (L10).

// contain is deferred by each call of the store and of the metadata log; it turns a panic into an error.
func (u *Uploader) contain(where string, err *error) {
	if value := recover(); value != nil {
		panicked := u.panicIn(where, value)
		*err = panicked
		u.tellPanic(panicked)
	}
}

// contain is deferred by each call of a log. The hook is called once the visit is over: it may call Resign, which waits
// for that (F7).
func (l *Leadership) contain(where string, err *error) {
	if value := recover(); value != nil {
		panicked := l.u.panicIn(where, value)
		*err = panicked
		l.panics = append(l.panics, panicked)
	}
}

// tellPanics tells of the panics of the visit that has ended.
func (l *Leadership) tellPanics() {
	for _, panicked := range l.panics {
		l.u.tellPanic(panicked)
	}
	l.panics = nil
}

func (u *Uploader) tellPanic(panicked *PanicError) {
	if u.cfg.Hooks.Panic != nil {
		u.cfg.Hooks.Panic(panicked.Where, panicked.Value)
	}
}

// panicIn counts a panic and makes an error of it.
func (u *Uploader) panicIn(where string, value any) *PanicError {
	u.mu.Lock()
	u.stats.Panics++
	first := !u.panicked[where]
	u.panicked[where] = true
	u.mu.Unlock()
	if first { // once for each place, with the stack that tells the culprit
		u.cfg.Logger.Error("panic contained", slog.String("in", where), slog.Any("value", value), slog.String("stack", string(debug.Stack())))
	}
	return &PanicError{Where: where, Value: value}
}

// matches is errors.Is for what a call has returned. What it panicked with is no answer, whatever it matches: the outcome
// of the call is unknown.
func matches(err, target error) bool {
	if _, panicked := err.(*PanicError); panicked {
		return false
	}
	return errors.Is(err, target)
}

func (l *Leadership) logEnd() (end int64, err error) {
	defer l.contain("Log.End", &err)
	end, _ = l.log.End()
	return end, nil
}

func (l *Leadership) logStart() (start int64, err error) {
	defer l.contain("Log.Start", &err)
	return l.log.Start(), nil
}

func (l *Leadership) logRead(ctx context.Context, offset int64, dst []byte) (n int, err error) {
	defer l.contain("Log.Read", &err)
	n, err = l.log.Read(ctx, offset, dst)
	if err == nil && (n < 0 || n > len(dst)) {
		return 0, fmt.Errorf("%w: Read returned %d bytes for a buffer of %d", ErrLog, n, len(dst))
	}
	return n, err
}

func (u *Uploader) callUpload(ctx context.Context, f *flight) (err error) {
	defer u.contain("Storage.UploadSegment", &err)
	return u.cfg.Storage.UploadSegment(ctx, f.id, f.object)
}

func (u *Uploader) callPublish(ctx context.Context, events []*metadata.Event) (stored int, err error) {
	defer u.contain("Metadata.Publish", &err)
	stored, err = u.cfg.Metadata.Publish(ctx, events...)
	if stored < 0 || stored > len(events) {
		return 0, fmt.Errorf("leader: the metadata log breaks its contract: Publish stored %d of %d events", stored, len(events))
	}
	return stored, err
}
