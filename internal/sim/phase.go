package sim

import "time"

// phase is a stage of the way of a record in which a broker can be killed.
type phase int

const (
	reading     phase = iota // bytes are in the open segment
	uploading                // an upload is under way
	stored                   // a segment is stored and not yet published
	publishing               // a publication is under way
	downloading              // a download is under way
	fetched                  // bytes are downloaded and about to be appended
	asking                   // an ordinary fetch is under way
	reporting                // a report is under way, or parked
	phases
)

var phaseNames = [phases]string{
	"before an upload", "during an upload", "between upload and publication", "during a publication",
	"during a download", "between download and append", "during an ordinary fetch", "during a report",
}

// armed is a broker that is to be killed at its after-th entrance into a phase from now on, or a little later.
type armed struct {
	phase phase
	after int
	later time.Duration
	now   chan struct{}
	era   int64 // of the cluster, when it was armed
}

// enter notes that something has come into a phase.
func (p *process) enter(ph phase) {
	p.at[ph].Add(1)
	if p.dead() || p.zombie.Load() {
		return
	}
	c := p.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.armed[p.id]; a != nil && a.phase == ph {
		if a.after--; a.after < 0 {
			close(a.now)
			delete(c.armed, p.id)
		}
	}
}

// leave notes that something has left a phase.
func (p *process) leave(ph phase) { p.at[ph].Add(-1) }

// notePhases counts in which phases the process is killed.
func (p *process) notePhases() {
	if p.uploader.Stats().OpenBytes > 0 {
		p.cluster.count("killed " + phaseNames[reading])
	}
	for ph := uploading; ph < phases; ph++ {
		if p.at[ph].Load() > 0 {
			p.cluster.count("killed " + phaseNames[ph])
		}
	}
}

// KillIn kills a broker once so many things have come into a phase of its work, or a little later.
func (c *Cluster) KillIn(broker int32, ph phase, after int, later time.Duration) {
	if c.process(broker) == nil {
		return
	}
	a := &armed{phase: ph, after: after, later: later, now: make(chan struct{}), era: c.era.Load()}
	c.mu.Lock()
	busy := c.armed[broker] != nil
	if !busy {
		c.armed[broker] = a
	}
	c.mu.Unlock()
	if busy {
		return
	}
	killer := c.killers[broker]
	c.ending.Go(func() {
		select {
		case <-a.now:
		case <-c.ctx.Done():
		}
		if killer.take(c.ctx, killer.next(), a.later) == nil && c.era.Load() == a.era {
			c.Kill(broker)
		}
	})
}

// Disarm ends KillIn, where it is already about to kill too.
func (c *Cluster) Disarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.era.Add(1)
	clear(c.armed)
}
