package follower

import (
	"time"

	"github.com/walhop/walhop/walstorage"
)

// run is the life of one handle: the first ordinary fetch, then the store, with fallbacks between (F5, F6). Everything
// that touches the log happens on this goroutine, or inside a FetchFromLeader call that it waits for (F7).
func (f *Following) run() {
	defer close(f.done)
	defer f.letGo()
	if f.older != nil {
		<-f.older // the older handle is cancelled; two must never write
	}
	f.awaitSubscription()
	if !f.open() {
		return
	}
	for {
		trouble := f.replicate()
		if trouble == nil || !f.fallback(trouble) {
			return
		}
	}
}

// letGo ends the handle.
func (f *Following) letGo() {
	f.cancel()
	f.release(false)
	f.fromStore.Store(false)
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.State().Kind != Failed {
		f.setState(Stopped, "", 0, 0, nil)
	}
	f.r.forget(f)
}

// awaitSubscription waits until the position of the subscription is fixed, so that what is published after the first
// fetch is certainly delivered (F6). A metadata log that does not answer must not keep the follower from following: after
// StallAfter the ordinary fetch begins, and what is missed then shows as Stalled.
func (f *Following) awaitSubscription() {
	deadline := time.Now().Add(f.r.cfg.StallAfter)
	for f.ctx.Err() == nil && time.Now().Before(deadline) {
		select {
		case <-f.r.subscribed:
			return
		default:
		}
		f.wait(f.r.subscribed, deadline)
	}
}

// open makes the first ordinary fetch of the epoch, up to the leader's log end as its first answer gives it, and so opens
// the gate: nothing is appended from the store in an epoch until one ordinary answer of it has not diverged (F6). It
// tells whether the handle goes on.
func (f *Following) open() bool {
	target, failures := int64(-1), 0
	for {
		r, ok := f.fromLeader(target, true)
		if !ok {
			return false
		}
		if r.err == nil {
			if target < 0 {
				target = r.leaderLEO
			}
			if f.judge.Started(r.reached, target) {
				f.setState(Replicating, "", 0, 0, nil)
				return true
			}
		}
		if r.err == nil && r.advanced {
			failures = 0
			continue
		}
		if failures == 0 {
			f.r.cfg.Logger.Warn("first fetch from the leader failed, it is repeated", "partition", f.partition.String(),
				"epoch", f.epoch, "err", r.err)
		}
		f.setState(Starting, "", 0, 0, r.err)
		f.pause(failures)
		failures++
	}
}

// pause waits, whatever wakes it, unless the handle ends.
func (f *Following) pause(failures int) {
	deadline := time.Now().Add(backoff(f.r.cfg.Seed, f.partition.String(), failures, f.r.cfg.StallAfter))
	for f.ctx.Err() == nil && time.Now().Before(deadline) {
		f.wait(nil, deadline)
	}
}

// trouble is why the store cannot go on, and up to where the ordinary fetch must help; to is -1 for the leader's log end.
type trouble struct {
	reason Reason
	from   int64
	to     int64
	err    error
}

// replicate appends from the store until the handle ends (nil) or something is wrong.
func (f *Following) replicate() *trouble {
	f.fromStore.Store(true)
	for f.ctx.Err() == nil {
		p, diverged, gapped := f.snapshot()
		now := time.Now()
		far := deadline(p.missingSince(), f.r.cfg.TooFarBehind)
		switch {
		case !f.judge.Admits(diverged): // fromLeader shuts the gate
			return &trouble{reason: Lineage, from: p.end, to: -1}
		case !far.IsZero() && !now.Before(far): // F5
			return &trouble{reason: TooFarBehind, from: p.end, to: p.observed}
		}

		out := f.step()
		switch out.kind {
		case appended, again:
			continue
		case failed:
			f.setState(Failed, "", 0, 0, out.trouble.err)
			return nil
		case inTrouble:
			return out.trouble
		}

		p, _, _ = f.snapshot() // step has read the end
		stall := deadline(p.ahead, f.r.cfg.StallAfter)
		switch {
		case out.kind == nothing && p.observed > p.end && now.Before(deadline(gapped, f.r.cfg.StallAfter)):
			// F6: who is behind does not wait for what was lost. An answer that shows the leader ahead only later than
			// StallAfter, when each report has been answered, shows something newer (H4).
			return &trouble{reason: Gap, from: p.end, to: p.observed}
		case !stall.IsZero() && !now.Before(stall): // F6: counted from when the leader was first seen ahead (R6)
			return &trouble{reason: Stalled, from: p.end, to: p.observed}
		}
		f.wait(out.fetched, earliest(stall, far, out.until))
	}
	return nil
}

// deadline returns since + d, or the zero time if since is zero.
func deadline(since time.Time, d time.Duration) time.Time {
	if since.IsZero() {
		return since
	}
	return since.Add(d)
}

// earliest returns the earliest of the times that are not zero.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// release gives back the fetch that the next append was waiting for.
func (f *Following) release(used bool) {
	if f.fetch != nil {
		f.r.fetcher.release(f.fetch, used)
		f.fetch = nil
	}
}

// reasonOf says what an error of the store means (F5, W7). What an operator has to act on is reported.
func (f *Following) reasonOf(err error) Reason {
	switch kind := walstorage.KindOf(err); {
	case kind == walstorage.ErrSegmentNotFound:
		return Missing
	case isCorrupt(err):
		return Corrupt
	case kind == walstorage.ErrAccessDenied, kind == walstorage.ErrBucketNotFound:
		if hook := f.r.cfg.Hooks.ConfigurationError; hook != nil {
			hook(err)
		}
		return AccessDenied
	default:
		return StoreUnavailable
	}
}
