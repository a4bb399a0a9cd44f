package memlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// subscription is a reader of a topic. Only Close may be called beside the other methods.
type subscription struct {
	log       *Log
	number    int
	sequencer metadata.Sequencer
	cursors   map[int32]*cursor
	event     metadata.Event // what Next has yielded; it is written over by the next call
	waiting   bool           // event has been decoded, and a gap was yielded before it

	once   sync.Once
	closed chan struct{}
}

// cursor is the subscription's place in one broker's stream.
type cursor struct {
	next    int // number of the record
	number  int // of the delivery
	decided bool
	fault   DeliveryFault
}

func newSubscription(l *Log, number int, from metadata.Position) *subscription {
	s := &subscription{log: l, number: number, cursors: make(map[int32]*cursor), closed: make(chan struct{})}
	l.topic.mu.Lock()
	defer l.topic.mu.Unlock()
	for _, stream := range l.topic.streams {
		next := stream.end()
		if !from.Time.IsZero() {
			next = stream.first
			for next < stream.end() && stream.records[next-stream.first].stamp.Before(from.Time) {
				next++
			}
		}
		s.cursors[stream.brokerID] = &cursor{next: next}
	}
	return s
}

// Next returns the next event or gap, see [metadata.Subscription].
func (s *subscription) Next(ctx context.Context) (metadata.Item, error) {
	if !s.waiting {
		scribble(&s.event)
	}
	for {
		if err := s.ended(ctx); err != nil {
			return metadata.Item{}, err
		}
		if s.waiting {
			s.waiting = false
			return s.yield(), nil
		}
		record, fault, ok, changed, pause := s.take()
		if ok {
			if item, ok := s.accept(record, fault); ok {
				return item, nil
			}
			continue
		}
		var due <-chan time.Time
		var timer *time.Timer
		if pause > 0 {
			timer = time.NewTimer(pause)
			due = timer.C
		}
		select {
		case <-changed:
		case <-due:
		case <-ctx.Done():
		case <-s.closed:
		case <-s.log.closed:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// ended tells in a fixed order why Next must not go on (D2).
func (s *subscription) ended(ctx context.Context) error {
	select {
	case <-s.closed:
		return metadata.ErrClosed
	default:
		return s.log.ended(ctx)
	}
}

// take returns the next record that is due: of the heads of all brokers the one that was due first, then the one that
// was stored first. If there is none it returns what tells of a change, and how long until the next is due, 0 if that
// is not known. A record of which nothing is left, dropped by age, is one without data.
func (s *subscription) take() (next record, fault DeliveryFault, ok bool, changed <-chan struct{}, pause time.Duration) {
	ask := s.log.deliverFault()
	t := s.log.topic
	t.mu.Lock()
	changed = t.changed
	t.mu.Unlock() // the script is asked without the lock
	for _, d := range s.undecided() {
		d.cursor.fault = DeliveryFault{}
		if ask != nil {
			d.cursor.fault = ask(d.delivery)
		}
		d.cursor.decided = !d.cursor.fault.Hold
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var best *cursor
	var bestDue time.Time
	for _, stream := range t.streams {
		c := s.cursors[stream.brokerID]
		if c == nil {
			continue
		}
		if c.next < stream.first {
			c.next, c.decided = stream.first, false
			return record{id: walstorage.SegmentID{BrokerID: stream.brokerID}}, DeliveryFault{}, true, nil, 0
		}
		if !c.decided || c.next == stream.end() {
			continue
		}
		head := stream.records[c.next-stream.first]
		due := head.at.Add(c.fault.Delay)
		if best == nil || due.Before(bestDue) || due.Equal(bestDue) && head.place < next.place {
			best, bestDue, next = c, due, head
		}
	}
	if best == nil {
		return record{}, DeliveryFault{}, false, changed, 0
	}
	if wait := bestDue.Sub(now); wait > 0 {
		return record{}, DeliveryFault{}, false, changed, wait
	}
	fault = best.fault
	best.next++
	best.number++
	best.decided = false
	return next, fault, true, nil, 0
}

// undecidedDelivery is a head that the script has not let pass yet.
type undecidedDelivery struct {
	cursor   *cursor
	delivery Delivery
}

func (s *subscription) undecided() (list []undecidedDelivery) {
	t := s.log.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, stream := range t.streams {
		c := s.cursors[stream.brokerID]
		if c == nil { // a broker that is new since Subscribe
			c = &cursor{}
			s.cursors[stream.brokerID] = c
		}
		if c.decided || c.next < stream.first || c.next == stream.end() {
			continue
		}
		head := &stream.records[c.next-stream.first]
		list = append(list, undecidedDelivery{c, Delivery{
			Subscription: s.number, Number: c.number, Sequence: head.sequence, Segment: head.id,
		}})
	}
	return list
}

// accept turns a record into an item, or into none.
func (s *subscription) accept(r record, fault DeliveryFault) (metadata.Item, bool) {
	id := r.id
	switch {
	case r.data == nil:
		return s.gap(s.sequencer.Unreadable(id.BrokerID, -1, -1, metadata.GapMissing)), true
	case fault.Lose:
		return metadata.Item{}, false
	case fault.Corrupt:
		// The event has no checksum of its own: what a carrier's checksum would say is said here.
		return s.gap(s.sequencer.Unreadable(id.BrokerID, id.BrokerEpoch, -1, metadata.GapCorrupt)), true
	}
	data := r.data
	if fault.UnknownVersion {
		data = append([]byte(nil), data...)
		data[1] = 0x7f
	}
	if err := s.event.UnmarshalBinary(data); err != nil {
		sequence, reason := int64(-1), metadata.GapCorrupt
		if unknown := (*metadata.UnknownVersionError)(nil); errors.As(err, &unknown) {
			sequence, reason = unknown.Sequence, metadata.GapUnknownVersion
		}
		return s.gap(s.sequencer.Unreadable(id.BrokerID, id.BrokerEpoch, sequence, reason)), true
	}
	gap, deliver := s.sequencer.Accept(&s.event)
	for range fault.Repeat {
		if _, again := s.sequencer.Accept(&s.event); !again {
			s.duplicate()
		}
	}
	if !deliver {
		s.duplicate()
	}
	switch {
	case gap != nil:
		s.waiting = deliver
		return s.gap(*gap), true
	case deliver:
		return s.yield(), true
	}
	return metadata.Item{}, false
}

func (s *subscription) yield() metadata.Item {
	if hook := s.log.options.Hooks.Delivered; hook != nil {
		hook(&s.event)
	}
	return metadata.Item{Event: &s.event}
}

func (s *subscription) gap(gap metadata.Gap) metadata.Item {
	if hook := s.log.options.Hooks.Gap; hook != nil {
		hook(gap)
	}
	return metadata.Item{Gap: &gap}
}

func (s *subscription) duplicate() {
	if hook := s.log.options.Hooks.Duplicate; hook != nil {
		hook(&s.event)
	}
}

// scribble makes an event useless that the caller has kept against the rule, so that a test which does so fails.
func scribble(e *metadata.Event) {
	e.Sequence, e.ObjectSize = -1, -1
	e.Segment.ID.UUID = uuid.UUID{}
	for i := range e.Segment.Topics {
		topic := &e.Segment.Topics[i]
		topic.ID = uuid.UUID{}
		clear(topic.Slices)
	}
}

// Close ends the subscription.
func (s *subscription) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
