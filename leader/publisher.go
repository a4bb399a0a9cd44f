package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/walhop/walhop/metadata"
)

const (
	// publishTries is how many Publish calls that do not return fit into GiveUpAfter.
	publishTries = 4
	// The pauses after a Publish that failed.
	firstPublishPause = 10 * time.Millisecond
	mostPublishPause  = 500 * time.Millisecond
)

// publishLoop is the one goroutine that publishes, in the order of sealing, only what is stored (L2, L3), with all that
// was stored meanwhile in one call (L5). It also gives up the uploads that are stuck.
func (u *Uploader) publishLoop() {
	defer u.leave()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var (
		flights  []*flight
		events   []*metadata.Event
		given    []GivenUp
		failures int
		retryAt  time.Duration
	)
	for {
		u.mu.Lock()
		now := u.now()
		given = given[:0]
		next := none
		if u.fenced != nil || u.ctx.Err() != nil {
			// Nothing is tried any more. What is under way is given up now; its return frees the buffer.
			for _, f := range u.queue {
				if f.state != flightGivenUp {
					given = append(given, u.giveUp(f, u.cause()))
				}
			}
			for len(u.queue) > 0 {
				u.settle()
			}
			u.failFlushes(u.cause())
			ended := u.assembled
			if ended {
				u.busySince = none
			}
			u.mu.Unlock()
			u.report(given...)
			if ended {
				return
			}
			<-u.wakePublisher
			continue
		}
		for _, f := range u.queue { // L3: stuck uploads, and segments that no reader would find (N2)
			switch stuckAt := f.sealedAt + u.cfg.GiveUpAfter + u.cfg.StuckAfter; {
			case f.state == flightUploading && now >= stuckAt:
				f.stuck = true
				u.stuck++
				given = append(given, u.giveUp(f, ErrStuck))
			case f.state == flightUploading:
				next = min(next, stuckAt)
			case f.state == flightStored && now >= f.sealedAt+u.cfg.Retention/2:
				given = append(given, u.giveUp(f, ErrExpired))
			}
		}
		for len(u.queue) > 0 && u.queue[0].state == flightGivenUp {
			u.settle()
		}
		if u.assembled && len(u.queue) == 0 {
			u.busySince = none
			u.mu.Unlock()
			u.report(given...)
			return
		}
		flights, events = flights[:0], events[:0]
		if now < retryAt {
			next = min(next, retryAt)
		} else {
			for _, f := range u.queue {
				if f.state != flightStored {
					if f.state == flightGivenUp { // settled once it is the first
						continue
					}
					break
				}
				if now < f.storedAt+settling {
					next = min(next, f.storedAt+settling)
					break
				}
				if !f.numbered { // the sequence is taken now, when the event is first handed over (L3)
					f.event.Sequence, f.numbered = u.nextSequence, true
					u.nextSequence++
				}
				if f.handedAt == none {
					f.handedAt = now
				}
				flights, events = append(flights, f), append(events, &f.event)
			}
		}
		u.mu.Unlock()
		u.report(given...)

		if len(events) == 0 {
			u.await(timer, now, next)
			continue
		}
		if u.publish(flights, events) {
			failures, retryAt = 0, 0
			continue
		}
		failures++
		retryAt = u.now() + pause(failures, firstPublishPause, mostPublishPause)
	}
}

// await sleeps until a wake-up or the time next.
func (u *Uploader) await(timer *time.Timer, now, next time.Duration) {
	if next == none {
		<-u.wakePublisher
		return
	}
	timer.Reset(next - now)
	select {
	case <-timer.C:
	case <-u.wakePublisher:
		timer.Stop()
	}
}

// publish is one Publish call and what follows from its outcome. It tells whether to go on without a pause.
func (u *Uploader) publish(flights []*flight, events []*metadata.Event) (ok bool) {
	ctx, cancel := context.WithTimeout(u.ctx, u.cfg.GiveUpAfter/publishTries)
	stored, err := u.callPublish(ctx, events)
	cancel()
	if err == nil && stored < len(events) {
		err = fmt.Errorf("leader: the metadata log breaks its contract: Publish stored %d of %d events and gave no error: %w",
			stored, len(events), metadata.ErrUnknownOutcome)
	}
	// Before the lock: an error may have methods of its own (D1).
	fenced := matches(err, metadata.ErrFenced)
	invalid := matches(err, metadata.ErrInvalid)
	closed := matches(err, metadata.ErrClosed)

	var published []Published
	var given []GivenUp
	current := false
	u.mu.Lock()
	now := u.now()
	u.stats.Publishes++
	for _, f := range flights[:stored] {
		if u.cfg.Hooks.Published != nil {
			published = append(published, Published{
				ID: f.id, Sequence: f.event.Sequence, Slices: f.slices, BodyBytes: f.bodyBytes, ObjectBytes: int(f.event.ObjectSize),
				Stored: f.storedAt - f.sealedAt, Total: now - f.sealedAt,
			})
		}
		u.stats.Published++
		u.stats.PublishedSlices += int64(f.slices)
		u.stats.PublishedBytes += int64(f.bodyBytes)
		u.stats.PublishedObjectBytes += f.event.ObjectSize
		for u.queue[0] != f { // given up, between two that were not
			u.settle()
		}
		if u.busySince != none {
			u.busySince = now
		}
		if u.skipping && (f.oldest == none || now-f.oldest < u.cfg.MaxBacklogAge/2) {
			u.skipping, current = false, true
		}
		u.settle()
	}
	was := u.logDown
	if err != nil {
		u.stats.FailedPublishes++
		rest := flights[stored:]
		switch {
		case fenced || len(rest) == 0:
		case invalid: // no repetition can mend it (L3)
			given = append(given, u.giveUp(rest[0], err))
			ok = true
		case closed: // certainly not stored
		default: // any of the rest may be stored, or appear later: they are repeated unchanged (L5)
			for _, f := range rest {
				f.unsettled = true
			}
		}
		for _, f := range rest {
			if !fenced && f.state == flightStored && now >= f.handedAt+u.cfg.GiveUpAfter {
				given = append(given, u.giveUp(f, err))
			}
		}
	}
	u.logDown = err != nil && !fenced
	u.mu.Unlock()

	for _, p := range published {
		u.cfg.Hooks.Published(p)
	}
	u.report(given...)
	if current {
		u.cfg.Logger.Info("partitions skip no longer")
	}
	switch {
	case fenced:
		u.fence(err)
	case err != nil && !was:
		u.cfg.Logger.Warn("publication fails", slog.Any("err", err))
	case err == nil && was:
		u.cfg.Logger.Info("publication works again")
	}
	return ok || err == nil
}
