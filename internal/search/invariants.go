package search

import "fmt"

// problem returns what is wrong with a replica after a step, or what the step has found already.
//
//   - The log is the history of the epoch of its last record, as far as it goes: log matching. No record but those that
//     leaders wrote is in it, byte for byte.
//   - Nothing is missing between its start and its end but what compaction has removed.
//   - A follower whose gate is open has a prefix of its leader's log.
//
// That no acknowledged record is lost is found where leaders begin, and where the high watermark moves.
func (m *model) problem(t *state, p, b int8, found string) string {
	if found != "" {
		return found
	}
	part := &t.parts[p]
	r := &part.replicas[b]
	v := m.logs.view(r.log)
	if v.foreign {
		return "a batch is in the log that no leader wrote so"
	}
	if r.ghost.n != v.end {
		return fmt.Sprintf("the log ends at %d, the records that it was given end at %d", v.end, r.ghost.n)
	}
	next := 0
	for o := v.start; o < v.end; o++ {
		for next < len(v.batches) && v.batches[next].last < o {
			next++
		}
		if next < len(v.batches) && v.batches[next].base <= o {
			continue
		}
		base := o
		for base > 0 && r.ghost.at[base] < 0 {
			base--
		}
		if e := max(r.ghost.at[o], -r.ghost.at[o]); e == 0 || part.compacted[e]&(1<<base) == 0 {
			return fmt.Sprintf("a hole: offset %d is missing and was not compacted", o)
		}
	}
	if e := r.ghost.last(); e > 0 {
		if o, differ := parted(&r.ghost, &part.lines[e], v.start); differ {
			return fmt.Sprintf("the log ends in epoch %d and parts from the leader's log of that epoch at offset %d", e, o)
		}
	}
	if !r.leads && r.knows > 0 && r.judge.Open() && part.starts[r.knows] >= 0 {
		if o, differ := parted(&r.ghost, &part.lines[r.knows], v.start); differ {
			return fmt.Sprintf("the gate is open and the log parts from the leader's of epoch %d at offset %d", r.knows, o)
		}
	}
	return ""
}

// parted tells whether a line is no prefix of another from an offset on, and where.
func parted(l, of *line, from int8) (int8, bool) {
	for o := from; o < l.n; o++ {
		if o >= of.n || l.at[o] != of.at[o] {
			return o, true
		}
	}
	return 0, false
}

// fell returns what is wrong if the end of a log has fallen in a step in which nobody has asked for it.
func (m *model) fell(step step, before, after *state) string {
	switch step.kind {
	case doCrash, doRewind:
		return ""
	case doAsk:
		if step.x == answeredWrong || step.x == answeredTier || step.x == answeredEmpty {
			return ""
		}
	}
	for p := range m.cfg.Partitions {
		for b := range m.cfg.Brokers {
			was, is := &before.parts[p].replicas[b], &after.parts[p].replicas[b]
			if was.log != is.log && m.logs.view(is.log).end < m.logs.view(was.log).end {
				return "the log's end has fallen, and nobody has asked for it"
			}
		}
	}
	return ""
}
