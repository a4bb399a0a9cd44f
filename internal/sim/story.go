package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
)

// The verbs of a story: time.

// Run lets d pass.
func (c *Cluster) Run(d time.Duration) {
	_ = c.story.take(context.Background(), c.story.next(), d)
	c.stopIfViolated()
}

// Until lets time pass until is is true, at most limit, and tells how long it took. The test fails if it never was.
func (c *Cluster) Until(limit time.Duration, what string, is func() bool) time.Duration {
	c.t.Helper()
	took, ok := c.Within(limit, is)
	if !ok {
		c.Fatalf("%s: not within %s", what, limit)
	}
	return took
}

// Within lets time pass until is is true, at most limit, and tells how long it took and whether it was.
func (c *Cluster) Within(limit time.Duration, is func() bool) (took time.Duration, ok bool) {
	begun := c.Now()
	step := 5 * time.Millisecond
	for !is() {
		if c.Now()-begun >= limit {
			return c.Now() - begun, false
		}
		c.Run(step)
		if step < limit/200 {
			step += step / 4
		}
	}
	return c.Now() - begun, true
}

// Now returns the time since the run began.
func (c *Cluster) Now() time.Duration { return c.instants.now() }

// Fatalf fails the test with the story of the last events.
func (c *Cluster) Fatalf(format string, args ...any) {
	c.t.Helper()
	if c.cfg.quiet {
		c.violate(format, args...)
		panic(storyOver{})
	}
	c.t.Fatalf("seed %d, at %s: %s\nthe last that happened:\n%s", c.cfg.Seed, c.Now(), fmt.Sprintf(format, args...), c.trace.Story())
}

// stopIfViolated ends the test at the first violation: what follows from one is of no interest.
func (c *Cluster) stopIfViolated() {
	if len(c.Violations()) > 0 && !c.cfg.ExpectViolations {
		if c.cfg.quiet {
			panic(storyOver{})
		}
		c.fail()
		c.t.FailNow()
	}
}

// The verbs of a story: records.

// Part returns partition number i.
func (c *Cluster) Part(i int) *Partition { return c.parts[i] }

// Produce appends n records, a batch each, at the partition's leader and returns the offset after them.
func (c *Cluster) Produce(part *Partition, n int) (next int64) {
	c.t.Helper()
	for range n {
		offset, err := c.tryProduce(part, nil)
		if err != nil {
			c.Fatalf("producing to %s: %v", part, err)
		}
		next = offset + 1
	}
	return next
}

// ProduceSized appends a record of so many bytes at the partition's leader.
func (c *Cluster) ProduceSized(part *Partition, bytes int) {
	c.t.Helper()
	if _, err := c.Leader(part).produce(part, part.nextValue(bytes), nil); err != nil {
		c.Fatalf("producing to %s: %v", part, err)
	}
}

func (c *Cluster) tryProduce(part *Partition, done func(bool)) (int64, error) {
	leader := c.process(c.controller.view(part).leader)
	if leader == nil {
		return 0, errNotLeader
	}
	return leader.produce(part, part.nextValue(c.cfg.ValueBytes), done)
}

// ProduceAt appends n records at a broker that believes to lead, whoever does by now.
func (c *Cluster) ProduceAt(broker int32, part *Partition, n int) error {
	p := c.process(broker)
	if p == nil {
		return errUnreachable
	}
	for range n {
		if _, err := p.produce(part, part.nextValue(c.cfg.ValueBytes), nil); err != nil {
			return err
		}
	}
	return nil
}

// ProduceAcked appends a record with acks=all and waits for the acknowledgement, which must come within limit. It returns
// how long it took.
func (c *Cluster) ProduceAcked(part *Partition, limit time.Duration) time.Duration {
	c.t.Helper()
	acked := false
	answered := make(chan bool, 1)
	if _, err := c.tryProduce(part, func(ok bool) { answered <- ok }); err != nil {
		c.Fatalf("producing to %s with acks=all: %v", part, err)
	}
	return c.Until(limit, "a record is acknowledged", func() bool {
		select {
		case acked = <-answered:
			if !acked {
				c.Fatalf("the record will never be acknowledged")
			}
		default:
		}
		return acked
	})
}

// DeleteRecords moves the partition's log start at the leader.
func (c *Cluster) DeleteRecords(part *Partition, start int64) {
	p := c.Leader(part)
	r := p.role(part.Key())
	r.log.deleteRecords(p.ctx, start)
}

// Compact lets compaction take the batches within [from, to) away at a broker.
func (c *Cluster) Compact(part *Partition, broker int32, from, to int64) {
	part.truth.compacted(from, to)
	d := c.disk(part, broker)
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.log.Compact(from, to)
	c.trace.add(d.who, "compacts [%d,%d), %d batches", from, to, int64(n))
}

// The verbs of a story: brokers.

// Leader returns the process of the partition's leader; the test fails if there is none.
func (c *Cluster) Leader(part *Partition) *process {
	c.t.Helper()
	p := c.process(c.controller.view(part).leader)
	if p == nil {
		c.Fatalf("%s has no leader", part)
	}
	return p
}

// AwaitLeader lets time pass until the partition's leader knows that it leads.
func (c *Cluster) AwaitLeader(part *Partition) (broker int32) {
	c.t.Helper()
	c.Until(10*time.Second, part.String()+" has a leader", func() bool {
		g := c.controller.view(part)
		p := c.process(g.leader)
		if p == nil {
			return false
		}
		r := p.role(part.Key())
		if r == nil {
			return false
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		broker = p.id
		return r.epoch == g.epoch && r.leadership != nil
	})
	return broker
}

// AwaitFollowing lets time pass until every partition has a leader that knows, and every live replica follows it.
func (c *Cluster) AwaitFollowing() {
	c.t.Helper()
	for _, part := range c.controller.present() {
		c.AwaitLeader(part)
	}
	c.Until(10*time.Second, "every replica follows", func() bool {
		for _, part := range c.controller.present() {
			g := c.controller.view(part)
			for _, replica := range g.replicas {
				if s := c.State(part, replica); replica != g.leader && c.process(replica) != nil && (s.Kind != follower.Replicating || s.Epoch != g.epoch) {
					return false
				}
			}
		}
		return true
	})
}

// Elect makes a member of the ISR the leader, and waits until it knows.
func (c *Cluster) Elect(part *Partition, broker int32) {
	c.t.Helper()
	if !c.controller.elect(part, broker) {
		c.Fatalf("%d cannot be elected in %s: %+v", broker, part, c.ISR(part))
	}
	c.AwaitLeader(part)
}

// Elected makes a member of the ISR the leader and waits for nothing.
func (c *Cluster) Elected(part *Partition, broker int32) {
	c.t.Helper()
	if !c.controller.elect(part, broker) {
		c.Fatalf("%d cannot be elected in %s: %+v", broker, part, c.ISR(part))
	}
}

// ElectUnclean makes any replica the leader, whatever it lacks, and waits until it knows.
func (c *Cluster) ElectUnclean(part *Partition, broker int32) {
	c.t.Helper()
	if !c.controller.electUnclean(part, broker) {
		c.Fatalf("%d cannot be elected in %s", broker, part)
	}
	c.AwaitLeader(part)
}

// Bump gives the leader a new epoch and waits until it knows.
func (c *Cluster) Bump(part *Partition) {
	c.t.Helper()
	c.controller.bump(part)
	c.AwaitLeader(part)
}

// AddReplica makes a broker one more replica of the partition.
func (c *Cluster) AddReplica(part *Partition, broker int32) { c.controller.addReplica(part, broker) }

// Kill ends a broker at once. It loses what it had not flushed. The controller notices after the session timeout.
func (c *Cluster) Kill(broker int32) {
	p := c.process(broker)
	if p == nil {
		return
	}
	c.count("kill")
	c.trace.add(p.who, "is killed")
	p.die()
	watcher := c.sessions[broker]
	epoch := p.epoch
	c.ending.Go(func() {
		if watcher.take(c.ctx, watcher.next(), c.cfg.SessionTimeout) == nil {
			c.controller.died(broker, epoch)
		}
	})
}

// Replace starts another process of a living broker, with its disks, as where a machine that seemed dead has lost them to
// another. The older process sleeps, does not know, and can reach nobody but the store and the metadata log.
func (c *Cluster) Replace(broker int32) {
	old := c.process(broker)
	if old == nil {
		return
	}
	if older := c.zombie(broker); older != nil {
		older.die()
	}
	c.count("replaced")
	c.trace.add(old.who, "is replaced, and sleeps")
	old.replaced()
	c.mu.Lock()
	c.zombies[broker] = old
	delete(c.processes, broker)
	c.mu.Unlock()
	c.start(broker)
}

// Wake lets a process that was replaced go on.
func (c *Cluster) Wake(broker int32) {
	if p := c.zombie(broker); p != nil && p.sleeping() != nil {
		c.count("zombie wakes")
		c.trace.add(p.who, "wakes up, replaced long ago")
		p.wake()
	}
}

// Restart starts a broker that was killed.
func (c *Cluster) Restart(broker int32) {
	if c.process(broker) == nil {
		c.count("restart")
		c.start(broker)
	}
}

// Flush makes what the broker's logs hold survive a crash.
func (c *Cluster) Flush(broker int32) {
	if p := c.process(broker); p != nil {
		for _, r := range p.all() {
			r.log.flush(p.highWatermark(r))
		}
	}
}

// Isolate keeps the controller's messages from a broker, which goes on believing what it believes: a zombie, if another
// is elected meanwhile. Reconnect brings them.
func (c *Cluster) Isolate(broker int32) { c.network.sever(theController, broker) }

// Reconnect ends Isolate.
func (c *Cluster) Reconnect(broker int32) { c.network.heal(theController, broker) }

// Cut keeps two brokers from reaching each other; Heal ends it.
func (c *Cluster) Cut(a, b int32) { c.network.sever(a, b) }

// Heal ends Cut.
func (c *Cluster) Heal(a, b int32) { c.network.heal(a, b) }

// Skew sets a broker's wall clock off by so much.
func (c *Cluster) Skew(broker int32, by time.Duration) {
	if by != 0 {
		c.everSkewed.Store(true)
		c.mostAhead.Store(max(c.mostAhead.Load(), int64(by)))
	}
	c.skews[broker-1].Store(int64(by))
}

// The verbs of a story: weather.

// Unavailable is what a store says that does not work.
var Unavailable = walstorage.NewError(walstorage.ErrUnavailable, errors.New("503 Slow Down"))

// Refused is what a store says that does not know the credentials.
var Refused = walstorage.NewError(walstorage.ErrAccessDenied, errors.New("403 Forbidden"))

// StoreDown makes the store fail every request of the brokers given, of all if none is.
func (c *Cluster) StoreDown(brokers ...int32) { c.Refuse(Unavailable, allMethods, brokers...) }

// PutsDown makes the store fail every upload, GetsDown every download.
func (c *Cluster) PutsDown(brokers ...int32) { c.Refuse(Unavailable, []string{"Put"}, brokers...) }

// GetsDown makes the store fail every download.
func (c *Cluster) GetsDown(brokers ...int32) { c.Refuse(Unavailable, []string{"Get"}, brokers...) }

// Refuse makes the store answer the requests of some kinds with an error.
func (c *Cluster) Refuse(err error, methods []string, brokers ...int32) {
	c.trace.add("story", "the store fails")
	c.weather.each(methods, brokers, func(s sky) { c.weather.refused[s] = err })
}

// StoreUp ends StoreDown, PutsDown, GetsDown, Refuse, HoldPuts and SlowPuts.
func (c *Cluster) StoreUp() {
	c.trace.add("story", "the store works")
	c.weather.each(allMethods, nil, func(s sky) {
		delete(c.weather.refused, s)
		delete(c.weather.slow, s)
		if gate := c.weather.held[s]; gate != nil {
			close(gate)
			delete(c.weather.held, s)
			delete(c.weather.hung, s)
		}
	})
}

// Hold makes the store hold the requests of some kinds, Put or Get, without an answer, until StoreUp or their deadline.
func (c *Cluster) Hold(methods []string, brokers ...int32) {
	c.weather.each(methods, brokers, func(s sky) {
		if c.weather.held[s] == nil {
			c.weather.held[s] = make(chan struct{})
		}
	})
}

// Hang is Hold for requests that do not even return when their deadline has passed, until StoreUp.
func (c *Cluster) Hang(methods []string, brokers ...int32) {
	c.Hold(methods, brokers...)
	c.weather.each(methods, brokers, func(s sky) { c.weather.hung[s] = true })
}

// SlowPuts gives the uploads of each broker so many bytes a second.
func (c *Cluster) SlowPuts(bytesPerSecond float64, brokers ...int32) {
	c.weather.each([]string{"Put"}, brokers, func(s sky) { c.weather.slow[s] = bytesPerSecond })
}

// Poison makes requests for some segments fail: of tells what becomes of a request for the segment of a broker that was
// sealed as its number-th; nil ends it.
func (c *Cluster) Poison(of func(method string, broker int32, number int) error) {
	c.weather.mu.Lock()
	defer c.weather.mu.Unlock()
	c.weather.poisoned = nil
	if of != nil {
		c.weather.poisoned = func(method string, id walstorage.SegmentID) error {
			return of(method, id.BrokerID, int(sealNumber(id)))
		}
	}
}

// MetadataDown makes publications fail with an unknown outcome; nothing is stored.
func (c *Cluster) MetadataDown(brokers ...int32) { c.topic.set(c.topic.down, true, brokers) }

// MetadataUp ends MetadataDown.
func (c *Cluster) MetadataUp(brokers ...int32) { c.topic.set(c.topic.down, false, brokers) }

// Deaf makes the brokers miss every event from now on, Hearing ends it: the next event tells them of the gap.
func (c *Cluster) Deaf(brokers ...int32) { c.topic.set(c.topic.deaf, true, brokers) }

// Hearing ends Deaf.
func (c *Cluster) Hearing(brokers ...int32) { c.topic.set(c.topic.deaf, false, brokers) }

// SubscribeTakes sets how long it takes to subscribe from now on.
func (c *Cluster) SubscribeTakes(d time.Duration) {
	c.topic.mu.Lock()
	defer c.topic.mu.Unlock()
	c.topic.subscribe = d
}

// Lost, Corrupt and UnknownVersion are what can become of an event on its way to one broker.
var (
	Lost           = func(f *memlog.DeliveryFault) { f.Lose = true }
	Corrupt        = func(f *memlog.DeliveryFault) { f.Corrupt = true }
	UnknownVersion = func(f *memlog.DeliveryFault) { f.UnknownVersion = true }
)

// SpoilEvent spoils the next event that reaches the broker.
func (c *Cluster) SpoilEvent(broker int32, how func(*memlog.DeliveryFault)) {
	c.SpoilEventOf(broker, 0, how)
}

// SpoilEventOf spoils the next event of one broker that reaches another.
func (c *Cluster) SpoilEventOf(broker, of int32, how func(*memlog.DeliveryFault)) {
	c.topic.mu.Lock()
	defer c.topic.mu.Unlock()
	c.topic.spoils[flow{of, broker}] = &spoil{how: how, met: map[*process]bool{}}
}

// RejectEvents makes the metadata log refuse for ever the events that is tells; nil ends it.
func (c *Cluster) RejectEvents(is func(e *metadata.Event) bool) {
	c.topic.mu.Lock()
	defer c.topic.mu.Unlock()
	c.topic.refuses = is
}

// LoseReports loses the reports of a broker and nothing else, LoseFetches its ordinary fetches; BringAll ends both.
func (c *Cluster) LoseReports(broker int32) { c.network.mute(broker, "report", true) }

// LoseFetches loses the ordinary fetches of a broker and nothing else.
func (c *Cluster) LoseFetches(broker int32) { c.network.mute(broker, "fetch", true) }

// BringAll ends LoseReports and LoseFetches.
func (c *Cluster) BringAll(broker int32) {
	c.network.mute(broker, "report", false)
	c.network.mute(broker, "fetch", false)
}

// Reads puts a double in place of what the uploader reads of a log at a broker: it may change the bytes, fail, or panic;
// nil ends it.
func (c *Cluster) Reads(part *Partition, broker int32, double func(read []byte) error) {
	d := c.disk(part, broker)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readDouble = double
}

// TruncateBehindItsBack truncates a follower's log without Stop, against B5.
func (c *Cluster) TruncateBehindItsBack(part *Partition, broker int32, to int64) {
	d := c.disk(part, broker)
	d.mu.Lock()
	defer d.mu.Unlock()
	before, _ := d.log.End()
	d.end = d.log.TruncateTo(to)
	d.checkedEpoch = -1
	c.trace.add(d.who, "is truncated behind its back from %d to %d", before, d.end)
}

// EventsBehind makes events reach a broker so much later.
func (c *Cluster) EventsBehind(broker int32, by time.Duration) {
	c.topic.mu.Lock()
	defer c.topic.mu.Unlock()
	c.topic.behind[broker] = by
}

// Weather sets what goes wrong by chance from now on.
func (c *Cluster) Weather(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad = f
}

// The verbs of a story: looking.

// ISR returns the partition's ISR as the controller has it, sorted.
func (c *Cluster) ISR(part *Partition) []int32 { return c.controller.view(part).isr }

// ISRMoves returns how often an ISR has changed by a leader's wish.
func (c *Cluster) ISRMoves() int {
	c.controller.mu.Lock()
	defer c.controller.mu.Unlock()
	return c.controller.isrMoves
}

// Events returns what is in the metadata topic.
func (c *Cluster) Events() []*metadata.Event { return c.topic.topic.Events() }

// Objects returns the ids of the segments in the store.
func (c *Cluster) Objects() []walstorage.SegmentID {
	keys, err := walstorage.NewKeys("", clusterID)
	c.must(err)
	var ids []walstorage.SegmentID
	for _, key := range c.weather.store.Keys() {
		if id, ok := keys.Parse(key); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// Epoch returns the partition's newest leader epoch.
func (c *Cluster) Epoch(part *Partition) int32 { return c.controller.view(part).epoch }

// LEO returns the log end offset of a replica.
func (c *Cluster) LEO(part *Partition, broker int32) int64 {
	end, _ := c.disk(part, broker).log.End()
	return end
}

// HighWatermark returns the high watermark that a replica knows.
func (c *Cluster) HighWatermark(part *Partition, broker int32) int64 {
	p := c.process(broker)
	if p == nil || p.role(part.Key()) == nil {
		return -1
	}
	return p.highWatermark(p.role(part.Key()))
}

// State returns what a follower is doing.
func (c *Cluster) State(part *Partition, broker int32) follower.State {
	p := c.process(broker)
	if p == nil {
		return follower.State{Kind: follower.Stopped}
	}
	r := p.role(part.Key())
	if r == nil {
		return follower.State{Kind: follower.Stopped}
	}
	p.mu.Lock()
	following := r.following
	p.mu.Unlock()
	if following == nil {
		return follower.State{Kind: follower.Stopped}
	}
	return following.State()
}

// Fallbacks returns the fallbacks reported since the time given.
func (c *Cluster) Fallbacks(since time.Duration) []Fallback {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.fallbacks, func(f Fallback) bool { return f.At >= since })
	if i < 0 {
		return nil
	}
	return slices.Clone(c.fallbacks[i:])
}

// Gets returns how many segments a broker has fetched.
func (c *Cluster) Gets(broker int32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gets[broker]
}

// TakeTraffic returns what came to followers since the last call.
func (c *Cluster) TakeTraffic() Traffic {
	var sum Traffic
	for _, part := range c.parts {
		for _, b := range c.brokerIDs() {
			d := c.disk(part, b)
			d.mu.Lock()
			t := d.traffic
			if !d.behindSince.IsZero() { // it stands still now
				t.Longest = max(t.Longest, time.Since(d.behindSince))
			}
			d.traffic = Traffic{}
			d.mu.Unlock()
			sum.StoreBytes += t.StoreBytes
			sum.StoreBatches += t.StoreBatches
			sum.FetchBytes += t.FetchBytes
			sum.FetchBatches += t.FetchBatches
			sum.Longest = max(sum.Longest, t.Longest)
			sum.Lags = append(sum.Lags, t.Lags...)
		}
	}
	return sum
}

// Converged tells whether every live replica of every partition ends where its leader does.
func (c *Cluster) Converged() bool {
	for _, part := range c.controller.present() {
		g := c.controller.view(part)
		leader := c.process(g.leader)
		if leader == nil {
			return false
		}
		end := c.LEO(part, g.leader)
		for _, replica := range g.replicas {
			p := c.process(replica)
			if p == nil {
				continue
			}
			r := p.role(part.Key())
			if r == nil || c.LEO(part, replica) != end {
				return false
			}
			p.mu.Lock()
			current := r.epoch == g.epoch && (r.following != nil || r.leadership != nil)
			p.mu.Unlock()
			if !current {
				return false
			}
		}
	}
	return true
}

// AwaitConverged lets time pass until every live replica ends where its leader does, at most limit, then compares every
// log with its leader's, and returns how long it took. Producers must have stopped.
func (c *Cluster) AwaitConverged(limit time.Duration) time.Duration {
	c.t.Helper()
	took := c.Until(limit, "every follower has what its leader has", c.Converged)
	c.Run(time.Second) // what still comes must change nothing
	if !c.Converged() {
		c.Fatalf("a log has moved after it had converged")
	}
	for _, part := range c.controller.present() {
		g := c.controller.view(part)
		for _, replica := range g.replicas {
			if c.process(replica) != nil && replica != g.leader {
				if wrong := c.compare(part, g.leader, replica); wrong != "" {
					c.Fatalf("%s on %d is not what it is on its leader %d: %s", part, replica, g.leader, wrong)
				}
			}
		}
	}
	return took
}

// compare compares a follower's log with the leader's batch by batch. Compaction may have taken a batch from one and not
// yet from the other.
func (c *Cluster) compare(part *Partition, leader, replica int32) string {
	a, b := c.disk(part, leader).log, c.disk(part, replica).log
	from := max(a.Start(), b.Start())
	mine, theirs := batches(a, from), batches(b, from)
	for base, raw := range mine {
		other, ok := theirs[base]
		if !ok && !part.truth.isCompacted(raw) {
			return fmt.Sprintf("the batch at %d is missing", base)
		}
		if ok && string(other) != string(raw) {
			return fmt.Sprintf("the batch at %d differs", base)
		}
	}
	for base, raw := range theirs {
		if _, ok := mine[base]; !ok && !part.truth.isCompacted(raw) {
			return fmt.Sprintf("the batch at %d is only there", base)
		}
	}
	return ""
}

// batches returns the batches of a log by their base offsets.
func batches(log *memory.Log, from int64) map[int64][]byte {
	all := map[int64][]byte{}
	scanner := batch.NewScanner(log.Bytes(from))
	for scanner.Next() {
		all[scanner.Header().BaseOffset] = scanner.Bytes()
	}
	return all
}

// Percentile returns the p-th percentile, 0 of none.
func Percentile(of []time.Duration, p float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Clone(of)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(p/100*float64(len(sorted))))]
}
