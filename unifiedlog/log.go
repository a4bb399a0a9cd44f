package unifiedlog

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
)

var (
	_ leader.Log   = (*Log)(nil)
	_ follower.Log = (*Log)(nil)
)

// Log is the log of one partition on disk. All methods may be called from many goroutines at once.
//
// Two locks: one for whoever writes, which is held over the writer's own calls of the file system, and one for what is
// known of the log, which is held over no such call. So a reader never waits for a disk, and neither does a writer for
// a sync, but for that of a truncation, of a new leader epoch, and of what it asks for itself.
type Log struct {
	cfg Config
	fs  FS

	// w is the writer's lock: append, truncation, roll, deletion, Close. Whoever holds it is the only one to change what mu
	// guards, so it may read that without mu; but for flushed, highWatermark, failed and the transactions that wait for
	// their replication, which others change.
	w sync.Mutex
	// scratch takes the batches of a leader's append while they get their offsets. Guarded by w.
	scratch []byte
	// kept is what the checkpoint of the epochs holds. Guarded by w.
	kept Epochs

	// fl is held by the one flush at a time, over its syncs. background are the flushes after a roll.
	fl         sync.Mutex
	background sync.WaitGroup

	mu       sync.RWMutex
	segments []*segment // in the order of their bases, never empty; replaced, not changed, so that a reader may keep it
	epochs   Epochs
	start    int64 // log start offset
	// below is the epoch of the last record that was deleted below start, -1 if it is not known.
	below         int32
	end           int64 // log end offset
	highWatermark int64
	// flushed is the recovery point: the end of what is synced.
	flushed int64
	// epoch is the newest leader epoch led or followed, -1 before the first; role says which of the two.
	epoch     int32
	role      role
	producers producerState
	// generation counts truncations and deletions. A reader that finds it changed reads again.
	generation uint64
	// failed is why the log takes no writes any more, nil while it does.
	failed error
	closed bool

	hint atomic.Pointer[hint] // where a read ended last
}

type role int8

const (
	idle role = iota // before the first Lead or Follow
	leading
	following
)

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

// Size returns the bytes of all batches in the files, those below the log start included that are still there.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	size := int64(0)
	for _, s := range l.segments {
		size += s.size
	}
	return size
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	// Base is the offset in the names of its files.
	Base int64
	// Size is the size of its batches in bytes.
	Size int64
	// MaxTimestamp is the largest timestamp of its batches, in Unix milliseconds, -1 if they have none.
	MaxTimestamp int64
}

// Segments describes the segments in the order of their offsets. The last is the active one.
func (l *Log) Segments() []SegmentInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := make([]SegmentInfo, len(l.segments))
	for i, s := range l.segments {
		all[i] = SegmentInfo{Base: s.base, Size: s.size, MaxTimestamp: s.maxTime}
	}
	return all
}

// Epoch returns the newest leader epoch that the log has led or followed, -1 before the first, and whether it leads in
// it now. After a restart it is the newest that the checkpoint of the epochs tells.
func (l *Log) Epoch() (epoch int32, leads bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.epoch, l.role == leading
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

// Lead makes the log the leader's in the epoch given and returns the offset at which the epoch begins: the log's end. It
// puts the epoch into the cache, and that on the disk, so that it is there before the uploader's Lead (B5). Leading again
// in the epoch already led changes nothing; an epoch that is not newer than every epoch led or followed gives
// [ErrEpochUsed] (B6). With an error the offset is -1.
func (l *Log) Lead(epoch int32) (epochStart int64, err error) {
	l.w.Lock()
	defer l.w.Unlock()
	if err := l.writable(); err != nil {
		return -1, err
	}
	return l.lead(epoch)
}

// lead is Lead for who holds the writer's lock.
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
	if err := l.keepEpochs(l.epochs.Assign(epoch, l.end), func() { l.role, l.epoch = leading, epoch }); err != nil {
		return -1, err
	}
	return l.end, nil
}

// Follow makes the log a follower's in the epoch given: AppendAsFollower appends in this epoch and no other. Following
// again in the same epoch changes nothing; an epoch older than one led or followed, or the one led now, gives
// [ErrEpochUsed].
func (l *Log) Follow(epoch int32) error {
	l.w.Lock()
	defer l.w.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if epoch < l.epoch || epoch < 0 || l.role == leading && epoch == l.epoch {
		return fmt.Errorf("%w: %d after %d", ErrEpochUsed, epoch, l.epoch)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.role, l.epoch = following, epoch
	return nil
}

// keepEpochs makes c the leader epoch cache, on the disk first, and in one step with it, under mu, does what also does. It is
// for who holds the writer's lock.
func (l *Log) keepEpochs(c Epochs, also func()) error {
	kept := c
	if len(c) == 0 && l.start == l.end && l.below >= 0 {
		kept = Epochs{{Epoch: l.below, Start: l.start}} // R5 across a restart
	}
	if !slices.Equal(kept, l.kept) {
		if err := replace(l.fs, epochsName, encodeEpochs(kept)); err != nil {
			return fmt.Errorf("unifiedlog: %s: %w", epochsName, err)
		}
		l.kept = kept
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs = c
	also()
	return nil
}

// nothing is done beside a change of the epochs.
func nothing() {}

// writable tells why the log takes no writes. It is for who holds the writer's lock.
func (l *Log) writable() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.refusal()
}

// refusal is writable for who holds mu.
func (l *Log) refusal() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, l.failed)
	}
	return nil
}

// fail stops the writes for good, and says so once.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = err
	}
	l.mu.Unlock()
	if first {
		l.cfg.Logger.Error("the log has failed and takes no writes until it is opened again", "dir", l.cfg.Dir, "err", err)
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// active returns the segment that is appended to. It is for who holds one of the locks.
func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }

// floor returns the index of the segment that holds offset, or would, and 0 for an offset below the first.
func floor(segments []*segment, offset int64) int {
	return max(0, sort.Search(len(segments), func(i int) bool { return segments[i].base > offset })-1)
}

// viewOf returns the view of segment i. It is for who holds one of the locks.
func (l *Log) viewOf(i int) view {
	next := l.end
	if i+1 < len(l.segments) {
		next = l.segments[i+1].base
	}
	return l.segments[i].view(next)
}

// moved tells the broker that the end or the start has moved.
func (l *Log) moved(is bool) {
	if is && l.cfg.Moved != nil {
		l.cfg.Moved()
	}
}
