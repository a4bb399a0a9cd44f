package leader

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/walhop/walhop/metadata"
)

// Everything that calls code which is not ours goes through this file: a panic there becomes an error, counted and
// reported, and the loops go on (L10).

// contain is deferred by each call; it turns a panic into an error.
func (u *Uploader) contain(where string, err *error) {
	value := recover()
	if value == nil {
		return
	}
	*err = &PanicError{Where: where, Value: value}
	u.mu.Lock()
	u.stats.Panics++
	first := !u.panicked[where]
	u.panicked[where] = true
	u.mu.Unlock()
	if first { // once for each place, with the stack that tells the culprit
		u.cfg.Logger.Error("panic contained", slog.String("in", where), slog.Any("value", value), slog.String("stack", string(debug.Stack())))
	}
	if u.cfg.Hooks.Panic != nil {
		u.cfg.Hooks.Panic(where, value)
	}
}

func (l *Leadership) logEnd() (end int64, err error) {
	defer l.u.contain("Log.End", &err)
	end, _ = l.log.End()
	return end, nil
}

func (l *Leadership) logStart() (start int64, err error) {
	defer l.u.contain("Log.Start", &err)
	return l.log.Start(), nil
}

func (l *Leadership) logRead(ctx context.Context, offset int64, dst []byte) (n int, err error) {
	defer l.u.contain("Log.Read", &err)
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
