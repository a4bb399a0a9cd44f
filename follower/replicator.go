package follower

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/segment"
)

// Replicator replicates the partitions that this broker follows, through the store, and falls back on the ordinary
// fetch where that does not work (F5). All methods may be called concurrently.
//
// It runs one goroutine for the metadata subscription, one for each partition followed, and one for each segment being
// fetched; Close ends them all.
type Replicator struct {
	cfg        Config
	ctx        context.Context
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	store      *metadata.Store
	fetcher    *fetcher
	stats      counters
	// concerned are the partitions that an event concerns, lacking those that a gap does, deaf tells that the metadata log
	// could not be read last time; the subscription's goroutine alone uses them.
	concerned []*Following
	lacking   []segment.PartitionKey
	deaf      bool
	// subscribed is closed once the position of the first subscription is fixed (F6).
	subscribed chan struct{}

	mu         sync.RWMutex
	closed     bool
	partitions map[segment.PartitionKey]*Following
}

// counters are what Stats reads.
type counters struct {
	appends, batches, bytes                atomic.Int64
	segmentFetches, fetchedBytes           atomic.Int64
	fallbacks, leaderFetches, firstFetches atomic.Int64
	holdsInVain                            atomic.Int64
	events, gaps, stale, panics            atomic.Int64
	partitions, inFallback                 atomic.Int64
}

// New makes a replicator and subscribes it to the metadata log, in the background: a log that does not answer is tried
// again until Close. The error is of kind walstorage.ErrInvalidArgument and names the field of cfg that is wrong.
func New(cfg Config) (*Replicator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Entries.Cluster = cfg.Cluster
	store, err := metadata.NewStore(cfg.Entries)
	if err != nil {
		return nil, fmt.Errorf("follower: Entries: %w", err)
	}
	r := &Replicator{
		cfg:        cfg,
		store:      store,
		subscribed: make(chan struct{}),
		partitions: map[segment.PartitionKey]*Following{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.fetcher = newFetcher(r)
	r.goroutines.Go(r.consume)
	return r, nil
}

// Follow begins to replicate the partition from leaderID in leaderEpoch into log, and returns at once. With the epoch
// already followed it returns the same handle, unless that one has been stopped or has failed; a lower epoch is
// [ErrOldEpoch]; a greater one ends the older handle, and the new one touches the log only when the older has let go.
func (r *Replicator) Follow(partition segment.TopicIDPartition, leaderID, leaderEpoch int32, log Log) (*Following, error) {
	if err := checkFollow(partition, leaderID, leaderEpoch, log); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	older := r.partitions[partition.Key()]
	if older != nil && !older.atRest() {
		if older.epoch == leaderEpoch {
			return older, nil
		}
		if older.epoch > leaderEpoch {
			return nil, fmt.Errorf("%w: %s: %d < %d", ErrOldEpoch, partition, leaderEpoch, older.epoch)
		}
	}
	f := newFollowing(r, partition, leaderID, leaderEpoch, log)
	if older != nil {
		if older.epoch > leaderEpoch {
			r.store.Unfollow(partition) // it would keep to the greater epoch
		}
		older.supersede()
		f.older = older.done
	}
	r.partitions[partition.Key()] = f
	r.store.Follow(partition, leaderID, leaderEpoch) // F6: before the first fetch
	r.stats.partitions.Add(1)
	r.goroutines.Go(f.run)
	return f, nil
}

func checkFollow(partition segment.TopicIDPartition, leaderID, leaderEpoch int32, log Log) error {
	var zero segment.PartitionKey
	switch {
	case partition.Key().TopicID == zero.TopicID:
		return invalid("topic id of %s is zero", partition)
	case partition.Topic == "":
		return invalid("topic name is empty")
	case partition.Partition < 0:
		return invalid("partition %d is negative", partition.Partition)
	case leaderID < 0:
		return invalid("leader id %d is negative", leaderID)
	case leaderEpoch < 0:
		return invalid("leader epoch %d is negative", leaderEpoch)
	case log == nil:
		return invalid("log of %s is nil", partition)
	}
	return nil
}

// Close stops every partition and waits for all goroutines, which is as long as a call of the broker's log or fetch, or
// of the store, takes to return. ctx bounds the wait: then its error is returned, everything is cancelled, and what has
// not returned ends on its own. Close may be called more than once.
func (r *Replicator) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	ended := make(chan struct{})
	go func() {
		r.goroutines.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return nil
	default:
		return fmt.Errorf("follower: calls still under way: %w", ctx.Err())
	}
}

// Stats returns the counters as they are now.
func (r *Replicator) Stats() Stats {
	c := &r.stats
	r.fetcher.mu.Lock()
	parked := r.fetcher.reserved
	r.fetcher.mu.Unlock()
	return Stats{
		Appends: c.appends.Load(), Batches: c.batches.Load(), Bytes: c.bytes.Load(),
		SegmentFetches: c.segmentFetches.Load(), FetchedBytes: c.fetchedBytes.Load(),
		Fallbacks: c.fallbacks.Load(), LeaderFetches: c.leaderFetches.Load(), FirstFetches: c.firstFetches.Load(),
		Events: c.events.Load(), Gaps: c.gaps.Load(), Stale: c.stale.Load(), Panics: c.panics.Load(),
		HoldsInVain: c.holdsInVain.Load(), Entries: r.store.Stats(),
		ParkedBytes: parked, Partitions: int(c.partitions.Load()), InFallback: int(c.inFallback.Load()),
	}
}

// forget drops a handle that has ended, unless a newer one has taken its place.
func (r *Replicator) forget(f *Following) {
	r.stats.partitions.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.partitions[f.key] == f {
		delete(r.partitions, f.key)
		r.store.Unfollow(f.partition)
	}
}

// lookup returns the handle of a partition, nil if it is not followed.
func (r *Replicator) lookup(key segment.PartitionKey) *Following {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.partitions[key]
}

// consume reads the metadata log until Close. It subscribes anew if the subscription ends; what was published between
// is then a gap of every broker.
func (r *Replicator) consume() {
	first := true
	for failures := 0; ; failures++ {
		sub, err := r.subscribe()
		if err == nil {
			failures = 0
			if first {
				first = false
				close(r.subscribed)
			} else {
				r.allGapped()
			}
			err = r.read(sub)
		}
		if r.ctx.Err() != nil {
			return
		}
		r.metadataError(err)
		if !sleep(r.ctx, backoff(r.cfg.Seed, "subscribe", failures, r.cfg.StallAfter)) {
			return
		}
	}
}

var errNoSubscription = errors.New("follower: the metadata log returned neither a subscription nor an error")

func (r *Replicator) subscribe() (sub metadata.Subscription, err error) {
	defer r.contain("subscribe", &err)
	sub, err = r.cfg.Metadata.Subscribe(r.ctx, metadata.Position{})
	if err == nil && sub == nil {
		err = errNoSubscription
	}
	return sub, err
}

// unsubscribe closes the subscription.
func (r *Replicator) unsubscribe(sub metadata.Subscription) {
	var err error
	defer r.contain("unsubscribe", &err)
	err = sub.Close()
}

// read hands on what the subscription yields until it is closed.
func (r *Replicator) read(sub metadata.Subscription) error {
	defer r.unsubscribe(sub)
	failures := 0
	for {
		item, err := r.next(sub)
		switch {
		case err == nil:
			failures = 0
			r.heard()
			r.take(item)
			continue
		case r.ctx.Err() != nil, errors.Is(err, metadata.ErrClosed):
			return err
		}
		r.metadataError(err)
		if !sleep(r.ctx, backoff(r.cfg.Seed, "next", failures, r.cfg.StallAfter)) {
			return err
		}
		failures++
	}
}

var errNoItem = errors.New("follower: the metadata log returned neither an event, nor a gap, nor an error")

func (r *Replicator) next(sub metadata.Subscription) (item metadata.Item, err error) {
	defer r.contain("metadata", &err)
	item, err = sub.Next(r.ctx)
	if err == nil && item.Event == nil && item.Gap == nil {
		err = errNoItem
	}
	return item, err
}

// take applies one item: it wakes the partitions that it concerns and begins to fetch the segment (F4).
func (r *Replicator) take(item metadata.Item) {
	r.store.Apply(item)
	if item.Gap != nil {
		r.stats.gaps.Add(1)
		if hook := r.cfg.Hooks.Gap; hook != nil {
			hook(*item.Gap)
		}
		r.lacking = r.store.AppendConcerned(r.lacking[:0], item)
		for _, key := range r.lacking {
			if f := r.lookup(key); f != nil {
				f.eventsLost()
			}
		}
		return
	}
	r.stats.events.Add(1)
	md := &item.Event.Segment
	if md.Cluster != r.cfg.Cluster { // the Store drops it too
		return
	}
	wanted := 0
	for i := range md.Topics {
		topic := &md.Topics[i]
		for j := range topic.Slices {
			slice := &topic.Slices[j]
			f := r.lookup(segment.PartitionKey{TopicID: topic.ID, Partition: slice.Partition})
			if f == nil {
				continue
			}
			concerned, ahead := f.eventArrived(slice)
			if concerned {
				r.concerned = append(r.concerned, f)
			}
			if ahead {
				wanted++
			}
		}
	}
	if wanted > 0 && item.Event.ObjectSize > 0 && item.Event.ObjectSize <= decide.MaxObject {
		r.fetcher.prefetch(md.ID, item.Event.ObjectSize, wanted)
	}
	// D2: woken last, so that whether a segment is fetched ahead does not depend on which goroutine runs first.
	for i, f := range r.concerned {
		f.wakeUp()
		r.concerned[i] = nil
	}
	r.concerned = r.concerned[:0]
}

// allGapped tells every partition that events are missing (F6). Map order does not show: each is only woken.
func (r *Replicator) allGapped() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, f := range r.partitions {
		f.eventsLost()
	}
}

// heard notes that the metadata log can be read.
func (r *Replicator) heard() {
	if r.deaf {
		r.deaf = false
		r.cfg.Logger.Info("metadata log is read again")
	}
}

func (r *Replicator) metadataError(err error) {
	if !r.deaf {
		r.deaf = true
		r.cfg.Logger.Warn("metadata log cannot be read", "err", err)
	}
	if hook := r.cfg.Hooks.MetadataError; hook != nil && err != nil {
		hook(err)
	}
}

// panicked is the error that a contained panic becomes.
type panicked struct {
	where string
	value any
}

func (p *panicked) Error() string {
	return fmt.Sprintf("follower: panic in %s: %v", p.where, p.value)
}

// contain turns a panic of the broker's or a backend's code into an error; it is used with defer.
func (r *Replicator) contain(where string, err *error) {
	value := recover()
	if value == nil {
		return
	}
	r.stats.panics.Add(1)
	*err = &panicked{where: where, value: value}
	r.cfg.Logger.Error("panic contained", "where", where, "value", value)
	if hook := r.cfg.Hooks.Panic; hook != nil {
		hook(where, value)
	}
}

// sleep waits, and tells whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
