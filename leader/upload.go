package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// The pauses between UploadSegment calls of one segment. A manager made by objectstore retries by itself, so they
// matter for other managers, and for failures that a manager does not retry.
const (
	firstUploadPause = 50 * time.Millisecond
	mostUploadPause  = time.Second
)

// upload stores one segment. It runs on a goroutine of its own, and returns only when the store has let go of the buffer.
func (u *Uploader) upload(f *flight) {
	defer u.leave()
	ctx, cancel := context.WithTimeout(u.ctx, u.cfg.GiveUpAfter)
	defer cancel()
	var err error
	for attempt := 1; ; attempt++ {
		err = u.attempt(ctx, f, attempt)
		if err == nil || hopeless(err) || ctx.Err() != nil {
			break
		}
		timer := time.NewTimer(jittered(pause(attempt, firstUploadPause, mostUploadPause), u.cfg.Seed, f.id.UUID[:], attempt))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		if ctx.Err() != nil {
			break
		}
	}

	u.mu.Lock()
	f.returned = true
	switch {
	case f.state == flightGivenUp: // it was stuck; its late return changes nothing but the slot (L3)
		if f.settled {
			u.release(f)
		}
		u.mu.Unlock()
		return
	case err != nil:
		given := u.giveUp(f, err)
		u.mu.Unlock()
		u.report(given)
	default:
		f.state, f.storedAt = flightStored, u.now()
		u.stats.Stored++
		u.mu.Unlock()
	}
	wake(u.wakePublisher)
}

// attempt is one UploadSegment call, always under the same id: W2 makes the repetition safe (L3).
func (u *Uploader) attempt(ctx context.Context, f *flight, number int) error {
	start := u.now()
	err := u.callUpload(ctx, f)
	duration := u.now() - start

	u.mu.Lock()
	u.stats.Uploads++
	if err != nil {
		u.stats.FailedUploads++
	}
	was, late := u.storeDown, f.state == flightGivenUp
	if !late {
		u.storeDown = err != nil
	}
	u.mu.Unlock()
	switch {
	case late: // says nothing about the store now
	case err != nil && !was:
		u.cfg.Logger.Warn("uploads fail", slog.Any("err", err))
	case err == nil && was:
		u.cfg.Logger.Info("uploads work again")
	}
	if u.cfg.Hooks.UploadDone != nil {
		u.cfg.Hooks.UploadDone(Upload{ID: f.id, Attempt: number, ObjectBytes: len(f.object), Duration: duration, Err: err})
	}
	return err
}

// hopeless tells whether a repetition cannot mend the failure: the segment is given up at once (L3). Everything else is
// tried until GiveUpAfter, refused access too: an operator may be at it.
func hopeless(err error) bool {
	return matches(err, walstorage.ErrTooLarge) || matches(err, walstorage.ErrInvalidArgument) ||
		matches(err, walstorage.ErrSegmentExists) // with other bytes, under an id that is ours alone
}
