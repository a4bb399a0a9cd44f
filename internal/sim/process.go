package sim

import (
	"context"
	"fmt"
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
	who     string

	ctx        context.Context
	cancel     context.CancelFunc
	killed     atomic.Bool
	goroutines sync.WaitGroup

	storage    *objectstore.Manager
	metadata   metadata.Log
	uploader   *leader.Uploader
	replicator *follower.Replicator
	tracker    *replica.Tracker
	reporter   *replica.Reporter
	sweeper    *retention.Sweeper

	// Actors, of the broker and not of the process, so that a restart needs no new ones.
	requests    map[string]*actor // by the driver's method
	publishing  *actor
	subscribing *actor
	delivering  map[int32]*actor // by the broker that has published
	housekeeper *actor

	mu     sync.Mutex
	roles  map[segment.PartitionKey]*role
	order  []*role // in the order in which they came
	inbox  []registration
	mailed chan struct{} // holds at most one token
}

// start runs a broker.
func (c *Cluster) start(id int32) *process {
	p := &process{
		cluster: c, id: id, who: fmt.Sprintf("broker %d", id),
		roles:  map[segment.PartitionKey]*role{},
		mailed: make(chan struct{}, 1),
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
	p.requests = map[string]*actor{}
	for _, method := range allMethods {
		p.requests[method] = i.actor("%s %d", method, p.id)
	}
	p.publishing = i.actor("publish %d", p.id)
	p.subscribing = i.actor("subscribe %d", p.id)
	p.delivering = map[int32]*actor{}
	for _, b := range p.cluster.brokerIDs() {
		p.delivering[b] = i.actor("deliver %d>%d", b, p.id)
	}
	p.housekeeper = i.actor("house %d", p.id)
}

// build makes walhop's parts.
func (p *process) build() {
	c := p.cluster
	driver := memory.New(memory.Config{Store: c.weather.store})
	driver.Fault(func(call memory.Call) memory.Fault { return c.weather.decide(p, call) })
	var err error
	storing := objectstore.Config{Cluster: clusterID, Seed: c.cfg.Seed + uint64(p.id)}
	if c.cfg.Store != nil {
		c.cfg.Store(p.id, &storing)
	}
	p.storage, err = objectstore.New(gated{driver, p}, storing)
	c.must(err)
	log, err := c.topic.topic.Open(memlog.Options{Broker: p.id, BrokerEpoch: p.epoch, Faults: c.topic.faultsFor(p)})
	c.must(err)
	p.metadata = newPublisher(log, p)

	leading := leader.Config{
		Storage: p.storage, Metadata: p.metadata, Cluster: clusterID, Broker: p.id, BrokerEpoch: p.epoch,
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
		p.goroutines.Go(func() { _ = p.sweeper.Run(p.ctx) })
	}
}

// now is the broker's wall clock, which may be wrong (D4).
func (p *process) now() time.Time {
	return time.Now().Add(time.Duration(p.cluster.skews[p.id-1].Load()))
}

func (p *process) dead() bool { return p.killed.Load() }

// die ends the process at once: nothing that it still does has an effect, and its goroutines end.
func (p *process) die() {
	p.killed.Store(true)
	p.cancel()
	p.cluster.setProcess(p.id, nil)
	for _, r := range p.all() {
		r.log.crash()
	}
	p.cluster.ending.Go(p.end)
}

// end waits until all goroutines of the process have ended.
func (p *process) end() {
	p.cancel()
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
		p.mu.Lock()
		var next *registration
		if len(p.inbox) > 0 {
			next = &p.inbox[0]
			p.inbox = p.inbox[1:]
		}
		p.mu.Unlock()
		if next == nil {
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
	every := p.cluster.cfg.FlushEvery
	if every == 0 {
		every = p.cluster.cfg.LagTimeMax / 2
	}
	shrink := p.cluster.instants.now()
	for {
		if p.housekeeper.take(p.ctx, p.housekeeper.next(), every) != nil {
			return
		}
		for _, r := range p.all() {
			if p.cluster.cfg.FlushEvery > 0 {
				r.log.flush(p.highWatermark(r))
			}
		}
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
			c.trace.add(p.who, "seals segment %d of %d slices, %d bytes", int64(sealNumber(s.ID)), int64(s.Slices), int64(s.ObjectBytes))
		},
		UploadDone: func(u leader.Upload) {
			if p.dead() {
				return
			}
			what := "uploaded segment %d, attempt %d"
			if u.Err != nil {
				what = "could not upload segment %d, attempt %d: " + kindOf(u.Err)
			}
			c.trace.add(p.who, what, int64(sealNumber(u.ID)), int64(u.Attempt))
		},
		GivenUp: func(g leader.GivenUp) {
			if p.dead() {
				return
			}
			c.count("given up")
			c.trace.add(p.who, "gives up segment %d, event %d", int64(sealNumber(g.ID)), g.Sequence)
		},
		Skipped: func(s leader.Skipped) {
			if p.dead() {
				return
			}
			c.count("skip: " + string(s.Reason))
			c.trace.add(p.who, "skips "+s.Partition.Topic+" [%d,%d): "+string(s.Reason), s.From, s.To)
		},
		Fenced: func(error) {
			if p.dead() {
				return
			}
			c.count("uploader fenced")
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
			}
			c.trace.add(p.who, what, int64(sealNumber(f.Segment)), int64(f.Segment.BrokerID))
		},
		Gap: func(g metadata.Gap) {
			c.count("gap: " + string(g.Reason))
			c.trace.add(p.who, "misses events [%d,%d) of broker %d", g.From, g.To, int64(g.BrokerID))
		},
		Panic: p.panicked,
	}
}

// panicked notes a panic that walhop has contained.
func (p *process) panicked(where string, value any) {
	if p.cluster.cfg.ExpectPanics {
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
		},
	}
}

// kindOf names an error without what differs from run to run.
func kindOf(err error) string {
	if kind := walstorage.KindOf(err); kind != nil {
		return kind.Error()
	}
	return "unclassified"
}
