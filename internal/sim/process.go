package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// process is one run of a broker, from its start to its death.
type process struct {
	cluster *Cluster
	id      int32
	epoch   int64 // broker epoch, new at each start
	line    int   // the process that takes the place of a living one has actors of its own: 0 or 1
	who     string

	ctx        context.Context
	cancel     context.CancelFunc
	killed     atomic.Bool
	zombie     atomic.Bool // another process has taken its place
	goroutines sync.WaitGroup
	at         [phases]atomic.Int64 // how much is in each phase

	storage    *objectstore.Manager
	metadata   metadata.Log
	uploader   *leader.Uploader
	replicator *follower.Replicator
	tracker    *replica.Tracker
	reporter   *replica.Reporter
	sweeper    *retention.Sweeper

	// Actors, of the broker's line and not of the process, so that a restart needs no new ones.
	requests    map[string]*actor // by the driver's method
	publishing  *actor
	subscribing *actor
	delivering  map[int32]*actor // by the broker that has published
	housekeeper *actor
	calls       map[string]*actor // which a zombie makes in vain

	mu     sync.Mutex
	roles  map[segment.PartitionKey]*role
	order  []*role // in the order in which they came
	inbox  []registration
	chores []*Partition  // that the broker is to truncate itself, if their logs part from the leader's
	mailed chan struct{} // holds at most one token
	asleep chan struct{} // closed when the process wakes up, nil while it is awake
	kinds  map[segment.PartitionKey]follower.Kind
	got    map[walstorage.SegmentID]bool // segments downloaded whole
	newest map[int32]uint64              // the newest message of each follower, as a leader
}

// start runs a broker.
func (c *Cluster) start(id int32) *process {
	p := &process{
		cluster: c, id: id, who: fmt.Sprintf("broker %d", id),
		roles:  map[segment.PartitionKey]*role{},
		mailed: make(chan struct{}, 1),
		kinds:  map[segment.PartitionKey]follower.Kind{}, got: map[walstorage.SegmentID]bool{}, newest: map[int32]uint64{},
	}
	if zombie := c.zombie(id); zombie != nil {
		p.line = 1 - zombie.line
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.hire(c.instants)
	p.epoch = c.controller.register(id)
	c.setProcess(id, p)
	c.trace.add(p.who, "starts in broker epoch %d", p.epoch)
	p.build()
	p.goroutines.Go(p.readMail)
	p.goroutines.Go(p.keepHouse)
	c.controller.ready(id)
	return p
}

// hire finds the broker's actors.
func (p *process) hire(i *instants) {
	id := fmt.Sprint(p.id)
	if p.line > 0 {
		id += " too"
	}
	p.requests = map[string]*actor{}
	for _, method := range allMethods {
		p.requests[method] = i.actor("%s %s", method, id)
	}
	p.publishing = i.actor("publish %s", id)
	p.subscribing = i.actor("subscribe %s", id)
	p.delivering = map[int32]*actor{}
	for _, b := range p.cluster.brokerIDs() {
		p.delivering[b] = i.actor("deliver %d>%s", b, id)
	}
	p.housekeeper = i.actor("house %s", id)
	p.calls = map[string]*actor{}
	for _, part := range p.cluster.parts {
		name := fmt.Sprint("fetch ", part.index)
		p.calls[name] = i.actor("lost %s %s", name, id)
	}
	for _, b := range p.cluster.brokerIDs() {
		name := fmt.Sprint("report ", b)
		p.calls[name] = i.actor("lost %s %s", name, id)
	}
}

// build makes walhop's parts.
func (p *process) build() {
	c := p.cluster
	driver := memory.New(memory.Config{Store: c.weather.store, NoStored: c.cfg.StoreTellsNoTime})
	driver.Fault(func(call memory.Call) memory.Fault { return c.weather.decide(p, call) })
	var err error
	storing := objectstore.Config{Cluster: clusterID, Seed: c.cfg.Seed + uint64(p.id), Logger: slog.New(&lines{c})}
	if c.cfg.Store != nil {
		c.cfg.Store(p.id, &storing)
	}
	p.storage, err = objectstore.New(gated{Driver: driver, process: p}, storing)
	c.must(err)
	log, err := c.topic.topic.Open(memlog.Options{Broker: p.id, BrokerEpoch: p.epoch, Faults: c.topic.faultsFor(p), Hooks: p.topicHooks()})
	c.must(err)
	p.metadata = newPublisher(log, p)

	leading := leader.Config{
		Storage: staggered{p.storage}, Metadata: p.metadata, Cluster: clusterID, Broker: p.id, BrokerEpoch: p.epoch,
		Seed: c.cfg.Seed + uint64(p.id), Now: p.now, Hooks: p.leaderHooks(),
		Random: &sealing{chance: c.instants.chance.of(fmt.Sprintf("ids of %d/%d", p.id, p.epoch))},
	}
	if c.cfg.Leader != nil {
		c.cfg.Leader(p.id, &leading)
	}
	p.uploader, err = leader.New(leading)
	c.must(err)

	following := follower.Config{
		Storage: p.storage, Metadata: p.metadata, Leader: &ordinaryFetch{p}, Cluster: clusterID,
		ReplicaLagTimeMax: c.cfg.LagTimeMax, Seed: c.cfg.Seed + uint64(p.id), Now: p.now, Hooks: p.followerHooks(),
	}
	if c.cfg.Follower != nil {
		c.cfg.Follower(p.id, &following)
	}
	p.replicator, err = follower.New(following)
	c.must(err)
	p.buildReports()

	if c.cfg.Sweeper != nil {
		sweeping := retention.Config{Storage: p.storage, Broker: p.id, Now: p.now, Hooks: p.sweeperHooks()}
		c.cfg.Sweeper(p.id, &sweeping)
		p.sweeper, err = retention.New(sweeping)
		c.must(err)
		p.goroutines.Go(func() {
			// Not at the instant of the start, which is the story's (D2).
			if p.housekeeper.take(p.ctx, p.housekeeper.next(), time.Millisecond) == nil {
				_ = p.sweeper.Run(p.ctx)
			}
		})
	}
}

// now is the broker's wall clock, which may be wrong (D4).
func (p *process) now() time.Time {
	return time.Now().Add(time.Duration(p.cluster.skews[p.id-1].Load()))
}

func (p *process) dead() bool { return p.killed.Load() }

// endsWithin is how long the goroutines of a killed process may take to end.
const endsWithin = 30 * time.Second

// die ends the process at once: nothing that it still does has an effect, and its goroutines end.
func (p *process) die() {
	c := p.cluster
	p.notePhases()
	p.killed.Store(true)
	p.cancel()
	if p.zombie.Load() {
		c.mu.Lock()
		delete(c.zombies, p.id)
		c.mu.Unlock()
	} else {
		c.setProcess(p.id, nil)
	}
	for _, r := range p.all() {
		r.log.crash()
	}
	c.ending.Go(func() {
		begun := c.instants.now()
		p.end()
		if took := c.instants.now() - begun; took > endsWithin {
			c.violate("the goroutines of broker %d, killed, took %s to end", p.id, took)
		}
	})
}

// replaced makes the process a zombie: its place and its disks are another's, and it hears and is heard by nobody but the
// store and the metadata log. It sleeps until wake.
func (p *process) replaced() {
	p.zombie.Store(true)
	p.mu.Lock()
	p.asleep = make(chan struct{})
	p.mu.Unlock()
}

// wake ends the sleep of a zombie.
func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asleep != nil {
		close(p.asleep)
		p.asleep = nil
	}
}

// sleeping returns what is closed when the process wakes up, nil if it is awake.
func (p *process) sleeping() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asleep
}

// noteKind returns what the partition was before.
func (p *process) noteKind(partition segment.TopicIDPartition, kind follower.Kind) (before follower.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.kinds[partition.Key()]
	p.kinds[partition.Key()] = kind
	return before
}

// callInVain is what becomes of a message of a zombie.
func (p *process) callInVain(ctx context.Context, name string) error {
	a := p.calls[name]
	if err := a.take(ctx, a.next(), p.cluster.cfg.LinkTimeout); err != nil {
		return err
	}
	return errUnreachable
}

// end waits until all goroutines of the process have ended.
func (p *process) end() {
	p.cancel()
	p.wake()
	for _, r := range p.all() {
		p.mu.Lock()
		waiting := r.waiting
		r.waiting = nil
		p.mu.Unlock()
		for _, w := range waiting {
			w.done(false)
		}
	}
	p.endReports()
	p.tally()
	if p.dead() {
		_ = p.metadata.Close() // before the uploader: it has nothing to say any more
	}
	_ = p.replicator.Close(context.Background())
	_ = p.uploader.Close(p.ctx) // whose end lets it give up what it still holds
	_ = p.storage.Close()
	_ = p.metadata.Close()
	p.goroutines.Wait()
}

// role returns what the process does for a partition, nil if nothing.
func (p *process) role(key segment.PartitionKey) *role {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles[key]
}

// all returns the roles in the order in which they came.
func (p *process) all() []*role {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

// leaderOf returns the leader of a partition as far as this process knows.
func (p *process) leaderOf(part *Partition) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.roles[part.Key()]; r != nil {
		return r.leader
	}
	return nobody
}

// mail gives the process something from the controller.
func (p *process) mail(g registration) {
	p.mu.Lock()
	p.inbox = append(p.inbox, g)
	p.mu.Unlock()
	select {
	case p.mailed <- struct{}{}:
	default:
	}
}

// readMail carries out what the controller says, in order, each a link's latency after the one before.
func (p *process) readMail() {
	post := p.cluster.network.links[link{theController, p.id, "mail", -1}]
	for {
		if p.zombie.Load() {
			return
		}
		p.mu.Lock()
		var next *registration
		if len(p.inbox) > 0 {
			next = &p.inbox[0]
			p.inbox = p.inbox[1:]
		}
		p.mu.Unlock()
		if next == nil {
			if part := p.nextChore(); part != nil {
				p.truncateItself(part)
				continue
			}
			select {
			case <-p.mailed:
			case <-p.ctx.Done():
				return
			}
			continue
		}
		op := post.next()
		if post.take(p.ctx, op, post.chance.between(op, "latency", time.Millisecond, 5*time.Millisecond)) != nil {
			return
		}
		for {
			healed := p.cluster.network.cut(theController, p.id)
			if healed == nil {
				break
			}
			select {
			case <-healed:
			case <-p.ctx.Done():
				return
			}
			if post.take(p.ctx, op, time.Millisecond) != nil {
				return
			}
		}
		p.apply(*next)
	}
}

// keepHouse flushes the logs and looks for members of the ISR that have fallen behind, as Kafka's brokers do.
func (p *process) keepHouse() {
	least, most := p.cluster.cfg.FlushEvery, p.cluster.cfg.LagTimeMax/2
	if least == 0 {
		least = most
	}
	every := least
	shrink := p.cluster.instants.now()
	for {
		if p.housekeeper.take(p.ctx, p.housekeeper.next(), every) != nil {
			return
		}
		idle := true // what stands still for hours is not flushed all the time
		for _, r := range p.all() {
			if p.cluster.cfg.FlushEvery > 0 && r.log.flush(p.highWatermark(r)) {
				idle = false
			}
		}
		if every = min(2*every, most); !idle {
			every = least
		}
		every = max(every, least)
		if now := p.cluster.instants.now(); now-shrink >= p.cluster.cfg.LagTimeMax/2-time.Second {
			shrink = now
			for _, r := range p.all() {
				p.shrink(r)
			}
		}
	}
}

// leaderHooks put what the uploader does into the trace.
func (p *process) leaderHooks() leader.Hooks {
	c := p.cluster
	return leader.Hooks{
		SegmentSealed: func(s leader.Sealed) {
			if p.dead() {
				return
			}
			c.count("sealed by " + string(s.Reason))
			if s.Slices > 1 {
				c.count("several partitions in a segment")
			}
			if c.skews[p.id-1].Load() != 0 {
				c.count("sealed under a wrong clock")
			}
			c.trace.add(p.who, "seals segment %d of %d slices, %d bytes", int64(sealNumber(s.ID)), int64(s.Slices), int64(s.ObjectBytes))
		},
		UploadDone: func(u leader.Upload) {
			if p.dead() {
				return
			}
			what := "uploaded segment %d, attempt %d"
			if u.Err != nil {
				what = "could not upload segment %d, attempt %d: " + kindOf(u.Err)
			} else {
				p.enter(stored)
			}
			c.trace.add(p.who, what, int64(sealNumber(u.ID)), int64(u.Attempt))
		},
		Published: func(leader.Published) { p.leave(stored) },
		GivenUp: func(g leader.GivenUp) {
			if g.Stored {
				p.leave(stored)
			}
			if p.dead() {
				return
			}
			c.count("given up")
			c.count(givenUp(g))
			c.trace.add(p.who, "gives up segment %d, event %d", int64(sealNumber(g.ID)), g.Sequence)
		},
		Skipped: func(s leader.Skipped) {
			if p.dead() {
				return
			}
			c.count("skip: " + string(s.Reason))
			c.trace.add(p.who, "skips "+s.Partition.Topic+" [%d,%d): "+string(s.Reason), s.From, s.To)
		},
		PartitionFailed: func(segment.TopicIDPartition, int32, error) { c.count("log cannot be read") },
		Fenced: func(error) {
			if p.dead() {
				return
			}
			c.count("zombie fenced by a newer broker epoch")
			c.trace.add(p.who, "is fenced")
		},
		Panic: p.panicked,
	}
}

// followerHooks put what the replicator does into the trace.
func (p *process) followerHooks() follower.Hooks {
	c := p.cluster
	return follower.Hooks{
		StateChanged: func(partition segment.TopicIDPartition, s follower.State) {
			if p.dead() {
				return
			}
			c.noteState(p, partition, s)
			p.reporter.Moved(partition) // B4: what the follower wants may have changed
			c.trace.add(p.who, partition.Topic+" is "+string(s.Kind)+" "+string(s.Reason)+" in epoch %d [%d,%d)", int64(s.Epoch), s.From, s.To)
		},
		SegmentFetched: func(f follower.SegmentFetch) {
			if p.dead() {
				return
			}
			c.noteGet(p.id, f)
			what := "fetched segment %d of broker %d"
			if f.Err != nil {
				what = "could not fetch segment %d of broker %d: " + kindOf(f.Err)
			} else {
				p.mu.Lock()
				p.got[f.Segment] = true
				p.mu.Unlock()
			}
			c.trace.add(p.who, what, int64(sealNumber(f.Segment)), int64(f.Segment.BrokerID))
		},
		Appended: func(a follower.Appended) {
			p.mu.Lock()
			got := p.got[a.Segment]
			p.mu.Unlock()
			if !got {
				c.violate("%s appends [%d,%d) of %s from a segment that it has not downloaded", p.who, a.From, a.To, a.Partition.Topic)
			}
		},
		Gap: func(g metadata.Gap) {
			if p.dead() {
				return
			}
			c.count("gap: " + string(g.Reason))
			c.trace.add(p.who, "misses events [%d,%d) of broker %d", g.From, g.To, int64(g.BrokerID))
		},
		Panic: p.panicked,
	}
}

// toldPanic is the panic that a story has asked for.
const toldPanic = "sim: as told"

// panicked notes a panic that walhop has contained.
func (p *process) panicked(where string, value any) {
	if p.cluster.cfg.ExpectPanics || value == toldPanic {
		p.cluster.count("panic contained")
		return
	}
	p.cluster.violate("%s: panic in %s: %v", p.who, where, value)
}

// sweeperHooks put what the sweeper does into the trace.
func (p *process) sweeperHooks() retention.Hooks {
	return retention.Hooks{
		RunDone: func(result retention.Result, err error) {
			if p.dead() {
				return
			}
			what := "sweeps: %d deleted"
			if err != nil {
				what = "sweeps: %d deleted, " + kindOf(err)
			}
			p.cluster.trace.add(p.who, what, int64(result.Deleted))
			if result.Deleted > 0 {
				p.cluster.count("swept")
			}
			if p.cluster.skews[p.id-1].Load() != 0 {
				p.cluster.count("swept under a wrong clock")
			}
			if result.ClockAhead > 0 {
				p.cluster.count("clock found ahead of the store's")
			}
			if result.Pending > 0 {
				p.cluster.count("delete failed, tried again")
			}
		},
	}
}

// topicHooks count what the subscription drops.
func (p *process) topicHooks() metadata.Hooks {
	return metadata.Hooks{
		Duplicate: func(*metadata.Event) { p.cluster.count("duplicate dropped") },
	}
}

// givenUp names what becomes of a segment that is given up.
func givenUp(g leader.GivenUp) string {
	switch {
	case errors.Is(g.Err, leader.ErrStuck):
		return "given up, stuck"
	case errors.Is(g.Err, leader.ErrExpired):
		return "given up, expired"
	case errors.Is(g.Err, metadata.ErrInvalid):
		return "given up, event refused"
	case errors.Is(g.Err, metadata.ErrFenced):
		return "given up, fenced"
	case g.Sequence >= 0:
		return "given up, publication unsettled"
	case g.Stored:
		return "given up, not published"
	}
	return "given up, not stored"
}

// tally adds up what the process has done that no hook tells.
func (p *process) tally() {
	s := p.replicator.Stats()
	for _, n := range []struct {
		what  string
		count int64
	}{
		{"hold in vain", s.HoldsInVain},
		{"append refused as stale", s.Stale},
		{"entry of an old epoch dropped", int64(s.Entries.Stale)},
		{"entry covered by another", int64(s.Entries.Covered)},
		{"entry evicted", int64(s.Entries.Evicted)},
	} {
		p.cluster.countMany(n.what, int(n.count))
	}
}

// kindOf names an error without what differs from run to run.
func kindOf(err error) string {
	if kind := walstorage.KindOf(err); kind != nil {
		return kind.Error()
	}
	return "unclassified"
}
