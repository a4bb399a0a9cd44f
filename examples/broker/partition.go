package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage/segment"
)

// partition is this broker's replica of a partition: its log, its role, and for a leader who is in sync.
type partition struct {
	segment.TopicIDPartition
	broker *broker
	log    *unifiedlog.Log

	// mu is above the locks of the log and of the Tracker, which may be taken under it, and is never held while anything
	// waits (D1).
	mu    sync.Mutex
	now   assignment // as the controller has said last
	leads bool
	since time.Time // when this broker began to lead
	// joining are the replicas that the controller is being asked to count as in sync: it may have done so before it says
	// so, and the high watermark waits for them from then on.
	joining  []int32
	fetches  map[int32]fetchSample // of the followers, where they replicate by ordinary fetch
	watchers map[chan struct{}]struct{}

	leadership *leader.Leadership  // while this broker leads
	following  *follower.Following // while it follows
	fetching   *ordinary           // while it follows by ordinary fetch
}

// apply takes what the controller says. It is called by one goroutine of the broker.
func (p *partition) apply(a assignment) error {
	p.mu.Lock()
	was := p.now
	sameRole := a.Epoch == was.Epoch && a.Leader == was.Leader
	if sameRole && a.Version <= was.Version {
		p.mu.Unlock()
		return nil
	}
	if sameRole {
		p.now = a
	}
	p.mu.Unlock()
	switch {
	case sameRole:
		p.advance()
		return nil
	case a.Leader == p.broker.id:
		return p.lead(a)
	case a.Leader >= 0:
		return p.follow(a)
	default:
		p.stop()
		p.become(a, false)
		return nil
	}
}

// lead makes this broker the partition's leader in a new epoch (B6): it stops following, puts the epoch's start into the
// log's epoch cache, and then leads (B5).
func (p *partition) lead(a assignment) error {
	p.stop()
	start, err := p.log.Lead(a.Epoch)
	if err != nil {
		return err
	}
	p.become(a, true)
	if p.broker.uploader != nil {
		leadership, err := p.broker.uploader.Lead(p.TopicIDPartition, a.Epoch, start, p.log)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.leadership = leadership
		p.mu.Unlock()
	}
	p.moved() // for an append that came before the handle was there, and since the leader epoch has moved
	return nil
}

// follow makes this broker follow the leader of a new epoch. The log is told first, so that it refuses what a newer epoch
// has overtaken.
func (p *partition) follow(a assignment) error {
	p.stop()
	if err := p.log.Follow(a.Epoch); err != nil {
		return err
	}
	p.become(a, false)
	b := p.broker
	if b.replicator == nil {
		p.mu.Lock()
		p.fetching = p.startFetching(a.Leader, a.Epoch)
		p.mu.Unlock()
		return nil
	}
	following, err := b.replicator.Follow(p.TopicIDPartition, a.Leader, a.Epoch, p.log)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.following = following
	p.mu.Unlock()
	b.reporter.Add(p.TopicIDPartition, a.Leader, following, p.log)
	return nil
}

// become changes the role. Whoever waits for something of the old one looks again.
func (p *partition) become(a assignment, leads bool) {
	p.mu.Lock()
	p.now, p.leads, p.since = a, leads, time.Now()
	p.joining, p.fetches = nil, map[int32]fetchSample{}
	p.wakeLocked()
	p.mu.Unlock()
}

// stop ends whatever this broker does with the partition's log, before it is truncated, deleted or led (B5). p.mu is not
// held meanwhile: what is under way on the log calls moved.
func (p *partition) stop() {
	p.mu.Lock()
	leadership, following, fetching := p.leadership, p.following, p.fetching
	p.leadership, p.following, p.fetching = nil, nil, nil
	p.leads = false
	p.wakeLocked()
	p.mu.Unlock()
	if leadership != nil {
		leadership.Resign()
	}
	if p.broker.tracker != nil {
		p.broker.tracker.Forget(p.TopicIDPartition)
	}
	if following != nil {
		p.broker.reporter.Remove(p.TopicIDPartition)
		following.Stop()
	}
	if fetching != nil {
		fetching.stop()
	}
}

// moved is called by the log, with none of its locks held, when its end or its start has moved.
func (p *partition) moved() {
	p.mu.Lock()
	leads, leadership := p.leads, p.leadership
	p.mu.Unlock()
	b := p.broker
	switch {
	case leads:
		if leadership != nil {
			leadership.Notify()
		}
		p.advance()
		p.wake()
		if b.tracker != nil {
			b.tracker.Moved(p.TopicIDPartition)
		}
	case b.reporter != nil:
		b.reporter.Moved(p.TopicIDPartition) // B1: after the append
	}
}

// caughtUp returns when a replica was last known to have everything that this leader had then, and where its log ends
// (B2).
func (p *partition) caughtUp(id int32) (at time.Time, end int64) {
	if p.broker.tracker != nil {
		return p.broker.tracker.CaughtUp(p.TopicIDPartition, p.now.Epoch, id)
	}
	if sample, ok := p.fetches[id]; ok {
		return sample.caughtUp, sample.end
	}
	return time.Time{}, -1
}

// advance works out the high watermark: the lowest end of the replicas that are in sync, might be in a moment, or are
// caught up. Those that left the ISR under load come back only if it waits for them too (B2). It never falls.
func (p *partition) advance() {
	alive := p.broker.controller.current().alive
	now := time.Now()
	p.mu.Lock()
	if !p.leads {
		p.mu.Unlock()
		return
	}
	lowest, _ := p.log.End()
	outside := false // whether one that is not in sync might be
	for _, id := range p.now.Replicas {
		if id == p.broker.id {
			continue
		}
		at, end := p.caughtUp(id)
		in := slices.Contains(p.now.ISR, id)
		_, isAlive := alive[id]
		recent := isAlive && now.Sub(at) <= p.broker.lagMax
		if in || recent || slices.Contains(p.joining, id) {
			lowest = min(lowest, max(end, 0))
		}
		outside = outside || !in && recent
	}
	raised := p.raiseLocked(lowest)
	p.mu.Unlock()
	if raised && p.broker.tracker != nil {
		p.broker.tracker.Moved(p.TopicIDPartition)
	}
	if outside {
		p.broker.reviewISRs()
	}
}

// raiseLocked raises the high watermark, which never falls (KAFKA-16452): consumers have read what lies below.
func (p *partition) raiseLocked(to int64) bool {
	if to <= p.log.HighWatermark() {
		return false
	}
	p.log.SetHighWatermark(to)
	p.wakeLocked()
	return true
}

// reviewISR asks the controller for the ISR that should be: without those that have not been caught up for
// replica.lag.time.max, and with those that are at the high watermark again. What the controller takes away counts only
// once it has said so, what it adds counts before.
func (p *partition) reviewISR() {
	alive := p.broker.controller.current().alive
	now := time.Now()
	p.mu.Lock()
	if !p.leads {
		p.mu.Unlock()
		return
	}
	end, _ := p.log.End()
	start, _ := p.log.EpochStart(p.now.Epoch)
	want, joining, changed := map[int32]int64{}, []int32(nil), false
	for _, id := range p.now.Replicas {
		epoch, isAlive := alive[id]
		at, replicaEnd := p.caughtUp(id)
		in := slices.Contains(p.now.ISR, id)
		var keep bool
		switch {
		case id == p.broker.id:
			keep = true
		case in:
			keep = replicaEnd == end || now.Sub(later(at, p.since)) <= p.broker.lagMax
		default:
			keep = isAlive && replicaEnd >= p.log.HighWatermark() && replicaEnd >= start && now.Sub(at) <= p.broker.lagMax
			if keep {
				joining = append(joining, id)
			}
		}
		if keep {
			want[id] = epoch
		}
		changed = changed || keep != in
	}
	was := p.now
	if changed {
		p.joining = joining
	}
	p.mu.Unlock()
	if !changed {
		return
	}
	decided, err := p.broker.controller.alterISR(p.TopicID, p.Partition, p.broker.id, was.Epoch, was.Version, want)
	p.mu.Lock()
	if p.now.Epoch == was.Epoch {
		p.joining = nil
		if err == nil && decided.Version > p.now.Version {
			p.now = decided
			p.wakeLocked()
		}
	}
	p.mu.Unlock()
	if err == nil {
		p.broker.logger.Info("the ISR has changed", "partition", p.TopicIDPartition, "isr", decided.ISR)
	}
	p.advance()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// watch adds a channel, with room for one, that gets something whenever the log's end, the high watermark, the ISR or the
// role may have changed. unwatch takes it away.
func (p *partition) watch(w chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = struct{}{}
}

func (p *partition) unwatch(w chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
}

func (p *partition) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeLocked()
}

func (p *partition) wakeLocked() {
	for w := range p.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// leadIn tells whether this broker leads, after the checks of the leader epoch that a client has sent, -1 if it has none.
func (p *partition) leadIn(clientEpoch int32) (epoch int32, highWatermark int64, code int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case clientEpoch >= 0 && clientEpoch < p.now.Epoch:
		code = codeFencedLeaderEpoch
	case clientEpoch > p.now.Epoch:
		code = codeUnknownLeaderEpoch
	case !p.leads:
		code = codeNotLeaderOrFollower
	}
	return p.now.Epoch, p.log.HighWatermark(), code
}

// acknowledged tells whether everything below the offset end, appended in the epoch given, is on enough replicas for
// acks=all, or never will be by this leader.
func (p *partition) acknowledged(epoch int32, end int64) (done bool, code int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.leads || p.now.Epoch != epoch:
		return true, codeNotLeaderOrFollower
	case p.log.HighWatermark() < end:
		return false, codeNone
	case len(p.now.ISR) < p.broker.minISR:
		return true, codeNotEnoughReplicasAfter
	}
	return true, codeNone
}

// appendAsLeader appends what a producer has sent.
func (p *partition) appendAsLeader(ctx context.Context, acks int16, batch []byte) (epoch int32, first, last int64, code int16) {
	epoch, _, code = p.leadIn(-1)
	if code != codeNone {
		return epoch, -1, -1, code
	}
	p.mu.Lock()
	enough := len(p.now.ISR) >= p.broker.minISR
	p.mu.Unlock()
	if acks == acksAll && !enough {
		return epoch, -1, -1, codeNotEnoughReplicas
	}
	done, err := p.log.AppendAsLeader(ctx, epoch, batch)
	if err != nil {
		return epoch, -1, -1, codeOfAppend(err)
	}
	return epoch, done.First, done.Last, codeNone // of a duplicate, those that it got then
}
