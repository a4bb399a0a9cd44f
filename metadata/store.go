package metadata

import (
	"fmt"
	"sync"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// DefaultMaxEntries is the default of [StoreConfig.MaxEntries]: about 15 MiB.
const DefaultMaxEntries = 1 << 17

// StoreConfig configures a [Store]. The zero value is useful.
type StoreConfig struct {
	// Cluster is the id of the Kafka cluster: events of another cluster are dropped and counted. Empty takes all.
	Cluster string
	// MaxEntries bounds the slices kept for all followed partitions together, 1 or greater. An entry takes 112 bytes.
	// Default [DefaultMaxEntries]: at 100 segments a second of 64 slices each that is 20 seconds of one leader.
	MaxEntries int
}

// Validate names the field that is wrong, in an error of kind walstorage.ErrInvalidArgument.
func (c StoreConfig) Validate() error {
	if c.MaxEntries < 0 {
		return walstorage.NewError(walstorage.ErrInvalidArgument,
			fmt.Errorf("metadata: StoreConfig.MaxEntries is %d, want 0 (the default) or greater", c.MaxEntries))
	}
	return nil
}

// Entry is one slice of a segment that a followed partition lacks.
type Entry struct {
	// ID is the segment that holds the slice.
	ID walstorage.SegmentID
	// Slice is the slice as the segment's index has it.
	Slice segment.Slice
	// Position is where the slice begins in the object, in bytes.
	Position int64
	// ObjectSize is the size of the whole object in bytes.
	ObjectSize int64
}

// Outcome is the kind of a [Verdict].
type Outcome int

// The outcomes.
const (
	// Nothing says that no event so far holds anything for the partition at or above the offset.
	Nothing Outcome = iota
	// Found says that the entry holds the offset.
	Found
	// GapUpTo says that what is known begins only at Verdict.To: what lies below was never announced, was lost, or was
	// dropped over the bound.
	GapUpTo
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Nothing:
		return "nothing"
	case Found:
		return "found"
	case GapUpTo:
		return "gap"
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Verdict is the answer of [Store.Next].
type Verdict struct {
	Outcome Outcome
	// To is the first offset after the gap, 0 unless Outcome is GapUpTo.
	To int64
}

// StoreStats counts what a [Store] holds and what it has dropped. The counts of what was dropped only grow; they are
// in slices.
type StoreStats struct {
	// Partitions is the number of followed partitions.
	Partitions int
	// Entries is the number of slices kept, Waiting included.
	Entries int
	// Waiting is the number of slices kept of leader epochs that the broker does not follow yet (F1).
	Waiting int
	// Events is the number of events applied.
	Events uint64
	// Unfollowed counts slices of partitions not followed, those of a deleted topic's id among them.
	Unfollowed uint64
	// Stale counts slices of older leader epochs than the one followed (F1).
	Stale uint64
	// Below counts slices that ended below the log end offset when they came.
	Below uint64
	// Covered counts slices that another one covers whole: duplicates, and overlapping ranges.
	Covered uint64
	// Evicted counts slices dropped over the bound (M5).
	Evicted uint64
	// OtherCluster counts the slices of events of another cluster.
	OtherCluster uint64
}

// Store is the follower's view of the metadata log: for each followed partition the slices that it still lacks (M5).
//
// What is kept of one partition and leader epoch depends on the events alone and not on the order in which they came,
// so any interleaving of brokers gives the same answers: the slices form a chain in which each begins and ends after
// the one before; a slice that another one covers is dropped. Only eviction over the bound looks at the order, and
// what it leaves is answered in the same way.
//
// A Store is safe for concurrent use, never blocks and, once grown to its load, does not allocate.
type Store struct {
	cluster    string
	maxEntries int

	mu         sync.Mutex
	partitions map[segment.PartitionKey]*followed
	leaders    map[int32][]*followed // by the broker that leads
	behind     ranking
	stats      StoreStats // Partitions, Entries and Waiting are kept up to date in it too
}

// NewStore returns an empty store. The error names the field of the configuration that is wrong.
func NewStore(cfg StoreConfig) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.MaxEntries == 0 {
		cfg.MaxEntries = DefaultMaxEntries
	}
	return &Store{
		cluster:    cfg.Cluster,
		maxEntries: cfg.MaxEntries,
		partitions: make(map[segment.PartitionKey]*followed),
		leaders:    make(map[int32][]*followed),
	}, nil
}

// Follow begins to keep the partition's entries of the leader epoch given. leaderID is the broker that leads in it, or
// -1; [Store.AppendConcerned] uses it. A partition already followed in an older epoch turns to the new one: entries of
// older epochs are dropped, those of the new one which have waited are there at once (F1). In the same epoch only the
// leader's id is taken over; an older epoch is ignored.
func (s *Store) Follow(partition segment.TopicIDPartition, leaderID, leaderEpoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := partition.Key()
	p := s.partitions[key]
	if p == nil {
		p = &followed{leaderID: leaderID, epoch: leaderEpoch}
		s.partitions[key] = p
		p.key = key
		s.lead(p)
		s.stats.Partitions++
		return
	}
	if leaderEpoch < p.epoch {
		return
	}
	if leaderID != p.leaderID {
		s.unlead(p)
		p.leaderID = leaderID
		s.lead(p)
	}
	if leaderEpoch > p.epoch {
		before := p.waiting.len()
		s.stats.Stale += uint64(p.turn(leaderEpoch))
		s.stats.Waiting += p.waiting.len() - before
		s.rank(p)
	}
}

// Unfollow drops the partition and all its entries. One that is not followed is no error.
func (s *Store) Unfollow(partition segment.TopicIDPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitions[partition.Key()]
	if p == nil {
		return
	}
	s.stats.Waiting -= p.waiting.len()
	p.chain, p.waiting = chain{}, chain{}
	s.rank(p)
	s.unlead(p)
	delete(s.partitions, p.key)
	s.stats.Partitions--
}

// Apply takes an item of a subscription. Of an event it keeps what the followed partitions lack; a gap changes nothing
// here, as the slices that follow it show what is missing. It keeps no reference to the item.
func (s *Store) Apply(item Item) {
	if item.Event == nil {
		return
	}
	event := item.Event
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Events++
	if s.cluster != "" && event.Segment.Cluster != s.cluster {
		s.stats.OtherCluster += uint64(event.Segment.Slices())
		return
	}
	position := int64(segment.HeaderLength)
	for i := range event.Segment.Topics {
		topic := &event.Segment.Topics[i]
		for j := range topic.Slices {
			slice := &topic.Slices[j]
			p := s.partitions[segment.PartitionKey{TopicID: topic.ID, Partition: slice.Partition}]
			if p != nil {
				s.add(p, Entry{ID: event.Segment.ID, Slice: *slice, Position: position, ObjectSize: event.ObjectSize})
			} else {
				s.stats.Unfollowed++ // a deleted topic of the same name too: its id is another
			}
			position += slice.Length
		}
	}
}

// add keeps the entry if the partition lacks it, and keeps to the bound.
func (s *Store) add(p *followed, e Entry) {
	switch {
	case e.Slice.LeaderEpoch < p.epoch:
		s.stats.Stale++
		return
	case e.Slice.LeaderEpoch > p.epoch: // it waits until the broker says so (F1)
		before := p.waiting.len()
		s.stats.Covered += uint64(p.waiting.add(e))
		s.stats.Waiting += p.waiting.len() - before
	default:
		p.arrivals++
		if e.Slice.LastOffset < p.logEnd {
			s.stats.Below++
			return
		}
		s.stats.Covered += uint64(p.chain.add(e))
	}
	s.rank(p)
	for s.stats.Entries > s.maxEntries {
		victim := s.behind.first()
		if victim.evict() {
			s.stats.Waiting--
		}
		s.stats.Evicted++
		s.rank(victim)
	}
}

// rank takes over how many entries p keeps now.
func (s *Store) rank(p *followed) {
	s.stats.Entries += p.kept() - p.ranked
	s.behind.move(p, p.kept())
}

// Next tells what the partition, whose log ends at logEnd, needs next. Found comes with the entry that begins at or
// contains logEnd; of two that do, the one that reaches farther. GapUpTo says that no entry contains logEnd and that
// what is known begins at Verdict.To. Entries that end below logEnd are dropped for good: after a truncation the
// ordinary fetch brings what they held. A partition that is not followed gets Nothing.
func (s *Store) Next(partition segment.TopicIDPartition, logEnd int64) (Entry, Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitions[partition.Key()]
	if p == nil {
		return Entry{}, Verdict{}
	}
	p.logEnd = logEnd
	if p.chain.dropBelow(logEnd) {
		s.rank(p)
	}
	return p.at(logEnd)
}

// After answers as [Store.Next] would if the log ended at offset, and drops nothing: it is for looking ahead, from the
// last offset of an entry + 1 to the next entry (F4).
func (s *Store) After(partition segment.TopicIDPartition, offset int64) (Entry, Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partitions[partition.Key()]
	if p == nil {
		return Entry{}, Verdict{}
	}
	return p.at(offset)
}

// Arrivals tells how many slices of the partition have arrived in the epoch followed since Follow began it, those that
// were not kept included. That it has grown means that the leader's events come through (F5).
func (s *Store) Arrivals(partition segment.TopicIDPartition) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.partitions[partition.Key()]; p != nil {
		return p.arrivals
	}
	return 0
}

// AppendConcerned appends to dst the followed partitions that an item concerns: of an event those that have a slice of
// the followed epoch in it, of a gap those that are led by its broker (F6). It is for waking who waits.
func (s *Store) AppendConcerned(dst []segment.PartitionKey, item Item) []segment.PartitionKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if item.Gap != nil {
		for _, p := range s.leaders[item.Gap.BrokerID] {
			dst = append(dst, p.key)
		}
		return dst
	}
	if item.Event == nil || s.cluster != "" && item.Event.Segment.Cluster != s.cluster {
		return dst
	}
	for i := range item.Event.Segment.Topics {
		topic := &item.Event.Segment.Topics[i]
		for j := range topic.Slices {
			key := segment.PartitionKey{TopicID: topic.ID, Partition: topic.Slices[j].Partition}
			if p := s.partitions[key]; p != nil && p.epoch == topic.Slices[j].LeaderEpoch {
				dst = append(dst, key)
			}
		}
	}
	return dst
}

// Stats returns the counts.
func (s *Store) Stats() StoreStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// lead enters p among the partitions of its leader.
func (s *Store) lead(p *followed) {
	p.leaderIndex = len(s.leaders[p.leaderID])
	s.leaders[p.leaderID] = append(s.leaders[p.leaderID], p)
}

// unlead takes p out again; the last one takes its place, so the order is that of the calls and of no map.
func (s *Store) unlead(p *followed) {
	led := s.leaders[p.leaderID]
	last := len(led) - 1
	led[p.leaderIndex] = led[last]
	led[p.leaderIndex].leaderIndex = p.leaderIndex
	led[last] = nil
	if last == 0 {
		delete(s.leaders, p.leaderID)
		return
	}
	s.leaders[p.leaderID] = led[:last]
}
