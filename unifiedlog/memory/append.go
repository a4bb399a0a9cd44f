package memory

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
)

// Append appends whole record batches as the leader of the epoch: it gives each the next offsets and the epoch, which
// the CRC of a batch does not cover, and changes nothing else. It returns the offsets of the first and the last record.
// batches is neither changed nor kept.
//
// An epoch newer than every epoch led or followed is led first, as by [Log.Lead]; an older one, or one that another
// broker leads, gives [ErrNotLeader]. Bytes that are no whole batches with right CRCs give a [*BatchError] and nothing
// is appended. With an error both offsets are -1, so that none can pass for one that was given (Jepsen on Bufstream
// 0.1.0).
func (l *Log) Append(ctx context.Context, epoch int32, batches []byte) (first, last int64, err error) {
	if err := ctx.Err(); err != nil {
		return -1, -1, err
	}
	if len(batches) == 0 {
		return -1, -1, fmt.Errorf("%w: no batches", ErrCorrupt)
	}
	if err := verify(batches); err != nil {
		return -1, -1, err
	}
	l.mu.Lock()
	defer func() { l.unlockMoved(err == nil) }()
	if l.role != leading || l.epoch != epoch {
		if _, err := l.lead(epoch); err != nil {
			return -1, -1, fmt.Errorf("%w: epoch %d: %w", ErrNotLeader, epoch, err)
		}
	}
	if err := l.room(batches); err != nil {
		return -1, -1, err
	}
	first = l.end
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		header := scanner.Header()
		base := l.end
		last = base + int64(header.LastOffsetDelta)
		stored := l.store.add(base, last, scanner.Bytes())
		batch.Assign(stored, base, epoch)
		l.epochs = l.epochs.Assign(epoch, base)
		l.end = last + 1
	}
	return first, last, nil
}

// room tells whether the offsets that the batches take fit below the largest offset.
func (l *Log) room(batches []byte) error {
	end := l.end
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		span := int64(scanner.Header().LastOffsetDelta) + 1
		if end > math.MaxInt64-span {
			return &BatchError{Position: scanner.Position(), BaseOffset: end, Kind: ErrOutOfOrder, Cause: errors.New("no offsets are left")}
		}
		end += span
	}
	return nil
}

// AppendRaw appends whole record batches that carry their offsets and epochs already, byte for byte, as a broker does
// when it recovers a log or takes an ordinary replica fetch. It needs no role, and asks of the batches what
// AppendAsFollower does; if the log leads or follows, no batch may be of a newer epoch than that. batches is not kept.
func (l *Log) AppendRaw(ctx context.Context, batches []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := verify(batches); err != nil {
		return err
	}
	l.mu.Lock()
	defer func() { l.unlockMoved(err == nil && len(batches) > 0) }()
	newest := int32(math.MaxInt32)
	if l.role != idle {
		newest = l.epoch
	}
	return l.appendChecked(newest, batches)
}

// AppendAsFollower implements follower.Log: it appends all the batches, byte for byte, or none. Under the log's lock it
// refuses with follower.ErrStale unless the log follows in leaderEpoch and its end is expectedOffset (C5). Batches
// whose CRC is wrong, that begin below the log's end, or whose epochs fall, or pass leaderEpoch, give a [*BatchError]. The
// first batch may begin above the end, after a compaction gap. No sequence number of a producer and no size is checked
// (F8, KAFKA-6003, KAFKA-17375).
func (l *Log) AppendAsFollower(ctx context.Context, leaderEpoch int32, expectedOffset int64, batches []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := verify(batches); err != nil {
		return err
	}
	l.mu.Lock()
	defer func() { l.unlockMoved(err == nil && len(batches) > 0) }()
	if l.role != following || l.epoch != leaderEpoch || l.end != expectedOffset {
		return follower.ErrStale
	}
	return l.appendChecked(leaderEpoch, batches)
}

// verify tells whether the bytes are whole batches with right CRCs. It needs no lock, so the appends of one log wait for
// each other's checksums no longer than they must.
func verify(batches []byte) error {
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		if err := batch.VerifyCRC(scanner.Bytes()); err != nil {
			return &BatchError{Position: scanner.Position(), BaseOffset: scanner.Header().BaseOffset, Kind: ErrCorrupt, Cause: err}
		}
	}
	if err := scanner.Err(); err != nil {
		return &BatchError{Position: scanner.Position(), BaseOffset: -1, Kind: ErrCorrupt, Cause: err}
	}
	if position, partial := scanner.PartialTail(); partial {
		return &BatchError{Position: position, BaseOffset: -1, Kind: ErrCorrupt, Cause: errors.New("the last batch is not whole")}
	}
	return nil
}

// appendChecked appends verified batches as they are, after it has checked their order.
func (l *Log) appendChecked(newest int32, batches []byte) error {
	end, epoch := l.end, l.epochs.At(l.end-1)
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		header := scanner.Header()
		var cause error
		switch {
		case header.BaseOffset < end:
			cause = fmt.Errorf("the log's end is %d", end)
		case header.LeaderEpoch < epoch || header.LeaderEpoch < 0:
			cause = fmt.Errorf("its epoch %d follows epoch %d", header.LeaderEpoch, epoch)
		case header.LeaderEpoch > newest:
			cause = fmt.Errorf("its epoch %d is above the partition's epoch %d", header.LeaderEpoch, newest)
		}
		if cause != nil {
			return &BatchError{Position: scanner.Position(), BaseOffset: header.BaseOffset, Kind: ErrOutOfOrder, Cause: cause}
		}
		end, epoch = header.NextOffset(), header.LeaderEpoch
	}
	scanner = batch.NewScanner(batches)
	for scanner.Next() {
		header := scanner.Header()
		l.store.add(header.BaseOffset, header.LastOffset(), scanner.Bytes())
		l.epochs = l.epochs.Assign(header.LeaderEpoch, header.BaseOffset)
		l.end = header.NextOffset()
	}
	return nil
}
