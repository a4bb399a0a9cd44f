package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage/segment"
)

const (
	// maxInFlight is the number of messages to one leader at a time: the one that is parked, and the newer one that ends
	// it. What moves meanwhile goes into the next.
	maxInFlight = 2
	// quick is how soon no leader ends a message without an answer and without a newer message. One that does so is
	// paced like a failure, so that it makes no hot loop.
	quick = 10 * time.Millisecond
)

// link is the conversation with one leader. Its goroutine builds and sends the messages and tells the answers; what is
// below mu is guarded by the Reporter's.
type link struct {
	r        *Reporter
	leaderID int32
	ctx      context.Context
	cancel   context.CancelFunc
	wake     chan struct{} // holds at most one token
	sends    sync.WaitGroup

	// mu is r.mu.
	ended    bool
	entries  map[segment.PartitionKey]*entry
	dirty    []*entry // to be reported
	waiting  schedule[*entry]
	full     bool // the next message names every partition
	inFlight int
	sent     uint64 // the counter of the newest message
	replies  []reply
	failures int       // messages that failed, in a row
	failedAt uint64    // the counter of the newest of them
	failing  bool      // told by LeaderChanged
	retryAt  time.Time // no message before this
	sendAt   time.Time // when the next message goes out, zero before there is a reason for one
}

// reply is how a message ended.
type reply struct {
	counter uint64
	full    bool
	answers []Answer
	err     error
	took    time.Duration
}

// told is an answer and whom it is for.
type told struct {
	entry  *entry
	answer Answer
}

func (r *Reporter) newLink(leaderID int32) *link {
	l := &link{
		r: r, leaderID: leaderID,
		wake:    make(chan struct{}, 1),
		entries: map[segment.PartitionKey]*entry{},
		full:    true,
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// end makes the goroutine return. The Reporter's lock is held.
func (l *link) end() {
	l.ended = true
	l.cancel()
	l.wakeUp()
}

func (l *link) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// mark notes that an entry has to be reported. The Reporter's lock is held.
func (l *link) mark(e *entry) {
	if !e.dirty {
		e.dirty = true
		l.dirty = append(l.dirty, e)
	}
	if l.sendAt.IsZero() {
		l.sendAt = time.Now().Add(l.r.cfg.Linger)
	}
	l.wakeUp()
}

// run is the link's goroutine.
func (l *link) run() {
	defer l.sends.Wait()
	var timer *time.Timer
	for {
		// D2: what has come is told before what is sent next, and always in this order.
		change := l.takeReplies()
		if change != nil {
			change()
			continue
		}
		m, next, ended := l.nextMessage()
		if ended {
			return
		}
		if m != nil {
			l.send(m)
			continue
		}
		var expired <-chan time.Time
		if !next.IsZero() {
			wait := time.Until(next)
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			} else {
				timer.Reset(wait)
			}
			expired = timer.C
		}
		select {
		case <-l.wake:
		case <-expired:
		}
	}
}

// message is what goes out next.
type message struct {
	reports Reports
	entries []*entry
}

// nextMessage returns the next message without its reports, or when to look again, the zero time if only after a wake-up.
func (l *link) nextMessage() (m *message, next time.Time, ended bool) {
	r := l.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.ended {
		return nil, time.Time{}, true
	}
	now := time.Now()
	if l.retryAt.After(now) {
		return nil, l.retryAt, false
	}
	for {
		e, ok := l.waiting.pop(now)
		if !ok {
			break
		}
		l.mark(e)
	}
	next, _ = l.waiting.next()
	if l.inFlight >= maxInFlight || l.inFlight > 0 && len(l.dirty) == 0 && !l.full {
		return nil, next, false
	}
	if l.sendAt.IsZero() {
		l.sendAt = now.Add(r.cfg.Linger)
	}
	if l.sendAt.After(now) {
		if next.IsZero() || next.After(l.sendAt) {
			next = l.sendAt
		}
		return nil, next, false
	}
	l.sendAt = time.Time{}
	// A message without a report keeps the follower alive in the leader's eyes, and brings answers.
	m = &message{}
	if l.full {
		for _, e := range l.entries {
			m.entries = append(m.entries, e)
		}
	} else {
		for _, e := range l.dirty {
			if e.link == l {
				m.entries = append(m.entries, e)
			}
		}
	}
	// D2: neither the order of a map nor that of two goroutines can be seen.
	slices.SortFunc(m.entries, func(a, b *entry) int { return a.key.Compare(b.key) })
	for i, e := range l.dirty {
		e.dirty = false
		l.dirty[i] = nil
	}
	l.dirty = l.dirty[:0]
	r.counter++
	m.reports = Reports{Replica: r.cfg.Replica, BrokerEpoch: r.cfg.BrokerEpoch, Counter: r.counter, Full: l.full}
	m.reports.Parts = make([]Report, 0, len(m.entries))
	for _, e := range m.entries {
		e.sent = r.counter
		m.reports.Parts = append(m.reports.Parts, Report{Partition: e.partition, Known: e.known})
	}
	l.full = false
	l.sent = r.counter
	l.inFlight++
	return m, time.Time{}, false
}

// send reads the logs' ends, after what moved them was marked (B1), and sends the message.
func (l *link) send(m *message) {
	parts := m.reports.Parts[:0]
	for i, e := range m.entries {
		report := m.reports.Parts[i]
		if err := read(e, &report); err != nil {
			l.refuse(e, err)
			continue
		}
		parts = append(parts, report)
	}
	m.reports.Parts = parts
	if hook := l.r.cfg.Hooks.Sent; hook != nil {
		hook(l.leaderID, len(parts))
	}
	l.sends.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, l.r.cfg.Timeout)
		defer cancel()
		start := time.Now()
		answers, err := l.call(ctx, m.reports)
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		l.inFlight--
		l.replies = append(l.replies, reply{
			counter: m.reports.Counter, full: m.reports.Full, answers: answers, err: err, took: time.Since(start),
		})
		l.wakeUp()
	})
}

// read fills in a report. A panic of the broker's log is an error (L10).
func read(e *entry, report *Report) (err error) {
	defer contain("the log's end", &err)
	report.LeaderEpoch = e.following.LeaderEpoch()
	report.Wanting = e.following.WantsAnswers()
	report.LogStart = -1
	if log, ok := e.log.(interface{ Start() int64 }); ok {
		report.LogStart = log.Start()
	}
	report.LogEndOffset, report.LastEpoch = e.log.End()
	return nil
}

// call calls the broker's transport. A panic of it is an error (L10).
func (l *link) call(ctx context.Context, reports Reports) (answers []Answer, err error) {
	defer contain("Send", &err)
	return l.r.cfg.Send(ctx, l.leaderID, reports)
}

func contain(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("replica: panic in %s: %v", what, p)
	}
}

// refuse repeats the report of an entry after a pause.
func (l *link) refuse(e *entry, cause error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if e.link == l {
		l.retry(e)
	}
	l.r.cfg.Logger.Error("the end of a log cannot be read", "partition", e.partition.String(), "err", cause)
}

// retry repeats the report of an entry after a pause, unless it moves before. The Reporter's lock is held.
func (l *link) retry(e *entry) {
	e.failures++
	l.waiting.set(&e.wait, e, time.Now().Add(l.pause(e.failures, uint64(e.key.Partition)+1)))
	l.wakeUp()
}

// takeReplies takes what has come back. If that is something it returns what has to be done about it without the lock.
func (l *link) takeReplies() (do func()) {
	r := l.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(l.replies) == 0 || l.ended {
		return nil
	}
	replies := l.replies
	l.replies = nil
	slices.SortFunc(replies, func(a, b reply) int { return cmp.Compare(a.counter, b.counter) })
	var answers []told
	var failure error
	worked := false
	for i := range replies {
		reply := &replies[i]
		if reply.err != nil {
			if reply.err = l.failed(reply); reply.err != nil {
				failure = reply.err
			}
			continue
		}
		switch {
		case len(reply.answers) == 0 && l.inFlight == 0 && reply.counter == l.sent && reply.took < quick:
			l.slowDown()
		case reply.counter > l.failedAt:
			// A message that was parked when a newer one failed says nothing of how things are now.
			worked = true
			l.failures = 0
		}
		for j := range reply.answers {
			if e := l.addressee(reply, &reply.answers[j]); e != nil {
				answers = append(answers, told{entry: e, answer: reply.answers[j]})
			}
		}
	}
	changed := false
	switch {
	case failure != nil && !l.failing:
		l.failing, changed = true, true
	case failure == nil && worked && l.failing:
		l.failing, changed = false, true
	}
	return func() {
		if changed {
			l.leaderChanged(failure)
		}
		for i := range answers {
			l.tell(answers[i])
		}
	}
}

// failed notes a message that failed: a full one follows, after a pause where that may help.
func (l *link) failed(reply *reply) error {
	if errors.Is(reply.err, ErrUnknownSession) && !reply.full {
		l.full = true
		return nil
	}
	l.full = true
	l.failedAt = max(l.failedAt, reply.counter)
	l.slowDown()
	return reply.err
}

// slowDown puts off the next message.
func (l *link) slowDown() {
	l.failures++
	l.retryAt = time.Now().Add(l.pause(l.failures, 0))
}

// pause returns how long to wait after the n-th failure in a row: it doubles, with a jitter of a quarter that is a
// function of nothing but the seed, the two brokers, what is waited for, and n (D2).
func (l *link) pause(n int, what uint64) time.Duration {
	cfg := &l.r.cfg
	d := cfg.MaxPause
	if n <= 30 && cfg.MinPause<<(n-1) < cfg.MaxPause && cfg.MinPause<<(n-1) > 0 {
		d = cfg.MinPause << (n - 1)
	}
	x := cfg.Seed
	for _, v := range [...]uint64{uint64(cfg.Replica), uint64(l.leaderID), what, uint64(n)} {
		x = mix(x ^ v)
	}
	return d - time.Duration(x%uint64(d/4+1))
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// addressee returns whom an answer is for, nil if it is for nobody any more.
func (l *link) addressee(reply *reply, a *Answer) *entry {
	e := l.entries[a.Partition.Key()]
	if e == nil || reply.counter <= e.added || reply.counter < e.told {
		return nil
	}
	e.told = reply.counter
	return e
}

// tell passes an answer on, and sees to it that the partition is reported again: a report gets one answer.
func (l *link) tell(t told) {
	e, a := t.entry, &t.answer
	diverged := a.Diverging != nil || errors.Is(a.Err, ErrOutOfRange) || errors.Is(a.Err, ErrMovedToTier)
	fine := a.Err == nil && !diverged && a.LeaderEpoch == e.following.LeaderEpoch()
	switch {
	case diverged:
		e.following.Diverged()
	case fine:
		e.following.Observe(a.LeaderLEO)
	}
	if l.r.cfg.Answered != nil {
		l.r.cfg.Answered(l.leaderID, *a)
	}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if e.link != l {
		return
	}
	if fine {
		e.failures = 0
		e.known = Known{LogEndOffset: a.LeaderLEO, HighWatermark: a.HighWatermark, LogStart: a.LogStart}
	}
	switch {
	case e.sent > e.told || e.dirty:
		// It moved meanwhile and was, or will be, reported anew.
	case fine:
		l.mark(e)
	default:
		l.retry(e)
	}
}

// leaderChanged tells the operator and the hook.
func (l *link) leaderChanged(err error) {
	if err != nil {
		l.r.cfg.Logger.Warn("reports to the leader fail", "leader", l.leaderID, "err", err)
	} else {
		l.r.cfg.Logger.Info("reports to the leader work again", "leader", l.leaderID)
	}
	if hook := l.r.cfg.Hooks.LeaderChanged; hook != nil {
		hook(l.leaderID, err)
	}
}
