package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/retention"
)

// Plan is what one seed makes of a cluster and does to it: a pure function of the seed.
type Plan struct {
	Seed   uint64
	Config Config
	// Steps are what happens, in order. Any subset of them is a story too.
	Steps []Step

	sizes sizes
}

// sizes are the bounds that the parts of a cluster are set to.
type sizes struct {
	stallAfter, tooFarBehind, linger time.Duration
	giveUpAfter, stuckAfter          time.Duration
	maxBacklogAge                    time.Duration
	maxBacklogBytes                  int64
	inFlight                         int
	entries                          int
	parked                           int64
	retention, grace, sweep, full    time.Duration
}

const (
	// maxSteps is how many steps a plan has at most, maxRecords how many records its loads send meanwhile: with those below at
	// most 2,000 events.
	maxSteps, maxRecords = 40, 860
	// steadyRecords are sent while nothing goes wrong, lastRecords after the last step.
	steadyRecords, lastRecords = 600, 500
	// activity is how long the steps take together, idle times left out.
	activity = 8 * time.Second
)

// NewPlan returns the plan of a seed.
func NewPlan(seed uint64) *Plan {
	c := chance{mix(seed)}.of("plan")
	n := uint64(0)
	// pick draws from what is given, each value as likely as the others.
	next := func() uint64 { n++; return n }
	pick := func(of ...time.Duration) time.Duration { return of[c.pick(next(), "pick", len(of))] }
	number := func(of ...int) int { return of[c.pick(next(), "pick", len(of))] }

	p := &Plan{Seed: seed}
	brokers := number(3, 3, 3, 4, 2)
	cfg := Config{
		Seed: seed, Brokers: brokers, Spares: 3, Records: maxRecords,
		FlushEvery:       pick(0, 150*time.Millisecond, 400*time.Millisecond, 2*time.Second),
		SessionTimeout:   pick(300*time.Millisecond, time.Second, 2*time.Second),
		LinkTimeout:      pick(200*time.Millisecond, 500*time.Millisecond),
		ValueBytes:       number(60, 100, 900),
		StoreTellsNoTime: number(0, 0, 0, 1) == 1,
		Hasty:            number(0, 1) == 1,
		TruncatesFirst:   number(0, 0, 1) == 1,
		BatchRecords:     number(1, 1, 4),
		DiskLatency:      pick(50*time.Microsecond, 50*time.Microsecond, 2*time.Millisecond),
		ReadLatency:      pick(0, 0, 500*time.Microsecond, 4*time.Millisecond),
	}
	cfg.MinISR = number(1, min(2, brokers))
	if number(0, 0, 1) == 1 { // S3 Standard
		cfg.Put = Latency{Median: 60 * time.Millisecond, Sigma: 0.29, PerMiB: 20 * time.Millisecond}
		cfg.Get = Latency{Median: 27 * time.Millisecond, Sigma: 0.62}
	}
	for i := range number(1, 2, 3, 4, 5) {
		cfg.Replicas = append(cfg.Replicas, someBrokers(c, uint64(i), "replicas", brokers))
	}
	s := &p.sizes
	s.stallAfter = pick(time.Second, 500*time.Millisecond, 250*time.Millisecond)
	s.tooFarBehind = pick(5*time.Second, s.stallAfter, 2*s.stallAfter)
	cfg.LagTimeMax = pick(30*time.Second, max(4*time.Second, 2*(s.stallAfter+s.tooFarBehind)+time.Second))
	// Fractions of these, a quarter and a sixteenth, are multiples of the grid (D2).
	s.linger = pick(10*time.Millisecond, 10*time.Millisecond, 4*time.Millisecond, 48*time.Millisecond)
	s.maxBacklogAge = pick(3200*time.Millisecond, 960*time.Millisecond, 320*time.Millisecond, time.Minute)
	s.maxBacklogBytes = int64(number(0, 0, 0, 20<<10))
	s.inFlight = number(8, 8, 2, 1)
	s.giveUpAfter = pick(5*time.Second, time.Second, 600*time.Millisecond)
	s.stuckAfter = pick(5*time.Second, time.Second, 400*time.Millisecond)
	s.entries = number(0, 0, 12, 5)
	s.parked = int64(number(0, 0, 8<<10, 2<<10))
	s.retention = pick(time.Hour, 20*time.Second, 3*time.Second, 1300*time.Millisecond)
	if number(0, 0, 0, 0, 0, 0, 0, 0, 0, 1) == 1 { // what is on its way is not given up for hours
		s.retention, s.giveUpAfter = 10*time.Hour, 4*time.Hour
	}
	s.grace = pick(5*time.Second, 500*time.Millisecond, 100*time.Millisecond)
	s.giveUpAfter = min(s.giveUpAfter, s.retention/2-50*time.Millisecond)
	s.sweep, s.full = 300*time.Millisecond, time.Second
	if s.retention >= time.Hour {
		s.sweep, s.full = 20*time.Second, time.Minute
	}
	p.Config = cfg
	p.set()
	p.schedule()
	return p
}

// someBrokers draws two or three brokers of n, in an order.
func someBrokers(c chance, op uint64, draw string, n int) []int32 {
	var all []int32
	for b := range n {
		all = append(all, int32(b+1))
	}
	slices.SortFunc(all, func(a, b int32) int {
		return cmpBits(c.bits(op, fmt.Sprint(draw, a)), c.bits(op, fmt.Sprint(draw, b)))
	})
	return all[:min(n, 2+c.pick(op, draw+"/n", 2))]
}

func cmpBits(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

// set makes the parts of the cluster what the sizes say.
func (p *Plan) set() {
	s := p.sizes
	p.Config.Leader = func(_ int32, cfg *leader.Config) {
		cfg.Linger, cfg.MaxBacklogAge, cfg.MaxInFlightUploads = s.linger, s.maxBacklogAge, s.inFlight
		cfg.MaxBacklogBytes = s.maxBacklogBytes
		cfg.GiveUpAfter, cfg.StuckAfter, cfg.Retention = s.giveUpAfter, s.stuckAfter, s.retention
		cfg.TargetBytes, cfg.MaxBytes = targetBytes, maxBytes
	}
	p.Config.Follower = func(_ int32, cfg *follower.Config) {
		cfg.StallAfter, cfg.TooFarBehind, cfg.LeaderMaxLinger = s.stallAfter, s.tooFarBehind, s.linger
		cfg.Entries.MaxEntries, cfg.MaxParkedBytes = s.entries, s.parked
	}
	p.Config.Tracker = func(_ int32, cfg *replica.TrackerConfig) { cfg.StallAfter = s.stallAfter }
	p.Config.Sweeper = func(_ int32, cfg *retention.Config) {
		cfg.Retention, cfg.Grace, cfg.Interval, cfg.FullEvery = s.retention, s.grace, s.sweep, s.full
	}
}

// targetBytes and maxBytes are the sizes of segments in a plan's cluster.
const targetBytes, maxBytes = 8 << 10, 32 << 10

// Run does the steps of the plan whose numbers are given, all if keep is nil, ends every fault, and looks whether
// everything comes to rest as it must.
func (p *Plan) Run(c *Cluster, keep []int) {
	last := len(p.Steps)
	if keep != nil {
		last = slices.Max(append([]int{-1}, keep...)) + 1
	}
	for i, step := range p.Steps[:last] {
		if keep == nil || slices.Contains(keep, i) {
			c.trace.add("story", "step %d: "+step.What, int64(i))
			step.Do(c)
		}
		p.pass(c, step.Then) // of a step left out too, so that the others come when they came
	}
	c.Recover()
	c.records.Add(lastRecords)
	p.pass(c, time.Second)
	c.pause(true)
	c.awaitISR()
	for _, producer := range c.producers {
		producer.Stop()
	}
	p.rest(c)
}

// pass lets time pass, and looks at what must hold again and again.
func (p *Plan) pass(c *Cluster, d time.Duration) {
	slice := max(100*time.Millisecond, d/20)
	for ; d > 0; d -= slice {
		c.Run(min(d, slice))
		c.inspect(&p.sizes)
	}
}
