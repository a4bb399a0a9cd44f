package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// flush is a Flush call that waits.
type flush struct {
	at   time.Duration // when it was made: Notifies up to here count
	done chan struct{}
	// upTo is the number of the last flight that it waits for, -1 until everything notified has been read and sealed.
	// Guarded by the uploader's mu, as err is, which is set before done is closed.
	upTo int64
	err  error
}

// Flush closes the open segment early and returns when everything that was notified before the call is published, given
// up or skipped. It returns the error of ctx if that ends first, [ErrClosed], or the fence ([Uploader.Err]).
func (u *Uploader) Flush(ctx context.Context) error {
	f := &flush{done: make(chan struct{}), upTo: -1}
	u.mu.Lock()
	switch {
	case u.fenced != nil:
		u.mu.Unlock()
		return u.fenced
	case u.stopping:
		u.mu.Unlock()
		return ErrClosed
	}
	f.at = u.now()
	u.flushes = append(u.flushes, f)
	u.mu.Unlock()
	wake(u.wakeAssembler)
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.flushes, f); i >= 0 { // whichever woke it, this decides (D2)
		u.flushes = slices.Delete(u.flushes, i, i+1)
		return ctx.Err()
	}
	return f.err
}

// awaited tells whether a Flush waits for what was notified at that time. u.mu is held.
func (u *Uploader) awaited(at time.Duration) bool {
	for _, f := range u.flushes {
		if f.upTo < 0 && at <= f.at {
			return true
		}
	}
	return false
}

// served tells whether everything notified at the time at or before has been read, skipped or resigned. u.mu is held.
func (u *Uploader) served(at time.Duration) bool {
	for _, l := range u.partitions {
		if l.oldest() <= at {
			return false
		}
	}
	return true
}

// readFlushes notes for each waiting Flush whose records have all been read that it waits only for the segments sealed
// by now. There is no open segment. u.mu is held.
func (u *Uploader) readFlushes() {
	for _, f := range u.flushes {
		if f.upTo < 0 && u.served(f.at) {
			f.upTo = u.sealed
		}
	}
	u.answerFlushes()
}

// answerFlushes ends the waiting Flushes whose segments are all settled. u.mu is held; closing a channel does not wait.
func (u *Uploader) answerFlushes() {
	u.flushes = slices.DeleteFunc(u.flushes, func(f *flush) bool {
		if f.upTo < 0 || f.upTo > u.settled {
			return false
		}
		close(f.done)
		return true
	})
}

// failFlushes ends every waiting Flush with an error. u.mu is held.
func (u *Uploader) failFlushes(err error) {
	for _, f := range u.flushes {
		f.err = err
		close(f.done)
	}
	u.flushes = nil
}

// Close ends every leadership as Resign does, closes the open segment, uploads and publishes what has been read, and
// returns when the uploader's goroutines have ended. When ctx ends first, the calls under way are cancelled and what is
// left is given up; the error then tells so and matches that of ctx. A call of the store, the metadata log or a log that
// ignores its context is waited for StuckAfter longer, then Close returns although it is still under way: the error
// matches [ErrStuck], the buffer stays with the call (W5). To hand everything over, call Flush first. Close may be called
// more than once.
func (u *Uploader) Close(ctx context.Context) error {
	u.mu.Lock()
	if !u.stopping {
		u.stopping = true
		for _, f := range u.flushes {
			if f.upTo < 0 { // what it waits for is not read any more
				f.upTo, f.err = u.settled, ErrClosed
			}
		}
		u.answerFlushes()
		u.retireAll()
		u.cancelRead()
	}
	u.mu.Unlock()
	wake(u.wakeAssembler)
	wake(u.wakePublisher)
	select {
	case <-u.done:
	case <-ctx.Done():
	}
	if u.ended() {
		return nil
	}
	u.cancel()
	wake(u.wakeAssembler)
	wake(u.wakePublisher)
	timer := time.NewTimer(u.cfg.StuckAfter)
	defer timer.Stop()
	select {
	case <-u.done:
	case <-timer.C:
	}
	if u.ended() {
		return fmt.Errorf("leader: Close gave up what was not published: %w", ctx.Err())
	}
	u.cfg.Logger.Error("closed while a call that ignores its context is under way", slog.Duration("waited", u.cfg.StuckAfter))
	return fmt.Errorf("leader: Close gave up what was not published: %w; %w", ctx.Err(), ErrStuck)
}

// ended tells whether every goroutine has ended.
func (u *Uploader) ended() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}
