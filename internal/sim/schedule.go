package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
)

// Step is one thing that a random story does, and how long it runs on afterwards.
type Step struct {
	What string
	Do   func(c *Cluster)
	Then time.Duration
}

// String names the step.
func (s Step) String() string { return fmt.Sprintf("%s, then %s", s.What, s.Then) }

// schedule draws the steps of the plan. Each seed draws which deeds it knows and how often it does them, so that some
// seeds do one thing again and again, and others a little of everything.
func (p *Plan) schedule() {
	c := chance{mix(p.Seed)}.of("schedule")
	steps := 12 + c.pick(0, "steps", maxSteps-12+1)
	mean := activity / time.Duration(steps)
	p.loads(c)
	weights := make([]int, len(deeds))
	sum := 0
	for i, d := range deeds {
		weights[i] = d.weight * []int{0, 1, 1, 4}[c.pick(uint64(i), "weight", 4)]
		sum += weights[i]
	}
	for len(p.Steps) < steps {
		op := uint64(len(p.Steps)) + 1
		draw := c.pick(op, "deed", max(sum, 1))
		i := 0
		for i < len(deeds)-1 && draw >= weights[i] {
			draw -= weights[i]
			i++
		}
		d := &deeds[i]
		o := order{chance: c, op: op, plan: p}
		o.broker = int32(1 + c.pick(op, "broker", p.Config.Brokers))
		o.other = 1 + (o.broker+int32(c.pick(op, "other", p.Config.Brokers-1)))%int32(p.Config.Brokers)
		o.slot = c.pick(op, "partition", len(p.Config.Replicas)+p.Config.Spares)
		p.Steps = append(p.Steps, Step{What: o.name(d.what), Do: func(c *Cluster) { d.do(c, o) }, Then: c.between(op, "then", mean/10, mean*19/10)})
	}
}

// loads are the first steps: producers, and the weather of the first day.
func (p *Plan) loads(c chance) {
	for i := range p.Config.Replicas {
		op := uint64(1000 + i)
		every := []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 700 * time.Millisecond}[c.pick(op, "every", 4)]
		acks := []Acks{AcksAll, AcksAll, AcksLeader}[c.pick(op, "acks", 3)]
		p.Steps = append(p.Steps, Step{
			What: fmt.Sprintf("a record of partition %d every %s", i, every),
			Do:   func(c *Cluster) { c.Load(c.parts[i], every, acks) },
		})
	}
	storm := someStorm(c, 2000)
	p.Steps = append(p.Steps, Step{What: "weather of the first day", Do: func(c *Cluster) { c.Weather(storm) }, Then: 100 * time.Millisecond})
}

// someStorm draws weather: some faults of a stormy day, some rarer, some more frequent.
func someStorm(c chance, op uint64) Faults {
	f := StormyDay()
	for i, p := range f.all() {
		*p *= []float64{0, 0, 0.5, 1, 3}[c.pick(op+uint64(i), "storm", 5)]
	}
	return f
}

// order is a deed with what it is done to.
type order struct {
	chance        chance
	op            uint64
	plan          *Plan
	broker, other int32
	slot          int
}

func (o order) name(what string) string {
	return strings.NewReplacer("{broker}", fmt.Sprint("broker ", o.broker), "{other}", fmt.Sprint("broker ", o.other),
		"{partition}", fmt.Sprint("partition ", o.slot)).Replace(what)
}

// part returns the partition that is meant, another if there is none such.
func (o order) part(c *Cluster) *Partition {
	present := c.controller.present()
	if len(present) == 0 {
		return nil
	}
	return present[o.slot%len(present)]
}

// pick draws a number in [0,n).
func (o order) pick(draw string, n int) int { return o.chance.pick(o.op, draw, n) }

func (o order) between(draw string, least, most time.Duration) time.Duration {
	return o.chance.between(o.op, draw, least, most)
}

// deed is one kind of thing that a schedule does. What finds nothing to do does nothing.
type deed struct {
	weight int
	what   string
	do     func(c *Cluster, o order)
}

// withPart makes a deed of one that needs a partition.
func withPart(do func(c *Cluster, o order, part *Partition)) func(c *Cluster, o order) {
	return func(c *Cluster, o order) {
		if part := o.part(c); part != nil {
			do(c, o, part)
		}
	}
}

// deeds are all that a schedule knows. They never change.
var deeds = []deed{
	// Leaders.
	{8, "elect {broker} in {partition}", withPart(func(c *Cluster, o order, part *Partition) { c.controller.elect(part, o.broker) })},
	{2, "elect {broker} in {partition} whatever it lacks", withPart(func(c *Cluster, o order, part *Partition) { c.controller.electUnclean(part, o.broker) })},
	{3, "a new epoch of the leader of {partition}", withPart(func(c *Cluster, _ order, part *Partition) { c.controller.bump(part) })},
	{2, "one more replica of {partition} on {broker}", withPart(func(c *Cluster, o order, part *Partition) { c.controller.addReplica(part, o.broker) })},
	{3, "elections of {partition}, one after the other, whatever they lose", withPart(func(c *Cluster, o order, part *Partition) { o.plan.elections(c, o, part) })},
	{3, "isolate {broker}", func(c *Cluster, o order) { c.Isolate(o.broker) }},
	{4, "reconnect {broker}", func(c *Cluster, o order) { c.Reconnect(o.broker) }},
	{5, "clients write at brokers what these believe to lead", func(c *Cluster, o order) {
		for _, b := range c.brokerIDs() {
			c.produceBelieved(b, 1+o.pick("records", 8))
		}
	}},
	{4, "isolate {broker}, elect others, clients still write there", func(c *Cluster, o order) { o.plan.zombieLeader(c, o) }},

	// Brokers.
	{3, "kill {broker}", func(c *Cluster, o order) { c.Kill(o.broker) }},
	{6, "kill {broker} in a phase of its work", func(c *Cluster, o order) {
		c.KillIn(o.broker, phase(o.pick("phase", int(phases))), o.pick("after", 4), o.between("later", 0, 3*time.Millisecond))
	}},
	{3, "{broker} crashes, comes back, and its leaders crash", func(c *Cluster, o order) { o.plan.chainOfCrashes(c, o) }},
	{8, "restart {broker}", func(c *Cluster, o order) { c.Restart(o.broker) }},
	{2, "restart all", func(c *Cluster, _ order) {
		for _, b := range c.brokerIDs() {
			c.Restart(b)
		}
	}},
	{2, "{broker} flushes", func(c *Cluster, o order) { c.Flush(o.broker) }},
	{3, "another process takes the place of {broker}", func(c *Cluster, o order) { c.Replace(o.broker) }},
	{3, "another process takes the place of {broker} and leads, then the older wakes up", func(c *Cluster, o order) { o.plan.zombieProcess(c, o) }},
	{4, "what was {broker} wakes up", func(c *Cluster, o order) { c.Wake(o.broker) }},
	{3, "the clock of {broker} is wrong", func(c *Cluster, o order) { c.skew(o.broker, o.between("skew", -5*time.Minute, 5*time.Minute)) }},
	{2, "the clock of {broker} is right", func(c *Cluster, o order) { c.Skew(o.broker, 0) }},

	// Network.
	{3, "cut {broker} from {other}", func(c *Cluster, o order) {
		if o.other != o.broker {
			c.Cut(o.broker, o.other)
		}
	}},
	{5, "heal all cuts", func(c *Cluster, _ order) { c.network.healAll() }},
	{2, "reports of {broker} are lost", func(c *Cluster, o order) { c.LoseReports(o.broker) }},
	{2, "ordinary fetches of {broker} are lost", func(c *Cluster, o order) { c.LoseFetches(o.broker) }},
	{5, "messages of {broker} arrive", func(c *Cluster, o order) { c.BringAll(o.broker) }},

	// Store.
	{2, "no store for {broker}", func(c *Cluster, o order) { c.StoreDown(o.broker) }},
	{2, "no uploads", func(c *Cluster, _ order) { c.PutsDown() }},
	{2, "no downloads for {broker}", func(c *Cluster, o order) { c.GetsDown(o.broker) }},
	{2, "no access for {broker}", func(c *Cluster, o order) {
		c.Refuse(Refused, [][]string{{"Get"}, {"Put"}, allMethods}[o.pick("methods", 3)], o.broker)
	}},
	{1, "uploads of {broker} are held", func(c *Cluster, o order) { c.Hold([]string{"Put"}, o.broker) }},
	{2, "downloads of {broker} are held", func(c *Cluster, o order) { c.Hold([]string{"Get"}, o.broker) }},
	{2, "uploads of {broker} do not return", func(c *Cluster, o order) { c.Hang([]string{"Put"}, o.broker) }},
	{1, "uploads of {broker} are slow", func(c *Cluster, o order) { c.SlowPuts(4000, o.broker) }},
	{9, "the store works", func(c *Cluster, _ order) { c.StoreUp() }},
	{2, "objects are damaged at rest", func(c *Cluster, o order) { c.damageSome(o) }},
	{2, "an operator deletes what is in the store", func(c *Cluster, o order) {
		c.DeleteObjects(func(id walstorage.SegmentID) bool { return id.UUID[15]%4 != byte(o.pick("kept", 4)) })
	}},
	{4, "other weather", func(c *Cluster, o order) { c.Weather(someStorm(o.chance, 100*o.op)) }},
	{3, "a fine day", func(c *Cluster, _ order) { c.Weather(Faults{}) }},

	// Metadata.
	{2, "no publications of {broker}", func(c *Cluster, o order) { c.MetadataDown(o.broker) }},
	{4, "the metadata log works", func(c *Cluster, _ order) { c.MetadataUp() }},
	{2, "events are late for {broker}", func(c *Cluster, o order) {
		c.EventsBehind(o.broker, o.between("late", 20*time.Millisecond, 900*time.Millisecond))
	}},
	{2, "events are on time for {broker}", func(c *Cluster, o order) { c.EventsBehind(o.broker, 0) }},
	{1, "{broker} hears of no event", func(c *Cluster, o order) { c.Deaf(o.broker) }},
	{2, "{broker} hears again", func(c *Cluster, o order) { c.Hearing(o.broker) }},
	{2, "the next event for {broker} is spoilt", func(c *Cluster, o order) {
		c.SpoilEvent(o.broker, []func(*memlog.DeliveryFault){Lost, Corrupt, UnknownVersion}[o.pick("how", 3)])
	}},

	// Logs.
	{3, "records of {partition} are deleted", withPart(func(c *Cluster, _ order, part *Partition) { c.deleteSome(part, 2) })},
	{2, "{partition} is purged", withPart(func(c *Cluster, _ order, part *Partition) { c.deleteSome(part, 1) })},
	{3, "batches of {partition} are compacted on {broker}", withPart(func(c *Cluster, o order, part *Partition) { c.compactSome(part, o.broker) })},
	{3, "{broker} truncates {partition} outside of a fetch", withPart(func(c *Cluster, o order, part *Partition) { c.truncateOutside(part, o.broker) })},
	{3, "many records in {partition}", withPart(func(c *Cluster, o order, part *Partition) { c.burst(part, 20+o.pick("records", 60), 60) })},
	{2, "large records in {partition}", withPart(func(c *Cluster, o order, part *Partition) { c.burst(part, 3, 2<<10<<o.pick("size", 6)) })},
	{2, "a follower of {partition} stands inside a compaction gap", withPart(func(c *Cluster, o order, part *Partition) { o.plan.compactionGap(c, part) })},
	{1, "the log of {partition} cannot be read", withPart(func(c *Cluster, o order, part *Partition) {
		if leader := c.controller.view(part).leader; leader != nobody {
			c.Reads(part, leader, func([]byte) error {
				if o.pick("how", 4) == 0 {
					panic(toldPanic)
				}
				return errUnreadable
			})
		}
	})},
	{2, "all logs can be read", func(c *Cluster, _ order) { c.readable() }},

	// Topics.
	{2, "create a partition", func(c *Cluster, o order) { c.create("", someBrokers(o.chance, o.op, "replicas", c.cfg.Brokers)) }},
	{1, "delete {partition}", withPart(func(c *Cluster, _ order, part *Partition) { c.remove(part) })},
	{2, "delete {partition} and create it again", withPart(func(c *Cluster, o order, part *Partition) {
		if c.remove(part) {
			c.create(part.Topic, someBrokers(o.chance, o.op, "replicas", c.cfg.Brokers))
		}
	})},

	// Time.
	{2, "nothing goes wrong for a while", func(c *Cluster, o order) { o.plan.steady(c, o) }},
	{1, "idle minutes", func(c *Cluster, o order) { o.plan.idle(c, o.between("idle", 30*time.Second, 3*time.Minute)) }},
	{1, "hours in which all brokers are down", func(c *Cluster, o order) { o.plan.down(c, o.between("down", 10*time.Minute, 4*time.Hour)) }},
}

var errUnreadable = errors.New("sim: the log cannot be read")

// leading returns what the leader of a partition does for it, nil if there is none that knows.
func (c *Cluster) leading(part *Partition) *role {
	g := c.controller.view(part)
	p := c.process(g.leader)
	if p == nil {
		return nil
	}
	r := p.role(part.Key())
	if r == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !r.leads() || r.leadership == nil {
		return nil
	}
	return r
}

// deleteSome moves the log start of a partition over a share of what is committed.
func (c *Cluster) deleteSome(part *Partition, share int64) {
	r := c.leading(part)
	if r == nil {
		return
	}
	start, committed := r.log.Start(), r.process.highWatermark(r)
	if committed <= start {
		return
	}
	c.count(map[int64]string{1: "log purged", 2: "log start moved"}[share])
	r.log.deleteRecords(r.process.ctx, start+max(1, (committed-start)/share))
}

// compactSome takes some batches out of what is committed and older.
func (c *Cluster) compactSome(part *Partition, broker int32) {
	if end := c.HighWatermark(part, broker); end > 4 && c.process(broker) != nil {
		c.count("compaction gap")
		c.Compact(part, broker, end/2, end*3/4)
	}
}

// truncateOutside lets a follower's broker ask the leader where their logs part, and truncate, outside of a LeaderFetcher
// call: it stops walhop before and follows again after (B5).
func (c *Cluster) truncateOutside(part *Partition, broker int32) {
	p := c.process(broker)
	if p == nil {
		return
	}
	p.mu.Lock()
	p.chores = append(p.chores, part)
	p.mu.Unlock()
	select {
	case p.mailed <- struct{}{}:
	default:
	}
}

// burst appends records at a partition's leader at once.
func (c *Cluster) burst(part *Partition, n, bytes int) {
	p := c.process(c.controller.view(part).leader)
	if p == nil {
		return
	}
	for range n {
		if _, err := p.produce(part, part.nextValue(bytes), nil); err != nil {
			return
		}
	}
	c.count("burst")
}

// produceBelieved appends records to every partition that a broker believes to lead.
func (c *Cluster) produceBelieved(broker int32, n int) {
	p := c.process(broker)
	if p == nil {
		return
	}
	for _, r := range p.all() {
		p.mu.Lock()
		leads, epoch := r.leads() && r.leadership != nil, r.epoch
		p.mu.Unlock()
		if !leads || c.ProduceAt(broker, r.part, n) != nil {
			continue
		}
		if g := c.controller.view(r.part); g.epoch > epoch {
			c.count("records taken by a zombie leader")
		}
	}
}

// skew sets a broker's clock off, which is counted.
func (c *Cluster) skew(broker int32, by time.Duration) {
	c.count("clock skewed")
	c.Skew(broker, by)
}

// damageSome damages some of the newest objects: a bit flips, or the end is cut off.
func (c *Cluster) damageSome(o order) {
	keys := c.weather.store.Keys()
	for i, key := range keys[max(0, len(keys)-6):] {
		if o.chance.bits(o.op, fmt.Sprint("damage ", i))%2 == 0 {
			continue
		}
		if id, ok := c.keys.Parse(key); ok {
			c.weather.mu.Lock()
			c.weather.damaged[id] = true
			c.weather.mu.Unlock()
		}
		bit := o.chance.bits(o.op, fmt.Sprint("bit ", i))
		c.must(c.weather.store.Damage(key, func(data []byte) []byte {
			if o.pick("how", 2) == 0 {
				c.count("object damaged at rest")
				data[bit/8%uint64(len(data))] ^= 1 << (bit % 8)
				return data
			}
			c.count("object cut short at rest")
			return data[:bit%uint64(len(data))]
		}))
	}
}

// readable ends every double in place of a log.
func (c *Cluster) readable() {
	for _, part := range c.parts {
		for _, b := range c.brokerIDs() {
			c.Reads(part, b, nil)
		}
	}
}

// create makes a partition of the next spare, of the topic named, or of a new one, with a load on it.
func (c *Cluster) create(topic string, replicas []int32) {
	if c.spares == c.cfg.Spares {
		return
	}
	part := c.parts[len(c.cfg.Replicas)+c.spares]
	if topic != "" {
		part.Topic = topic
	}
	if !c.controller.create(part, replicas) {
		return
	}
	c.spares++
	c.count(map[bool]string{true: "partition created", false: "partition created again under the same name"}[topic == ""])
	c.Load(part, 50*time.Millisecond, AcksAll)
}

// remove deletes a partition, unless it is the last.
func (c *Cluster) remove(part *Partition) bool {
	if len(c.controller.present()) < 2 || !c.controller.remove(part) {
		return false
	}
	c.count("partition deleted")
	return true
}

// idle lets time pass in which nobody produces anything.
func (p *Plan) idle(c *Cluster, d time.Duration) {
	c.count("idle minutes")
	c.pause(true)
	p.pass(c, d)
	c.pause(false)
}

// down stops every broker for hours, and starts them all again.
func (p *Plan) down(c *Cluster, d time.Duration) {
	c.count("idle hours")
	c.pause(true)
	for _, b := range c.brokerIDs() {
		c.Kill(b)
	}
	p.pass(c, d)
	for _, b := range c.brokerIDs() {
		c.Restart(b)
	}
	p.pass(c, 500*time.Millisecond)
	c.pause(false)
}

// Recover ends every fault and brings every broker back.
func (c *Cluster) Recover() {
	c.Disarm()
	c.Weather(Faults{})
	c.MetadataUp()
	c.network.healAll()
	c.readable()
	c.StoreUp()
	c.Run(time.Millisecond) // what was held goes on at this instant, which nothing else may share (D2)
	for _, b := range c.brokerIDs() {
		c.EventsBehind(b, 0)
		c.Hearing(b)
		c.BringAll(b)
		c.Skew(b, 0)
		if zombie := c.zombie(b); zombie != nil {
			zombie.die()
		}
		c.Restart(b)
	}
}
