package sim

import (
	"fmt"
	"slices"
	"time"
)

// Motifs are runs of steps that come to a place which single steps hardly ever come to.

// zombieLeader keeps a leader from hearing of the elections of others, and has clients write at it meanwhile. What it
// uploads and publishes is of an epoch that is over (L4, F1).
func (p *Plan) zombieLeader(c *Cluster, o order) {
	c.Isolate(o.broker)
	for _, part := range c.controller.present() {
		g := c.controller.view(part)
		if g.leader != o.broker {
			continue
		}
		for _, member := range g.isr {
			if member != o.broker && c.controller.elect(part, member) {
				break
			}
		}
	}
	for range 3 {
		c.produceBelieved(o.broker, 1+o.pick("records", 5))
		p.pass(c, 30*time.Millisecond)
	}
	if o.pick("idle", 3) == 0 {
		p.idle(c, o.between("minutes", 10*time.Second, 2*time.Minute))
		c.produceBelieved(o.broker, 3)
		p.pass(c, 30*time.Millisecond)
	}
	c.Reconnect(o.broker)
}

// zombieProcess has another process of a broker lead and publish while an older one sleeps over what it has on its way.
// When that wakes up it is fenced, for a newer epoch of its own broker has published (L6).
func (p *Plan) zombieProcess(c *Cluster, o order) {
	for _, part := range c.controller.present() {
		c.controller.elect(part, o.broker)
	}
	p.pass(c, 60*time.Millisecond)
	c.produceBelieved(o.broker, 3)
	p.pass(c, 12*time.Millisecond+o.between("on its way", 0, 10*time.Millisecond))
	c.Replace(o.broker)
	p.pass(c, o.between("comes back", 100*time.Millisecond, 400*time.Millisecond))
	for _, part := range c.controller.present() {
		c.controller.elect(part, o.broker)
	}
	p.pass(c, 100*time.Millisecond)
	c.produceBelieved(o.broker, 3)
	p.pass(c, 100*time.Millisecond)
	if p.sizes.giveUpAfter >= time.Hour && o.pick("hours", 2) == 0 {
		p.down(c, o.between("sleeps", 10*time.Minute, 3*time.Hour))
	}
	c.Wake(o.broker)
}

// compactionGap brings the end of a follower's log into a compaction gap of its leader's before the uploader has read the
// place (R4). The uploader cannot read; the follower follows anew, so that its first ordinary fetch takes it past what is
// uploaded, and is then cut off for so long that the high watermark does not wait for it; what lies around its end is
// compacted.
func (p *Plan) compactionGap(c *Cluster, part *Partition) {
	if p.Config.LagTimeMax > 10*time.Second || p.sizes.maxBacklogAge < time.Minute || p.sizes.maxBacklogBytes > 0 {
		return // it would skip, or take too long
	}
	g := c.controller.view(part)
	behind := nobody
	for _, replica := range g.replicas {
		if replica != g.leader && c.process(replica) != nil {
			behind = replica
		}
	}
	if c.leading(part) == nil || behind == nobody {
		return
	}
	c.Weather(Faults{})
	c.MetadataUp()
	c.network.healAll()
	c.pause(true)
	defer c.pause(false)
	c.StoreUp()
	c.Run(time.Millisecond)
	c.Reads(part, g.leader, func([]byte) error { return errUnreadable })
	for range 4 {
		_, _ = c.tryProduce(part, nil)
	}
	c.truncateOutside(part, behind)
	p.pass(c, 200*time.Millisecond)
	c.Cut(behind, g.leader)
	for range int((p.Config.LagTimeMax + 2*time.Second) / (200 * time.Millisecond)) {
		_, _ = c.tryProduce(part, nil)
		p.pass(c, 200*time.Millisecond)
	}
	end := c.LEO(part, behind)
	if end > 1 && c.HighWatermark(part, g.leader) > end+8 && c.controller.view(part).leader == g.leader {
		c.count("compaction gap around a follower's end")
		c.Compact(part, g.leader, max(end-4, 0), end+8)
		c.Reads(part, g.leader, nil)
		p.pass(c, 1500*time.Millisecond)
	}
	c.network.healAll()
}

// elections elects one broker after the other, whatever that loses, with hardly a record between: logs part again and
// again, and who follows whom is never told at once (C3, S1).
func (p *Plan) elections(c *Cluster, o order, part *Partition) {
	n := 3 + o.pick("elections", 6)
	apart := o.pick("apart", 2) == 0 // nobody hears of the others' records before the end
	replicas := c.controller.view(part).replicas
	if apart { // two take turns, and nobody else writes
		c.pause(true)
		defer c.pause(false)
	}
	for _, a := range replicas {
		for _, b := range replicas {
			if apart && a < b {
				c.Cut(a, b)
			}
		}
	}
	for i := range n {
		op := 1000*o.op + uint64(i)
		g := c.controller.view(part)
		next := g.replicas[o.chance.pick(op, "next", len(g.replicas))]
		records := []int{0, 1, 1, 3}[o.chance.pick(op, "records", 4)]
		if apart {
			next = replicas[i%min(2, len(replicas))]
			records = []int{1, 1, 1, 0}[o.chance.pick(op, "records", 4)]
		}
		if !apart && o.chance.happens(op, "cut", 0.3) {
			c.Cut(next, g.replicas[o.chance.pick(op, "from", len(g.replicas))])
		}
		if !apart && o.chance.happens(op, "heal", 0.4) {
			c.network.healAll()
		}
		if !c.controller.electUnclean(part, next) {
			c.Restart(next)
			continue
		}
		p.pass(c, o.chance.between(op, "until it leads", 2*time.Millisecond, 12*time.Millisecond))
		if i < n-1 || !apart {
			c.produceBelieved(next, records)
		}
		p.pass(c, o.chance.between(op, "then", time.Millisecond, 60*time.Millisecond))
	}
	// Reports tell of a divergence sooner than anything comes through the store. Nobody may lean on them.
	deaf := o.pick("deaf", 2) == 0
	for _, replica := range replicas {
		if deaf {
			c.LoseReports(replica)
		}
	}
	c.network.healAll()
	p.pass(c, o.between("before the next record", 5*time.Millisecond, 900*time.Millisecond))
	c.produceBelieved(c.controller.view(part).leader, 1)
	p.pass(c, 200*time.Millisecond)
	for _, replica := range replicas {
		c.BringAll(replica)
	}
}

// chainOfCrashes has a follower crash and come back, and its leaders crash right after: what the follower had reported
// before counts no longer (KIP-903).
func (p *Plan) chainOfCrashes(c *Cluster, o order) {
	c.Kill(o.broker)
	p.pass(c, o.between("down", 5*time.Millisecond, 2*p.Config.SessionTimeout))
	c.Restart(o.broker)
	p.pass(c, o.between("up", 2*time.Millisecond, 30*time.Millisecond))
	for _, part := range c.controller.present() {
		g := c.controller.view(part)
		if g.leader != o.broker && slices.Contains(g.replicas, o.broker) && g.leader != nobody {
			c.Kill(g.leader)
			break
		}
	}
}

// steady ends every fault, and lets time pass under load in which nobody may leave the ISR (B2). It is for clusters in
// which replica.lag.time.max is short, and is done once.
func (p *Plan) steady(c *Cluster, o order) {
	part := o.part(c)
	if p.Config.LagTimeMax > 6*time.Second || part == nil || c.steady {
		return
	}
	c.steady = true
	c.count("steady load")
	c.Recover()
	c.pause(true)
	defer c.pause(false)
	c.records.Add(steadyRecords)
	silent := p.Config.LagTimeMax + 2*time.Second
	lasts := 2*p.Config.LagTimeMax + 2*time.Second
	load := c.load(part, (silent+lasts)/steadyRecords, AcksAll, true)
	defer load.Stop()
	if o.pick("silent", 2) == 0 { // one leaves the ISR, for nobody hears of it, and must come back
		c.LoseReports(o.broker)
		p.pass(c, silent)
		c.BringAll(o.broker)
		g := c.controller.view(part)
		slices.Sort(g.replicas)
		c.Until(rejoins, fmt.Sprintf("the ISR of %s is %v, under load", part, g.replicas), func() bool {
			return slices.Equal(c.ISR(part), g.replicas)
		})
	}
	young := c.Now() < 20*time.Second // else a hold may be a minute away (F5)
	before := c.storeBatches(part)
	p.pass(c, lasts)
	after := c.storeBatches(part)
	g := c.controller.view(part)
	for _, b := range g.replicas {
		if young && after[b] == before[b] && b != g.leader {
			c.Fatalf("nothing has come to %d through the store in %s in which nothing went wrong", b, lasts)
		}
	}
}

// storeBatches returns how many batches have come to each replica through the store.
func (c *Cluster) storeBatches(part *Partition) map[int32]int64 {
	all := map[int32]int64{}
	for _, b := range c.controller.view(part).replicas {
		d := c.disk(part, b)
		d.mu.Lock()
		all[b] = d.traffic.StoreBatches
		d.mu.Unlock()
	}
	return all
}
