package leader

import (
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/walstorage/segment"
)

// Leadership is the handle of one partition led in one leader epoch, made by [Uploader.Lead]. A late call on the handle
// of an old epoch cannot hit a newer one. All methods may be called from many goroutines at once.
type Leadership struct {
	// dirty says that a Notify is not yet served. It stays set once the leadership has ended, which makes Notify a no-op.
	dirty atomic.Bool

	u          *Uploader
	partition  segment.TopicIDPartition
	key        segment.PartitionKey
	epoch      int32
	epochStart int64
	log        Log
	order      uint64 // counts the Leads of the uploader: two of one partition go in this order (D2)
	patience   int64  // 4096ths added to MaxBacklog

	// Owned by the assembler.
	place   place
	next    *Leadership // in the line that place names
	retryAt time.Duration
	panics  []*PanicError // of the visit under way

	// Guarded by u.mu; those that the assembler alone writes it reads without.
	ended    bool
	notified time.Duration // when the oldest Notify came that no mark stands for, none without one
	pending  bool          // taken from u.dirty, so the next visit clears dirty
	cursor   int64         // the next offset to read
	end      int64         // the log's end as last seen
	marks    []mark        // which offsets were notified when, oldest first
	bytes    int64         // read so far, and the offsets that they span: what an offset weighs
	offsets  int64
	failures int // in a row
}

// mark says that the offsets below end, down to the mark before, were notified at the time at or later.
type mark struct {
	end int64
	at  time.Duration
}

// place says in which of the assembler's lines a leadership stands.
type place int8

const (
	nowhere  place = iota
	ready          // has its turn before long
	deferred       // waits for the next segment
	paused         // waits until retryAt
)

// Notify says that the log has grown. It never blocks, and costs under a nanosecond while an earlier Notify is not yet
// served. Call it after each append, once the log's End tells the new end; for appends under another leader epoch it
// does no harm. After Resign, and once a newer epoch is led, it does nothing.
func (l *Leadership) Notify() {
	if !l.dirty.Load() {
		l.notify()
	}
}

func (l *Leadership) notify() {
	u := l.u
	u.mu.Lock()
	if l.ended || !l.dirty.CompareAndSwap(false, true) {
		u.mu.Unlock()
		return
	}
	first := u.enlist(l)
	u.mu.Unlock()
	if first {
		wake(u.wakeAssembler)
	}
}

// enlist puts a leadership that became dirty on the list that the assembler takes, and tells whether it is the first
// there: one wake-up is enough for all. u.mu is held.
func (u *Uploader) enlist(l *Leadership) (first bool) {
	now := u.now()
	l.notified = min(l.notified, now)
	if u.busySince == none {
		u.busySince = now
	}
	u.dirty = append(u.dirty, dirtied{l, now})
	return len(u.dirty) == 1
}

// dirtied is a leadership on the list, and when it came there.
type dirtied struct {
	l  *Leadership
	at time.Duration
}

// Resign ends the leadership: no read of the log is under way when it returns, and none starts after (F7). What was read
// of the partition is uploaded and published all the same, in its own epoch, which makes it harmless (F1); bytes of a
// read that Resign overtook are dropped, and the partition's slice in the open segment is closed (L4). Call it before
// any truncation of the log (B5), never from inside one of the log's methods, and with no lock held that those need: it
// cancels a Read under way and waits for it. A second call does nothing.
func (l *Leadership) Resign() {
	u := l.u
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retire(l)
	for u.visiting == l { // no lock is held while this waits (D1)
		u.cancelRead()
		if u.visited == nil {
			u.visited = make(chan struct{})
		}
		visited := u.visited
		u.mu.Unlock()
		<-visited
		u.mu.Lock()
	}
}

// retire ends a leadership and has its slice closed. u.mu is held.
func (u *Uploader) retire(l *Leadership) {
	if l.ended {
		return
	}
	l.ended = true
	l.dirty.Store(true) // from now on Notify returns at once
	delete(u.partitions, l.key)
	u.newest[l.key] = l.epoch
	u.closing = append(u.closing, l.key)
}

// oldest returns when the oldest Notify came that is not yet served, none if all are. u.mu is held.
func (l *Leadership) oldest() time.Duration {
	if len(l.marks) > 0 {
		return l.marks[0].at
	}
	return l.notified
}

// maxMarks bounds the marks of a partition, however long nothing can be read. Of so many the oldest is nearly twice
// MaxBacklogAge old, which is more than any patience: the partition skips what all of them stand for (L11).
const maxMarks = 2 * marksPerAge

// addMark notes that the offsets below end were notified at the time at or later. Marks less than gap apart become one,
// and so do those above maxMarks; the older time counts. u.mu is held.
func (l *Leadership) addMark(end int64, at, gap time.Duration) {
	l.end = max(l.end, end)
	last := l.cursor
	n := len(l.marks)
	if n > 0 {
		last = l.marks[n-1].end
	}
	switch {
	case end <= last:
	case n > 0 && (at < l.marks[n-1].at+gap || n >= maxMarks):
		l.marks[n-1].end = end
	default:
		l.marks = append(l.marks, mark{end, at})
	}
}

// moveTo sets the cursor and drops the marks that it has reached. u.mu is held.
func (l *Leadership) moveTo(cursor int64) {
	l.cursor = cursor
	n := 0
	for n < len(l.marks) && l.marks[n].end <= cursor {
		n++
	}
	l.marks = l.marks[:copy(l.marks, l.marks[n:])]
}

// behind estimates the bytes between cursor and end from what an offset weighed before, 0 if nothing is known. u.mu is
// held.
func (l *Leadership) behind() int64 {
	if l.offsets == 0 || l.end <= l.cursor {
		return 0
	}
	return int64(float64(l.end-l.cursor) * float64(l.bytes) / float64(l.offsets))
}

// weigh notes what a read gave; older reads count less and less. u.mu is held.
func (l *Leadership) weigh(bytes int, offsets int64) {
	l.bytes += int64(bytes)
	l.offsets += offsets
	if l.bytes > 64<<20 {
		l.bytes, l.offsets = l.bytes/2, (l.offsets+1)/2
	}
}

// line is a queue of leaderships that costs nothing to stand in.
type line struct {
	head, tail *Leadership
	n          int
}

func (q *line) push(l *Leadership) {
	l.next = nil
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
	q.n++
}

func (q *line) pushFront(l *Leadership) {
	l.next = q.head
	q.head = l
	if q.tail == nil {
		q.tail = l
	}
	q.n++
}

func (q *line) pop() *Leadership {
	l := q.head
	q.head = l.next
	if q.head == nil {
		q.tail = nil
	}
	l.next = nil
	q.n--
	return l
}
