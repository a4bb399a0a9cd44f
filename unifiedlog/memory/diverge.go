package memory

import "fmt"

// EndOffsetForEpoch answers Kafka's OffsetsForLeaderEpoch: the largest epoch of the log that is not above the one asked
// for, and the offset at which it ended (the log's end for the newest). Below every epoch known, the answer is the epoch
// asked for and the start of the first known one. Both fields are -1 if the epoch is above every epoch known, or none is
// known.
func (l *Log) EndOffsetForEpoch(epoch int32) EpochEnd {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.epochs.EndOffset(epoch, l.end)
}

// CheckFetch is the check that a leader makes of every replica fetch (B3): it returns where the follower's log parts
// from this one, or nil if a log that ends at offset, its last batch of lastEpoch, is a prefix of this one. A lastEpoch
// of -1 is not checked. The error is [ErrOutOfRange] if the offset lies outside this log, or the epoch above every epoch
// that it knows.
func (l *Log) CheckFetch(offset int64, lastEpoch int32) (*EpochEnd, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if lastEpoch >= 0 {
		diverging, known := l.epochs.Diverging(offset, lastEpoch, l.end)
		if !known {
			return nil, fmt.Errorf("%w: epoch %d is above every epoch known", ErrOutOfRange, lastEpoch)
		}
		if diverging != nil {
			return diverging, nil
		}
	}
	if offset < l.start || offset > l.end {
		return nil, fmt.Errorf("%w: %d is not in [%d,%d]", ErrOutOfRange, offset, l.start, l.end)
	}
	return nil, nil
}

// TruncateDiverging is what a follower does with the answer of [Log.CheckFetch]: it truncates its log to where it parted
// from the leader's as far as this answer tells, and returns the new end. If the follower has batches of an epoch that
// the leader's answer skips, a further fetch and a further truncation follow, as in Kafka.
func (l *Log) TruncateDiverging(leader EpochEnd) int64 {
	l.mu.Lock()
	before := l.end
	to := l.epochs.TruncationPoint(leader, l.end)
	if l.start == l.end && l.below > leader.Epoch {
		to = 0 // the log has no record to keep, and the leader none of the epoch that it ended in: begin anew
	}
	l.truncateTo(to)
	end := l.end
	l.unlockMoved(end != before)
	return end
}
