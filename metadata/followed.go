package metadata

import "github.com/walhop/walhop/walstorage/segment"

// followed is what a Store keeps of one partition.
type followed struct {
	key         segment.PartitionKey
	leaderID    int32
	leaderIndex int // in Store.leaders
	epoch       int32
	logEnd      int64 // as Next was last told
	arrivals    uint64
	chain       chain // of the epoch followed
	waiting     chain // of newer epochs (F1)

	// evictedTo is the end of what was evicted of the epoch followed: the gap that is left where nothing else is kept.
	evictedTo int64
	// waitingEvictedTo is the same of the newest waiting epoch of which something was evicted. An older one needs no
	// note: it is never followed, or its gap lies below the first ordinary fetch of Follow (F6).
	waitingEvictedEpoch int32
	waitingEvictedTo    int64

	// The place in Store.behind.
	ranked     int
	prev, next *followed
}

func (p *followed) kept() int { return p.chain.len() + p.waiting.len() }

// at answers Store.Next and Store.After.
func (p *followed) at(offset int64) (Entry, Verdict) {
	i := p.chain.above(p.epoch, offset)
	if i > 0 && p.chain.entry(i-1).Slice.LastOffset >= offset {
		return *p.chain.entry(i - 1), Verdict{Outcome: Found}
	}
	if i < p.chain.len() {
		return Entry{}, Verdict{Outcome: GapUpTo, To: p.chain.entry(i).Slice.BaseOffset}
	}
	if offset < p.evictedTo {
		return Entry{}, Verdict{Outcome: GapUpTo, To: p.evictedTo}
	}
	return Entry{}, Verdict{}
}

// turn begins to follow a newer epoch and returns how many entries of older ones were dropped.
func (p *followed) turn(epoch int32) (stale int) {
	stale = p.chain.len()
	p.chain.dropFirst(stale)
	older := p.waiting.above(epoch-1, maxOffset)
	p.waiting.dropFirst(older)
	for range p.waiting.above(epoch, maxOffset) {
		p.chain.add(*p.waiting.entry(0))
		p.waiting.dropFirst(1)
	}
	p.epoch, p.logEnd, p.arrivals, p.evictedTo = epoch, 0, 0, 0
	if p.waitingEvictedEpoch == epoch {
		p.evictedTo = p.waitingEvictedTo
	}
	if p.waitingEvictedEpoch <= epoch {
		p.waitingEvictedEpoch, p.waitingEvictedTo = 0, 0
	}
	return stale + older
}

// evict drops the lowest offsets: of the epoch followed, and only then of what waits. The gap that is left is noted.
func (p *followed) evict() (waiting bool) {
	if p.chain.len() > 0 {
		p.evictedTo = max(p.evictedTo, p.chain.entry(0).Slice.LastOffset+1)
		p.chain.dropFirst(1)
		return false
	}
	lowest := p.waiting.entry(0).Slice
	if lowest.LeaderEpoch > p.waitingEvictedEpoch {
		p.waitingEvictedEpoch, p.waitingEvictedTo = lowest.LeaderEpoch, 0
	}
	if lowest.LeaderEpoch == p.waitingEvictedEpoch {
		p.waitingEvictedTo = max(p.waitingEvictedTo, lowest.LastOffset+1)
	}
	p.waiting.dropFirst(1)
	return true
}
