package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/walhop/walhop/internal/batch/batchtest"
)

var errTooFewInSync = errors.New("sim: not enough replicas in sync")

// produce appends one record as the leader. done, if not nil, is told once the record is acknowledged by all in sync
// replicas, or that it never will be.
func (p *process) produce(part *Partition, value string, done func(acknowledged bool)) (offset int64, err error) {
	p.mu.Lock()
	r := p.roles[part.Key()]
	if r == nil || !r.leads() || r.leadership == nil {
		p.mu.Unlock()
		return 0, errNotLeader
	}
	if done != nil && len(r.isr) < p.cluster.cfg.MinISR {
		p.mu.Unlock()
		return 0, errTooFewInSync
	}
	epoch, leadership := r.epoch, r.leadership
	p.mu.Unlock()

	begun := time.Now()
	offset, next, err := r.log.write(p.ctx, epoch, batchtest.Make(0, epoch, p.records(value)...))
	if err != nil {
		return 0, err
	}
	leadership.Notify()
	p.cluster.appendTook(time.Since(begun))
	for _, replica := range r.replicas {
		if replica != p.id {
			p.cluster.disk(part, replica).leaderAt(next)
		}
	}
	if done != nil {
		told := done
		done = func(acknowledged bool) {
			if acknowledged {
				part.truth.acknowledges(epoch, offset)
			}
			told(acknowledged)
		}
		p.mu.Lock()
		acknowledged, lost := r.highWatermark >= next, r.epoch != epoch
		if !acknowledged && !lost {
			r.waiting = append(r.waiting, waiter{offset: next, done: done})
		}
		p.mu.Unlock()
		if acknowledged || lost {
			done(acknowledged)
		}
	}
	p.moved(part)
	return offset, nil
}

// records returns the records of the batch that begins with one of this value.
func (p *process) records(value string) []string {
	all := []string{value}
	if most := p.cluster.cfg.BatchRecords; most > 1 {
		for range hashString(value) % uint64(most) {
			all = append(all, "+")
		}
	}
	return all
}

// moved is called after each change of a log of this process: it tells whoever reports or answers reports.
func (p *process) moved(part *Partition) {
	r := p.role(part.Key())
	if r == nil {
		return
	}
	p.mu.Lock()
	leads := r.leads()
	p.mu.Unlock()
	if !leads {
		p.reportMoved(r)
		return
	}
	p.tracker.Moved(part.TopicIDPartition)
	p.advance(r)
}

// highWatermark returns the high watermark of a role.
func (p *process) highWatermark(r *role) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.highWatermark
}

// standing is how a replica stands with its leader.
type standing struct {
	replica  int32
	member   bool      // of the ISR, or of the one asked for
	caughtUp time.Time // zero: never
	end      int64     // as reported in this epoch, -1: never
}

// behind tells whether Kafka counts the replica as out of sync.
func (s standing) behind(leaderEnd int64, lag time.Duration) bool {
	return s.end != leaderEnd && time.Since(s.caughtUp) > lag
}

// standings returns how every other replica stands. It is called without p.mu, which the tracker's callers hold.
func (p *process) standings(r *role, epoch int32, replicas, members []int32, since time.Time) []standing {
	var all []standing
	for _, replica := range replicas {
		if replica == p.id {
			continue
		}
		s := standing{replica: replica, member: slices.Contains(members, replica)}
		s.caughtUp, s.end = p.tracker.CaughtUp(r.part.TopicIDPartition, epoch, replica)
		if p.cluster.cfg.Break.OverwrittenSample {
			s.caughtUp = p.kafkaCaughtUp(r, replica)
		}
		// A member counts as caught up when the leadership began, as in Kafka.
		if s.member && s.caughtUp.Before(since) {
			s.caughtUp = since
		}
		all = append(all, s)
	}
	return all
}

// advance moves the high watermark as far as every replica that counts allows, and asks for followers that have reached
// it to be taken into the ISR.
func (p *process) advance(r *role) {
	p.mu.Lock()
	if !r.leads() || r.leadership == nil {
		p.mu.Unlock()
		return
	}
	epoch, replicas, members, since := r.epoch, r.replicas, r.members(), r.since
	p.mu.Unlock()

	end, _ := r.log.End()
	all := p.standings(r, epoch, replicas, members, since)
	mark := end
	for _, s := range all {
		// B2: it waits for every replica that is caught up, in the ISR or not; else it runs ahead of a busy follower that
		// has left, and that one never comes back.
		joins := !s.behind(end, p.cluster.cfg.LagTimeMax) && !p.cluster.cfg.Break.HighWatermarkOfISR
		if s.member || joins {
			mark = min(mark, s.end)
		}
	}

	p.mu.Lock()
	if r.epoch != epoch || r.leadership == nil {
		p.mu.Unlock()
		return
	}
	moved := false
	var acknowledged []waiter
	if mark > r.highWatermark && len(r.isr) >= p.cluster.cfg.MinISR {
		moved, r.highWatermark = true, mark
		r.part.truth.commits(epoch, mark)
		keep := r.waiting[:0]
		for _, w := range r.waiting {
			if w.offset <= mark {
				acknowledged = append(acknowledged, w)
			} else {
				keep = append(keep, w)
			}
		}
		clear(r.waiting[len(keep):])
		r.waiting = keep
	}
	for _, s := range all {
		_, alive := r.brokers[s.replica]
		if !s.member && alive && s.end >= r.highWatermark && s.end >= r.epochStart && r.asked == nil {
			p.alter(r, append(slices.Clone(r.isr), s.replica))
		}
	}
	p.mu.Unlock()
	if moved {
		p.cluster.trace.add(r.log.who, "high watermark %d in epoch %d", mark, int64(epoch))
		p.tracker.Moved(r.part.TopicIDPartition)
	}
	for _, w := range acknowledged {
		w.done(true)
	}
}

// shrink asks for members that have fallen behind to leave the ISR.
func (p *process) shrink(r *role) {
	p.mu.Lock()
	if !r.leads() || r.leadership == nil || r.asked != nil {
		p.mu.Unlock()
		return
	}
	epoch, replicas, members, since := r.epoch, r.replicas, r.members(), r.since
	p.mu.Unlock()
	end, _ := r.log.End()
	isr := members
	for _, s := range p.standings(r, epoch, replicas, members, since) {
		if s.member && s.behind(end, p.cluster.cfg.LagTimeMax) {
			isr = without(isr, s.replica)
			if !p.zombie.Load() {
				p.cluster.count("left the ISR")
			}
			p.judgeShrink(r, epoch, s.replica)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(isr) < len(members) && r.epoch == epoch && r.asked == nil {
		p.alter(r, isr)
	}
}

// lagSlack is what a true lag may be below half of replica.lag.time.max and the follower still leave the ISR: reports take
// their time.
const lagSlack = 500 * time.Millisecond

// judgeShrink holds against the truth that a follower leaves the ISR: one whose true lag has been less than half of
// replica.lag.time.max for so long, and whose reports have come through, must not (B2).
func (p *process) judgeShrink(r *role, epoch int32, replica int32) {
	c := p.cluster
	follower := c.process(replica)
	if follower == nil || p.dead() || p.zombie.Load() || c.cfg.Break != (Break{}) {
		return
	}
	theirs := follower.role(r.part.Key())
	if theirs == nil {
		return
	}
	follower.mu.Lock()
	follows := theirs.following != nil && theirs.epoch == epoch
	since := time.Since(theirs.followedSince)
	follower.mu.Unlock()
	if !follows || since < c.cfg.LagTimeMax+2*time.Second {
		return
	}
	d := c.disk(r.part, replica)
	d.mu.Lock()
	slow, end := d.lastSlow, d.end
	d.mu.Unlock()
	if lag := r.part.lag(end); lag > c.cfg.LagTimeMax/2-lagSlack {
		return
	}
	if now := c.instants.now(); now-max(slow, c.network.lastLost(p.id, replica)) > c.cfg.LagTimeMax+2*time.Second {
		c.violate("%d leaves the ISR of %s though its lag was never more than half of %s", replica, r.part.Topic, c.cfg.LagTimeMax)
	}
}

// alter asks the controller for another ISR, until there is an answer. It is called with p.mu held. Until the answer the
// members of both count, so nothing is acknowledged that either lacks.
func (p *process) alter(r *role, isr []int32) {
	if p.ctx.Err() != nil || p.zombie.Load() {
		return
	}
	r.asked = isr
	epoch, version := r.epoch, r.version
	p.goroutines.Go(func() {
		path := p.cluster.network.links[link{p.id, theController, "isr", r.part.index}]
		for {
			op := path.next()
			if path.take(p.ctx, op, path.chance.between(op, "latency", time.Millisecond, 3*time.Millisecond)) != nil {
				return
			}
			if p.cluster.network.cut(p.id, theController) == nil {
				break
			}
			if path.take(p.ctx, path.next(), p.cluster.cfg.LinkTimeout) != nil {
				return
			}
		}
		now, mine := p.cluster.controller.alterISR(r.part, p.id, epoch, version, isr)
		op := path.next()
		if path.take(p.ctx, op, path.chance.between(op, "latency", time.Millisecond, 3*time.Millisecond)) != nil {
			return
		}
		p.mu.Lock()
		if r.epoch == epoch {
			r.asked = nil
			if mine && now.version > r.version {
				r.isr, r.version = now.isr, now.version
			}
		}
		p.mu.Unlock()
		p.advance(r)
	})
}

// kafkaSample is what Kafka's own leader keeps of a follower: the leader's end at its last fetch.
type kafkaSample struct {
	lastEnd  int64
	lastTime time.Time
	caughtUp time.Time
}

// noteKafkaSample does what Kafka's leader does at each fetch: it judges the follower by the sample of the fetch before,
// and overwrites it.
func (p *process) noteKafkaSample(r *role, replica int32) {
	end, _ := r.log.End()
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	_, reported := p.tracker.CaughtUp(r.part.TopicIDPartition, r.epoch, replica)
	s := r.samples[replica]
	switch {
	case reported >= end:
		s.caughtUp = now
	case reported >= s.lastEnd && !s.lastTime.IsZero() && s.lastTime.After(s.caughtUp):
		s.caughtUp = s.lastTime
	}
	s.lastEnd, s.lastTime = end, now
	if r.samples == nil {
		r.samples = map[int32]kafkaSample{}
	}
	r.samples[replica] = s
}

func (p *process) kafkaCaughtUp(r *role, replica int32) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.samples[replica].caughtUp
}
