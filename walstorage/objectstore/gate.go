package objectstore

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"
)

// gate paces the calls of one kind while the store fails. It is open as long as the store answers. After a number of
// retryable failures in a row it shuts: calls wait in one queue, and the first of them goes out as a probe, for all,
// at growing intervals. The first answer opens the gate, and those who waited leave at a bounded rate, in the order in
// which they came; newcomers line up behind them until the queue is empty. The rate doubles each second, so that it comes
// to be empty however many newcomers there are.
//
// It has no goroutine. The call at the head of the queue watches the time, and whoever leaves wakes the next head. What
// a woken call does is decided under the mutex in a fixed order and not by the case that a select happened to choose
// (D2); nobody holds the mutex while waiting (D1).
type gate struct {
	kind     string // for the log
	logger   *slog.Logger
	failures int           // in a row, after which it shuts
	probeMin time.Duration // pause before the first probe
	probeMax time.Duration
	release  time.Duration // between two waiting calls, once open

	mu      sync.Mutex
	inARow  int
	shut    bool
	since   time.Time     // of the last shutting
	opened  time.Time     // when it opened last
	probe   int           // number of the probe that is out, 0 for none
	probes  int           // counts them
	overdue time.Time     // when the probe that is out counts as lost
	pause   time.Duration // to the next probe
	next    time.Time     // not before this the next probe, or the next waiting call, leaves
	queue   list.List     // of *waiter
	last    error         // the latest failure while shut, for calls that end without a request
}

// waiter is a call in the queue. wake holds one token, put there when the waiter becomes the head or the head's time
// has changed.
type waiter struct {
	wake chan struct{}
}

// pass is the leave to send one request. It must be given back by done.
type pass struct {
	probe int // its number, 0 if it is none
}

// outcome is what a request tells about the store.
type outcome int

const (
	// silent tells nothing: the caller's context ended first.
	silent outcome = iota
	// answered: the store works, whatever it said.
	answered
	// failed: a failure that is worth a retry.
	failed
)

func newGate(kind string, cfg Config) *gate {
	return &gate{
		kind:     kind,
		logger:   cfg.Logger,
		failures: cfg.GateFailures,
		probeMin: cfg.ProbeMin,
		probeMax: cfg.ProbeMax,
		release:  time.Second / time.Duration(cfg.ReleasePerSecond),
	}
}

// enter returns when the call may send a request, whose own deadline is timeout; with ctx's error; or with errRetryTime
// at the time limit, if that is not zero.
func (g *gate) enter(ctx context.Context, limit time.Time, timeout time.Duration) (pass, error) {
	if err := ended(ctx, limit); err != nil {
		return pass{}, err
	}
	g.mu.Lock()
	if !g.shut && g.queue.Len() == 0 {
		g.mu.Unlock()
		return pass{}, nil
	}
	w := &waiter{wake: make(chan struct{}, 1)}
	place := g.queue.PushBack(w)
	g.mu.Unlock()

	timer := time.NewTimer(idleWait)
	defer timer.Stop()
	for {
		g.mu.Lock()
		if err := ended(ctx, limit); err != nil {
			g.leaveQueue(place)
			g.mu.Unlock()
			return pass{}, err
		}
		p, wait, granted := g.admit(place, timeout)
		g.mu.Unlock()
		if granted {
			return p, nil
		}
		if !limit.IsZero() {
			wait = min(wait, time.Until(limit))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// ended tells whether a call must not wait, or begin anything, any more.
func ended(ctx context.Context, limit time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !limit.IsZero() && !time.Now().Before(limit) {
		return errRetryTime
	}
	return nil
}

const (
	// idleWait is how long a call sleeps that somebody else will wake: it is not the head of the queue.
	idleWait = time.Hour
	// probeGrace is how long past its deadline a probe is waited for.
	probeGrace = 100 * time.Millisecond
)

// admit lets the call at place go if it is its turn, or tells how long it is to wait before it looks again. g.mu is held.
func (g *gate) admit(place *list.Element, timeout time.Duration) (p pass, wait time.Duration, granted bool) {
	if place != g.queue.Front() {
		return pass{}, idleWait, false
	}
	now := time.Now()
	if g.shut && g.probe != 0 {
		if wait = g.overdue.Sub(now); wait > 0 {
			return pass{}, wait, false
		}
		// A driver that ignores its context holds its own call (W5) and must not hold all others.
		g.probe = 0
		g.pause = min(2*g.pause, g.probeMax)
	}
	if wait = g.next.Sub(now); wait > 0 {
		return pass{}, wait, false
	}
	if g.shut {
		g.probes++
		g.probe = g.probes
		g.overdue = now.Add(timeout + probeGrace)
		g.next = now.Add(g.pause) // holds if the probe's caller gives up: the next probe is paced all the same
	} else {
		// A timer that fires late must not lower the rate: the schedule goes on from where it was, and what was
		// missed in the last few milliseconds is made up.
		const lateness = 10 * time.Millisecond
		if earliest := now.Add(-lateness); g.next.Before(earliest) {
			g.next = earliest
		}
		g.next = g.next.Add(g.release >> min(uint64(now.Sub(g.opened)/time.Second), 62))
	}
	if g.shut {
		p.probe = g.probe
	}
	g.leaveQueue(place)
	return p, 0, true
}

// leaveQueue removes the call at place and wakes the head that follows it. g.mu is held.
func (g *gate) leaveQueue(place *list.Element) {
	head := place == g.queue.Front()
	g.queue.Remove(place)
	if head {
		g.wakeHead()
	}
}

// wakeHead makes the head look at the time again. g.mu is held; the send never blocks.
func (g *gate) wakeHead() {
	if front := g.queue.Front(); front != nil {
		select {
		case front.Value.(*waiter).wake <- struct{}{}:
		default: // it has a token already
		}
	}
}

// done gives the pass back and tells the gate how the request went. err is for the log; retryAfter is what the store
// asked for, already capped.
func (g *gate) done(p pass, result outcome, retryAfter time.Duration, err error) {
	g.mu.Lock()
	probe := p.probe != 0 && p.probe == g.probe
	if probe {
		g.probe = 0
	}
	var shut, open bool
	var outage time.Duration
	switch result {
	case answered:
		g.inARow = 0
		if g.shut {
			open, outage, g.last = true, time.Since(g.since), nil
			g.shut, g.probe = false, 0
			g.opened = time.Now()
			g.next = g.opened
		}
	case failed:
		now := time.Now()
		switch {
		case probe:
			g.last = err
			g.pause = min(2*g.pause, g.probeMax)
			g.next = now.Add(max(g.pause, retryAfter))
		case !g.shut:
			g.inARow++
			if g.inARow >= g.failures {
				shut, g.last = true, err
				g.shut, g.since = true, now
				g.pause = g.probeMin
				g.next = now.Add(max(g.pause, retryAfter))
			}
		}
	}
	if probe || shut || open {
		g.wakeHead()
	}
	waiting, inARow := g.queue.Len(), g.inARow
	g.mu.Unlock()

	switch {
	case shut:
		g.logger.Warn("object store unavailable, calls wait for a probe", "calls", g.kind, "failures", inARow, "error", err)
	case open:
		g.logger.Info("object store answers again", "calls", g.kind, "after", outage, "waiting", waiting)
	}
}

// lastFailure is what the store said last, nil while the gate is open.
func (g *gate) lastFailure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}
