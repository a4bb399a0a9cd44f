package metadata

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// Bounds of what a Sequencer remembers of one broker.
const (
	// rememberedIDs is how many segment ids are kept to tell duplicates. A publication is repeated at once, and is no
	// longer than what a leader has in flight, so the first copy is never far back.
	rememberedIDs = 256
	// rememberedEpochs is how many broker epochs are counted side by side: the newest, and older ones whose writers
	// were overtaken and may have something left on its way.
	rememberedEpochs = 4
)

// Sequencer tells gaps and duplicates in the events of one subscription (M3). Every [Log] uses it, so that all of them
// answer alike. Feed it what the carrier holds in the carrier's order: [Sequencer.Accept] for an event that could be
// read, [Sequencer.Unreadable] for one that could not.
//
//   - The first event seen of a broker sets the base: a reader that begins late misses nothing that it was promised.
//   - A broker epoch greater than one already seen of that broker begins at 0, else there is a gap from 0.
//   - Within an epoch a jump forward is a gap. The event that shows it is delivered after the gap.
//   - A duplicate is told by its segment id alone. An event whose sequence lies below the next one expected and whose
//     id is new was published late and is delivered; it fills what has been reported as a gap.
//   - An event of an older broker epoch is delivered too, and counted in its own epoch: readers are fenced by the
//     leader epoch and by nothing else (L6).
//
// Memory is bounded: a few epochs and the ids of the last 256 events are kept of each broker. A duplicate from farther
// back is delivered again; the log end offset makes it harmless (M5).
//
// The zero value is ready to use. A Sequencer is not safe for concurrent use.
type Sequencer struct {
	brokers map[int32]*sequencedBroker
}

type sequencedBroker struct {
	epochs []sequencedEpoch // in ascending order of epoch
	ids    []uuid.UUID      // a ring once it is full
	oldest int
	// unreadable counts the events skipped since the last one that could be read. They were reported when they were
	// met, so that the jump which they leave behind is not reported again. They are of unreadableEpoch, -1 if that is
	// not known: what could not be read of one epoch hides nothing that is missing of another.
	unreadable      int64
	unreadableEpoch int64
}

type sequencedEpoch struct {
	epoch int64
	next  int64 // the sequence expected
}

// Accept takes the next event. If gap is not nil, events before this one are missing, which is to be yielded first. If
// deliver is false the event is a duplicate and is not to be yielded.
func (s *Sequencer) Accept(event *Event) (gap *Gap, deliver bool) {
	id := event.Segment.ID
	broker := s.broker(id.BrokerID)
	skipped := int64(0)
	if broker.unreadableEpoch == id.BrokerEpoch || broker.unreadableEpoch < 0 {
		skipped, broker.unreadable = broker.unreadable, 0
	}

	at, known := slices.BinarySearchFunc(broker.epochs, id.BrokerEpoch, func(e sequencedEpoch, epoch int64) int {
		return cmp.Compare(e.epoch, epoch)
	})
	next := event.Sequence // an epoch that is not counted begins with what is seen of it first
	switch {
	case known:
		next = broker.epochs[at].next
	case at > 0:
		next = 0 // greater than one seen: it begins at 0 (M3)
	}
	if event.Sequence > next+skipped {
		gap = &Gap{BrokerID: id.BrokerID, BrokerEpoch: id.BrokerEpoch, From: next, To: event.Sequence, Reason: GapMissing}
	}
	next = max(next, event.Sequence+1)
	if known {
		broker.epochs[at].next = next
	} else {
		broker.count(at, sequencedEpoch{epoch: id.BrokerEpoch, next: next})
	}
	return gap, broker.remember(id.UUID)
}

// Unreadable takes an event that is there and could not be read (M4), and returns the gap to be yielded. brokerEpoch
// and sequence are -1 where the carrier does not tell them.
func (s *Sequencer) Unreadable(brokerID int32, brokerEpoch, sequence int64, reason GapReason) Gap {
	broker := s.broker(brokerID)
	gap := Gap{BrokerID: brokerID, BrokerEpoch: brokerEpoch, From: -1, To: -1, Reason: reason}
	if sequence >= 0 {
		gap.From, gap.To = sequence, sequence+1
	}
	if broker.unreadableEpoch != brokerEpoch {
		broker.unreadable, broker.unreadableEpoch = 0, brokerEpoch
	}
	broker.unreadable++
	return gap
}

func (s *Sequencer) broker(id int32) *sequencedBroker {
	broker := s.brokers[id]
	if broker == nil {
		if s.brokers == nil {
			s.brokers = make(map[int32]*sequencedBroker)
		}
		broker = &sequencedBroker{}
		s.brokers[id] = broker
	}
	return broker
}

// count begins to count an epoch at the place given. The oldest one is forgotten over the bound.
func (b *sequencedBroker) count(at int, epoch sequencedEpoch) {
	b.epochs = slices.Insert(b.epochs, at, epoch)
	if len(b.epochs) > rememberedEpochs {
		b.epochs = slices.Delete(b.epochs, 0, 1)
	}
}

// remember tells whether the id is new, and keeps it.
func (b *sequencedBroker) remember(id uuid.UUID) bool {
	if slices.Contains(b.ids, id) {
		return false
	}
	if len(b.ids) < rememberedIDs {
		b.ids = append(b.ids, id)
		return true
	}
	b.ids[b.oldest] = id
	b.oldest = (b.oldest + 1) % rememberedIDs
	return true
}
