package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// directory is the name of a partition's directory, as Kafka names it.
func directory(id segment.TopicIDPartition) string {
	return fmt.Sprintf("%s-%d", id.Topic, id.Partition)
}

func (p *partition) openLog(string) error {
	p.log = memory.New(memory.Config{Moved: p.moved})
	return nil
}

func (p *partition) closeLog(bool) {}

func (p *partition) deleteLog() error { return nil }

// checkFetch compares the end of a follower's log with this one (B3).
func (p *partition) checkFetch(end int64, lastEpoch int32) (*replica.Diverging, error) {
	diverging, err := p.log.CheckFetch(end, lastEpoch)
	switch {
	case errors.Is(err, memory.ErrOutOfRange):
		return nil, replica.ErrOutOfRange
	case err != nil || diverging == nil:
		return nil, err
	}
	return &replica.Diverging{Epoch: diverging.Epoch, EndOffset: diverging.End}, nil
}

// codeOfAppend is what a producer is told of an append that failed.
func codeOfAppend(err error) int16 {
	switch {
	case errors.Is(err, memory.ErrNotLeader):
		return codeNotLeaderOrFollower
	case errors.Is(err, memory.ErrCorrupt):
		return codeCorruptMessage
	}
	return codeStorageError
}

// stable is the last stable offset: what lies below belongs to no open transaction.
func (p *partition) stable(highWatermark int64) int64 { return highWatermark }

// epochEnd tells the largest leader epoch not above the one given, and where it ended.
func (p *partition) epochEnd(epoch int32) (int32, int64) {
	e := p.log.EndOffsetForEpoch(epoch)
	return e.Epoch, e.End
}

// offsetAt finds the first record that is not older than a time, or with timeMax the newest, -1 if there is none.
func (p *partition) offsetAt(time int64) (offset, timestamp int64, err error) { return -1, -1, nil }

// readBelow reads whole batches from the one that holds the offset on, below a limit: as many as fit into size, and, if
// that is asked for, at least one.
func (p *partition) readBelow(ctx context.Context, offset, limit int64, size int, atLeastOne bool) ([]byte, error) {
	if size == 0 && !atLeastOne {
		return nil, nil
	}
	data, err := readWhole(ctx, p.log, offset, size)
	if err != nil {
		return nil, err
	}
	s := batch.NewScanner(data)
	n := 0
	for s.Next() && s.LastOffset() < limit {
		n = s.End()
	}
	return data[:n], nil
}

// codeOfRead is what a reader is told of a read that failed.
func codeOfRead(err error) int16 {
	switch {
	case errors.Is(err, leader.ErrBelowLogStart), errors.Is(err, memory.ErrOutOfRange):
		return codeOffsetOutOfRange
	}
	return codeStorageError
}
