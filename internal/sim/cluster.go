package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Cluster is a cluster under virtual time. Its methods are the verbs of a story and are called by the story's goroutine.
type Cluster struct {
	t        *testing.T
	cfg      Config
	instants *instants
	trace    *Trace
	story    *actor

	controller *controller
	network    *network
	weather    *weather
	topic      *topicWeather
	parts      []*Partition
	disks      map[diskPlace]*disk
	skews      []atomic.Int64
	keys       walstorage.Keys
	everSkewed atomic.Bool      // a clock was wrong
	mostAhead  atomic.Int64     // by so much the clock that was most ahead
	retention  time.Duration    // of the sweepers
	stallAfter time.Duration    // of the followers
	sessions   map[int32]*actor // what notices that a broker is dead
	killers    map[int32]*actor // what kills a broker in a phase of its work
	ending     sync.WaitGroup   // processes that have died and are not yet gone
	ctx        context.Context
	cancel     context.CancelFunc
	producers  []*Producer
	era        atomic.Int64 // counts the calls of Disarm
	steady     bool         // there has been a steady load
	spares     int          // so many have become partitions
	paused     atomic.Bool  // no producer sends
	sent       atomic.Int64
	records    atomic.Int64 // so many may be sent, 0: any number

	mu         sync.Mutex
	processes  map[int32]*process
	zombies    map[int32]*process // another process has taken their place, and they do not know
	armed      map[int32]*armed
	slices     map[walstorage.SegmentID][]sliceOf
	losers     []loser
	violations []string
	told       string // the story of the first
	bad        Faults
	counts     map[string]int
	fallbacks  []Fallback
	gets       map[int32]int
	blocked    time.Duration // the longest that an append of a leader took
}

type diskPlace struct {
	part   *Partition
	broker int32
}

// Fallback is one fallback that a follower has reported.
type Fallback struct {
	At        time.Duration // since the run began
	Broker    int32
	Partition segment.TopicIDPartition
	follower.State
}

// realTimeLimit is how long one story may take in real time before it counts as hung.
const realTimeLimit = 4 * time.Minute

// Run tells a story about a cluster, in a bubble of virtual time of its own, and fails the test if what must always hold
// did not, or if anything is left running at the end. It returns the trace.
func Run(t *testing.T, cfg Config, story func(c *Cluster)) (trace *Trace) {
	t.Helper()
	defer watch(t.Name(), realTimeLimit)()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, cfg.withDefaults())
		trace = c.trace
		defer c.end()
		c.startAll()
		story(c)
	})
	return trace
}

func (c *Cluster) startAll() {
	mayRun.Add(c.mostGoroutines())
	for _, b := range c.brokerIDs() {
		c.start(b)
	}
}

func newCluster(t *testing.T, cfg Config) *Cluster {
	c := &Cluster{
		t: t, cfg: cfg, instants: newInstants(cfg.Seed), disks: map[diskPlace]*disk{},
		skews: make([]atomic.Int64, cfg.Brokers), processes: map[int32]*process{}, zombies: map[int32]*process{}, armed: map[int32]*armed{},
		sessions: map[int32]*actor{}, killers: map[int32]*actor{}, counts: map[string]int{}, gets: map[int32]int{},
	}
	following := follower.Config{StallAfter: time.Second}
	if cfg.Follower != nil {
		cfg.Follower(1, &following)
	}
	c.stallAfter = following.StallAfter
	if cfg.Sweeper != nil {
		sweeping := retention.Config{Retention: time.Hour}
		cfg.Sweeper(1, &sweeping)
		c.retention = sweeping.Retention
	}
	c.records.Store(cfg.Records)
	c.slices = map[walstorage.SegmentID][]sliceOf{}
	var err error
	c.keys, err = walstorage.NewKeys("", clusterID)
	c.must(err)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.trace = newTrace(c.instants.now)
	c.story = c.instants.actor("story")
	c.controller = newController(c)
	c.weather = newWeather(c)
	c.topic = newTopicWeather(c)
	c.network = newNetwork(c)
	brokers := c.brokerIDs()
	for _, kind := range []string{"report", "answer"} {
		c.network.connect(c.instants, brokers, kind, -1)
	}
	for _, b := range brokers {
		c.network.links[link{theController, b, "mail", -1}] = c.instants.actor("mail %d", b)
		c.sessions[b], c.killers[b] = c.instants.actor("session %d", b), c.instants.actor("killer %d", b)
	}
	for i := range len(cfg.Replicas) + cfg.Spares {
		part := newPartition(c.instants, i)
		c.parts = append(c.parts, part)
		for _, kind := range []string{"fetch", "fetched"} {
			c.network.connect(c.instants, brokers, kind, i)
		}
		for _, b := range brokers {
			c.network.links[link{b, theController, "isr", i}] = c.instants.actor("isr %d %d", b, i)
			c.disks[diskPlace{part, b}] = newDisk(c, part, b)
		}
		if i < len(cfg.Replicas) {
			c.controller.add(part, cfg.Replicas[i])
		} else {
			c.controller.add(part, nil)
		}
	}
	return c
}

func newDisk(c *Cluster, part *Partition, broker int32) *disk {
	d := &disk{cluster: c, part: part, broker: broker, who: fmt.Sprintf("disk %d %s", broker, part.Topic), checkedEpoch: -1, sameEpoch: -1}
	d.arm = c.instants.actor("disk %d %d", broker, part.index)
	d.log = memory.New(memory.Config{})
	return d
}

// end stops everything and looks once more.
func (c *Cluster) end() {
	c.cancel()
	c.StoreUp()
	for _, p := range c.producers {
		p.Stop()
	}
	c.network.healAll()
	for _, b := range c.brokerIDs() {
		if p := c.process(b); p != nil {
			p.end()
		}
		if p := c.zombie(b); p != nil {
			p.end()
		}
	}
	c.ending.Wait()
	mayRun.Add(-c.mostGoroutines())
	c.fail()
}

// fail fails the test if a violation was found.
func (c *Cluster) fail() {
	if violations := c.Violations(); len(violations) > 0 && !c.cfg.ExpectViolations && !c.cfg.quiet && !c.t.Failed() {
		c.t.Errorf("seed %d: %s\nthe last that happened:\n%s", c.cfg.Seed, violations[0], c.told)
	}
}

// violate notes that something happened that must not.
func (c *Cluster) violate(format string, args ...any) {
	text := fmt.Sprintf("at %s: ", c.instants.now()) + fmt.Sprintf(format, args...)
	c.trace.add("truth", "a violation")
	story := c.trace.Story()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, text)
	if c.told == "" {
		c.told = story
	}
}

// Violations returns what happened that must not.
func (c *Cluster) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

func (c *Cluster) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
}

// count counts something that happened.
func (c *Cluster) count(what string) {
	c.mu.Lock()
	c.counts[what]++
	c.mu.Unlock()
}

func (c *Cluster) countMany(what string, n int) {
	if n > 0 {
		c.mu.Lock()
		c.counts[what] += n
		c.mu.Unlock()
	}
}

// Counts returns how often what happened.
func (c *Cluster) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

func (c *Cluster) faults() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bad
}

func (c *Cluster) process(broker int32) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[broker]
}

// zombie returns the process of a broker in whose place there is another, nil if there is none.
func (c *Cluster) zombie(broker int32) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.zombies[broker]
}

func (c *Cluster) setProcess(broker int32, p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[broker] = p
}

func (c *Cluster) brokerIDs() []int32 {
	ids := make([]int32, c.cfg.Brokers)
	for i := range ids {
		ids[i] = int32(i + 1)
	}
	return ids
}

func (c *Cluster) disk(part *Partition, broker int32) *disk { return c.disks[diskPlace{part, broker}] }

// appendTook notes how long a leader's append took. It never waits for the store (L1).
func (c *Cluster) appendTook(d time.Duration) {
	c.mu.Lock()
	c.blocked = max(c.blocked, d)
	c.mu.Unlock()
	if d > 0 {
		c.violate("an append of the leader took %s", d)
	}
}

// deliver sends a registration to a broker.
func (c *Cluster) deliver(broker int32, g registration) {
	if p := c.process(broker); p != nil {
		p.mail(g)
	}
}

func (c *Cluster) noteState(p *process, partition segment.TopicIDPartition, s follower.State) {
	if p.zombie.Load() {
		return // what becomes of its logs is no news
	}
	c.count("state " + string(s.Kind))
	if p.noteKind(partition, s.Kind) == follower.Fallback && s.Kind == follower.Replicating {
		c.count("hold ended by an entry")
	}
	if s.Kind != follower.Fallback {
		return
	}
	c.count("fallback: " + string(s.Reason))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fallbacks = append(c.fallbacks, Fallback{At: c.instants.now(), Broker: p.id, Partition: partition, State: s})
}

func (c *Cluster) noteGet(broker int32, f follower.SegmentFetch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets[broker]++
}
