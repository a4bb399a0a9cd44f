package follower

import (
	"context"
	"errors"
	"time"

	"github.com/walhop/walhop/metadata"
)

// holds paces how often a partition in a fallback waits for the store. What doubles is the time between two holds, never
// the hold, so that a fallback never adds more than StallAfter to the follower's lag at once (F5, R1).
type holds struct {
	between   time.Duration
	notBefore time.Time
}

const minBetweenHolds, maxBetweenHolds = time.Second, time.Minute

func (h *holds) inVain(now time.Time) {
	h.between = min(max(2*h.between, minBetweenHolds), maxBetweenHolds)
	h.notBefore = now.Add(h.between)
}

func (h *holds) reset() { *h = holds{} }

// fallback replicates by the ordinary fetch, range by range, until the first append from the store (F5). Each range has
// an end that is fixed when it is asked for: an open one would outrun every entry and never end (H1). It is reported
// once. The result tells whether the handle goes on.
func (f *Following) fallback(t *trouble) bool {
	f.setState(Fallback, t.reason, t.from, t.to, t.err)
	begun := f.r.store.Arrivals(f.partition)
	target, failures := t.to, 0
	for {
		r, ok := f.fromLeader(target, false)
		if !ok {
			return false
		}
		p, _, _ := f.snapshot()
		if r.err == nil && (r.advanced || r.reached >= max(p.observed, f.announced(r.reached))) {
			failures = 0
		} else { // refused, or short of the leader's end and no farther than before: not in a loop without pause
			failures++
		}
		if target < 0 && r.err == nil {
			target = r.leaderLEO
		}
		if r.err == nil && r.advanced && r.reached < target {
			continue // the range is not at its end, so it is not time to hold
		}
		next, verdict := f.afterRange(begun, f.pauseAfter(failures))
		switch verdict {
		case rangeNext:
			target = next
		case storeAgain:
			f.holds.reset()
			if failures > 0 { // else each append while the leader refuses would be too far behind, and ask it again
				f.mu.Lock()
				f.progress.forgive(time.Now())
				f.mu.Unlock()
			}
			f.setState(Replicating, "", 0, 0, nil)
			return true
		case ended:
			return false
		}
	}
}

// pauseAfter returns until when to pause after so many failures in a row, the zero time after none.
func (f *Following) pauseAfter(failures int) time.Time {
	if failures == 0 {
		return time.Time{}
	}
	return time.Now().Add(backoff(f.r.cfg.Seed, f.partition.String(), failures-1, f.r.cfg.StallAfter))
}

type rangeVerdict int

const (
	rangeNext  rangeVerdict = iota // another range, up to the offset returned
	storeAgain                     // a first append from the store
	ended                          // the handle has ended
)

// afterRange decides what follows a range; before pausedUntil it is no other range. As long as no event of the partition
// has arrived since the fallback began, the next range is asked for as soon as the leader is known to be ahead. Once one
// has, the follower holds at the log's end for the store, up to StallAfter while the leader is ahead; after a hold in vain,
// ranges follow each other again until the next hold is due. That the leader is ahead is told by Observe, or shown by an
// entry that could not be used.
func (f *Following) afterRange(begun uint64, pausedUntil time.Time) (next int64, verdict rangeVerdict) {
	var holding time.Time // when this hold began
	tried := false        // the store was of no use, and another range is not due yet
	for f.ctx.Err() == nil {
		p, diverged, _ := f.snapshot()
		now := time.Now()
		ready := !now.Before(pausedUntil)
		if !f.judge.Admits(diverged) { // F6: until an ordinary answer has not diverged
			if ready {
				return -1, rangeNext
			}
			f.wait(nil, pausedUntil)
			continue
		}

		if tried && !ready {
			f.wait(nil, pausedUntil)
			continue
		}
		// While the leader does not answer either, the store is worth a look after each pause, hold due or not.
		arrived := f.r.store.Arrivals(f.partition) != begun || f.announced(p.end) > p.end
		if !arrived || ready && now.Before(f.holds.notBefore) {
			holding = time.Time{}
			f.fromStore.Store(false)
			if known := max(p.observed, f.announced(p.end)); ready && known > p.end {
				return known, rangeNext
			}
			var holdDue time.Time
			if arrived {
				holdDue = f.holds.notBefore
			}
			f.wait(nil, earliest(notPast(pausedUntil, now), holdDue))
			continue
		}

		if holding.IsZero() {
			holding = now
		}
		f.fromStore.Store(true)
		out := f.step()
		p, _, _ = f.snapshot()
		switch out.kind {
		case appended:
			return 0, storeAgain
		case again:
			continue
		case failed:
			f.setState(Failed, "", 0, 0, out.trouble.err)
			return 0, ended
		case inTrouble:
			to := max(out.trouble.to, p.observed)
			switch out.trouble.reason {
			case Gap, MidBatch: // the store can go on behind it
				to = out.trouble.to
			case Lineage:
				to = -1
			default:
				f.heldInVain(now)
			}
			if ready {
				return to, rangeNext
			}
			tried = true
			continue
		}
		var vain time.Time
		if !p.ahead.IsZero() {
			vain = later(p.ahead, holding).Add(f.r.cfg.StallAfter)
			if !now.Before(vain) {
				f.release(false)
				f.heldInVain(now)
				holding = time.Time{}
				continue
			}
		}
		f.wait(out.fetched, earliest(vain, out.until, notPast(pausedUntil, now)))
	}
	return 0, ended
}

// heldInVain ends a hold in which nothing came.
func (f *Following) heldInVain(now time.Time) {
	f.holds.inVain(now)
	f.r.stats.holdsInVain.Add(1)
}

// announced returns up to where the leader certainly has something, by the next entry that the Store has at the log's end
// or above; the log's end if it has none.
func (f *Following) announced(end int64) int64 {
	switch entry, verdict := f.r.store.Next(f.partition, end); verdict.Outcome {
	case metadata.Found:
		return entry.Slice.LastOffset + 1
	case metadata.GapUpTo:
		return verdict.To
	}
	return end
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// notPast returns t, or the zero time if it has passed.
func notPast(t, now time.Time) time.Time {
	if !now.Before(t) {
		return time.Time{}
	}
	return t
}

// leaderAnswer is what one FetchFromLeader call has come to.
type leaderAnswer struct {
	leaderLEO int64
	reached   int64 // the log's end after the call
	advanced  bool  // it is above what it was before
	err       error
}

// errNoProgress ends a FetchFromLeader call that does not move the log's end.
var errNoProgress = errors.New("follower: no progress of the log end")

// fromLeader makes one FetchFromLeader call. Meanwhile nothing else touches the log (F7), and afterwards its end is read
// again: the call may have truncated, or rebuilt the log. A call that returns nil opens the gate (F6). ok is false if the
// handle has ended.
func (f *Following) fromLeader(to int64, first bool) (r leaderAnswer, ok bool) {
	f.release(false)
	f.fromStore.Store(false)
	f.mu.Lock()
	f.judge.Asks(f.diverged)
	f.diverged, f.gapped = false, time.Time{} // what is told from now on may be news
	f.mu.Unlock()
	// The call may put the log's end back, and what is announced meanwhile may lie below where it is now.
	f.r.store.Next(f.partition, 0)
	before, _, err := f.end()
	if err != nil {
		f.setState(Failed, "", 0, 0, err)
		return r, false
	}

	start := time.Now()
	r.leaderLEO, r.err = f.fetchWatched(to, before)
	if f.ctx.Err() != nil {
		return r, false
	}
	if r.reached, _, err = f.end(); err != nil {
		f.setState(Failed, "", 0, 0, err)
		return r, false
	}
	r.advanced = r.reached > before
	f.judge.Answered(before, r.reached, r.err)
	if r.err == nil {
		f.mu.Lock()
		f.progress.observe(r.leaderLEO, time.Now())
		f.mu.Unlock()
	}
	f.r.stats.leaderFetches.Add(1)
	if first {
		f.r.stats.firstFetches.Add(1)
	}
	if hook := f.r.cfg.Hooks.LeaderFetched; hook != nil {
		hook(LeaderFetch{
			Partition: f.partition, LeaderEpoch: f.epoch, From: before, To: to, Reached: r.reached,
			First: first, Duration: time.Since(start), Err: r.err,
		})
	}
	return r, true
}

// fetchWatched calls FetchFromLeader under a deadline that each move of the log's end renews (F5).
func (f *Following) fetchWatched(to, end int64) (leaderLEO int64, err error) {
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	returned, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		timer := time.NewTimer(f.r.cfg.FetchTimeout)
		defer timer.Stop()
		for last := end; ; timer.Reset(f.r.cfg.FetchTimeout) {
			select {
			case <-returned:
				return
			case <-timer.C:
			}
			now, _, err := f.readEnd()
			if err != nil || now == last {
				cancel(errNoProgress)
				return
			}
			last = now
		}
	}()
	defer func() {
		close(returned)
		<-watched
	}()
	return f.callLeader(ctx, to)
}

func (f *Following) callLeader(ctx context.Context, to int64) (leaderLEO int64, err error) {
	defer f.r.contain("fetch from leader", &err)
	leaderLEO, err = f.r.cfg.Leader.FetchFromLeader(ctx, f.partition, f.epoch, to)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errNoProgress) {
		err = cause
	}
	return leaderLEO, err
}
