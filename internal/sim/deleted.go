package sim

import (
	"slices"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// loser is a follower that has met a deleted segment at a moment at which it needed it next. It falls back, or something
// has moved on by a time (F5).
type loser struct {
	process *process
	part    *Partition
	epoch   int32
	end     int64
	by      time.Duration
}

// sliceOf is a slice of a segment whose event was handed to the metadata log.
type sliceOf struct {
	part        segment.PartitionKey
	epoch       int32
	base, limit int64
}

// noteEvent notes what an event handed over for the first time is about.
func (c *Cluster) noteEvent(e *metadata.Event) {
	var all []sliceOf
	for i := range e.Segment.Topics {
		topic := &e.Segment.Topics[i]
		for j := range topic.Slices {
			s := &topic.Slices[j]
			all = append(all, sliceOf{
				part:  segment.PartitionKey{TopicID: topic.ID, Partition: s.Partition},
				epoch: s.LeaderEpoch, base: s.BaseOffset, limit: s.LastOffset + 1,
			})
		}
	}
	for _, s := range all {
		part := c.partOf(s.part)
		if part == nil {
			continue // of a test of the publisher alone
		}
		switch g := c.controller.view(part); {
		case g.absent:
			c.count("published of a deleted partition")
		case s.epoch < g.epoch:
			c.count("published in an epoch that is over")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slices[e.Segment.ID] = all
}

// partOf returns the partition with the key, nil if there is none.
func (c *Cluster) partOf(key segment.PartitionKey) *Partition {
	i := slices.IndexFunc(c.parts, func(p *Partition) bool { return p.Key() == key })
	if i < 0 {
		return nil
	}
	return c.parts[i]
}

// noteDeleted notes that segments were deleted, or are about to be.
func (c *Cluster) noteDeleted(keys []string) {
	for _, key := range keys {
		id, ok := c.keys.Parse(key)
		if !ok {
			c.violate("something that is no segment is deleted: %s", key)
			continue
		}
		c.weather.mu.Lock()
		c.weather.deleted[id] = true
		c.weather.mu.Unlock()
	}
}

// judgeSweep holds against the truth what a sweeper is about to delete: nothing that is younger than the retention, as
// long as no clock was ever wrong. Under a wrong clock it may, where the store does not tell: readers fall back (F5).
func (c *Cluster) judgeSweep(p *process, keys []string) {
	if p.sweeper == nil {
		return
	}
	for _, key := range keys {
		id, ok := c.keys.Parse(key)
		if !ok {
			continue
		}
		if age := time.Since(id.Created()); age < c.retention {
			c.count("deleted while fresh")
			if !c.everSkewed.Load() {
				c.violate("%s deletes segment %s of broker %d at the age of %s, though %s are kept", p.who, id.UUID, id.BrokerID, age, c.retention)
			}
		}
	}
}

// noteMissing notes that a download has found no segment.
func (c *Cluster) noteMissing(p *process, key string) {
	id, ok := c.keys.Parse(key)
	if !ok || p.dead() || p.zombie.Load() {
		return
	}
	c.weather.mu.Lock()
	deleted := c.weather.deleted[id]
	c.weather.mu.Unlock()
	if !deleted {
		return
	}
	c.count("delete that raced a reader")
	c.mu.Lock()
	slices := c.slices[id]
	c.mu.Unlock()
	for _, s := range slices {
		r := p.role(s.part)
		if r == nil {
			continue
		}
		end, _ := r.log.End()
		p.mu.Lock()
		needs := r.following != nil && r.epoch == s.epoch && s.base <= end && end < s.limit
		epoch := r.epoch
		p.mu.Unlock()
		if needs {
			c.mu.Lock()
			c.losers = append(c.losers, loser{p, r.part, epoch, end, c.instants.now() + c.patience()})
			c.mu.Unlock()
		}
	}
}

// patience is how long a follower that needs a segment which is gone may be without a fallback: an append may be under
// way. It is less than StallAfter, so that it is not the standstill that is noticed.
func (c *Cluster) patience() time.Duration { return c.stallAfter/4 + 4*c.cfg.DiskLatency }

// lookAtLosers looks whether every follower that has met a deleted segment has fallen back, or moved on.
func (c *Cluster) lookAtLosers() {
	now := c.instants.now()
	c.mu.Lock()
	var due []loser
	c.losers = slices.DeleteFunc(c.losers, func(l loser) bool {
		if l.by <= now {
			due = append(due, l)
		}
		return l.by <= now
	})
	c.mu.Unlock()
	for _, l := range due {
		p := c.process(l.process.id)
		if p != l.process {
			continue
		}
		r := p.role(l.part.Key())
		if r == nil {
			continue
		}
		end, _ := r.log.End()
		p.mu.Lock()
		following := r.following
		same := r.epoch == l.epoch && following != nil && end == l.end
		p.mu.Unlock()
		if same && following.State().Kind == follower.Replicating {
			c.violate("%s has met a deleted segment, needs [%d,...) of %s, and has not fallen back", p.who, end, l.part.Topic)
		}
	}
}

// DeleteObjects deletes segments from the store behind everybody's back, as a lifecycle rule or an operator may.
func (c *Cluster) DeleteObjects(which func(id walstorage.SegmentID) bool) (n int) {
	for _, key := range c.weather.store.Keys() {
		if id, ok := c.keys.Parse(key); ok && which(id) {
			c.noteDeleted([]string{key})
			c.weather.store.Remove(key)
			n++
		}
	}
	return n
}
