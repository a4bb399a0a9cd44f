package search

import (
	"fmt"
	"strings"
)

// tell says in a sentence what a step was.
func (m *model) tell(step step, before, after *state) string {
	name := func(b int8) string { return string(rune('A' + b)) }
	b := name(step.b)
	was, is := &before.parts[step.p].replicas[step.b], &after.parts[step.p].replicas[step.b]
	epoch := after.parts[step.p].epoch
	text := ""
	switch step.kind {
	case doWrite:
		text = fmt.Sprintf("%s, leader of e%d, appends %s at %d", b, is.knows, count(step.x, "record"), was.ghost.n)
	case doElect:
		text = fmt.Sprintf("%s is elected for e%d", b, epoch)
		if after.parts[step.p].unclean == epoch {
			text += ", uncleanly"
		}
	case doLearn:
		if is.leads {
			text = fmt.Sprintf("%s learns that it leads e%d, from offset %d on", b, is.knows, is.ghost.n)
		} else {
			text = fmt.Sprintf("%s learns that it follows in e%d", b, is.knows)
		}
	case doAsk:
		text = fmt.Sprintf("%s fetches from the leader of e%d: ", b, is.knows)
		switch step.x {
		case answeredWrong:
			if is.ghost.n < was.ghost.n {
				text += fmt.Sprintf("it diverged, and truncates to %d", is.ghost.n)
			} else {
				text += "no bytes"
			}
		case answeredTier:
			text += fmt.Sprintf("below the log start, and begins anew at %d with the tier's epochs", is.ghost.n)
		case answeredEmpty:
			text += fmt.Sprintf("below the log start, and begins anew at %d", is.ghost.n)
		default:
			text += fmt.Sprintf("up to %d", is.ghost.n)
		}
		if !is.asking {
			text += "; the call returns nil"
		}
	case doFail:
		text = fmt.Sprintf("%s: the call of the fetch fails", b)
	case doDecide:
		text = fmt.Sprintf("%s is told of %s", b, m.tellSegment(step.segment))
		switch {
		case is.pending.epoch == 0:
			text += " and falls back"
		case step.x == int8(altered):
			text += ", gets altered bytes, and decides to append at " + fmt.Sprint(is.pending.expected)
		default:
			text += ", and decides to append at " + fmt.Sprint(is.pending.expected)
		}
	case doAppend:
		if is.log == was.log {
			text = fmt.Sprintf("%s: the append is refused", b)
		} else {
			text = fmt.Sprintf("%s appends from the store, %d to %d", b, was.ghost.n, is.ghost.n)
		}
	case doReport:
		text = fmt.Sprintf("%s reports %d", b, is.ghost.n)
		if is.diverged && !was.diverged {
			text += ", which diverges"
		}
		if step.x > 0 {
			text += ", and learns the leader's log start"
		}
	case doShrink:
		text = fmt.Sprintf("%s takes %s out of the ISR", b, name(step.x))
	case doCrash:
		text = fmt.Sprintf("%s crashes and restarts with offsets below %d", b, is.ghost.n)
	case doRewind:
		text = fmt.Sprintf("%s: the broker truncates to %d without Stop", b, is.ghost.n)
	case doCompact:
		text = fmt.Sprintf("%s compacts offset %d away", b, step.x)
	case doStart:
		text = fmt.Sprintf("%s moves its log start to %d", b, step.x)
	case doRead:
		text = fmt.Sprintf("%s reads %s", b, m.tellPiece(&after.brokers[step.b].read.lead))
	case doTake:
		text = fmt.Sprintf("%s has read, segment open: %s", b, m.tellOpen(after.brokers[step.b].open))
	case doSeal:
		text = fmt.Sprintf("%s publishes %s", b, m.tellSegment(step.segment))
	case doSkip:
		text = fmt.Sprintf("%s skips to %d", b, is.cursor)
	case doApply:
		text = fmt.Sprintf("%s is told of %s", b, m.tellSegment(step.segment))
	case doDelete:
		text = fmt.Sprintf("retention deletes %s", m.tellSegment(step.segment))
	}
	for p := range m.cfg.Partitions {
		text += " |"
		if m.cfg.Partitions > 1 {
			text += fmt.Sprintf(" %d:", p)
		}
		for i := range m.cfg.Brokers {
			text += fmt.Sprintf(" %s%s", name(int8(i)), after.parts[p].replicas[i].ghost.String())
		}
		text += fmt.Sprintf(" acked %d", after.parts[p].committed.n)
	}
	return text
}

func count(n int8, what string) string {
	if n == 1 {
		return "a " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (m *model) tellSegment(id segmentID) string {
	if id == 0 {
		return "nothing"
	}
	var pieces []string
	for _, p := range m.segments.get(id).content {
		if p.epoch > 0 {
			pieces = append(pieces, m.tellPiece(&p))
		}
	}
	return strings.Join(pieces, " and ")
}

func (m *model) tellPiece(p *piece) string {
	var batches []string
	for _, b := range placesOf(m.logs.bytes.raw(p.bytes)) {
		batches = append(batches, fmt.Sprintf("%d-%de%d", b.base, b.last, b.epoch))
	}
	part := ""
	if m.cfg.Partitions > 1 {
		part = fmt.Sprintf("partition %d ", p.part)
	}
	return fmt.Sprintf("%sslice e%d from %d (%s)", part, p.epoch, p.base, strings.Join(batches, " "))
}

func (m *model) tellOpen(id openID) string {
	var all []string
	for _, op := range m.opens.ops[id] {
		if op.piece.epoch == 0 {
			all = append(all, fmt.Sprintf("partition %d closed", op.piece.part))
		} else {
			all = append(all, m.tellPiece(&op.piece))
		}
	}
	return strings.Join(all, ", ")
}
