package search

import (
	"encoding/binary"

	"github.com/walhop/walhop/internal/decide"
)

// state is the whole cluster at one moment. It is comparable, and small: logs, Stores, open segments and runs of batches
// are named by their numbers.
type state struct {
	parts   [mostPartitions]part
	brokers [mostBrokers]broker
	// events are the segments published, in any order, where leaders are followed step by step; gone says which of them
	// retention has deleted.
	events [mostEvents]segmentID
	gone   uint8
	// What has happened so far, of what is bounded.
	crashes, rewinds, compactions, starts, skips int8
}

const mostEvents = 6

// part is one partition.
type part struct {
	// lines has, for each epoch, what the log of its leader held when it began and all that was written in it, lost or not.
	lines  [mostEpochs + 1]line
	starts [mostEpochs + 1]int8 // where each epoch began, -1 before it has
	led    [mostEpochs + 1]int8 // by whom
	// committed is what was acknowledged to producers with acks=all and must not be lost.
	committed line
	deleted   int8                  // below it a leader has deleted what was acknowledged; a log that still has another record there passes (B3)
	compacted [mostEpochs + 1]uint8 // by epoch, a bit for each offset that compaction has removed somewhere
	written   int8

	// The controller's.
	epoch, leader int8 // leader is -1 while there is none
	isr           uint8
	unclean       int8 // the latest epoch that began by an unclean election, 0 if none

	replicas [mostBrokers]replica
}

// replica is a broker's part in a partition.
type replica struct {
	log   logID
	ghost line // the history that the log stands for, with what was deleted or compacted
	knows int8 // the leader epoch that the broker was told last, 0 if none since it started
	leads bool

	// While it leads.
	view uint8 // the ISR as it knows it
	high int8  // the high watermark
	ends [mostBrokers]int8

	// While it follows.
	judge    decide.Follower
	diverged bool
	asking   bool // a FetchFromLeader call is under way
	before   int8 // the log's end when it began

	pending pending

	// Where leader and follower are followed step by step: the next offset that the leader's uploader reads, and how far
	// the events reach of which the follower's Store has been told since its log was last put back.
	cursor, told int8
}

// pending is an append that has been decided and not yet made: between the two anything may happen.
type pending struct {
	epoch, expected int8
	bytes           bytesID
}

// broker is what the partitions of a broker share.
type broker struct {
	store storeID
	open  openID // the open segment
	read  reading
}

// reading is a Read that has copied its bytes and whose caller has not gone on yet.
type reading struct {
	under   bool
	ended   bool // the leadership has ended since
	lead    piece
	nothing bool
}

// encode appends the state in bytes, different ones for different states.
func (m *model) encode(dst []byte, s *state) []byte {
	i8 := func(v ...int8) {
		for _, b := range v {
			dst = append(dst, byte(b))
		}
	}
	flag := func(v ...bool) {
		var b byte
		for _, f := range v {
			b <<= 1
			if f {
				b |= 1
			}
		}
		dst = append(dst, b)
	}
	u16 := func(v uint16) { dst = binary.BigEndian.AppendUint16(dst, v) }
	history := func(l *line) {
		i8(l.n)
		i8(l.at[:l.n]...)
	}
	for p := range m.cfg.Partitions {
		part := &s.parts[p]
		for e := 1; e <= m.cfg.Epochs; e++ {
			i8(part.starts[e], part.led[e])
			dst = append(dst, part.compacted[e])
			history(&part.lines[e])
		}
		history(&part.committed)
		i8(part.deleted, part.written, part.epoch, part.leader, int8(part.isr), part.unclean)
		for b := range m.cfg.Brokers {
			r := &part.replicas[b]
			u16(uint16(r.log))
			history(&r.ghost)
			i8(r.knows, int8(r.view), r.high, int8(r.judge.Epoch), r.before, r.pending.epoch, r.pending.expected, r.cursor, r.told)
			i8(r.ends[:m.cfg.Brokers]...)
			flag(r.leads, r.judge.Open(), r.diverged, r.asking)
			u16(uint16(r.pending.bytes))
		}
	}
	if m.cfg.StepByStep {
		for b := range m.cfg.Brokers {
			x := &s.brokers[b]
			dst = binary.BigEndian.AppendUint32(dst, uint32(x.store))
			u16(uint16(x.open))
			flag(x.read.under, x.read.ended, x.read.nothing)
			i8(x.read.lead.part, x.read.lead.epoch, x.read.lead.start, x.read.lead.base)
			u16(uint16(x.read.lead.bytes))
		}
		for _, e := range s.events {
			u16(uint16(e))
		}
		dst = append(dst, s.gone)
	}
	i8(s.crashes, s.rewinds, s.compactions, s.starts, s.skips)
	return dst
}
