package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// TrackerConfig configures a [Tracker].
type TrackerConfig struct {
	// Partitions is the broker's view of what it leads. Required.
	Partitions Partitions
	// StallAfter is how long a follower that is behind waits for an answer at most, and how long a message is parked at
	// most (B4). It should be what the followers are set to. Default 1 s.
	StallAfter time.Duration
	// Linger is how long what moves is collected before an answer goes out. Default 100 us.
	Linger time.Duration
	// Recorded, if not nil, is called after a report has been taken, on the goroutine of Handle and with no lock held:
	// the broker works out the high watermark and the ISR there from [Tracker.CaughtUp], and calls [Tracker.Moved] if
	// the high watermark has moved. It must not block.
	Recorded func(partition segment.TopicIDPartition, replica int32)
}

func (c TrackerConfig) withDefaults() (TrackerConfig, error) {
	if c.Partitions == nil {
		return c, invalid("Partitions is nil")
	}
	if c.StallAfter < 0 {
		return c, invalid("StallAfter is %s, it must not be negative", c.StallAfter)
	}
	if c.StallAfter == 0 {
		c.StallAfter = time.Second
	}
	if c.Linger < 0 || c.Linger >= c.StallAfter {
		return c, invalid("Linger is %s, it must not be negative and be below StallAfter, %s", c.Linger, c.StallAfter)
	}
	if c.Linger == 0 {
		c.Linger = linger
	}
	return c, nil
}

// Tracker is the leader's end: it takes the reports of all followers of all partitions that the broker leads, parks each
// until there is something to answer, and knows when each replica was last caught up. All methods may be called
// concurrently.
type Tracker struct {
	cfg TrackerConfig

	mu        sync.Mutex
	closed    bool
	sessions  map[int32]*session
	positions map[segment.PartitionKey][]*position // one of each replica
}

// session is what the tracker knows of one follower in one broker epoch.
type session struct {
	replica     int32
	brokerEpoch int64
	newest      uint64    // the largest counter seen
	heard       time.Time // when that message came
	carrier     *carrier  // the message that is parked, nil if none is
	positions   map[segment.PartitionKey]*position
	moved       []*position // what has to be looked at
	due         schedule[*position]
}

// linger is the default of Linger at both ends. It is nothing beside the latency of a store, and under load it gathers
// many partitions into one message. It also makes what a message holds independent of which of two goroutines is first
// (D2).
const linger = 100 * time.Microsecond

// carrier is a parked message: the one that takes the answers of its session.
type carrier struct {
	wake chan struct{} // holds at most one token: something has to be looked at
	over chan struct{} // closed when it is the carrier no more
}

func (c *carrier) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// position is one partition of one session.
type position struct {
	session *session
	key     segment.PartitionKey
	counter uint64 // of the message that report came with
	report  Report
	// parked says that report waits for an answer.
	parked bool
	// queued says that the position stands in session.moved.
	queued bool
	// due is when the answer is sent even though only the leader's end has moved. A newer report does not put it off.
	due deadline[*position]
	progress
}

// NewTracker returns a tracker. It has no goroutine of its own; Close ends the calls of Handle that are parked.
func NewTracker(cfg TrackerConfig) (*Tracker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Tracker{
		cfg:       cfg,
		sessions:  map[int32]*session{},
		positions: map[segment.PartitionKey][]*position{},
	}, nil
}

// Handle takes a follower's message and returns the answers that there are, at the latest after StallAfter, perhaps none.
// Answers of reports that came with earlier messages may be among them. A newer message of the same replica ends a parked
// one at once (B1). The error is [ErrOldBrokerEpoch], [ErrUnknownSession], [ErrClosed] or the context's; then the message
// as a whole has no answer.
func (t *Tracker) Handle(ctx context.Context, r Reports) ([]Answer, error) {
	heard := time.Now()
	s, c, err := t.open(&r, heard)
	if err != nil {
		return nil, err
	}
	answers, err := t.take(s, &r, heard)
	if err != nil {
		return nil, err
	}
	if c == nil {
		// An older message, overtaken by a newer one on another connection: what it reports has been taken where it is
		// still news, and the newer message carries the answers.
		return answers, nil
	}
	return t.park(ctx, s, c, heard.Add(t.cfg.StallAfter), answers)
}

// open finds the session of a message and makes it the one that is parked, unless a newer one has come already.
func (t *Tracker) open(r *Reports, heard time.Time) (*session, *carrier, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, ErrClosed
	}
	s := t.sessions[r.Replica]
	switch {
	case s != nil && r.BrokerEpoch < s.brokerEpoch:
		return nil, nil, ErrOldBrokerEpoch
	case s == nil || r.BrokerEpoch > s.brokerEpoch:
		if !r.Full {
			return nil, nil, ErrUnknownSession
		}
		if s != nil {
			t.dropSession(s)
		}
		s = &session{replica: r.Replica, brokerEpoch: r.BrokerEpoch, positions: map[segment.PartitionKey]*position{}}
		t.sessions[r.Replica] = s
	case r.Counter <= s.newest:
		return s, nil, nil
	}
	s.newest, s.heard = r.Counter, heard
	if s.carrier != nil {
		close(s.carrier.over)
	}
	s.carrier = &carrier{wake: make(chan struct{}, 1), over: make(chan struct{})}
	return s, s.carrier, nil
}

// dropSession forgets a follower, which has come back with a newer broker epoch or not at all.
func (t *Tracker) dropSession(s *session) {
	delete(t.sessions, s.replica)
	if s.carrier != nil {
		close(s.carrier.over)
		s.carrier = nil
	}
	for _, p := range s.positions {
		t.dropPosition(p)
	}
}

// dropPosition forgets a position. It may still stand in session.moved, where nobody minds.
func (t *Tracker) dropPosition(p *position) {
	p.parked = false
	p.session.due.clear(&p.due)
	delete(p.session.positions, p.key)
	all := slices.DeleteFunc(t.positions[p.key], func(other *position) bool { return other == p })
	if len(all) == 0 {
		delete(t.positions, p.key)
		return
	}
	t.positions[p.key] = all
}

// take checks and records the reports of one message. It returns the answers to those that are refused; the others are
// parked.
func (t *Tracker) take(s *session, r *Reports, heard time.Time) ([]Answer, error) {
	checked := make([]Answer, len(r.Parts))
	for i := range r.Parts {
		checked[i] = t.check(s, r.Parts[i])
	}
	var answers []Answer
	taken := checked[:0]
	t.mu.Lock()
	if t.sessions[s.replica] != s {
		closed := t.closed
		t.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		return nil, ErrOldBrokerEpoch
	}
	for i := range r.Parts {
		answer := checked[i]
		p := s.positions[r.Parts[i].Partition.Key()]
		if p != nil && r.Counter <= p.counter {
			continue // B1: an older counter is ignored
		}
		refused := answer.Err != nil || answer.Diverging != nil
		if p == nil {
			if refused {
				answers = append(answers, answer)
				continue
			}
			p = t.addPosition(s, r.Parts[i].Partition.Key())
		}
		p.counter, p.report, p.parked = r.Counter, r.Parts[i], !refused
		if refused {
			p.refuse()
			s.due.clear(&p.due)
			answers = append(answers, answer)
			continue
		}
		p.progress.report(p.report.LeaderEpoch, p.report.LogEndOffset, answer.LeaderLEO, heard)
		taken = append(taken, answer)
		t.queue(p)
	}
	if r.Full {
		for _, p := range s.positions {
			if p.counter < r.Counter {
				p.parked = false
				s.due.clear(&p.due)
			}
		}
	}
	t.mu.Unlock()
	if t.cfg.Recorded != nil {
		for i := range taken {
			t.cfg.Recorded(taken[i].Partition, s.replica)
		}
	}
	return answers, nil
}

// check asks the broker and fills in what an answer must have.
func (t *Tracker) check(s *session, r Report) Answer {
	answer, err := t.cfg.Partitions.Check(s.replica, s.brokerEpoch, r)
	answer.Partition = r.Partition
	if err != nil { // and a zero of the broker's is not told as an offset (Jepsen on Bufstream 0.1.0)
		answer.Err, answer.LeaderLEO, answer.HighWatermark, answer.LogStart = err, -1, -1, -1
	}
	return answer
}

func (t *Tracker) addPosition(s *session, key segment.PartitionKey) *position {
	p := &position{session: s, key: key}
	s.positions[key] = p
	t.positions[key] = append(t.positions[key], p)
	return p
}

// queue notes that a position has to be looked at by the message that is parked, or by the next one.
func (t *Tracker) queue(p *position) {
	if !p.queued {
		p.queued = true
		p.session.moved = append(p.session.moved, p)
	}
	if p.session.carrier != nil {
		p.session.carrier.wakeUp()
	}
}

// park looks at what has moved until there is something to answer, a newer message takes over, or the time is up.
func (t *Tracker) park(ctx context.Context, s *session, c *carrier, until time.Time, answers []Answer) ([]Answer, error) {
	var looks []look
	// What the message itself has moved is collected too.
	pause := t.cfg.Linger
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if pause > 0 {
			timer.Reset(pause)
			select {
			case <-timer.C:
			case <-c.over:
			case <-ctx.Done():
			}
		}
		// D2: in this order, whatever the reason to wake. Who is no longer the carrier decides nothing, since the Reporter
		// takes what comes with an older message for the answer to an older report.
		var err error
		looks, err = t.drain(s, c, looks[:0])
		if err != nil {
			return answers, nonFatal(err, answers)
		}
		for i := range looks {
			looks[i].answer = t.check(s, looks[i].report)
		}
		next, overtaken := t.settle(s, c, looks, &answers)
		now := time.Now()
		switch {
		case overtaken, len(answers) > 0, !now.Before(until):
			t.leave(s, c)
			slices.SortFunc(answers, func(a, b Answer) int { return a.Partition.Key().Compare(b.Partition.Key()) })
			return answers, nil
		case ctx.Err() != nil:
			t.leave(s, c)
			return nil, ctx.Err()
		}
		if next.IsZero() || next.After(until) {
			next = until
		}
		timer.Reset(next.Sub(now))
		pause = 0
		select {
		case <-c.wake:
			pause = t.cfg.Linger
		case <-timer.C:
		case <-c.over:
		case <-ctx.Done():
		}
	}
}

// nonFatal returns err unless there are answers, which must not be lost.
func nonFatal(err error, answers []Answer) error {
	if len(answers) > 0 || errors.Is(err, errOvertaken) {
		return nil
	}
	return err
}

var errOvertaken = errors.New("replica: a newer message is parked")

// look is one partition that may have something to say.
type look struct {
	position *position
	counter  uint64
	moves    uint64
	now      time.Time
	due      bool
	report   Report
	answer   Answer
}

// drain returns what has to be looked at.
func (t *Tracker) drain(s *session, c *carrier, looks []look) ([]look, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case s.carrier != c:
		return nil, errOvertaken
	}
	now := time.Now()
	add := func(p *position, due bool) {
		if s.positions[p.key] == p {
			looks = append(looks, look{position: p, counter: p.counter, moves: p.moves, now: now, due: due, report: p.report})
		}
	}
	for {
		p, ok := s.due.pop(now)
		if !ok {
			break
		}
		p.queued = false
		add(p, true)
	}
	for i, p := range s.moved {
		s.moved[i] = nil
		if p.queued {
			p.queued = false
			add(p, false)
		}
	}
	s.moved = s.moved[:0]
	return looks, nil
}

// settle takes the answers of the positions that were looked at, notes what it learns of their progress, and returns
// when the next one is due.
func (t *Tracker) settle(s *session, c *carrier, looks []look, answers *[]Answer) (next time.Time, overtaken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	overtaken = s.carrier != c
	for i := range looks {
		l := &looks[i]
		p := l.position
		if s.positions[p.key] != p {
			continue // forgotten meanwhile
		}
		if l.due && p.parked && p.due.place == 0 {
			s.due.set(&p.due, p, l.now) // until it is answered
		}
		if p.counter != l.counter {
			continue // reported anew meanwhile, and queued again
		}
		fine := l.answer.Err == nil && l.answer.Diverging == nil
		if fine {
			p.look(l.answer.LeaderLEO, l.moves, l.now)
		}
		if !p.parked {
			continue
		}
		behind := fine && l.answer.LeaderLEO > p.report.LogEndOffset
		switch {
		case overtaken:
			t.queue(p)
		case !fine || news(&p.report, &l.answer) || l.due && behind:
			p.parked = false
			s.due.clear(&p.due)
			*answers = append(*answers, l.answer)
		case !behind:
			s.due.clear(&p.due)
		case p.due.place == 0:
			s.due.set(&p.due, p, l.now.Add(t.cfg.StallAfter-t.cfg.Linger))
		}
	}
	next, _ = s.due.next()
	return next, overtaken
}

// news tells whether an answer says something that the follower should know at once (B4): the high watermark or the log
// start has moved, or the leader has more than a follower thinks that nothing else will tell.
func news(r *Report, a *Answer) bool {
	return a.HighWatermark != r.Known.HighWatermark || a.LogStart != r.Known.LogStart ||
		r.Wanting && a.LeaderLEO > r.LogEndOffset && r.Known.LogEndOffset <= r.LogEndOffset
}

// leave makes room for the next message.
func (t *Tracker) leave(s *session, c *carrier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.carrier == c {
		s.carrier = nil
	}
}

// Moved tells that the log end offset, the high watermark or the log start of a partition that this broker leads has
// moved, or its leader epoch. It is cheap and never blocks, and may be called under the broker's own locks.
func (t *Tracker) Moved(partition segment.TopicIDPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.positions[partition.Key()] {
		matters := p.parked || p.level
		p.moved(p.session.heard)
		if matters {
			t.queue(p)
		}
	}
}

// CaughtUp returns when the replica was last known to have had everything that the leader had then, the zero time if
// never, and the log end offset that it reported last, -1 if none. Both are of reports made in the leader epoch given:
// what was reported in another epoch tells nothing of this one's log (B2).
//
// The broker counts a replica as in sync while at, or the beginning of its own leadership if that is later, is less than
// replica.lag.time.max ago or end is the leader's log end. The high watermark is the lowest end of every replica so
// counted, in the ISR or not: else it runs ahead of a busy follower that has left the ISR, and that one never comes back.
func (t *Tracker) CaughtUp(partition segment.TopicIDPartition, leaderEpoch, replica int32) (at time.Time, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[replica]
	if s == nil {
		return time.Time{}, -1
	}
	p := s.positions[partition.Key()]
	if p == nil || !p.recorded || p.epoch != leaderEpoch {
		return time.Time{}, -1
	}
	return p.caughtUp(s.heard), p.end
}

// Registered tells that the cluster has registered a broker anew, with the broker epoch given: what an older run of it
// reported counts no longer, for it may have lost some of that in a crash, and CaughtUp knows nothing of the replica until
// the new run reports (KIP-903). Call it before a replica whose broker has restarted is looked at again for the ISR. An
// epoch that has reported already changes nothing.
func (t *Tracker) Registered(replica int32, brokerEpoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[replica]; s != nil && s.brokerEpoch < brokerEpoch {
		t.dropSession(s)
	}
}

// Forget drops what is known of a partition that this broker leads no longer. Reports of it that come later are answered
// by what Partitions.Check says.
func (t *Tracker) Forget(partition segment.TopicIDPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range slices.Clone(t.positions[partition.Key()]) {
		t.dropPosition(p)
	}
}

// Close ends the parked calls with [ErrClosed], and so do later ones. It may be called more than once.
func (t *Tracker) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, s := range t.sessions {
		t.dropSession(s)
	}
}

// invalid returns an error of kind walstorage.ErrInvalidArgument.
func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("replica: "+format, args...))
}
