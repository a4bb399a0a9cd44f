package follower

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// fetcher reads whole segments from the store, each once for all the partitions of this broker that want it (F4). What
// arrives before its turn is parked; MaxParkedBytes bounds what is parked and under way together. A segment that some
// partition needs next is always admitted, if need be alone, and parked ones that nobody waits for yield to it (N1).
type fetcher struct {
	r *Replicator

	mu       sync.Mutex
	fetches  map[walstorage.SegmentID]*fetch
	queue    []*fetch // wanted next by some partition, not admitted yet; oldest segment first
	parked   []*fetch // done, in the order of arrival
	ahead    []segmentAhead
	running  int
	reserved int64 // bytes of running and parked fetches
	free     [][]byte
	readers  []*segment.Reader
}

// fetch is one segment on its way, or parked. The fields below mu of fetcher are guarded by it until done is closed;
// object and err never change afterwards.
type fetch struct {
	id       walstorage.SegmentID
	size     int64
	started  bool
	finished bool
	finishAt time.Time
	waiters  int // partitions that need it next; a fetch with waiters is never thrown away
	expected int // partitions that have yet to use it, or unknown
	used     bool
	gone     bool
	done     chan struct{}

	object []byte
	reader *segment.Reader
	err    error
}

// maxFreeBuffers bounds the pool; no buffer of it takes more than its share of MaxParkedBytes.
const maxFreeBuffers = 32

func newFetcher(r *Replicator) *fetcher {
	return &fetcher{r: r, fetches: map[walstorage.SegmentID]*fetch{}}
}

// unknown is the number of partitions expected to use a segment where nobody knows.
const unknown = -1

// prefetch starts to fetch a segment that partitions here will need, if there is room beside those that are needed next,
// of which an older segment takes what a newer one has. expected is how many will use it, or unknown.
func (s *fetcher) prefetch(id walstorage.SegmentID, size int64, expected int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admit(id, size, expected, 0)
}

// admit is prefetch with mu held; the fetch begins after a delay. It tells whether there will be one.
func (s *fetcher) admit(id walstorage.SegmentID, size int64, expected int, delay time.Duration) bool {
	if s.fetches[id] != nil {
		return false
	}
	s.dropStale()
	if len(s.queue) > 0 || s.running >= s.r.cfg.MaxFetches {
		return false // it will be asked for when it is some partition's next
	}
	for s.reserved+size > s.r.cfg.MaxParkedBytes {
		if !s.evict(id) {
			return false
		}
	}
	f := &fetch{id: id, size: size, expected: expected, done: make(chan struct{})}
	s.fetches[id] = f
	s.start(f, delay)
	return true
}

// segmentAhead is a segment that some partition needs after its next one.
type segmentAhead struct {
	id   walstorage.SegmentID
	size int64
}

// lookAhead notes a segment that a partition needs after its next one and that was not fetched when its event came. What is
// noted is fetched, oldest first and as far as there is room, when the next fetch has ended: that is one moment, whatever
// the order in which partitions have asked, and the requests begin a nanosecond apart (D2).
func (s *fetcher) lookAhead(id walstorage.SegmentID, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = append(s.ahead, segmentAhead{id, size})
}

// startAhead begins to fetch what lookAhead has noted. What has no room is noted again when its partition gets there.
func (s *fetcher) startAhead() {
	slices.SortFunc(s.ahead, func(a, b segmentAhead) int {
		switch {
		case olderSegment(a.id, b.id):
			return -1
		case olderSegment(b.id, a.id):
			return 1
		}
		return 0
	})
	delay := time.Nanosecond
	for _, a := range s.ahead {
		if s.admit(a.id, a.size, unknown, delay) {
			delay += time.Nanosecond
		}
	}
	s.ahead = s.ahead[:0]
}

// want returns the fetch of the segment that a partition needs next. The partition must release it.
func (s *fetcher) want(id walstorage.SegmentID, size int64) *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropStale()
	f := s.fetches[id]
	if f == nil {
		f = &fetch{id: id, size: size, expected: unknown, done: make(chan struct{})}
		s.fetches[id] = f
		s.enqueue(f)
	}
	f.waiters++
	if f.finished && f.err != nil { // fetched ahead and failed: told once, whoever asks next tries again
		f.gone = true
		delete(s.fetches, id)
	}
	s.pump()
	return f
}

// enqueue inserts f so that the oldest segment goes first, whatever order partitions ask in (D2).
func (s *fetcher) enqueue(f *fetch) {
	i := len(s.queue)
	for i > 0 && olderSegment(f.id, s.queue[i-1].id) {
		i--
	}
	s.queue = append(s.queue, nil)
	copy(s.queue[i+1:], s.queue[i:])
	s.queue[i] = f
}

// olderSegment orders ids by creation time, then by their other bits.
func olderSegment(a, b walstorage.SegmentID) bool {
	for i := range a.UUID {
		if a.UUID[i] != b.UUID[i] {
			return a.UUID[i] < b.UUID[i]
		}
	}
	return a.BrokerID < b.BrokerID
}

// release gives back what want returned. used says that the partition is done with the segment; otherwise it may ask
// for it again.
func (s *fetcher) release(f *fetch, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiters--
	f.used = f.used || used
	if used && f.expected > 0 {
		f.expected--
	}
	if f.waiters == 0 {
		switch {
		case !f.started:
			s.remove(f)
		case f.finished && (f.gone || f.expected == 0):
			s.remove(f)
		}
	}
	s.pump()
}

// discard forgets a fetch whose bytes turned out to be corrupt, so that the next want reads them anew. The caller still
// releases it.
func (s *fetcher) discard(f *fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.gone = true
	if s.fetches[f.id] == f {
		delete(s.fetches, f.id)
	}
}

// pump admits queued fetches. It is called with mu held after anything that can make room.
func (s *fetcher) pump() {
	for len(s.queue) > 0 && s.running < s.r.cfg.MaxFetches {
		f := s.queue[0]
		for s.reserved+f.size > s.r.cfg.MaxParkedBytes && s.evict(walstorage.SegmentID{}) {
		}
		if s.reserved+f.size > s.r.cfg.MaxParkedBytes && s.reserved > 0 {
			return // alone, once the others have been used (N1)
		}
		s.queue = s.queue[1:]
		s.start(f, 0)
	}
}

// evict throws away a parked fetch that nobody waits for: one that is spent, which has been used and is kept only for a
// partition that may still ask, or else, of those newer than the segment given, the newest, which is needed last.
func (s *fetcher) evict(newerThan walstorage.SegmentID) bool {
	var victim *fetch
	for _, f := range s.parked {
		if f.waiters > 0 {
			continue
		}
		if f.used && f.expected == unknown {
			victim = f
			break
		}
		if olderSegment(newerThan, f.id) && (victim == nil || olderSegment(victim.id, f.id)) {
			victim = f
		}
	}
	if victim != nil {
		s.remove(victim)
	}
	return victim != nil
}

// dropStale throws away what no partition has asked for in time: it fell back meanwhile, or was stopped.
func (s *fetcher) dropStale() {
	for i := 0; i < len(s.parked); {
		f := s.parked[i]
		switch {
		case time.Since(f.finishAt) < 2*s.r.cfg.StallAfter:
			return
		case f.waiters > 0: // a log that hangs keeps its own segment only
			i++
		default:
			s.remove(f)
		}
	}
}

// remove takes f out of all books and gives its buffer back to the pool.
func (s *fetcher) remove(f *fetch) {
	if s.fetches[f.id] == f {
		delete(s.fetches, f.id)
	}
	if !f.started {
		s.queue = without(s.queue, f)
		return
	}
	s.parked = without(s.parked, f)
	s.reserved -= f.size
	if f.object != nil && len(s.free) < maxFreeBuffers && int64(cap(f.object)) <= s.r.cfg.MaxParkedBytes/maxFreeBuffers {
		s.free = append(s.free, f.object[:0])
	}
	if f.reader != nil && len(s.readers) < maxFreeBuffers {
		s.readers = append(s.readers, f.reader)
	}
	f.object, f.reader = nil, nil
}

func without(list []*fetch, f *fetch) []*fetch {
	for i := range list {
		if list[i] == f {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// start admits f and fetches it after a delay on a goroutine of its own, which Close waits for.
func (s *fetcher) start(f *fetch, delay time.Duration) {
	f.started = true
	s.running++
	s.reserved += f.size
	buf, reader := s.buffer(f.size), &segment.Reader{}
	if last := len(s.readers) - 1; last >= 0 {
		reader, s.readers = s.readers[last], s.readers[:last]
	}
	s.r.goroutines.Go(func() {
		if delay > 0 {
			sleep(s.r.ctx, delay)
		}
		s.run(f, buf, reader)
	})
}

// buffer takes a buffer of the size from the pool, or makes one.
func (s *fetcher) buffer(size int64) []byte {
	for i := len(s.free) - 1; i >= 0; i-- {
		if int64(cap(s.free[i])) >= size {
			buf := s.free[i][:size]
			s.free = append(s.free[:i], s.free[i+1:]...)
			return buf
		}
	}
	if len(s.free) > 0 { // too small for what is current: let it go
		s.free = s.free[1:]
	}
	return make([]byte, size)
}

// run fetches one segment, checks that it is the one (F3), and parks it. A corrupt one is fetched once more (F5).
func (s *fetcher) run(f *fetch, buf []byte, reader *segment.Reader) {
	start := time.Now()
	var err error
	for range 2 {
		err = s.attempt(f.id, buf, reader)
		if !isCorrupt(err) {
			break
		}
	}
	if err != nil { // nothing will be read; after a panic the store may even write to it still (W5)
		buf, reader = nil, nil
	}
	s.mu.Lock()
	f.finished, f.finishAt = true, time.Now()
	f.object, f.reader, f.err = buf, reader, err
	s.running--
	s.parked = append(s.parked, f)
	if err != nil && f.waiters > 0 {
		f.gone = true // whoever asks later tries again
		delete(s.fetches, f.id)
	}
	close(f.done)
	s.pump()
	s.startAhead()
	s.mu.Unlock()

	s.r.stats.segmentFetches.Add(1)
	if err == nil {
		s.r.stats.fetchedBytes.Add(f.size)
	}
	if hook := s.r.cfg.Hooks.SegmentFetched; hook != nil {
		hook(SegmentFetch{Segment: f.id, Bytes: f.size, Duration: time.Since(start), Err: err})
	}
}

// attempt reads the segment once. Its deadline is a little less than StallAfter: a store that does not answer is then
// called by its name, and not by that of a standstill that began with the request and whose timer would fire at the same
// instant (D2).
func (s *fetcher) attempt(id walstorage.SegmentID, buf []byte, reader *segment.Reader) (err error) {
	ctx, cancel := context.WithTimeout(s.r.ctx, s.r.cfg.StallAfter-s.r.cfg.StallAfter/64)
	defer cancel()
	defer s.r.contain("fetch", &err)
	if err := s.r.cfg.Storage.FetchSegment(ctx, id, 0, buf); err != nil {
		return err
	}
	if err := reader.Reset(buf); err != nil {
		return err
	}
	return decide.CheckObject(reader.Metadata(), s.r.cfg.Cluster, id)
}

// isCorrupt tells errors that mean wrong bytes, a segment shorter than its event says included.
func isCorrupt(err error) bool {
	return errors.Is(err, walstorage.ErrCorrupt) || errors.Is(err, walstorage.ErrInvalidRange)
}
