package replica_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

const (
	leaderID   = 1
	followerID = 2
)

func partition(n int32) segment.TopicIDPartition {
	return segment.TopicIDPartition{TopicID: uuid.UUID{15: 7}, Topic: "orders", Partition: n}
}

// leaderBroker leads partitions as Kafka does: it keeps the ISR and the high watermark, from what the Tracker knows.
type leaderBroker struct {
	lagMax time.Duration
	// isrAlone breaks B2's last sentence on purpose: the high watermark waits for the ISR alone.
	isrAlone bool
	// saw, if not nil, is told of every report that Check sees, with the leader's end then.
	saw func(r replica.Report, leaderEnd int64)

	tracker *replica.Tracker

	mu     sync.Mutex
	epochs map[int32]int64 // broker epochs as registered
	leads  map[segment.PartitionKey]*led
	checks int
}

type led struct {
	partition segment.TopicIDPartition
	epoch     int32
	log       *memory.Log
	since     time.Time
	replicas  []int32
	isr       map[int32]bool
	watermark int64
	waiters   []waiter
	shrinks   int
}

type waiter struct {
	offset int64
	done   chan struct{}
}

func newLeaderBroker(t *testing.T) *leaderBroker {
	t.Helper()
	b := &leaderBroker{
		lagMax: 30 * time.Second, leads: map[segment.PartitionKey]*led{}, epochs: map[int32]int64{followerID: 1, 3: 1},
	}
	var err error
	b.tracker, err = replica.NewTracker(replica.TrackerConfig{Partitions: b, Recorded: b.recorded})
	require.NoError(t, err)
	t.Cleanup(b.tracker.Close)
	return b
}

// lead makes the broker the leader of the partition; the replicas given are in the ISR.
func (b *leaderBroker) lead(t *testing.T, p segment.TopicIDPartition, epoch int32, replicas ...int32) *led {
	t.Helper()
	l := &led{partition: p, epoch: epoch, since: time.Now(), replicas: replicas, isr: map[int32]bool{}}
	for _, r := range replicas {
		l.isr[r] = true
	}
	l.log = memory.New(memory.Config{Moved: func() {
		b.advance(p)
		b.tracker.Moved(p)
	}})
	_, err := l.log.Lead(epoch)
	require.NoError(t, err)
	b.mu.Lock()
	b.leads[p.Key()] = l
	b.mu.Unlock()
	return l
}

// Check makes the checks of an ordinary fetch (B3).
func (b *leaderBroker) Check(id int32, brokerEpoch int64, r replica.Report) (replica.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checks++
	l := b.leads[r.Partition.Key()]
	switch {
	case l == nil:
		return replica.Answer{}, replica.ErrNotLeader
	case b.epochs[id] != brokerEpoch:
		return replica.Answer{}, replica.ErrOldBrokerEpoch
	case r.LeaderEpoch < l.epoch:
		return replica.Answer{LeaderEpoch: l.epoch}, replica.ErrOldLeaderEpoch
	case r.LeaderEpoch > l.epoch:
		return replica.Answer{LeaderEpoch: l.epoch}, replica.ErrUnknownLeaderEpoch
	}
	end, _ := l.log.End()
	if b.saw != nil {
		b.saw(r, end)
	}
	answer := replica.Answer{LeaderEpoch: l.epoch, LeaderLEO: end, HighWatermark: l.watermark, LogStart: l.log.Start()}
	diverging, err := l.log.CheckFetch(r.LogEndOffset, r.LastEpoch)
	if err != nil {
		return answer, replica.ErrOutOfRange
	}
	if diverging != nil {
		answer.Diverging = &replica.Diverging{Epoch: diverging.Epoch, EndOffset: diverging.End}
	}
	return answer, nil
}

// recorded works out the ISR and the high watermark after a report.
func (b *leaderBroker) recorded(p segment.TopicIDPartition, id int32) {
	b.advance(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leads[p.Key()]
	if l == nil || l.isr[id] {
		return
	}
	start, _ := l.log.EpochStart(l.epoch)
	if at, end := b.tracker.CaughtUp(p, l.epoch, id); end >= l.watermark && end >= start && time.Since(at) <= b.lagMax {
		l.isr[id] = true
	}
}

// advance raises the high watermark to the lowest end of the leader and every replica that counts (B2).
func (b *leaderBroker) advance(p segment.TopicIDPartition) {
	b.mu.Lock()
	l := b.leads[p.Key()]
	if l == nil {
		b.mu.Unlock()
		return
	}
	lowest, _ := l.log.End()
	for _, id := range l.replicas {
		at, end := b.tracker.CaughtUp(p, l.epoch, id)
		if l.isr[id] || !b.isrAlone && time.Since(at) <= b.lagMax {
			lowest = min(lowest, end)
		}
	}
	moved := lowest > l.watermark
	if moved {
		l.watermark = lowest
		rest := l.waiters[:0]
		for _, w := range l.waiters {
			if w.offset <= lowest {
				close(w.done)
				continue
			}
			rest = append(rest, w)
		}
		l.waiters = rest
	}
	b.mu.Unlock()
	if moved {
		b.tracker.Moved(p)
	}
}

// shrink takes from the ISR who has not been caught up for too long, as Kafka does every half replica.lag.time.max.ms.
func (b *leaderBroker) shrink(p segment.TopicIDPartition) {
	b.mu.Lock()
	l := b.leads[p.Key()]
	end, _ := l.log.End()
	for _, id := range l.replicas {
		at, replicaEnd := b.tracker.CaughtUp(p, l.epoch, id)
		if at.Before(l.since) {
			at = l.since
		}
		if l.isr[id] && replicaEnd != end && time.Since(at) > b.lagMax {
			delete(l.isr, id)
			l.shrinks++
		}
	}
	b.mu.Unlock()
	b.advance(p)
}

func (b *leaderBroker) inSync(p segment.TopicIDPartition, id int32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leads[p.Key()].isr[id]
}

func (b *leaderBroker) watermark(p segment.TopicIDPartition) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leads[p.Key()].watermark
}

// change changes what the broker knows of a partition that it leads.
func (b *leaderBroker) change(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *leaderBroker) checked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checks
}

var oneRecord = batchtest.Make(0, 0, "record")

// append appends one record and returns its offset.
func (l *led) append(t *testing.T) int64 {
	t.Helper()
	offset, _, err := l.log.Append(context.Background(), l.epoch, oneRecord)
	require.NoError(t, err)
	return offset
}

// acknowledged returns a channel that is closed when the high watermark has passed the offset: acks=all.
func (b *leaderBroker) acknowledged(p segment.TopicIDPartition, offset int64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leads[p.Key()]
	done := make(chan struct{})
	if l.watermark > offset {
		close(done)
		return done
	}
	l.waiters = append(l.waiters, waiter{offset: offset + 1, done: done})
	return done
}

var errLinkDown = errors.New("connection refused")

// network carries messages to leaders with a latency, and counts them.
type network struct {
	oneWay time.Duration

	mu       sync.Mutex
	down     bool
	lose     int // answers to lose
	leaders  map[int32]*leaderBroker
	messages []replica.Reports
	answers  []replica.Answer
}

func (n *network) send(ctx context.Context, id int32, r replica.Reports) ([]replica.Answer, error) {
	n.mu.Lock()
	n.messages = append(n.messages, r)
	b, down := n.leaders[id], n.down
	n.mu.Unlock()
	if err := sleep(ctx, n.oneWay); err != nil {
		return nil, err
	}
	if down || b == nil {
		return nil, errLinkDown
	}
	answers, err := b.tracker.Handle(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, n.oneWay); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lose > 0 && len(answers) > 0 {
		n.lose--
		return nil, errLinkDown
	}
	n.answers = append(n.answers, answers...)
	return answers, nil
}

func (n *network) set(change func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// sent returns the messages so far.
func (n *network) sent() []replica.Reports {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.messages
}

func (n *network) answered() []replica.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answers
}

// sleep waits as a network does.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followed stands for a follower.Following: it keeps what it is told.
type followed struct {
	epoch int32

	mu       sync.Mutex
	wanting  bool
	observed []int64
	diverged int
	told     func()
}

func (f *followed) LeaderEpoch() int32 { return f.epoch }

func (f *followed) WantsAnswers() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanting
}

// want sets the flag of B4.
func (f *followed) want(flag bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanting = flag
}

// whenTold has told called after each Observe and Diverged.
func (f *followed) whenTold(told func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = told
}

func (f *followed) Observe(leaderEnd int64) {
	f.mu.Lock()
	f.observed = append(f.observed, leaderEnd)
	told := f.told
	f.mu.Unlock()
	if told != nil {
		told()
	}
}

func (f *followed) Diverged() {
	f.mu.Lock()
	f.diverged++
	told := f.told
	f.mu.Unlock()
	if told != nil {
		told()
	}
}

// newest returns the newest end observed, -1 if none was.
func (f *followed) newest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.observed) == 0 {
		return -1
	}
	return f.observed[len(f.observed)-1]
}

func (f *followed) divergences() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.diverged
}

// followerBroker follows partitions of one leader.
type followerBroker struct {
	reporter *replica.Reporter
	net      *network
}

func newFollowerBroker(t *testing.T, net *network, change ...func(*replica.ReporterConfig)) *followerBroker {
	t.Helper()
	cfg := replica.ReporterConfig{Replica: followerID, BrokerEpoch: 1, Send: net.send}
	for _, c := range change {
		c(&cfg)
	}
	reporter, err := replica.NewReporter(cfg)
	require.NoError(t, err)
	t.Cleanup(reporter.Close)
	return &followerBroker{reporter: reporter, net: net}
}

// follow begins to follow a partition in the epoch, with a log that starts empty, or the one given.
func (b *followerBroker) follow(t *testing.T, p segment.TopicIDPartition, epoch int32, log *memory.Log) (*followed, *memory.Log) {
	t.Helper()
	if log == nil {
		log = memory.New(memory.Config{Moved: func() { b.reporter.Moved(p) }})
	}
	require.NoError(t, log.Follow(epoch))
	f := &followed{epoch: epoch}
	b.reporter.Add(p, leaderID, f, log)
	return f, log
}

// copyTo appends to the follower's log what the leader has above it, up to the offset to.
func copyTo(from *led, log *memory.Log, to int64) error {
	end, _ := log.End()
	for end < to {
		buf := make([]byte, 1<<10)
		n, err := from.log.Read(context.Background(), end, buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := log.AppendAsFollower(context.Background(), from.epoch, end, upTo(buf[:n], to)); err != nil {
			return err
		}
		end, _ = log.End()
	}
	return nil
}

// pair is a leader and a follower of one partition with a network between them.
type pair struct {
	p        segment.TopicIDPartition
	leader   *leaderBroker
	led      *led
	net      *network
	follower *followerBroker
	followed *followed
	log      *memory.Log
}

func newPair(t *testing.T, oneWay time.Duration, change ...func(*replica.ReporterConfig)) *pair {
	t.Helper()
	x := &pair{p: partition(0), leader: newLeaderBroker(t)}
	x.led = x.leader.lead(t, x.p, 5, followerID)
	x.net = &network{oneWay: oneWay, leaders: map[int32]*leaderBroker{leaderID: x.leader}}
	x.follower = newFollowerBroker(t, x.net, change...)
	x.followed, x.log = x.follower.follow(t, x.p, 5, nil)
	return x
}

// store brings everything that the leader appends to the follower's log, each time the latency later, until the context
// ends.
func (x *pair) store(t *testing.T, ctx context.Context, latency time.Duration) (appended func()) {
	type arrival struct {
		at time.Time
		to int64
	}
	arrivals := make(chan arrival, 1<<12)
	go func() {
		for {
			select {
			case a := <-arrivals:
				if sleep(ctx, time.Until(a.at)) != nil {
					return
				}
				if err := copyTo(x.led, x.log, a.to); err != nil {
					t.Errorf("copy: %v", err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		end, _ := x.led.log.End()
		arrivals <- arrival{at: time.Now().Add(latency), to: end}
	}
}

// settle lets everything come to rest that needs no more than d.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
