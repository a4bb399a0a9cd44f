package search

import (
	"errors"
	"hash/crc32"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/segment"
)

// checkedFetch is what a leader checks: its log, and the end and last epoch of a follower's.
type checkedFetch struct {
	log       logID
	end, last int8
}

type fetchCheck struct {
	diverging  bool
	epoch, end int8
	outOfRange bool
}

// check makes the leader's check of a fetch or a report, by the real log (B3).
func (m *model) check(leader logID, f *view) fetchCheck {
	key := checkedFetch{leader, f.end, f.lastEpoch}
	if c, ok := m.checked[key]; ok {
		return c
	}
	diverging, err := m.logs.open(leader).CheckFetch(int64(f.end), int32(f.lastEpoch))
	c := fetchCheck{outOfRange: err != nil}
	if diverging != nil {
		c.diverging, c.epoch, c.end = true, int8(diverging.Epoch), int8(diverging.End)
	}
	m.checked[key] = c
	return c
}

// What a leader's answer comes to.
const (
	answeredAll   = iota // all that the leader has was appended, and the call returns nil
	answeredFirst        // one batch of it, and the call returns nil
	answeredMore         // one batch of it, and the call goes on
	answeredTier         // the log begins anew, with epochs from the tier
	answeredEmpty        // the log begins anew, and nothing is known of what lies below
	answeredWrong        // the answer diverged or was out of range
)

// follows are the steps of a follower.
func (m *model) follows(s *state, p, b int8, visit visitor) {
	part := &s.parts[p]
	r := &part.replicas[b]
	if l := m.leaderOf(part, r.knows); l >= 0 {
		m.asks(s, p, b, l, visit)
		if !m.cfg.Quiet {
			m.reports(s, p, b, l, visit)
		}
	}
	if m.cfg.Joined && r.pending.epoch != 0 {
		return
	}
	m.fails(s, p, b, visit)
	if r.asking {
		return
	}
	if r.pending.epoch == 0 && (r.judge.Admits(r.diverged) || m.cfg.Break.NoGate) {
		m.decides(s, p, b, visit)
	}
}

// fails is a FetchFromLeader call that fails, after the answers that it has had, or without any.
func (m *model) fails(s *state, p, b int8, visit visitor) {
	t := *s
	r := &t.parts[p].replicas[b]
	end := m.logs.view(r.log).end
	if !r.asking {
		m.begins(&t, p, b, end)
	}
	r.judge.Answered(int64(r.before), int64(end), errRefused)
	r.asking, r.before = false, 0
	visit(step{kind: doFail, p: p, b: b}, &t, m.problem(&t, p, b, ""))
}

// begins is what comes before a FetchFromLeader call.
func (m *model) begins(t *state, p, b, end int8) {
	r := &t.parts[p].replicas[b]
	r.judge.Asks(r.diverged)
	r.asking, r.diverged, r.before = true, false, end
	if m.cfg.StepByStep { // the call may put the log's end back
		x := &t.brokers[b]
		x.store = m.stores.do(x.store, storeOp{kind: storeNext, part: p, epoch: 0}).store
	}
}

// asks are the steps of FetchFromLeader, the ordinary fetch: one answer each.
func (m *model) asks(s *state, p, b, l int8, visit visitor) {
	if m.cfg.Joined && s.parts[p].replicas[b].pending.epoch != 0 {
		return
	}
	asked := *s
	part := &asked.parts[p]
	r := &part.replicas[b]
	own, leader := *m.logs.view(r.log), m.logs.view(part.replicas[l].log)
	if !r.asking {
		m.begins(&asked, p, b, own.end)
	}
	answered := func(x int8, change func(t *state, r *replica) bool) {
		t := asked
		f := &t.parts[p].replicas[b]
		done := change(&t, f)
		if m.logs.view(f.log).end < own.end {
			f.told = 0
		}
		if done {
			f.judge.Answered(int64(f.before), int64(m.logs.view(f.log).end), nil)
			f.asking, f.before = false, 0
		}
		visit(step{kind: doAsk, p: p, b: b, x: x}, &t, m.problem(&t, p, b, ""))
	}
	if m.cfg.Break.AsksNothing && own.end >= leader.end {
		answered(answeredWrong, func(*state, *replica) bool { return true })
		return
	}
	check := m.check(part.replicas[l].log, &own)
	switch {
	case check.diverging:
		answered(answeredWrong, func(_ *state, f *replica) bool {
			f.log = m.logs.do(f.log, logOp{kind: opTruncateDiverging, a: check.epoch, b: check.end}).log
			f.ghost.cut(m.logs.view(f.log).end)
			return m.cfg.Break.EndsDiverged
		})
	case check.outOfRange && own.end > leader.end:
		answered(answeredWrong, func(_ *state, f *replica) bool {
			f.log = m.logs.do(f.log, logOp{kind: opTruncateTo, a: leader.end}).log
			f.ghost.cut(m.logs.view(f.log).end)
			return false
		})
	case check.outOfRange && own.end < leader.start:
		for _, x := range []int8{answeredTier, answeredEmpty} {
			answered(x, func(t *state, f *replica) bool {
				line := t.parts[p].lines[f.knows]
				op := logOp{kind: opRebuild, a: leader.start}
				if x == answeredTier {
					op.bytes = m.bytesOf(&line, 0, leader.start, 0)
				}
				f.log = m.logs.do(f.log, op).log
				line.cut(leader.start)
				f.ghost = line
				return false
			})
		}
	case check.outOfRange:
		answered(answeredWrong, func(*state, *replica) bool { return false })
	default:
		all, first := leader.from(own.end)
		take := func(raw []byte, done bool) func(t *state, f *replica) bool {
			return func(t *state, f *replica) bool {
				if len(raw) > 0 {
					f.log = m.logs.do(f.log, logOp{kind: opAppendRaw, bytes: m.logs.bytes.enter(raw)}).log
					m.grow(t, p, b, f.knows)
				}
				if start := min(leader.start, m.logs.view(f.log).end); start > m.logs.view(f.log).start {
					f.log = m.logs.do(f.log, logOp{kind: opDelete, a: start}).log
				}
				return done
			}
		}
		answered(answeredAll, take(all, true))
		if len(first) > 0 {
			answered(answeredMore, take(first, false))
		}
		if len(first) < len(all) {
			answered(answeredFirst, take(first, true))
		}
	}
}

// grow brings a replica's history up to its log, which has grown by what is of the epoch followed: offsets between are those
// of a compaction gap there.
func (m *model) grow(t *state, p, b, epoch int8) {
	part := &t.parts[p]
	r := &part.replicas[b]
	line := &part.lines[epoch]
	for _, batch := range m.logs.view(r.log).batches {
		if batch.base < r.ghost.n {
			continue
		}
		for ; r.ghost.n < batch.base; r.ghost.n++ {
			if r.ghost.n < line.n { // otherwise it is a hole, which problem reports
				r.ghost.at[r.ghost.n] = line.at[r.ghost.n]
			}
		}
		r.ghost.add(batch)
	}
}

// reports is a report that reaches the leader (B1, B3).
func (m *model) reports(s *state, p, b, l int8, visit visitor) {
	own := m.logs.view(s.parts[p].replicas[b].log)
	t := *s
	part := &t.parts[p]
	leader := &part.replicas[l]
	problem := ""
	check := m.check(leader.log, own)
	if m.cfg.Break.NoReportCheck {
		check = fetchCheck{}
	}
	switch {
	case check.diverging:
		part.replicas[b].diverged = !m.cfg.Break.DeafToDiverged
	case check.outOfRange:
	default:
		leader.ends[b] = own.end
		if part.leader == l && part.epoch == leader.knows && own.end >= max(leader.high, part.starts[leader.knows]) {
			part.isr |= 1 << b
			leader.view = part.isr
		}
		problem = m.raise(&t, p, l)
	}
	visit(step{kind: doReport, p: p, b: b}, &t, problem)
	if start := min(m.logs.view(leader.log).start, own.end); !check.diverging && !check.outOfRange && start > own.start {
		r := &part.replicas[b] // the answer arrives, and with it the leader's log start
		r.log = m.logs.do(r.log, logOp{kind: opDelete, a: start}).log
		visit(step{kind: doReport, p: p, b: b, x: 1}, &t, m.problem(&t, p, b, problem))
	}
}

// runKey is a run of a line as a segment has it.
type runKey struct {
	part, epoch, start, from, to int8
	holes                        uint8
	at                           [mostOffsets]int8
	forged                       bool
}

// decides are the decisions on entries. In the worst case any run that the leader wrote in any epoch may be what the Store
// names now; step by step it is what the Store names.
func (m *model) decides(s *state, p, b int8, visit visitor) {
	if m.cfg.StepByStep {
		m.judge(s, p, b, s.brokers[b].store, 0, visit)
		return
	}
	part := &s.parts[p]
	for e := int8(1); int(e) <= m.cfg.Epochs; e++ {
		if part.starts[e] < 0 || e != part.replicas[b].knows && !m.cfg.Break.AnyEpoch {
			continue // F1 is the Store's, and Next's; a search step by step has other epochs in the Store
		}
		m.runs(part, p, e, e, func(id segmentID) { m.told(s, p, b, id, visit) })
		if !m.cfg.Break.EpochAtSealing {
			continue
		}
		for older := int8(1); older < e; older++ { // read in an older epoch, sealed in this one by the same leader (C4)
			if part.starts[older] >= 0 && part.led[older] == part.led[e] {
				m.runs(part, p, older, e, func(id segmentID) { m.told(s, p, b, id, visit) })
			}
		}
	}
}

// runs visits the segments that the leader of an epoch can have sealed as of the epoch stamped.
func (m *model) runs(part *part, p, e, stamped int8, visit func(segmentID)) {
	line := &part.lines[e]
	for from := max(part.starts[e], part.starts[stamped]); from < line.n; from++ {
		if !line.boundary(from) {
			continue
		}
		for to := from + 1; to <= line.n; to++ {
			if !line.boundary(to) {
				continue
			}
			visit(m.run(line, p, e, stamped, part.starts[stamped], from, to, 0))
			if holes := part.compacted[e] & (1<<to - 1<<from); holes != 0 {
				visit(m.run(line, p, e, stamped, part.starts[stamped], from, to, holes))
			}
		}
	}
}

// run returns the segment with the batches [from,to) of a line but the holes, 0 if there are none.
func (m *model) run(line *line, p, e, stamped, start, from, to int8, holes uint8) segmentID {
	key := runKey{part: p, epoch: stamped, start: start, from: from, to: to, holes: holes, forged: e != stamped}
	copy(key.at[from:to], line.at[from:to])
	if id, ok := m.runsOf[key]; ok {
		return id
	}
	id := segmentID(0)
	if run := m.bytesOf(line, from, to, holes); run != 0 {
		var c content
		c[p] = piece{p, stamped, start, from, run}
		id = m.segments.make(c, m.logs.bytes.raw, e != stamped && m.cfg.Break.AnyEpochInSlice)
	}
	m.runsOf[key] = id
	return id
}

// bytesOf returns the batches [from,to) of a line but those whose base is among the holes.
func (m *model) bytesOf(line *line, from, to int8, holes uint8) bytesID {
	var raw []byte
	for o := from; o < to; {
		batch := line.batch(o)
		if holes&(1<<o) == 0 {
			raw = append(raw, record(batch.epoch, batch.base, batch.last-batch.base+1)...)
		}
		o = batch.last + 1
	}
	return m.logs.bytes.enter(raw)
}

// told is a decision of a follower whose Store has just been told of a segment.
func (m *model) told(s *state, p, b int8, id segmentID, visit visitor) {
	if id == 0 {
		return
	}
	epoch := s.parts[p].replicas[b].knows
	if m.cfg.Break.AnyEpoch {
		epoch = m.segments.get(id).content[p].epoch
	}
	store := m.stores.do(0, storeOp{kind: storeFollow, part: p, epoch: epoch}).store
	store = m.stores.do(store, storeOp{kind: storeApply, segment: id}).store
	m.judge(s, p, b, store, id, visit)
}

// judgedEntry is all that a decision hangs on.
type judgedEntry struct {
	store     storeID
	part      int8
	end, last int8
	judge     decide.Follower
	damage    damage
}

// judgement is what a decision has come to.
type judgement struct {
	store   storeID
	judge   decide.Follower
	segment segmentID // of the entry, 0 without one
	bytes   bytesID   // to append, 0 if nothing is
}

// judge is a decision of a follower that has a Store.
func (m *model) judge(s *state, p, b int8, store storeID, told segmentID, visit visitor) {
	r := &s.parts[p].replicas[b]
	v := m.logs.view(r.log)
	for _, damage := range []damage{whole, altered} {
		j := m.judged1(judgedEntry{store, p, v.end, v.lastEpoch, r.judge, damage})
		if m.cfg.StepByStep && j.bytes != 0 && m.isGone(s, j.segment) {
			j.bytes = 0 // the store does not have it any more: fall back (F5)
			m.reached["decision on a segment that retention has deleted"]++
		}
		t := *s
		f := &t.parts[p].replicas[b]
		f.judge = j.judge
		if j.bytes != 0 {
			f.pending = pending{epoch: r.knows, expected: v.end, bytes: j.bytes}
			if p > 0 && m.segments.get(j.segment).content[0].epoch > 0 {
				m.reached["append decided of the second slice of a segment"]++
			}
		}
		if m.cfg.StepByStep {
			t.brokers[b].store = j.store
		}
		if t != *s {
			visit(step{kind: doDecide, p: p, b: b, x: int8(damage), segment: max(told, j.segment)}, &t, m.silent(&t, b))
		}
	}
}

// judged1 has the real Store, the real decision and the real checks say what a follower does.
func (m *model) judged1(key judgedEntry) judgement {
	if j, ok := m.judged[key]; ok {
		return j
	}
	next := m.stores.do(key.store, storeOp{kind: storeNext, part: key.part, epoch: key.end})
	j := judgement{store: next.store, judge: key.judge}
	judge, last := &j.judge, int32(key.last)
	if m.cfg.Break.NoLineage {
		last = -1
	}
	if m.cfg.Break.AnyEpoch && next.verdict.Outcome == metadata.Found {
		judge = &decide.Follower{Epoch: next.entry.Slice.LeaderEpoch}
		judge.Answered(0, 0, nil)
	}
	switch judge.Next(int64(key.end), last, &next.entry, next.verdict) {
	case decide.Use:
		j.segment = m.segments.of[next.entry.ID]
		raw, err := m.cut(&next.entry, j.segment, key)
		switch {
		case err == nil:
			m.reached["decision to append"]++
			j.bytes = m.logs.bytes.enter(raw)
		case errors.Is(err, decide.ErrMidBatch):
			m.reached["decision: inside a batch or a compaction gap"]++
		default:
			m.reached["decision: corrupt"]++
		}
	case decide.Gap:
		m.reached["decision: gap"]++
	case decide.Lineage:
		m.reached["decision: lineage"]++
	}
	m.judged[key] = j
	return j
}

var errNothing = errors.New("nothing of the slice goes on at the log's end")

// cut has the real checks cut a slice, as far as they have not been taken away.
func (m *model) cut(entry *metadata.Entry, id segmentID, key judgedEntry) ([]byte, error) {
	if !decide.Plausible(entry) {
		return nil, errNothing
	}
	sealed := m.segments.get(id)
	if key.damage == altered {
		sealed = sealed.damaged
	}
	md := sealed.reader.Metadata()
	if err := decide.CheckObject(md, cluster, entry.ID); err != nil {
		return nil, err
	}
	if m.cfg.Break.NoChecksum {
		wrong := *md
		entry, md = withChecksum(entry, &wrong, sealed.object)
	}
	cut, err := decide.CutSlice(md, sealed.object, partition(key.part), entry, int64(key.end))
	lax := m.cfg.Break.LaxBoundary && errors.Is(err, decide.ErrMidBatch)
	if (lax || m.cfg.Break.AnyEpochInSlice) && key.damage == whole {
		return looseCut(m.logs.bytes.raw(sealed.content[key.part].bytes), int64(sealed.content[key.part].base), int64(key.end), lax)
	}
	return cut.Batches, err
}

// withChecksum writes the checksum of the slice's bytes as they are over those of the entry and the index.
func withChecksum(entry *metadata.Entry, md *segment.Metadata, object []byte) (*metadata.Entry, *segment.Metadata) {
	e, index := *entry, md.Clone()
	e.Slice.CRC32C = crc32.Checksum(object[e.Position:e.Position+e.Slice.Length], crc32.MakeTable(crc32.Castagnoli))
	for i := range index.Topics {
		for j := range index.Topics[i].Slices {
			if slice := &index.Topics[i].Slices[j]; slice.Partition == e.Slice.Partition {
				slice.CRC32C = e.Slice.CRC32C
			}
		}
	}
	return &e, index
}

// looseCut is a cut without the guards: batches of any epoch stay, and, if lax, a compaction gap is no obstacle.
func looseCut(raw []byte, base, end int64, lax bool) ([]byte, error) {
	due := base
	for s := batch.NewScanner(raw); s.Next(); due = s.Header().NextOffset() {
		if due == end || lax && s.Header().BaseOffset >= end {
			return raw[s.Position():], nil
		}
	}
	return nil, errNothing
}

// appends is the append that was decided (C5).
func (m *model) appends(s *state, p, b int8, visit visitor) {
	t := *s
	r := &t.parts[p].replicas[b]
	op := logOp{kind: opAppendAsFollower, a: r.pending.epoch, b: r.pending.expected, bytes: r.pending.bytes}
	if m.cfg.Break.NoExpectedOffset {
		op.b = m.logs.view(r.log).end
	}
	if m.cfg.Break.NoAppendEpoch && !r.leads {
		op.a = r.knows
	}
	r.pending = pending{}
	done := m.logs.do(r.log, op)
	if done.err == "" {
		r.log = done.log
		m.grow(&t, p, b, s.parts[p].replicas[b].pending.epoch)
	}
	visit(step{kind: doAppend, p: p, b: b}, &t, m.problem(&t, p, b, ""))
}
