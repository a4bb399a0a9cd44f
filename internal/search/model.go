package search

import (
	"errors"

	"github.com/walhop/walhop/internal/decide"
)

// model computes what can happen in a state. It is for one goroutine.
type model struct {
	cfg      Config
	logs     *logs
	segments *segments
	stores   *stores
	opens    *opens
	checked  map[checkedFetch]fetchCheck
	judged   map[judgedEntry]judgement
	runsOf   map[runKey]segmentID
	lengths  []int8
	reached  map[string]int // what was reached, and how often
}

func newModel(cfg Config) *model {
	m := &model{
		cfg: cfg, logs: newLogs(), segments: newSegments(), checked: map[checkedFetch]fetchCheck{},
		judged: map[judgedEntry]judgement{}, runsOf: map[runKey]segmentID{}, lengths: []int8{1}, reached: map[string]int{},
	}
	m.stores = newStores(m.segments, cfg.MaxEntries)
	m.opens = newOpens(m)
	if cfg.BatchesOfTwo {
		m.lengths = append(m.lengths, 2)
	}
	return m
}

// initial is the state in which the search begins: broker A leads epoch 1 of every partition, its log is empty, all are in
// the ISR and only A has been told.
func (m *model) initial() state {
	var s state
	for p := range m.cfg.Partitions {
		part := &s.parts[p]
		for e := range part.starts {
			part.starts[e], part.led[e] = -1, -1
		}
		part.epoch, part.leader, part.isr = 1, 0, 1<<m.cfg.Brokers-1
		m.becomeLeader(&s, int8(p), 0)
	}
	return s
}

// stepKind is what happens in a step.
type stepKind int8

const (
	doWrite stepKind = iota
	doElect
	doLearn
	doAsk
	doFail
	doDecide
	doAppend
	doReport
	doShrink
	doCrash
	doRewind
	doCompact
	doStart
	doRead
	doTake
	doSeal
	doSkip
	doApply
	doDelete
	kinds
)

var kindNames = [kinds]string{
	"append by a leader", "election", "a broker learns of its role", "answer to an ordinary fetch", "failed fetch",
	"decision", "append from the store", "report", "ISR shrunk", "crash", "truncation without Stop", "compaction",
	"log start moved", "Read", "Read given to the open segment", "segment published", "skip", "event told", "segment deleted",
}

// step is one thing that happens to a partition p at a broker b. What x is depends on the kind.
type step struct {
	kind    stepKind
	p, b, x int8
	segment segmentID
}

// visitor takes a state that a step leads to, and what is wrong with it.
type visitor func(step step, after *state, problem string)

// successors visits every state to which one step leads.
func (m *model) successors(s *state, visit visitor) {
	for p := range int8(m.cfg.Partitions) {
		m.controls(s, p, visit)
		for b := range int8(m.cfg.Brokers) {
			r := &s.parts[p].replicas[b]
			switch {
			case r.leads:
				m.leads(s, p, b, visit)
			case r.knows > 0:
				m.follows(s, p, b, visit)
			}
			if r.pending.epoch > 0 {
				m.appends(s, p, b, visit)
			}
			m.disasters(s, p, b, visit)
		}
	}
	if m.cfg.StepByStep {
		m.steps(s, visit)
	}
}

// controls are the steps of the controller, and of a broker that learns of them.
func (m *model) controls(s *state, p int8, visit visitor) {
	part := &s.parts[p]
	for b := range int8(m.cfg.Brokers) {
		inISR := part.isr&(1<<b) != 0
		if int(part.epoch) < m.cfg.Epochs && (inISR || m.cfg.Unclean) {
			t := *s
			q := &t.parts[p]
			q.epoch, q.leader = q.epoch+1, b
			if !inISR {
				q.isr, q.unclean = 1<<b, q.epoch
			}
			visit(step{kind: doElect, p: p, b: b}, &t, "")
		}
		if part.leader < 0 || part.replicas[b].knows == part.epoch {
			continue
		}
		t := *s
		problem := ""
		if part.leader == b {
			problem = m.becomeLeader(&t, p, b)
		} else {
			m.becomeFollower(&t, p, b)
		}
		visit(step{kind: doLearn, p: p, b: b}, &t, problem)
	}
}

func (m *model) becomeLeader(t *state, p, b int8) (problem string) {
	part := &t.parts[p]
	r := &part.replicas[b]
	m.resign(t, p, b)
	e := part.epoch
	if m.cfg.StepByStep {
		x := &t.brokers[b]
		x.store = m.stores.do(x.store, storeOp{kind: storeUnfollow, part: p}).store
	}
	r.log = m.logs.do(r.log, logOp{kind: opLead, a: e}).log
	end := m.logs.view(r.log).end
	pend := r.pending
	if m.cfg.Joined {
		pend = pending{}
	}
	*r = replica{log: r.log, ghost: r.ghost, knows: e, leads: true, view: part.isr, cursor: end, pending: pend} // L7
	for i := range r.ends {
		r.ends[i] = -1
	}
	uncleanly := part.unclean > 0 && part.starts[part.unclean] < 0 // this epoch, or one before it that never began
	part.starts[e], part.led[e], part.lines[e] = end, b, r.ghost
	kept := part.committed.common(&r.ghost, part.deleted)
	if uncleanly {
		part.unclean = e
		part.committed.cut(kept)
		part.deleted = min(part.deleted, kept)
	} else if kept < part.committed.n {
		return "an acknowledged record is lost: the new leader does not have it"
	}
	return m.raise(t, p, b)
}

func (m *model) becomeFollower(t *state, p, b int8) {
	part := &t.parts[p]
	r := &part.replicas[b]
	m.resign(t, p, b)
	e := part.epoch
	r.log = m.logs.do(r.log, logOp{kind: opFollow, a: e}).log
	pend := r.pending
	if m.cfg.Joined {
		pend = pending{}
	}
	*r = replica{log: r.log, ghost: r.ghost, knows: e, judge: decide.Follower{Epoch: int32(e)}, pending: pend}
	if m.cfg.StepByStep {
		x := &t.brokers[b]
		x.store = m.stores.do(x.store, storeOp{kind: storeFollow, part: p, epoch: e}).store
	}
}

// raise has a leader take the high watermark from what its followers have reported. What it passes is acknowledged.
func (m *model) raise(t *state, p, b int8) (problem string) {
	part := &t.parts[p]
	r := &part.replicas[b]
	lowest := m.logs.view(r.log).end
	for f := range int8(m.cfg.Brokers) {
		if f != b && r.view&(1<<f) != 0 {
			lowest = min(lowest, r.ends[f])
		}
	}
	if lowest <= r.high {
		return ""
	}
	r.high = lowest
	if r.knows < part.unclean {
		return "" // an unclean election gives up what this leader acknowledges
	}
	acknowledged := part.lines[r.knows]
	acknowledged.cut(lowest)
	switch same := part.committed.common(&acknowledged, part.deleted); {
	case same < min(part.committed.n, acknowledged.n):
		return "an acknowledged record is lost: another one is acknowledged at its offset"
	case acknowledged.n > part.committed.n:
		part.committed = acknowledged
	}
	return ""
}

// leaderOf returns the broker that leads in the epoch, -1 if none does.
func (m *model) leaderOf(part *part, epoch int8) int8 {
	for b := range int8(m.cfg.Brokers) {
		if r := &part.replicas[b]; r.leads && r.knows == epoch {
			return b
		}
	}
	return -1
}

// leads are the steps of a leader.
func (m *model) leads(s *state, p, b int8, visit visitor) {
	part := &s.parts[p]
	r := &part.replicas[b]
	v := m.logs.view(r.log)
	for _, n := range m.lengths {
		if int(part.written+n) > m.cfg.Records || v.end+n > mostOffsets {
			continue
		}
		t := *s
		q := &t.parts[p]
		w := &q.replicas[b]
		w.log = m.logs.do(r.log, logOp{kind: opWrite, a: r.knows, b: n}).log
		batch := placed{r.knows, v.end, v.end + n - 1}
		w.ghost.add(batch)
		q.lines[r.knows].add(batch)
		q.written += n
		problem := m.raise(&t, p, b)
		visit(step{kind: doWrite, p: p, b: b, x: n}, &t, m.problem(&t, p, b, problem))
	}
	if part.leader == b && part.epoch == r.knows && !m.cfg.Quiet {
		for f := range int8(m.cfg.Brokers) {
			if f == b || part.isr&(1<<f) == 0 {
				continue
			}
			t := *s
			t.parts[p].isr &^= 1 << f
			t.parts[p].replicas[b].view = t.parts[p].isr
			problem := m.raise(&t, p, b)
			visit(step{kind: doShrink, p: p, b: b, x: f}, &t, problem)
		}
	}
	if int(s.starts) < m.cfg.Starts {
		for o := v.start + 1; o <= r.high; o++ {
			t := *s
			t.starts++
			if q := &t.parts[p]; r.knows >= q.unclean {
				q.deleted = max(q.deleted, o)
			}
			t.parts[p].replicas[b].log = m.logs.do(r.log, logOp{kind: opDelete, a: o}).log
			visit(step{kind: doStart, p: p, b: b, x: o}, &t, m.problem(&t, p, b, ""))
		}
	}
}

// disasters are crashes and compaction.
func (m *model) disasters(s *state, p, b int8, visit visitor) {
	part := &s.parts[p]
	r := &part.replicas[b]
	v := m.logs.view(r.log)
	if int(s.crashes) < m.cfg.Crashes && (r.knows > 0 || v.end > v.start) {
		for o := v.start; o <= v.end; o++ {
			if o > 0 && !r.ghost.boundary(o) {
				continue
			}
			if o == v.end && p > 0 {
				continue // with nothing lost it is the same crash for every partition
			}
			t := *s
			t.crashes++
			problem := m.crash(&t, p, b, o)
			visit(step{kind: doCrash, p: p, b: b, x: o}, &t, m.problem(&t, p, b, problem))
		}
	}
	if int(s.rewinds) < m.cfg.Rewinds && r.knows > 0 && !r.leads {
		for o := v.start; o < v.end; o++ {
			if r.ghost.boundary(o) {
				t := *s
				t.rewinds++
				problem := m.rewind(&t, p, b, o)
				visit(step{kind: doRewind, p: p, b: b, x: o}, &t, m.problem(&t, p, b, problem))
			}
		}
	}
	if int(s.compactions) < m.cfg.Compactions {
		for _, batch := range v.batches {
			if o := batch.base; o < part.committed.n && part.committed.at[o] == batch.epoch && batch.base >= v.start {
				t := *s
				t.compactions++
				t.parts[p].replicas[b].log = m.logs.do(r.log, logOp{kind: opCompact, a: batch.base, b: batch.last}).log
				t.parts[p].compacted[batch.epoch] |= 1 << o
				visit(step{kind: doCompact, p: p, b: b, x: o}, &t, m.problem(&t, p, b, ""))
			}
		}
	}
}

// crash restarts a broker. Partition p loses what lies from offset o on, the others nothing.
func (m *model) crash(t *state, p, b, o int8) (problem string) {
	for i := range int8(m.cfg.Partitions) {
		part := &t.parts[i]
		r := &part.replicas[b]
		end := m.logs.view(r.log).end
		to := end
		if i == p {
			to = o
		}
		*r = replica{log: m.logs.do(r.log, logOp{kind: opCrash, a: to}).log, ghost: r.ghost}
		r.ghost.cut(m.logs.view(r.log).end)
		if part.leader == b {
			part.leader = -1 // it leads again only in another epoch (B6)
		}
		if found := m.loses(t, i, b, to < end); found != "" {
			problem = found
		}
	}
	t.brokers[b] = broker{}
	return problem
}

// loses has what a broker reported count no longer (B3). If it has lost records it is in the ISR no more.
func (m *model) loses(t *state, p, b int8, lost bool) (problem string) {
	part := &t.parts[p]
	for l := range part.replicas {
		if other := &part.replicas[l]; other.leads {
			other.ends[b] = -1
		}
	}
	switch {
	case !lost || part.isr&(1<<b) == 0:
		return ""
	case part.isr == 1<<b: // no other member of the ISR lives on: what it lost is lost
		part.committed.cut(part.committed.common(&part.replicas[b].ghost, part.deleted))
		part.deleted = min(part.deleted, part.committed.n)
		return ""
	}
	part.isr &^= 1 << b
	if part.leader == b {
		part.leader = -1
	}
	if l := part.leader; l >= 0 && part.replicas[l].leads && part.replicas[l].knows == part.epoch {
		part.replicas[l].view = part.isr
		return m.raise(t, p, l)
	}
	return ""
}

// rewind puts a follower's log back, and walhop is not told.
func (m *model) rewind(t *state, p, b, o int8) (problem string) {
	r := &t.parts[p].replicas[b]
	r.log = m.logs.do(r.log, logOp{kind: opTruncateTo, a: o}).log
	r.ghost.cut(m.logs.view(r.log).end)
	r.told = 0
	return m.loses(t, p, b, true)
}

var errRefused = errors.New("refused")
