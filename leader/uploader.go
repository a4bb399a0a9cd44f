package leader

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/walstorage/segment"
)

// Uploader combines what the partitions that this broker leads have appended into segments, uploads those and publishes
// their events. One per broker. All methods may be called from many goroutines at once.
//
// It has three kinds of goroutines, which end with Close: the assembler, which alone reads logs and fills the open
// segment; one for each upload under way; and the publisher, which alone calls the metadata log.
type Uploader struct {
	cfg   Config
	began time.Time
	// ctx ends when nothing more is to be tried: Close gave up waiting, or the broker is fenced.
	ctx    context.Context
	cancel context.CancelFunc
	// bufferBytes is the size of the buffer that a slot begins with, keepBytes the largest that it keeps.
	bufferBytes, keepBytes int

	// The two loops sleep on these; each holds at most one wake-up.
	wakeAssembler chan struct{}
	wakePublisher chan struct{}

	mu         sync.Mutex // guards what follows; never held over a call of foreign code, a channel or a sleep (D1)
	partitions map[segment.PartitionKey]*Leadership
	// newest is the newest epoch led of partitions that were resigned: a few dozen bytes for each partition ever led.
	newest map[segment.PartitionKey]int32
	leads  uint64
	// dirty lists the leaderships whose Notify waits to be taken, in order of time.
	dirty []dirtied
	// closing lists the partitions whose slice in the open segment is to be closed (L4).
	closing []segment.PartitionKey
	// visiting is the leadership whose log the assembler is calling now; visited is closed when that ends, if anybody
	// waits for it. readCtx is the context of those calls, renewed once it has been cancelled, never per call.
	visiting   *Leadership
	visitSince time.Duration
	visited    chan struct{}
	readCtx    context.Context
	cancelRead context.CancelFunc
	watch      *time.Timer // looks after visits that take too long; nil before the first
	watching   bool

	queue   []*flight // sealed and neither published nor given up, in the order of sealing (L3)
	free    []*flight
	inUse   int   // slots taken
	stuck   int   // slots taken by uploads that were given up and have not returned
	sealed  int64 // number of the flight sealed last
	settled int64 // number of the flight settled last
	// nextSequence is the sequence of the next event that is handed over for the first time (L3).
	nextSequence int64
	flushes      []*flush
	busySince    time.Duration // since when there has been something to publish and nothing was, none if there is not
	open         struct {
		bytes  int
		oldest time.Duration
	}
	stats      Stats
	panicked   map[string]bool
	storeDown  bool // said in the log
	logDown    bool // said in the log
	sealFails  bool // said in the log
	skipping   bool // said in the log
	assembled  bool // the assembler has ended
	stopping   bool // Close was called
	fenced     error
	goroutines int
	done       chan struct{} // closed when goroutines is 0
}

// New starts an uploader. The error is of kind walstorage.ErrInvalidArgument and names the field that is wrong.
func New(cfg Config) (*Uploader, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	u := &Uploader{
		cfg:           cfg,
		began:         time.Now(),
		bufferBytes:   cfg.TargetBytes + cfg.TargetBytes/16, // the index of a hundred slices fits in
		keepBytes:     cfg.TargetBytes + cfg.MaxEventBytes + cfg.TargetBytes/16,
		wakeAssembler: make(chan struct{}, 1),
		wakePublisher: make(chan struct{}, 1),
		partitions:    make(map[segment.PartitionKey]*Leadership),
		newest:        make(map[segment.PartitionKey]int32),
		panicked:      make(map[string]bool),
		busySince:     none,
		done:          make(chan struct{}),
	}
	u.open.oldest = none
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.readCtx, u.cancelRead = context.WithCancel(u.ctx)
	a, err := newAssembler(u)
	if err != nil {
		u.cancel()
		return nil, err
	}
	u.goroutines = 2
	go a.run()
	go u.publishLoop()
	return u, nil
}

// now is the time since the uploader was made: durations never come from the wall clock (D4).
func (u *Uploader) now() time.Duration { return time.Since(u.began) }

// wake leaves a wake-up in a loop's channel; one is enough.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Lead begins to replicate a partition that this broker leads in leaderEpoch, from epochStart on: the log's end when the
// leadership began. What lies below reaches each follower by its first ordinary fetch (L7). Lead does no I/O and returns
// at once; what the log holds from epochStart on is read without a Notify.
//
// Lead with the epoch already led returns the same handle. A higher one ends the older handle: its bytes that were read
// stay in their segments in their own epoch, its slice in the open segment is closed (L4), and a read of it that is under
// way is cancelled, not waited for (use Resign for that), and dropped. A lower one gives a [*StaleEpochError], and so
// does, after Resign, any epoch that is not greater than the one resigned (B6). Other errors are of kind
// walstorage.ErrInvalidArgument, [ErrClosed], or the fence ([Uploader.Err]).
//
// Call it after the last append as a follower, and after the epoch's start is known to the log (B5).
func (u *Uploader) Lead(partition segment.TopicIDPartition, leaderEpoch int32, epochStart int64, log Log) (*Leadership, error) {
	switch {
	case partition.TopicID == uuid.Nil:
		return nil, invalid("Lead: the topic id of %s is zero", partition)
	case partition.Topic == "" || len(partition.Topic) > 249:
		return nil, invalid("Lead: the topic name has %d bytes, allowed are 1 to 249", len(partition.Topic))
	case partition.Partition < 0:
		return nil, invalid("Lead: partition %s is negative", partition)
	case leaderEpoch < 0:
		return nil, invalid("Lead: leader epoch %d of %s is negative", leaderEpoch, partition)
	case epochStart < 0:
		return nil, invalid("Lead: epoch start %d of %s is negative", epochStart, partition)
	case log == nil:
		return nil, invalid("Lead: the log of %s is nil", partition)
	}
	key := partition.Key()
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.fenced != nil:
		return nil, u.fenced
	case u.stopping:
		return nil, ErrClosed
	}
	if old := u.partitions[key]; old != nil {
		switch {
		case old.epoch == leaderEpoch: // H2
			return old, nil
		case old.epoch > leaderEpoch:
			return nil, &StaleEpochError{Partition: partition, Epoch: leaderEpoch, Newest: old.epoch}
		}
		u.retire(old)
		if u.visiting == old {
			u.cancelRead()
		}
	} else if newest, led := u.newest[key]; led && newest >= leaderEpoch { // B6, R8
		return nil, &StaleEpochError{Partition: partition, Epoch: leaderEpoch, Newest: newest}
	}
	delete(u.newest, key)
	u.leads++
	l := &Leadership{
		u: u, partition: partition, key: key, epoch: leaderEpoch, epochStart: epochStart, log: log,
		order: u.leads, patience: patience(u.cfg.Seed, key), cursor: epochStart, notified: none,
	}
	u.partitions[key] = l
	l.dirty.Store(true) // L7: dirty from the start, without a look at the log
	if u.enlist(l) {
		wake(u.wakeAssembler)
	}
	return l, nil
}

// Err returns why the uploader has ended for good: an error that matches metadata.ErrFenced once a newer epoch of this
// broker has published (L6), otherwise nil.
func (u *Uploader) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fenced
}

// fence ends everything for good (L6).
func (u *Uploader) fence(err error) {
	u.mu.Lock()
	if u.fenced != nil {
		u.mu.Unlock()
		return
	}
	u.fenced = fmt.Errorf("leader: broker %d epoch %d: %w", u.cfg.Broker, u.cfg.BrokerEpoch, err)
	err = u.fenced
	u.retireAll()
	u.failFlushes(err)
	u.mu.Unlock()
	u.cancel()
	wake(u.wakeAssembler)
	wake(u.wakePublisher)
	u.cfg.Logger.Error("fenced: nothing more is uploaded or published", slog.Any("err", err))
	if u.cfg.Hooks.Fenced != nil {
		u.cfg.Hooks.Fenced(err)
	}
}

// retireAll ends every leadership. u.mu is held.
func (u *Uploader) retireAll() {
	for _, l := range u.partitions { // each on its own: the order cannot be seen
		u.retire(l)
	}
	u.closing = u.closing[:0] // nothing is read any more
}

// cause says why a segment is given up when everything ends. u.mu is held.
func (u *Uploader) cause() error {
	if u.fenced != nil {
		return u.fenced
	}
	return ErrClosed
}

// leave is called by each goroutine of the uploader as its last act.
func (u *Uploader) leave() {
	u.mu.Lock()
	u.goroutines--
	last := u.goroutines == 0
	u.mu.Unlock()
	if last {
		close(u.done)
	}
}
