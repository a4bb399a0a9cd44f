package threebrokers

import (
	"context"
	"errors"
	"fmt"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// This file is the network between the brokers. Here it is a function call; a real broker has its own protocol, with the
// same two requests: reports, which carry offsets, and the ordinary replica fetch, which carries bytes.

// send carries reports to a leader. Two may be under way at once: a newer one ends a parked one (B1).
func (b *broker) send(ctx context.Context, leaderID int32, r replica.Reports) ([]replica.Answer, error) {
	return b.peers(leaderID).tracker.Handle(ctx, r)
}

// fetchBytes is how much one ordinary fetch asks for.
const fetchBytes = 1 << 20

// fetched is the answer to an ordinary fetch.
type fetched struct {
	batches   []byte
	leaderLEO int64
	logStart  int64
	diverging *memory.EpochEnd
	outOfSync bool // the offset is out of the leader's range
}

// serveFetch answers an ordinary fetch at the leader, with all its checks.
func (b *broker) serveFetch(ctx context.Context, replicaID int32, id segment.TopicIDPartition, epoch int32, offset int64, lastEpoch int32, maxBytes int) (fetched, error) {
	report := replica.Report{Partition: id, LeaderEpoch: epoch, LogEndOffset: offset, LastEpoch: lastEpoch}
	answer, err := b.Check(replicaID, b.peers(replicaID).epoch, report)
	if errors.Is(err, replica.ErrOutOfRange) {
		p := b.partition(id.Key())
		return fetched{outOfSync: true, logStart: p.log.Start()}, nil
	}
	if err != nil {
		return fetched{}, err
	}
	f := fetched{leaderLEO: answer.LeaderLEO, logStart: answer.LogStart}
	if answer.Diverging != nil {
		f.diverging = &memory.EpochEnd{Epoch: answer.Diverging.Epoch, End: answer.Diverging.EndOffset}
		return f, nil
	}
	f.batches = make([]byte, maxBytes)
	n, err := b.partition(id.Key()).log.Read(ctx, offset, f.batches)
	if short := (*leader.ShortBufferError)(nil); errors.As(err, &short) {
		f.batches = make([]byte, short.Need)
		n, err = b.partition(id.Key()).log.Read(ctx, offset, f.batches)
	}
	f.batches = f.batches[:n]
	return f, err
}

// FetchFromLeader is the ordinary replica fetch that walhop falls back on, with which each epoch begins as well. It asks
// at least once, truncates where the answer diverges, and returns nil only after an answer that did not.
func (b *broker) FetchFromLeader(ctx context.Context, id segment.TopicIDPartition, epoch int32, to int64) (leaderLEO int64, err error) {
	p := b.partition(id.Key())
	if p == nil {
		return 0, fmt.Errorf("broker %d has no replica of %s", b.id, id)
	}
	p.mu.Lock()
	leaderID := p.leaderID
	p.mu.Unlock()
	for ctx.Err() == nil {
		end, lastEpoch := p.log.End()
		f, err := b.peers(leaderID).serveFetch(ctx, b.id, id, epoch, end, lastEpoch, fetchBytes)
		switch {
		case err != nil:
			return leaderLEO, err
		case f.outOfSync:
			p.log.TruncateFullyAndStartAt(f.logStart)
			continue
		case f.diverging != nil:
			p.log.TruncateDiverging(*f.diverging)
			continue
		}
		leaderLEO = f.leaderLEO
		if to < 0 {
			to = leaderLEO
		}
		batches := below(f.batches, to)
		if end >= to || len(batches) == 0 {
			return leaderLEO, nil
		}
		if err := p.log.AppendAsFollower(ctx, epoch, end, batches); err != nil {
			return leaderLEO, err
		}
	}
	return leaderLEO, ctx.Err()
}

// below returns the first batch and those after it that begin below the offset to: a range that was asked for has an end
// (F5), and where compaction has taken what lay before it, the first batch leads past it.
func below(batches []byte, to int64) []byte {
	n := 0
	for n < len(batches) && (n == 0 || baseOffset(batches[n:]) < to) {
		n += batchLength(batches[n:])
	}
	return batches[:n]
}
