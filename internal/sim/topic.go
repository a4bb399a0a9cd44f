package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
)

// topicWeather is what the metadata topic does to events.
type topicWeather struct {
	cluster *Cluster
	topic   *memlog.Topic

	mu        sync.Mutex
	down      map[int32]bool // brokers whose publications have an unknown outcome and are not stored
	deaf      map[int32]bool // brokers that get no event: they are lost, and show as a gap with the next one
	behind    map[int32]time.Duration
	stored    map[eventPlace]time.Duration // when an event is in the topic
	spoils    map[flow]*spoil
	subscribe time.Duration // how long it takes
	refuses   func(e *metadata.Event) bool
}

// flow is the events of one broker, 0 for any, on their way to another.
type flow struct{ from, to int32 }

// spoil is what becomes of the next event of a flow. Where two processes of a broker read, the one that was replaced and
// sleeps and the new one, both meet that event so: which of them is asked first is up to the scheduler (D2).
type spoil struct {
	how   func(*memlog.DeliveryFault)
	event eventPlace // the one that was met first
	met   map[*process]bool
}

// spoils tells whether the event is the one, for a process that has not met it yet.
func (s *spoil) spoils(p *process, event eventPlace) bool {
	if len(s.met) == 0 {
		s.event = event
	}
	if s.event != event || s.met[p] {
		return false
	}
	s.met[p] = true
	return true
}

// eventPlace names one event of a broker.
type eventPlace struct {
	broker   int32
	epoch    int64
	sequence int64
}

func newTopicWeather(c *Cluster) *topicWeather {
	topic, err := memlog.New(memlog.Config{})
	if err != nil {
		panic(err)
	}
	return &topicWeather{
		cluster: c, topic: topic, down: map[int32]bool{}, deaf: map[int32]bool{}, behind: map[int32]time.Duration{},
		stored: map[eventPlace]time.Duration{}, spoils: map[flow]*spoil{},
		subscribe: c.cfg.PublishLatency,
	}
}

// faultsFor returns the script of the handle of one process.
func (w *topicWeather) faultsFor(p *process) memlog.Faults {
	return memlog.Faults{
		Publish: func(call memlog.PublishCall) memlog.PublishFault { return w.publish(p, call) },
		Subscribe: func(call memlog.SubscribeCall) memlog.SubscribeFault {
			w.mu.Lock()
			defer w.mu.Unlock()
			return memlog.SubscribeFault{Delay: p.subscribing.due(p.subscribing.next(), w.subscribe)}
		},
		Deliver: func(d memlog.Delivery) memlog.DeliveryFault { return w.deliver(p, d) },
	}
}

func (w *topicWeather) publish(p *process, call memlog.PublishCall) memlog.PublishFault {
	bad := w.cluster.faults()
	a, op := p.publishing, uint64(call.Number)
	latency := a.chance.between(op, "latency", w.cluster.cfg.PublishLatency/2, w.cluster.cfg.PublishLatency*3/2)
	fault := memlog.PublishFault{Delay: a.due(op, latency)}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.down[p.id]:
		fault.Err = metadata.ErrUnknownOutcome
	case a.chance.happens(op, "event lost", bad.PublishLost):
		w.cluster.count("publication lost")
		fault.Err = metadata.ErrUnknownOutcome
	case a.chance.happens(op, "answer lost", bad.PublishAnswerLost):
		w.cluster.count("publication's answer lost")
		fault.Err, fault.Stored = metadata.ErrUnknownOutcome, call.Events
	case a.chance.happens(op, "event stored late", bad.PublishLate):
		w.cluster.count("publication late")
		fault.Err, fault.Stored = metadata.ErrUnknownOutcome, call.Events
		fault.Late = a.due(op, fault.Delay+w.lateness(a.chance, op)) - fault.Delay
	case a.chance.happens(op, "event stored twice", bad.PublishTwice):
		w.cluster.count("publication stored twice")
		fault.Repeat = 1
	case a.chance.happens(op, "event refused", bad.PublishRefused):
		w.cluster.count("publication refused")
		fault.Err = metadata.ErrInvalid
	}
	if fault.Err == nil || fault.Stored > 0 {
		at := w.cluster.instants.now() + fault.Delay + fault.Late
		for i := range call.Events {
			place := eventPlace{p.id, call.Segment.BrokerEpoch, call.Sequence + int64(i)}
			if was, known := w.stored[place]; !known || at < was {
				w.stored[place] = at
			}
		}
	}
	return fault
}

// lateness is how much later an event appears that is stored late: seconds, at times hours.
func (w *topicWeather) lateness(c chance, op uint64) time.Duration {
	if c.happens(op, "very late", 0.1) {
		return c.between(op, "lateness", time.Minute, 3*time.Hour)
	}
	return c.between(op, "lateness", 20*time.Millisecond, 3*time.Second)
}

func (w *topicWeather) deliver(p *process, d memlog.Delivery) memlog.DeliveryFault {
	bad := w.cluster.faults()
	a, op := p.delivering[d.Segment.BrokerID], uint64(d.Sequence)
	latency := a.chance.between(op, "latency", w.cluster.cfg.DeliveryLatency/2, w.cluster.cfg.DeliveryLatency*3/2)
	if a.chance.happens(op, "event late", bad.EventLate) {
		w.cluster.count("event late")
		latency += a.chance.between(op, "lateness", 10*time.Millisecond, 2*time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	latency += w.behind[p.id]
	// The delay counts from when the event was stored; it ends at an instant of this subscriber's.
	now := w.cluster.instants.now()
	place := eventPlace{d.Segment.BrokerID, d.Segment.BrokerEpoch, d.Sequence}
	at, known := w.stored[place]
	if !known {
		at = now
	}
	fault := memlog.DeliveryFault{Delay: now + a.due(op, max(0, at+latency-now)) - at}
	switch {
	case w.deaf[p.id]:
		fault.Lose = true
	case a.chance.happens(op, "event gone", bad.EventGone):
		w.cluster.count("event gone")
		fault.Lose = true
	case a.chance.happens(op, "event twice", bad.EventTwice):
		w.cluster.count("event twice")
		fault.Repeat = 1
	case a.chance.happens(op, "event corrupt", bad.EventCorrupt):
		w.cluster.count("event corrupt")
		fault.Corrupt = true
	case a.chance.happens(op, "event of an unknown version", bad.EventUnknown):
		w.cluster.count("event of an unknown version")
		fault.UnknownVersion = true
	}
	for _, f := range []flow{{d.Segment.BrokerID, p.id}, {0, p.id}} {
		if spoil := w.spoils[f]; spoil != nil && spoil.spoils(p, place) {
			spoil.how(&fault)
			break
		}
	}
	return fault
}

func (w *topicWeather) refused(e *metadata.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuses != nil && w.refuses(e)
}

func (w *topicWeather) set(m map[int32]bool, on bool, brokers []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(brokers) == 0 {
		brokers = w.cluster.brokerIDs()
	}
	for _, b := range brokers {
		m[b] = on
	}
}

// publisher is a metadata log that holds each publication against what must be true of it: the object is stored, whole
// (L2), events come in the order in which their segments were sealed, and a sequence is never reused (L3).
type publisher struct {
	metadata.Log
	process *process
	keys    walstorage.Keys

	mu        sync.Mutex
	events    map[int64]walstorage.SegmentID
	unsettled map[int64]bool // may be in the log, whatever is said of them later
	newest    uint32         // number of the segment published last
	before    uint32         // newest before the call under way
}

func newPublisher(log metadata.Log, p *process) *publisher {
	keys, err := walstorage.NewKeys("", clusterID)
	if err != nil {
		panic(err)
	}
	return &publisher{Log: log, process: p, keys: keys, events: map[int64]walstorage.SegmentID{}, unsettled: map[int64]bool{}}
}

func (l *publisher) Publish(ctx context.Context, events ...*metadata.Event) (int, error) {
	p := l.process
	p.enter(publishing)
	defer p.leave(publishing)
	if asleep := p.sleeping(); asleep != nil {
		select {
		case <-asleep:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	if p.dead() {
		return 0, metadata.ErrClosed
	}
	l.mu.Lock()
	l.before = l.newest
	l.mu.Unlock()
	for i, e := range events {
		if l.process.cluster.topic.refused(e) {
			return l.reject(ctx, events[:i], e)
		}
		if wrong := l.look(e); wrong != "" {
			l.process.cluster.violate("%s publishes event %d: %s", l.process.who, e.Sequence, wrong)
		}
	}
	first, number := events[0].Sequence, int64(sealNumber(events[0].Segment.ID))
	stored, err := l.Log.Publish(ctx, events...)
	if err != nil {
		l.settle(events, stored, errors.Is(err, metadata.ErrInvalid))
	}
	if err == nil {
		l.process.cluster.trace.add(l.process.who, "published %d events from sequence %d, segment %d, on", int64(stored), first, number)
	} else if !l.process.dead() {
		l.process.cluster.trace.add(l.process.who, "published %d of %d events from sequence %d on", int64(stored), int64(len(events)), first)
	}
	return stored, err
}

// settle takes in what a failed Publish says of the events that it has not stored. Where they are certainly not stored,
// their sequences are free again.
func (l *publisher) settle(events []*metadata.Event, stored int, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events[stored:] {
		switch {
		case !certain:
			l.unsettled[e.Sequence] = true
		case !l.unsettled[e.Sequence]:
			delete(l.events, e.Sequence)
		}
	}
	if certain {
		l.newest = l.before
		if stored > 0 {
			l.newest = sealNumber(events[stored-1].Segment.ID)
		}
	}
}

// reject stores the events before the one that can never be stored.
func (l *publisher) reject(ctx context.Context, before []*metadata.Event, e *metadata.Event) (int, error) {
	if len(before) > 0 {
		if stored, err := l.Log.Publish(ctx, before...); err != nil {
			return stored, err
		}
	}
	l.mu.Lock()
	delete(l.events, e.Sequence) // certainly not stored: the sequence is given back
	l.mu.Unlock()
	return len(before), fmt.Errorf("%w: refused", metadata.ErrInvalid)
}

// Subscribe returns a subscription that yields no two items at one instant: a gap and the event that showed it come
// together otherwise, and who has heard of what would be up to the scheduler (D2).
func (l *publisher) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	s, err := l.Log.Subscribe(ctx, from)
	if err != nil {
		return nil, err
	}
	return &paced{Subscription: s, process: l.process, last: -1}, nil
}

type paced struct {
	metadata.Subscription
	process  *process
	last     time.Duration
	newest   time.Duration // when the newest event so far was stored
	newestOf int32
}

func (s *paced) Next(ctx context.Context) (metadata.Item, error) {
	item, err := s.Subscription.Next(ctx)
	if err != nil {
		return item, err
	}
	if now := s.process.cluster.instants.now(); now == s.last {
		if err := s.process.subscribing.take(ctx, s.process.subscribing.next(), 1); err != nil {
			return metadata.Item{}, err
		}
	}
	s.last = s.process.cluster.instants.now()
	if item.Event != nil {
		s.noteOrder(item.Event)
	}
	return item, nil
}

// noteOrder counts the events that have overtaken one of another broker on their way.
func (s *paced) noteOrder(e *metadata.Event) {
	w := s.process.cluster.topic
	id := e.Segment.ID
	w.mu.Lock()
	at, known := w.stored[eventPlace{id.BrokerID, id.BrokerEpoch, e.Sequence}]
	w.mu.Unlock()
	switch {
	case !known:
	case at >= s.newest:
		s.newest, s.newestOf = at, id.BrokerID
	case id.BrokerID != s.newestOf:
		s.process.cluster.count("events of two brokers reordered")
	}
}

// look returns what is wrong with an event, "" if nothing is.
func (l *publisher) look(e *metadata.Event) string {
	id := e.Segment.ID
	object, stored := l.process.cluster.weather.store.Object(l.keys.Key(id))
	w := l.process.cluster.weather
	w.mu.Lock()
	deleted := w.deleted[id] // so it was stored
	w.mu.Unlock()
	if !stored && !deleted {
		return fmt.Sprintf("segment %s is not stored", id)
	}
	if stored && int64(len(object)) != e.ObjectSize && !w.isDamaged(id) {
		return fmt.Sprintf("segment %s has %d bytes, the event says %d", id, len(object), e.ObjectSize)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, again := l.events[e.Sequence]; again {
		if was != id {
			return fmt.Sprintf("the sequence was that of segment %s and is that of segment %s", was, id)
		}
		l.process.cluster.count("event published again")
		return ""
	}
	l.process.cluster.noteEvent(e)
	if number := sealNumber(id); number <= l.newest {
		return fmt.Sprintf("segment number %d comes after number %d", number, l.newest)
	}
	l.events[e.Sequence], l.newest = id, sealNumber(id)
	return ""
}

// sealing is where the random bits of segment ids come from: they count the segments of a process, so that the order of
// sealing can be read off an id.
type sealing struct {
	chance chance
	sealed uint32
}

func (s *sealing) Read(p []byte) (int, error) {
	s.sealed++
	for i := range p {
		p[i] = byte(s.chance.bits(uint64(s.sealed), "id") >> (8 * (i % 8)))
	}
	if len(p) >= 4 {
		binary.BigEndian.PutUint32(p[len(p)-4:], s.sealed)
	}
	return len(p), nil
}

// sealNumber returns the number that sealing has put into an id, from 1.
func sealNumber(id walstorage.SegmentID) uint32 { return binary.BigEndian.Uint32(id.UUID[12:]) }
