package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// converges is how long after the end of all faults every follower has what its leader has, at most.
const converges = 20 * time.Second

// rejoins is how long it takes at most until every replica that keeps up is in the ISR, whatever the load.
const rejoins = 6 * time.Second

// inspect looks at what must hold at each step and is not looked at where it happens: bounds of memory and of goroutines,
// readers of deleted segments, and whether the replicas of a partition have the same where it is committed.
func (c *Cluster) inspect(s *sizes) {
	for _, b := range c.brokerIDs() {
		p := c.process(b)
		if p == nil {
			continue
		}
		up, down := p.uploader.Stats(), p.replicator.Stats()
		if up.InFlight > s.inFlight {
			c.violate("%s has %d segments in flight, at most %d are allowed", p.who, up.InFlight, s.inFlight)
		}
		// The open segment, the staging buffer, one buffer for each slot, and batches larger than the target.
		if most := int64((s.inFlight+2)*(targetBytes+targetBytes/16+maxBytes) + maxBytes); up.PeakBufferBytes > most {
			c.violate("%s holds %d bytes for segments, at most %d are allowed", p.who, up.PeakBufferBytes, most)
		}
		if s.parked > 0 && down.ParkedBytes > max(s.parked, maxBytes+targetBytes) {
			c.violate("%s holds %d bytes of segments that it downloads, at most %d are allowed", p.who, down.ParkedBytes, s.parked)
		}
		if s.entries > 0 && down.Entries.Entries > s.entries {
			c.violate("%s keeps %d entries, at most %d are allowed", p.who, down.Entries.Entries, s.entries)
		}
	}
	if n, most := int64(runtime.NumGoroutine()), mayRun.Load()+100; n > most {
		c.violate("there are %d goroutines, at most %d may be", n, most)
	}
	c.lookAtLosers()
	for _, part := range c.controller.present() {
		if wrong := c.differs(part, c.controller.view(part)); wrong != "" {
			c.violate("%s: %s", part, wrong)
		}
	}
	c.stopIfViolated()
}

// mayRun is the sum of what mostGoroutines says of the clusters that run at the moment: the goroutines of a process can be
// counted, those of a bubble cannot.
var mayRun atomic.Int64

// mostGoroutines is how many goroutines a cluster may have, twice what the busiest of the first 40 seeds has come to.
func (c *Cluster) mostGoroutines() int64 {
	brokers := int64(c.cfg.Brokers)
	return 20 + 10*brokers + 5*brokers*int64(len(c.parts))
}

// rest looks, after the end of all faults and loads, whether everything comes to rest as it must.
func (p *Plan) rest(c *Cluster) {
	c.AwaitConverged(converges)
	for _, part := range c.controller.present() {
		g := c.controller.view(part)
		if wrong := c.lostAcked(part, g); wrong != "" {
			c.Fatalf("%s: %s", part, wrong)
		}
		end := c.LEO(part, g.leader)
		c.Until(converges, fmt.Sprintf("%s is committed up to %d", part, end), func() bool {
			return c.HighWatermark(part, g.leader) == end
		})
	}
	c.sameInAnyOrder()
	p.nothingOldRemains(c)
	c.stopIfViolated()
}

// awaitISR lets time pass until every replica is in the ISR: who keeps up comes back, under load too (B2).
func (c *Cluster) awaitISR() {
	for _, part := range c.controller.present() {
		g := c.controller.view(part)
		slices.Sort(g.replicas)
		load := c.load(part, 20*time.Millisecond, AcksAll, true)
		defer load.Stop()
		c.Until(rejoins, fmt.Sprintf("the ISR of %s is %v", part, g.replicas), func() bool {
			return slices.Equal(c.ISR(part), g.replicas)
		})
		load.Stop()
	}
}

// lostAcked returns what is wrong with a leader's log, see truth.
func (c *Cluster) lostAcked(part *Partition, g registration) string {
	d := c.disk(part, g.leader)
	has := map[place]bool{}
	scanner := batch.NewScanner(d.log.Bytes(0))
	for scanner.Next() {
		has[place{scanner.Header().LeaderEpoch, scanner.Header().BaseOffset}] = true
	}
	return part.truth.lostAcked(g.epoch, d.log.Start(), func(epoch int32, base int64) bool { return has[place{epoch, base}] })
}

// differs holds the logs of a partition's replicas against its leader's, byte for byte, as far as the leader has committed,
// and returns a difference, "" if there is none. It knows nothing of the truth: two logs that both pass its checks must
// still be one. A replica counts once it has appended in the leader's epoch: until then it may have to truncate.
func (c *Cluster) differs(part *Partition, g registration) string {
	leader := c.process(g.leader)
	if leader == nil {
		return ""
	}
	r := leader.role(part.Key())
	if r == nil || !leader.leadsIn(r, g.epoch) {
		return ""
	}
	to := leader.highWatermark(r)
	for _, b := range g.replicas {
		if d := c.disk(part, b); b != g.leader && c.process(b) != nil {
			if wrong := d.differs(c.disk(part, g.leader), g.epoch, to); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// sameInAnyOrder holds two Stores against each other that got the same events, in the order in which they were stored and
// broker by broker (M5).
func (c *Cluster) sameInAnyOrder() {
	events := c.Events()
	var stores []*metadata.Store
	for range 2 {
		store, err := metadata.NewStore(metadata.StoreConfig{Cluster: clusterID})
		c.must(err)
		for _, part := range c.controller.present() {
			g := c.controller.view(part)
			store.Follow(part.TopicIDPartition, g.leader, g.epoch)
		}
		stores = append(stores, store)
	}
	for _, e := range events {
		stores[0].Apply(metadata.Item{Event: e})
	}
	slices.SortStableFunc(events, func(a, b *metadata.Event) int { return int(b.Segment.ID.BrokerID) - int(a.Segment.ID.BrokerID) })
	for _, e := range events {
		stores[1].Apply(metadata.Item{Event: e})
	}
	for _, part := range c.controller.present() {
		for offset := int64(0); ; {
			one, verdict := stores[0].After(part.TopicIDPartition, offset)
			other, same := stores[1].After(part.TopicIDPartition, offset)
			if verdict != same || one != other {
				c.violate("the same events in another order give another answer for %s at %d: %+v %+v, %+v %+v", part, offset, verdict, one, same, other)
				return
			}
			switch verdict.Outcome {
			case metadata.Found:
				offset = one.Slice.LastOffset + 1
			case metadata.GapUpTo:
				offset = verdict.To
			}
			if verdict.Outcome == metadata.Nothing {
				break
			}
		}
	}
}

// nothingOldRemains lets time pass until all that the run has stored is old enough, and looks whether it is gone.
func (p *Plan) nothingOldRemains(c *Cluster) {
	s := &p.sizes
	if s.retention >= time.Hour {
		return // TestN2Retention has the time
	}
	// What a clock ahead of the store's has made is swept by the time in its id where the store tells none.
	limit := s.retention + s.grace
	wait := limit + s.full + 2*s.sweep + time.Second
	if !c.cfg.StoreTellsNoTime {
		// A sweeper cannot know that its clock, once ahead, was put right, until a newer segment of its broker tells: as long
		// as the last that the wrong clock made are there, it reckons with a clock that is ahead, and keeps what is older by
		// so much longer. A segment further ahead than the limit goes before that (seed 396), but where another holds it back.
		wait += min(time.Duration(c.mostAhead.Load()), 2*limit)
	}
	at := time.Now()
	p.pass(c, wait)
	driver := memory.New(memory.Config{Store: c.weather.store, PageSize: 1 << 20})
	objects, _, err := driver.List(context.Background(), "", "")
	c.must(err)
	for _, object := range objects {
		id, ok := c.keys.Parse(object.Key)
		if !ok {
			continue
		}
		made := id.Created()
		if !c.cfg.StoreTellsNoTime && (made.Before(object.Stored) || made.After(object.Stored.Add(s.grace))) {
			made = object.Stored
		}
		if made.Before(at) {
			c.violate("segment %s of broker %d, of %s before, remains after %s", id.UUID, id.BrokerID, at.Sub(made), wait)
			return
		}
	}
}
