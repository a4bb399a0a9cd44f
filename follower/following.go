package follower

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Following is the handle of one partition in one leader epoch. All methods may be called concurrently, but Stop never
// from inside a LeaderFetcher call or a method of the log.
type Following struct {
	r         *Replicator
	partition segment.TopicIDPartition
	key       segment.PartitionKey
	leaderID  int32
	epoch     int32
	log       Log

	ctx       context.Context
	cancel    context.CancelFunc
	older     <-chan struct{} // closed when the handle before this one has let go of the log; nil if there is none
	done      chan struct{}   // closed when this one has
	wake      chan struct{}   // holds at most one token: something below has changed
	fromStore atomic.Bool     // the store is being used or waited for, so segments are worth fetching ahead

	mu       sync.Mutex
	progress progress
	diverged bool
	gapped   time.Time // when events of the leader were last told missing; zero once the hole shows by itself
	state    State
	resting  bool // failed or stopped: Follow makes a new handle

	// Owned by the goroutine.
	judge     decide.Follower // what to do about entries and answers, the gate in it (F6)
	timer     *time.Timer
	fetch     *fetch               // what the next append waits for
	corruptID walstorage.SegmentID // the segment that was thrown away as corrupt once
	stale     staleAppends
	holds     holds
}

func newFollowing(r *Replicator, partition segment.TopicIDPartition, leaderID, epoch int32, log Log) *Following {
	f := &Following{
		r: r, judge: decide.Follower{Epoch: epoch}, partition: partition, key: partition.Key(), leaderID: leaderID, epoch: epoch, log: log,
		done:  make(chan struct{}),
		wake:  make(chan struct{}, 1),
		state: State{Kind: Starting, Epoch: epoch, Since: r.cfg.Now()},
	}
	f.progress = progress{observed: -1, spacing: r.cfg.TooFarBehind / samplesKept}
	f.ctx, f.cancel = context.WithCancel(r.ctx)
	return f
}

// Observe tells the leader's log end offset, which every answer to a report or an ordinary fetch carries. It is cheap
// and never blocks; call it with each answer (F6).
func (f *Following) Observe(leaderLEO int64) {
	f.mu.Lock()
	changed := f.progress.observe(leaderLEO, time.Now())
	f.mu.Unlock()
	if changed {
		f.wakeUp()
	}
}

// Diverged tells that a report came back diverging: the log's end is not in the leader's history. It shuts the gate, and
// an ordinary fetch truncates.
func (f *Following) Diverged() {
	f.mu.Lock()
	f.diverged = true
	f.mu.Unlock()
	f.wakeUp()
}

// State returns what the partition is doing.
func (f *Following) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// WantsAnswers tells whether a report should ask for an answer as soon as the leader has more than what it reports: the
// follower is in a fallback, or has not started yet (B4).
func (f *Following) WantsAnswers() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Kind == Fallback || f.state.Kind == Starting
}

// Partition returns the partition.
func (f *Following) Partition() segment.TopicIDPartition { return f.partition }

// LeaderEpoch returns the leader epoch that this handle follows.
func (f *Following) LeaderEpoch() int32 { return f.epoch }

// Stop cancels what is under way on the log, waits for it, and nothing starts after (F7). It may be called more than
// once, and does nothing to a newer handle of the partition.
func (f *Following) Stop() {
	f.cancel()
	<-f.done
}

// supersede ends the handle without waiting.
func (f *Following) supersede() { f.cancel() }

// atRest tells whether Follow with the same epoch makes a new handle.
func (f *Following) atRest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resting || f.ctx.Err() != nil
}

// eventArrived notes an event of the partition. It tells whether the event is of the epoch followed, so that the
// partition is to be woken, and whether its segment is worth fetching ahead. It is called by the subscription's goroutine.
func (f *Following) eventArrived(slice *segment.Slice) (concerned, wanted bool) {
	if slice.LeaderEpoch != f.epoch {
		return false, false // stale, or of an epoch that the broker has not told yet (F1)
	}
	// D2: looked at before the partition's own goroutine can learn of the event and change it.
	fromStore := f.fromStore.Load()
	f.mu.Lock()
	f.gapped = time.Time{} // if this event does not continue the log, the hole shows by its offsets
	ahead := slice.LastOffset >= f.progress.end
	f.mu.Unlock()
	return true, ahead && fromStore
}

// eventsLost notes that events of the leader are missing.
func (f *Following) eventsLost() {
	f.mu.Lock()
	f.gapped = time.Now()
	f.mu.Unlock()
	f.wakeUp()
}

func (f *Following) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// wait returns when something may have changed: a wake-up, the fetch, the deadline (the zero time is none), or the end.
// It says nothing of which: the caller looks again, in a fixed order (D2).
func (f *Following) wait(fetched <-chan struct{}, deadline time.Time) {
	var expired <-chan time.Time
	if !deadline.IsZero() {
		d := time.Until(deadline)
		if d <= 0 {
			return
		}
		if f.timer == nil {
			f.timer = time.NewTimer(d)
		} else {
			f.timer.Reset(d)
		}
		expired = f.timer.C
	}
	select {
	case <-f.wake:
	case <-fetched:
	case <-expired:
	case <-f.ctx.Done():
	}
}

// end reads the log's end and notes how far it has come.
func (f *Following) end() (logEnd int64, lastEpoch int32, err error) {
	logEnd, lastEpoch, err = f.readEnd()
	if err != nil {
		return 0, 0, err
	}
	f.mu.Lock()
	f.progress.moved(logEnd, time.Now())
	f.mu.Unlock()
	return logEnd, lastEpoch, nil
}

func (f *Following) readEnd() (logEnd int64, lastEpoch int32, err error) {
	defer f.r.contain("log end", &err)
	logEnd, lastEpoch = f.log.End()
	return logEnd, lastEpoch, nil
}

// snapshot returns what other goroutines have told.
func (f *Following) snapshot() (p progress, diverged bool, gapped time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress, f.diverged, f.gapped
}

// setState changes the state and reports it, once for each change.
func (f *Following) setState(kind Kind, reason Reason, from, to int64, cause error) {
	f.mu.Lock()
	was := f.state.Kind
	f.state = State{Kind: kind, Reason: reason, From: from, To: to, Epoch: f.epoch, Since: f.r.cfg.Now(), Err: cause}
	f.resting = kind == Failed || kind == Stopped
	state := f.state
	f.mu.Unlock()
	if was == kind {
		return
	}
	switch {
	case kind == Fallback:
		f.r.stats.fallbacks.Add(1)
		f.r.stats.inFallback.Add(1)
		f.r.cfg.Logger.Warn("falling back to the leader", "partition", f.partition.String(), "epoch", f.epoch,
			"reason", string(reason), "from", from, "to", to, "err", cause)
	case kind == Failed:
		f.r.cfg.Logger.Error("append failed, partition is at rest", "partition", f.partition.String(), "epoch", f.epoch, "err", cause)
	case kind == Replicating && was == Fallback:
		f.r.cfg.Logger.Info("replicating from the store again", "partition", f.partition.String(), "epoch", f.epoch)
	}
	if was == Fallback {
		f.r.stats.inFallback.Add(-1)
	}
	if hook := f.r.cfg.Hooks.StateChanged; hook != nil {
		hook(f.partition, state)
	}
}
