package sim

import (
	"fmt"
	"strings"
	"time"
)

// Step is one thing that a random story does, and how long it runs on afterwards.
type Step struct {
	What string
	Do   func(c *Cluster)
	Then time.Duration
}

// String names the step.
func (s Step) String() string { return fmt.Sprintf("%s, then %s", s.What, s.Then) }

// Schedule returns the steps of a random story, a pure function of the seed and the cluster's shape. Whether a step finds
// something to do depends on what the cluster has come to: it does nothing if it cannot.
func Schedule(seed uint64, cfg Config, steps int) []Step {
	cfg = cfg.withDefaults()
	c := chance{mix(seed)}.of("schedule")
	var all []Step
	for i := range steps {
		op := uint64(i)
		broker := int32(1 + c.pick(op, "broker", cfg.Brokers))
		other := 1 + (broker+int32(c.pick(op, "other", max(1, cfg.Brokers-1))))%int32(cfg.Brokers)
		part := c.pick(op, "partition", len(cfg.Replicas))
		all = append(all, Step{
			Then: c.between(op, "then", 20*time.Millisecond, 500*time.Millisecond),
		})
		s := &all[i]
		s.What, s.Do = deed(c, op, broker, other, part)
	}
	return all
}

// deed draws what a step does.
func deed(c chance, op uint64, broker, other int32, part int) (what string, do func(c *Cluster)) {
	skew := c.between(op, "skew", -5*time.Minute, 5*time.Minute)
	deeds := []struct {
		weight int
		what   string
		do     func(c *Cluster)
	}{
		{8, "elect {broker} in {partition}", func(c *Cluster) { c.controller.elect(c.parts[part], broker) }},
		{1, "elect {broker} in {partition} whatever it lacks", func(c *Cluster) { c.controller.electUnclean(c.parts[part], broker) }},
		{3, "kill {broker}", func(c *Cluster) { c.Kill(broker) }},
		{6, "restart {broker}", func(c *Cluster) { c.Restart(broker) }},
		{3, "cut {broker} from others", func(c *Cluster) {
			if other != broker {
				c.Cut(broker, other)
			}
		}},
		{4, "heal all cuts", func(c *Cluster) { c.network.healAll() }},
		{2, "isolate {broker}", func(c *Cluster) { c.Isolate(broker) }},
		{4, "reconnect {broker}", func(c *Cluster) { c.Reconnect(broker) }},
		{2, "no store for {broker}", func(c *Cluster) { c.StoreDown(broker) }},
		{1, "no uploads", func(c *Cluster) { c.PutsDown() }},
		{1, "no downloads for {broker}", func(c *Cluster) { c.GetsDown(broker) }},
		{1, "uploads of {broker} are held", func(c *Cluster) { c.Hold([]string{"Put"}, broker) }},
		{4, "the store works", func(c *Cluster) { c.StoreUp() }},
		{2, "no publications of {broker}", func(c *Cluster) { c.MetadataDown(broker) }},
		{3, "the metadata log works", func(c *Cluster) { c.MetadataUp() }},
		{2, "events are late for {broker}", func(c *Cluster) { c.EventsBehind(broker, 100*time.Millisecond) }},
		{2, "events are on time for {broker}", func(c *Cluster) { c.EventsBehind(broker, 0) }},
		{3, "a stormy day", func(c *Cluster) { c.Weather(StormyDay()) }},
		{2, "a fine day", func(c *Cluster) { c.Weather(Faults{}) }},
		{2, "the clock of {broker} is wrong", func(c *Cluster) { c.Skew(broker, skew) }},
		{2, "records of {partition} are deleted", func(c *Cluster) { c.deleteSome(part) }},
		{2, "batches of {partition} are compacted on {broker}", func(c *Cluster) { c.compactSome(part, broker) }},
		{2, "a new epoch of the leader of {partition}", func(c *Cluster) {
			if c.controller.view(c.parts[part]).leader != nobody {
				c.controller.bump(c.parts[part])
			}
		}},
		{1, "reports of {broker} are lost", func(c *Cluster) { c.LoseReports(broker) }},
		{1, "ordinary fetches of {broker} are lost", func(c *Cluster) { c.LoseFetches(broker) }},
		{3, "messages of {broker} arrive", func(c *Cluster) { c.BringAll(broker) }},
		{1, "downloads of {broker} are held", func(c *Cluster) { c.Hold([]string{"Get"}, broker) }},
		{2, "{broker} flushes", func(c *Cluster) { c.Flush(broker) }},
	}
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	draw := c.pick(op, "deed", sum)
	for _, d := range deeds {
		if draw -= d.weight; draw < 0 {
			names := strings.NewReplacer("{broker}", fmt.Sprint("broker ", broker), "{partition}", fmt.Sprint("partition ", part))
			return names.Replace(d.what), d.do
		}
	}
	panic("sim: no deed")
}

// deleteSome moves the log start of a partition to the middle of what is committed.
func (c *Cluster) deleteSome(part int) {
	p := c.process(c.controller.view(c.parts[part]).leader)
	if p == nil {
		return
	}
	r := p.role(c.parts[part].Key())
	if r == nil || p.highWatermark(r) <= r.log.Start() {
		return
	}
	r.log.deleteRecords(p.ctx, (r.log.Start()+p.highWatermark(r))/2)
}

// compactSome takes some batches out of what is committed and older.
func (c *Cluster) compactSome(part int, broker int32) {
	end := c.HighWatermark(c.parts[part], broker)
	if end > 4 {
		c.Compact(c.parts[part], broker, end/2, end*3/4)
	}
}

// Recover ends every fault and brings every broker back.
func (c *Cluster) Recover() {
	c.Weather(Faults{})
	c.StoreUp()
	c.MetadataUp()
	c.network.healAll()
	for _, b := range c.brokerIDs() {
		c.EventsBehind(b, 0)
		c.Hearing(b)
		c.BringAll(b)
		c.Skew(b, 0)
		c.Restart(b)
	}
}
