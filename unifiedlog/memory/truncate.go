package memory

import "fmt"

// TruncateTo drops every batch that ends at offset or above and returns the new end. A batch that contains the offset
// goes whole, and the end is then its base offset, so that the log has no hole. Entries of the leader epoch cache that
// begin at the new end go too, also where no bytes go (KAFKA-10706). An offset at or above the end drops no batch, one
// below the log start everything: the log then starts there.
//
// A broker stops walhop's Following and Leadership of the partition first, unless it truncates inside a LeaderFetcher
// call (B5).
func (l *Log) TruncateTo(offset int64) int64 {
	l.mu.Lock()
	before := l.end
	l.truncateTo(offset)
	end := l.end
	l.unlockMoved(end != before)
	return end
}

func (l *Log) truncateTo(offset int64) {
	offset = max(offset, 0)
	if offset < l.start {
		l.truncateFully(offset)
		return
	}
	if offset < l.end {
		if i, j := l.store.find(offset); i < len(l.store.blocks) {
			p, _ := l.store.at(i, j)
			// A batch that begins below the log start is kept only as long as the log needs it.
			offset = min(offset, max(p.base, l.start))
			l.store.cut(i, j)
		}
		l.end = offset
		l.flushed = min(l.flushed, offset)
	}
	l.epochs = l.epochs.TruncateFromEnd(l.end)
}

// TruncateFullyAndStartAt drops everything; the log is empty and starts and ends at offset. The leader epoch cache is
// empty, or holds the epochs given, oldest first: a broker that rebuilds a follower from tiered storage knows them.
func (l *Log) TruncateFullyAndStartAt(offset int64, epochs ...EpochStart) {
	l.mu.Lock()
	l.truncateFully(max(offset, 0))
	for _, e := range epochs {
		l.epochs = l.epochs.Assign(e.Epoch, e.Start)
	}
	l.unlockMoved(true)
}

func (l *Log) truncateFully(offset int64) {
	l.store = store{}
	l.epochs = nil
	l.below = -1
	l.start, l.end, l.flushed = offset, offset, offset
}

// DeleteRecords moves the log start to offset, as a DeleteRecords request, local retention, or a leader's answer to a
// follower does. Batches that end below it are gone; one that contains it stays. An offset at or below the log start
// changes nothing, one above the log's end gives [ErrOutOfRange].
func (l *Log) DeleteRecords(offset int64) error {
	l.mu.Lock()
	if offset > l.end {
		defer l.mu.Unlock()
		return fmt.Errorf("%w: %d is above the log's end %d", ErrOutOfRange, offset, l.end)
	}
	moved := offset > l.start
	if moved {
		l.start, l.below = offset, l.epochs.At(offset-1)
		l.store.dropBelow(offset)
		l.epochs = l.epochs.TruncateFromStart(offset)
	}
	l.unlockMoved(moved)
	return nil
}

// Compact removes the batches that lie wholly within the offsets [from, to), as compaction does, and returns how many.
// The other batches keep their offsets, so a gap is left; the log's end and the leader epoch cache stay.
func (l *Log) Compact(from, to int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.drop(from, to)
}
