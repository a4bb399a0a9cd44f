package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
)

// role is what a process does for one partition, in one leader epoch. The fields are guarded by the process's mutex.
type role struct {
	process *process
	part    *Partition
	log     *mount

	epoch         int32
	leader        int32
	highWatermark int64
	replicas      []int32
	brokers       map[int32]int64 // broker epochs of the replicas, as far as they are alive

	// A leader's.
	leadership *leader.Leadership
	epochStart int64
	isr        []int32 // as the controller has it
	asked      []int32 // the ISR asked for and not yet answered, nil if there is none
	version    int
	since      time.Time // start of the leadership
	waiting    []waiter
	samples    map[int32]kafkaSample // only where Break.OverwrittenSample asks for them

	// A follower's.
	following     *follower.Following
	followedSince time.Time
}

// waiter waits for the high watermark to reach an offset: a produce request with acks=all.
type waiter struct {
	offset int64
	done   func(acknowledged bool)
}

func (r *role) leads() bool { return r.leader == r.process.id }

// leadsIn tells whether the process leads in the epoch by this role.
func (p *process) leadsIn(r *role, epoch int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.leads() && r.epoch == epoch
}

// members returns the replicas that count as in the ISR while a change of it is under way: those of before and after.
func (r *role) members() []int32 {
	all := slices.Clone(r.isr)
	for _, m := range r.asked {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// apply carries out what the controller says of a partition. It runs on the process's own goroutine, one after another,
// since Stop and Resign wait.
func (p *process) apply(g registration) {
	key := g.part.Key()
	r := p.role(key)
	if g.absent {
		if r != nil {
			p.forget(r)
		}
		return
	}
	if r == nil {
		r = &role{process: p, part: g.part, log: p.cluster.disk(g.part, p.id).mountFor(p), epoch: -1, leader: nobody}
		r.highWatermark = r.log.checkpoint()
		p.mu.Lock()
		p.roles[key] = r
		p.order = append(p.order, r)
		p.mu.Unlock()
	}
	if g.epoch == r.epoch {
		p.refresh(r, g)
		return
	}
	if g.epoch < r.epoch {
		return
	}
	superseding := p.supersedes(r, g)
	if !superseding {
		p.leaveRole(r)
	}
	p.mu.Lock()
	r.epoch, r.leader = g.epoch, g.leader
	r.replicas, r.brokers, r.isr, r.asked, r.version = g.replicas, g.brokers, g.isr, nil, g.version
	p.mu.Unlock()
	p.noteBrokers(g)
	switch g.leader {
	case p.id:
		p.lead(r, g)
	case nobody:
	default:
		p.follow(r, superseding)
	}
}

// refresh takes over what changed within an epoch.
func (p *process) refresh(r *role, g registration) {
	p.noteBrokers(g)
	p.mu.Lock()
	r.replicas, r.brokers = g.replicas, g.brokers
	if g.version > r.version {
		r.isr, r.version, r.asked = g.isr, g.version, nil
	}
	p.mu.Unlock()
	p.advance(r)
}

// noteBrokers tells the tracker which runs of the replicas' brokers count.
func (p *process) noteBrokers(g registration) {
	if p.cluster.cfg.Break.OldReportsCount {
		return
	}
	for _, replica := range g.replicas {
		if epoch, alive := g.brokers[replica]; alive {
			p.tracker.Registered(replica, epoch)
		}
	}
}

// supersedes tells whether the next Follow or Lead ends the older one, and not Stop or Resign: a broker may do without
// those where it neither truncates nor begins to lead (B5).
func (p *process) supersedes(r *role, g registration) bool {
	if !p.cluster.cfg.Hasty || p.cluster.instants.chance.of(r.part.Topic).bits(uint64(g.epoch), "hasty")%2 == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.following != nil && g.leader != p.id && g.leader != nobody:
		p.cluster.count("Follow superseded")
	case r.leadership != nil && g.leader == p.id:
		p.cluster.count("Lead superseded")
	default:
		return false
	}
	return true
}

// forget ends everything that the process does for a partition that is deleted, and deletes its log.
func (p *process) forget(r *role) {
	p.leaveRole(r)
	p.tracker.Forget(r.part.TopicIDPartition)
	r.log.wipe()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.roles, r.part.Key())
	p.order = slices.DeleteFunc(p.order, func(other *role) bool { return other == r })
}

// leaveRole ends what the process did in the older epoch. Stop and Resign come before anything that touches the log (B5).
func (p *process) leaveRole(r *role) {
	p.mu.Lock()
	following, leadership, waiting := r.following, r.leadership, r.waiting
	r.following, r.leadership, r.waiting = nil, nil, nil
	p.mu.Unlock()
	if following != nil {
		p.stopReporting(r)
		following.Stop()
	}
	if leadership != nil {
		leadership.Resign()
	}
	if following != nil || leadership != nil {
		r.log.letGo()
	}
	for _, w := range waiting {
		w.done(false)
	}
}

// lead begins a leadership: after the last append as a follower, and once the epoch's start is in the epoch cache (B5).
func (p *process) lead(r *role, g registration) {
	var start, logStart int64
	var lastEpoch int32
	err := r.log.lead(g.epoch, &start, &logStart, &lastEpoch)
	if err != nil {
		if !p.dead() && !errors.Is(err, errKilled) {
			p.cluster.violate("%s cannot lead %s in epoch %d: %v", p.who, r.part, g.epoch, err)
		}
		return
	}
	lost := r.part.truth.elected(g.epoch, logStart, start, lastEpoch, g.unclean)
	r.part.leaderEnd.Store(start)
	p.cluster.controller.led(r.part, g.epoch)
	if lost != nil && !g.unclean {
		p.cluster.violate("%s lost what was committed, though %d of its ISR was elected: %v", r.part, p.id, lost)
	}
	p.cluster.trace.add(p.who, "leads "+r.part.Topic+" in epoch %d from %d on", int64(g.epoch), start)
	r.log.resting.Store(false)
	leadership, err := p.uploader.Lead(r.part.TopicIDPartition, g.epoch, start, r.log)
	if err != nil {
		if !p.dead() && p.uploader.Err() == nil {
			p.cluster.violate("%s: Lead of %s in epoch %d: %v", p.who, r.part, g.epoch, err)
		}
	}
	p.mu.Lock()
	waiting := r.waiting // of an older epoch of this very leader
	r.waiting = nil
	r.leadership, r.epochStart, r.since = leadership, start, time.Now()
	r.highWatermark = min(r.highWatermark, start)
	p.mu.Unlock()
	for _, w := range waiting {
		w.done(false)
	}
	p.advance(r)
}

// follow begins to follow. superseding says that the older handle is still there.
func (p *process) follow(r *role, superseding bool) {
	if err := r.log.follow(r.epoch); err != nil {
		if !p.dead() && !errors.Is(err, errKilled) { // a zombie's disk is another process's (seeds 5144 and 5795)
			p.cluster.violate("%s cannot follow %s in epoch %d: %v", p.who, r.part, r.epoch, err)
		}
		return
	}
	if superseding { // the log knows of the new epoch a little before walhop does
		post := p.cluster.network.links[link{theController, p.id, "mail", -1}]
		if post.take(p.ctx, post.next(), time.Millisecond) != nil {
			return
		}
	} else if p.cluster.cfg.TruncatesFirst && p.cluster.instants.chance.of(r.part.Topic).bits(uint64(r.epoch), "first")%2 == 0 {
		p.truncateOutside(r)
	}
	p.cluster.trace.add(p.who, "follows %d in "+r.part.Topic+" in epoch %d", int64(r.leader), int64(r.epoch))
	r.log.resting.Store(false)
	following, err := p.replicator.Follow(r.part.TopicIDPartition, r.leader, r.epoch, r.log)
	if err != nil {
		if !p.dead() {
			p.cluster.violate("%s: Follow of %s in epoch %d: %v", p.who, r.part, r.epoch, err)
		}
		return
	}
	p.stopReporting(r) // of a handle that this one has superseded
	p.mu.Lock()
	r.following, r.followedSince = following, time.Now()
	p.mu.Unlock()
	p.startReporting(r)
}

// nextChore returns a partition that is waiting to be truncated, nil if there is none.
func (p *process) nextChore() *Partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.chores) == 0 {
		return nil
	}
	part := p.chores[0]
	p.chores = p.chores[1:]
	return part
}

// truncateItself asks the leader where its log and this one part and truncates, with walhop stopped (B5).
func (p *process) truncateItself(part *Partition) {
	r := p.role(part.Key())
	if r == nil {
		return
	}
	p.mu.Lock()
	following := r.following
	r.following = nil
	p.mu.Unlock()
	if following == nil {
		return
	}
	p.stopReporting(r)
	following.Stop()
	r.log.letGo()
	p.cluster.count("Stop and Follow again")
	p.truncateOutside(r)
	if p.ctx.Err() == nil {
		p.follow(r, false)
	}
}

// truncateOutside asks the leader where its log and this one part and truncates, outside of a LeaderFetcher call.
func (p *process) truncateOutside(r *role) {
	request := fetchRequest{replica: p.id, brokerEpoch: p.epoch, part: r.part, leaderEpoch: r.epoch}
	request.offset, request.lastEpoch = r.log.End()
	answer, err := p.ask(p.ctx, r.part, request)
	if err != nil || answer.diverging == nil && !answer.outOfRange {
		return
	}
	fetch := ordinaryFetch{p}
	if _, err = fetch.use(p.ctx, r, request, answer); err == nil {
		p.cluster.count("truncation outside of a fetch")
	}
}

// learn takes over what a leader's answer says of the high watermark and of the log start. The high watermark comes from
// there and never from an event (B3).
func (p *process) learn(r *role, highWatermark, logStart int64) {
	end, _ := r.log.End()
	p.mu.Lock()
	if !r.leads() {
		r.highWatermark = max(r.highWatermark, min(highWatermark, end))
	}
	p.mu.Unlock()
	if logStart > r.log.Start() && logStart <= end {
		r.log.deleteRecords(p.ctx, logStart)
	}
}
