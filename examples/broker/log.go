package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage/segment"
)

// directory is the name of a partition's directory, as Kafka names it.
func directory(id segment.TopicIDPartition) string {
	return fmt.Sprintf("%s-%d", id.Topic, id.Partition)
}

// openLog opens the partition's log. After anything but a clean shutdown all of it is read, and a torn or damaged tail is
// cut: the leader has what was acknowledged, and gives it again.
func (p *partition) openLog(ctx context.Context) error {
	b := p.broker
	name := directory(p.TopicIDPartition)
	dir, err := b.openDir(filepath.Join(b.dir, name))
	if err != nil {
		return err
	}
	b.mu.RLock()
	highWatermark, start := b.kept.highWatermarks[name], b.kept.starts[name]
	b.mu.RUnlock()
	cfg := unifiedlog.Config{
		FS: dir, TopicID: p.TopicID, CleanShutdown: b.kept.clean, HighWatermark: highWatermark, LogStart: start,
		SegmentBytes: b.segmentBytes, MaxBatchBytes: maxBatch, Moved: p.moved, Logger: b.logger.With("partition", name),
	}
	p.log, err = unifiedlog.Open(ctx, cfg)
	if errors.Is(err, unifiedlog.ErrTopicID) {
		// A topic of this name was deleted while the broker was away (B6).
		if err := removeStray(dir); err != nil {
			return err
		}
		cfg.HighWatermark, cfg.LogStart = 0, 0
		p.log, err = unifiedlog.Open(ctx, cfg)
	}
	return err
}

// removeStray empties the directory of a partition that is no more.
func removeStray(dir unifiedlog.FS) error {
	names, err := dir.List()
	for _, name := range names {
		err = errors.Join(err, dir.Remove(name))
	}
	return errors.Join(err, dir.SyncDir())
}

// checkFetch compares the end of a follower's log with this one (B3).
func (p *partition) checkFetch(end int64, lastEpoch int32) (*replica.Diverging, error) {
	diverging, err := p.log.CheckFetch(end, lastEpoch)
	switch {
	case errors.Is(err, unifiedlog.ErrOutOfRange):
		return nil, replica.ErrOutOfRange
	case err != nil || diverging == nil:
		return nil, err
	}
	return &replica.Diverging{Epoch: diverging.Epoch, EndOffset: diverging.End}, nil
}

// firstRead is how much is read at first where nobody knows how much there is.
const firstRead = 64 << 10

// readWhole reads whole batches with read, which is the log's Read or Fetch: as many as fit into size, and, if that is asked
// for, at least one. The buffer grows as there are batches to fill it.
func readWhole(read func(dst []byte) (int, error), size int, atLeastOne bool) ([]byte, error) {
	buffer := make([]byte, min(size, firstRead))
	for {
		n, err := read(buffer)
		short := (*leader.ShortBufferError)(nil)
		switch {
		case errors.As(err, &short):
			if short.Need > size && !atLeastOne {
				return nil, nil
			}
			buffer = make([]byte, max(short.Need, min(size, firstRead)))
		case err != nil || n < len(buffer)/2 || len(buffer) >= size:
			return buffer[:n], err
		default:
			buffer = make([]byte, min(size, 4*len(buffer)))
		}
	}
}

// codeOfAppend is what a producer is told of an append that failed.
func codeOfAppend(err error) int16 {
	for _, e := range []struct {
		err  error
		code int16
	}{
		{unifiedlog.ErrNotLeader, codeNotLeaderOrFollower},
		{unifiedlog.ErrClosed, codeNotLeaderOrFollower},
		{unifiedlog.ErrCorrupt, codeCorruptMessage},
		{unifiedlog.ErrInvalidRecord, codeInvalidRecord},
		{unifiedlog.ErrInvalidTimestamp, codeInvalidTimestamp},
		{unifiedlog.ErrTooLarge, codeMessageTooLarge},
		{unifiedlog.ErrOutOfOrderSequence, codeOutOfOrderSequence},
		{unifiedlog.ErrProducerFenced, codeInvalidProducerEpoch},
	} {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	return codeStorageError
}

// codeOfRead is what a reader is told of a read that failed. Damage is an error, and never served.
func codeOfRead(err error) int16 {
	switch {
	case err == nil:
		return codeNone
	case errors.Is(err, leader.ErrBelowLogStart), errors.Is(err, unifiedlog.ErrOutOfRange):
		return codeOffsetOutOfRange
	case errors.Is(err, unifiedlog.ErrCorrupt):
		return codeCorruptMessage
	case errors.Is(err, unifiedlog.ErrClosed):
		return codeNotLeaderOrFollower
	}
	return codeStorageError
}
