package memlog

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// Config configures a [Topic]. The zero value is useful.
type Config struct {
	// Retention is how long events are kept, 0 or greater; older ones are dropped as new ones of the same broker come.
	// Default 0: for ever.
	Retention time.Duration
	// Now is the wall clock with which events are stamped, for [metadata.Position] and Retention alone. Default
	// time.Now.
	Now func() time.Time
}

// Validate names the field that is wrong, in an error of kind walstorage.ErrInvalidArgument.
func (c Config) Validate() error {
	if c.Retention < 0 {
		return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("memlog: Config.Retention is %v, want 0 or greater", c.Retention))
	}
	return nil
}

// Topic is what the logs of all brokers share. It is safe for concurrent use.
type Topic struct {
	retention time.Duration
	now       func() time.Time

	mu      sync.Mutex
	streams []*stream // one for each broker that has published, sorted by its id
	stored  int       // records so far, of all brokers
	changed chan struct{}
}

// stream holds what one broker has published, in order.
type stream struct {
	brokerID int32
	newest   int64 // the greatest broker epoch that has published
	first    int   // the number of records[0]
	records  []record
}

// record is one stored event. It never changes.
type record struct {
	place    int // in the order of all brokers
	id       walstorage.SegmentID
	sequence int64
	stamp    time.Time // by Config.Now
	at       time.Time // by package time, for delays
	data     []byte
}

// New returns an empty topic. The error names the field of the configuration that is wrong.
func New(cfg Config) (*Topic, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Topic{retention: cfg.Retention, now: cfg.Now, changed: make(chan struct{})}, nil
}

// Recheck asks again about the deliveries that [Delivery] faults hold back.
func (t *Topic) Recheck() {
	t.mu.Lock()
	changed := t.changed
	t.changed = make(chan struct{})
	t.mu.Unlock()
	close(changed)
}

// Events returns what is stored, in the order in which it was stored, repetitions included.
func (t *Topic) Events() []*metadata.Event {
	t.mu.Lock()
	var all []record
	for _, s := range t.streams {
		all = append(all, s.records...)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b record) int { return a.place - b.place })
	events := make([]*metadata.Event, len(all))
	for i := range all {
		events[i] = &metadata.Event{}
		if err := events[i].UnmarshalBinary(all[i].data); err != nil {
			panic(fmt.Sprintf("memlog: an event that was encoded here cannot be decoded: %v", err))
		}
	}
	return events
}

// store appends the records of a broker's epoch. With fence set it refuses an epoch that has been overtaken, without
// records too; a late landing is not fenced: it was accepted long ago.
func (t *Topic) store(broker int32, epoch int64, records []record, fence bool) error {
	now, stamp := time.Now(), t.now()
	t.mu.Lock()
	s := t.stream(broker)
	if fence && epoch < s.newest {
		newest := s.newest
		t.mu.Unlock()
		return fmt.Errorf("%w: broker %d, epoch %d, by epoch %d", metadata.ErrFenced, broker, epoch, newest)
	}
	for _, r := range records {
		s.newest = max(s.newest, epoch)
		r.place, r.stamp, r.at = t.stored, stamp, now
		t.stored++
		s.records = append(s.records, r)
	}
	if t.retention > 0 {
		s.drop(stamp.Add(-t.retention))
	}
	t.mu.Unlock()
	t.Recheck()
	return nil
}

// stream returns the broker's stream, a new one if need be. t.mu is held.
func (t *Topic) stream(brokerID int32) *stream {
	at := sort.Search(len(t.streams), func(i int) bool { return t.streams[i].brokerID >= brokerID })
	if at == len(t.streams) || t.streams[at].brokerID != brokerID {
		t.streams = slices.Insert(t.streams, at, &stream{brokerID: brokerID})
	}
	return t.streams[at]
}

// drop forgets the records stamped before the time given, as far as they come first.
func (s *stream) drop(before time.Time) {
	n := 0
	for n < len(s.records) && s.records[n].stamp.Before(before) {
		n++
	}
	clear(s.records[:n]) // for the garbage collector, as the array stays for a while
	s.records = s.records[n:]
	s.first += n
}

func (s *stream) end() int { return s.first + len(s.records) }
