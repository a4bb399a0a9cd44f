package sim

import "time"

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
	c.StoreUp()
	c.MetadataUp()
	c.network.healAll()
	c.pause(true)
	defer c.pause(false)
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
