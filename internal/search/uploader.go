package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/segment"
)

// openID names a content of an open segment. 0 is the empty one.
type openID uint16

// openOp gives a read to the open segment, or closes the slice of a partition, where the epoch of the read is 0.
type openOp struct{ piece piece }

// opens holds every content that an open segment has had, as logs does.
type opens struct {
	m    *model
	ops  [][]openOp
	done map[openedOp]openResult
	seal map[openID]segmentID
}

type openedOp struct {
	open openID
	op   openOp
	end  int8
}

type openResult struct {
	open  openID
	next  int8
	added decide.Added
}

func newOpens(m *model) *opens {
	return &opens{m: m, ops: [][]openOp{nil}, done: map[openedOp]openResult{}, seal: map[openID]segmentID{}}
}

func (o *opens) builder(id openID) *segment.Builder {
	b := newBuilder()
	for _, op := range o.ops[id] {
		o.call(b, op)
	}
	return b
}

func (o *opens) call(b *segment.Builder, op openOp) (segment.Appended, error) {
	p := op.piece
	if p.epoch == 0 {
		b.Close(partition(p.part).Key())
		return segment.Appended{}, nil
	}
	lead := decide.Lead{Partition: partition(p.part), Epoch: int32(p.epoch), EpochStart: int64(p.start)}
	raw := o.m.logs.bytes.raw(p.bytes)
	return b.Append(lead.Run(int64(p.base)), copy(b.Buffer(len(raw)), raw))
}

// do makes a call of the real Builder, and of the leader's decision on it. end is the log's end as the leader saw it.
func (o *opens) do(id openID, op openOp, end int8) openResult {
	key := openedOp{id, op, end}
	if r, ok := o.done[key]; ok {
		return r
	}
	appended, err := o.call(o.builder(id), op)
	lead := decide.Lead{Epoch: int32(op.piece.epoch)}
	r := openResult{open: id, next: int8(appended.Next), added: lead.AfterAdd(appended, err, int64(end))}
	if appended.Bytes > 0 || op.piece.epoch == 0 && o.isOpen(id, op.piece.part) {
		r.open = openID(len(o.ops))
		o.ops = append(o.ops, append(o.ops[id][:len(o.ops[id]):len(o.ops[id])], op))
	}
	o.done[key] = r
	return r
}

// isOpen tells whether there is a slice of the partition that can be closed.
func (o *opens) isOpen(id openID, part int8) bool {
	open := false
	for _, op := range o.ops[id] {
		if op.piece.part == part {
			open = op.piece.epoch != 0
		}
	}
	return open
}

// sealed seals the open segment.
func (o *opens) sealed(id openID) segmentID {
	if s, ok := o.seal[id]; ok {
		return s
	}
	var c content
	for _, op := range o.ops[id] {
		p := op.piece
		switch {
		case p.epoch == 0:
		case c[p.part].epoch == 0:
			c[p.part] = p
		default:
			raw := o.m.logs.bytes.raw(c[p.part].bytes)
			c[p.part].bytes = o.m.logs.bytes.enter(append(raw[:len(raw):len(raw)], o.m.logs.bytes.raw(p.bytes)...))
		}
	}
	s, ok := o.m.segments.ids[c]
	if !ok {
		s = o.m.segments.seal(c, o.builder(id))
	}
	o.seal[id] = s
	return s
}

// resign ends what a broker does as the leader of a partition: the slice in the open segment is closed, and a Read under
// way has been overtaken (L4).
func (m *model) resign(t *state, p, b int8) {
	if !m.cfg.StepByStep || !t.parts[p].replicas[b].leads {
		return
	}
	x := &t.brokers[b]
	x.open = m.opens.do(x.open, openOp{piece{part: p}}, 0).open
	if x.read.under && x.read.lead.part == p {
		x.read.ended = true
	}
}

// steps are those of uploaders, of the metadata log and of retention.
func (m *model) steps(s *state, visit visitor) {
	for b := range int8(m.cfg.Brokers) {
		x := &s.brokers[b]
		if x.read.under {
			m.takes(s, b, readAll, visit)
		}
		for p := range int8(m.cfg.Partitions) {
			if r := &s.parts[p].replicas[b]; r.leads && !x.read.under {
				m.reads(s, p, b, visit)
			}
		}
		if n := published(s); x.open != 0 && n < m.cfg.Segments {
			t := *s
			sealed := m.opens.sealed(x.open)
			at, found := slices.BinarySearch(t.events[:n], sealed)
			if !found {
				copy(t.events[at+1:], s.events[at:n])
				t.events[at] = sealed
				below := uint8(1)<<at - 1
				t.gone = t.gone&below | t.gone&^below<<1
			}
			t.brokers[b].open = 0
			visit(step{kind: doSeal, b: b, segment: sealed}, &t, "")
		}
		for i, event := range s.events {
			if event == 0 || !m.followsAny(s, b) {
				continue
			}
			t := *s
			t.brokers[b].store = m.stores.do(x.store, storeOp{kind: storeApply, segment: event}).store
			m.hears(&t, b, event)
			if t != *s {
				visit(step{kind: doApply, b: b, segment: s.events[i]}, &t, m.silent(&t, b))
			}
		}
	}
	for i, event := range s.events {
		if event != 0 && s.gone&(1<<i) == 0 {
			t := *s
			t.gone |= 1 << i
			visit(step{kind: doDelete, segment: event}, &t, "")
		}
	}
}

// published returns how many events there are.
func published(s *state) int {
	n := 0
	for n < mostEvents && s.events[n] != 0 {
		n++
	}
	return n
}

// hears notes how far the events reach that a broker has been told of.
func (m *model) hears(t *state, b int8, event segmentID) {
	for p, piece := range m.segments.get(event).content {
		if r := &t.parts[p].replicas[b]; piece.epoch > 0 && !r.leads && r.knows == piece.epoch {
			places := placesOf(m.logs.bytes.raw(piece.bytes))
			r.told = max(r.told, places[len(places)-1].last+1)
		}
	}
}

// silent returns what is wrong if the Store of a broker has nothing to say for the end of a log that lacks something of
// which the Store was told: what it drops over its bound must become a gap (M5).
func (m *model) silent(t *state, b int8) string {
	if !m.cfg.StepByStep {
		return ""
	}
	for p := range int8(m.cfg.Partitions) {
		r := &t.parts[p].replicas[b]
		end := m.logs.view(r.log).end
		if r.leads || r.told <= end {
			continue
		}
		if m.stores.do(t.brokers[b].store, storeOp{kind: storeNext, part: p, epoch: end}).verdict.Outcome == metadata.Nothing {
			return fmt.Sprintf("the Store was told of offsets below %d and has nothing to say at %d", r.told, end)
		}
	}
	return ""
}

func (m *model) followsAny(s *state, b int8) bool {
	for p := range m.cfg.Partitions {
		if r := &s.parts[p].replicas[b]; r.knows > 0 && !r.leads {
			return true
		}
	}
	return false
}

// isGone tells whether the segment has been deleted.
func (m *model) isGone(s *state, id segmentID) bool {
	at, _ := slices.BinarySearch(s.events[:published(s)], id)
	return s.gone&(1<<at) != 0
}

// How much a Read brings: all that there is, or one batch of it.
const (
	readAll = iota
	readFirst
)

// reads are the steps with which a leader's visit of a partition begins: a Read by the real log, or a skip (L11).
func (m *model) reads(s *state, p, b int8, visit visitor) {
	part := &s.parts[p]
	r := &part.replicas[b]
	v := m.logs.view(r.log)
	if r.cursor >= v.end {
		return
	}
	skip := func() {
		t := *s
		x := &t.brokers[b]
		x.open = m.opens.do(x.open, openOp{piece{part: p}}, 0).open
		t.parts[p].replicas[b].cursor = v.end
		if r.cursor >= v.start {
			t.skips++
		}
		visit(step{kind: doSkip, p: p, b: b}, &t, "")
	}
	if r.cursor < v.start {
		skip()
		return
	}
	if int(s.skips) < m.cfg.Skips {
		skip()
	}
	buf := make([]byte, 4<<10)
	n, err := m.logs.open(r.log).Read(context.Background(), int64(r.cursor), buf)
	if err != nil {
		if errors.Is(err, leader.ErrInsideBatch) || errors.Is(err, leader.ErrBelowLogStart) {
			skip()
		}
		return
	}
	read := func(raw []byte, x int8) {
		t := *s
		under := reading{under: true, lead: piece{p, r.knows, part.starts[r.knows], r.cursor, m.logs.bytes.enter(raw)}}
		under.nothing = len(raw) == 0
		t.brokers[b].read = under
		if m.cfg.Joined { // Resign waits for the Read (F7)
			m.takes(&t, b, x, visit)
			return
		}
		visit(step{kind: doRead, p: p, b: b, x: x}, &t, "")
	}
	read(buf[:n], readAll)
	if scan := batch.NewScanner(buf[:n]); scan.Next() && len(scan.Bytes()) < n {
		read(scan.Bytes(), readFirst)
	}
}

// takes is the end of a visit: what was read goes into the open segment, unless a Resign or a Lead has overtaken it (L4).
func (m *model) takes(s *state, b, how int8, visit visitor) {
	t := *s
	x := &t.brokers[b]
	read := x.read
	x.read = reading{}
	p := read.lead.part
	r := &t.parts[p].replicas[b]
	n := len(m.logs.bytes.raw(read.lead.bytes))
	ended := read.ended && !m.cfg.Break.EpochAtSealing
	switch decide.AfterRead(ended, n, nil) {
	case decide.Rest:
		r.cursor = m.logs.view(r.log).end // until the next Notify, which finds nothing there either
	case decide.Add:
		if m.cfg.Break.EpochAtSealing && r.leads && read.ended {
			read.lead.epoch, read.lead.start = r.knows, s.parts[p].starts[r.knows]
			if m.cfg.Break.AnyEpochInSlice {
				raw := bytes.Clone(m.logs.bytes.raw(read.lead.bytes))
				restamp(raw, r.knows)
				read.lead.bytes = m.logs.bytes.enter(raw)
			}
		}
		added := m.opens.do(x.open, openOp{read.lead}, m.logs.view(r.log).end)
		x.open = added.open
		if r.leads && r.knows == read.lead.epoch {
			switch added.added {
			case decide.NewerEpoch, decide.OlderEpoch, decide.TooFar, decide.NoBatches:
				r.cursor = m.logs.view(r.log).end
			default:
				r.cursor = max(r.cursor, added.next)
			}
		}
	}
	visit(step{kind: doTake, p: p, b: b, x: how}, &t, "")
}
