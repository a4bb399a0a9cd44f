package memory

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog"
)

var (
	_ leader.Log   = (*Log)(nil)
	_ follower.Log = (*Log)(nil)
)

// Config configures a [Log]. The zero value is an empty log that starts at offset 0.
type Config struct {
	// Start is the log start offset of the new, empty log, 0 or greater.
	Start int64
	// Moved, if not nil, is called after each call that moved the log's end or its start, on the goroutine of that call
	// and with no lock held. A broker notifies the leader's uploader there, or the reporter of its fetch requests. It
	// must not block.
	Moved func()
}

// Log is one partition's log in memory. All methods may be called from many goroutines at once.
type Log struct {
	moved func()

	mu     sync.RWMutex
	store  store
	epochs unifiedlog.Epochs
	start  int64 // log start offset
	// below is the epoch of the last record that was deleted below start, -1 if it is not known.
	below int32
	end   int64 // log end offset
	// flushed is the end of what survives Crash.
	flushed int64
	// epoch is the newest leader epoch led or followed, -1 before the first; role says which of the two.
	epoch int32
	role  role
}

type role int8

const (
	idle role = iota // before the first Lead or Follow, and after Crash
	leading
	following
)

// New returns an empty log. A Start that is negative, or leaves no offset above it, counts as 0.
func New(cfg Config) *Log {
	start := cfg.Start
	if start < 0 || start == math.MaxInt64 {
		start = 0
	}
	return &Log{moved: cfg.Moved, start: start, end: start, flushed: start, epoch: -1, below: -1}
}

// Start returns the log start offset.
func (l *Log) Start() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.start
}

// End returns the log end offset and the leader epoch of the offset before it, read together (B1). The epoch is that of
// LEO-1 and not the newest of the cache, which may be an epoch that has no batch yet (R5, KAFKA-10706). It is -1 if the
// cache tells none: the log has never had a record, or begins anew. Where everything below its end was deleted it is the
// epoch of the last record deleted: else the leader of a later epoch could not check what this log once had below its start
// (B3), and would count it as a copy of records that it does not have.
func (l *Log) End() (logEndOffset int64, lastEpoch int32) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if lastEpoch = l.epochs.At(l.end - 1); lastEpoch < 0 && l.end == l.start {
		lastEpoch = l.below
	}
	return l.end, lastEpoch
}

// Size returns the bytes of all batches.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.store.size
}

// Epoch returns the newest leader epoch that the log has led or followed, -1 before the first, and whether it leads in
// it now.
func (l *Log) Epoch() (epoch int32, leads bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.epoch, l.role == leading
}

// Lead makes the log the leader's in the epoch given and returns the offset at which the epoch begins: the log's end. It
// puts the epoch into the cache, so that it is there before the uploader's Lead (B5). Leading again in the epoch already
// led changes nothing; an epoch that is not newer than every epoch led or followed gives [ErrEpochUsed] (B6).
func (l *Log) Lead(epoch int32) (epochStart int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead(epoch)
}

func (l *Log) lead(epoch int32) (int64, error) {
	if l.role == leading && epoch == l.epoch {
		if start, ok := l.epochs.StartOf(epoch); ok {
			return start, nil
		}
		return l.end, nil
	}
	// The log may hold batches of an epoch that it was never told to lead: AppendRaw put them there.
	if used := max(l.epoch, l.epochs.Latest()); epoch <= used {
		return -1, fmt.Errorf("%w: %d after %d", ErrEpochUsed, epoch, used) // no offset (Jepsen on Bufstream 0.1.0)
	}
	l.role, l.epoch = leading, epoch
	l.epochs = l.epochs.Assign(epoch, l.end)
	return l.end, nil
}

// Follow makes the log a follower's in the epoch given: AppendAsFollower appends in this epoch and no other. Following
// again in the same epoch changes nothing; an epoch older than one led or followed, or the one led now, gives
// [ErrEpochUsed].
func (l *Log) Follow(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch < l.epoch || epoch < 0 || l.role == leading && epoch == l.epoch {
		return fmt.Errorf("%w: %d after %d", ErrEpochUsed, epoch, l.epoch)
	}
	l.role, l.epoch = following, epoch
	return nil
}

// Epochs returns a copy of the leader epoch cache, oldest first.
func (l *Log) Epochs() []EpochStart {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.epochs)
}

// EpochStart returns the offset at which the epoch began, false if the cache does not hold it.
func (l *Log) EpochStart(epoch int32) (start int64, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.epochs.StartOf(epoch)
}

// unlockMoved releases the lock and tells that the end or the start has moved.
func (l *Log) unlockMoved(moved bool) {
	l.mu.Unlock()
	if moved && l.moved != nil {
		l.moved()
	}
}
