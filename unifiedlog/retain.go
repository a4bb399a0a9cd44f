package unifiedlog

import (
	"fmt"
	"slices"
)

// DeleteRecords moves the log start to offset, as a DeleteRecords request, local retention, or a leader's answer to a
// follower does. Reads below it are refused from now on; the bytes go with [Log.Retain], segment by segment. An offset at
// or below the log start changes nothing, one above the log's end gives [ErrOutOfRange]. The high watermark never lies
// below the log start (KAFKA-16452). Whether records above it may be deleted is the broker's to say: Kafka's answer is no.
func (l *Log) DeleteRecords(offset int64) error {
	l.w.Lock()
	moved, err := l.deleteRecords(offset)
	l.w.Unlock()
	l.moved(moved)
	return err
}

func (l *Log) deleteRecords(offset int64) (moved bool, err error) {
	if err := l.writable(); err != nil {
		return false, err
	}
	if offset > l.end {
		return false, fmt.Errorf("%w: %d is above the log's end %d", ErrOutOfRange, offset, l.end)
	}
	if offset <= l.start {
		return false, nil
	}
	below := l.epochs.At(offset - 1)
	err = l.keepEpochs(l.epochs.TruncateFromStart(offset), func() {
		l.start, l.below = offset, below
		l.highWatermark = max(l.highWatermark, offset)
		l.producers.replicated(l.highWatermark)
	})
	return err == nil, err
}

// Retain deletes the segments that the log does not need any more, and returns how many: those that lie below the log
// start, and the oldest as long as they are too old (Config.RetentionAge, by their largest timestamp, or, without any, by
// when they were begun) or the log is too large without them (Config.RetentionBytes). The log start moves up with them. No
// segment with a record at or above the high watermark is deleted. If all go, the log goes on in a new one.
//
// A broker calls it now and then; Kafka does every five minutes, and deletes the files a minute later.
func (l *Log) Retain() (deleted int, err error) {
	l.w.Lock()
	before := l.start
	deleted, err = l.retain()
	moved := l.start != before
	l.w.Unlock()
	l.moved(moved)
	return deleted, err
}

func (l *Log) retain() (deleted int, err error) {
	if err := l.writable(); err != nil {
		return 0, err
	}
	now, highWatermark := l.cfg.Now(), l.HighWatermark()
	size := int64(0)
	for _, s := range l.segments {
		size += s.size
	}
	count := 0
	for i, s := range l.segments {
		next, last := l.end, i == len(l.segments)-1
		if !last {
			next = l.segments[i+1].base
		}
		age := now.UnixMilli() - s.maxTime
		if s.maxTime < 0 {
			age = now.Sub(s.created).Milliseconds()
		}
		gone := !last && next <= l.start ||
			l.cfg.RetentionBytes > 0 && size-s.size >= l.cfg.RetentionBytes ||
			l.cfg.RetentionAge > 0 && age > l.cfg.RetentionAge.Milliseconds()
		if !gone || highWatermark < next || last && s.size == 0 {
			break
		}
		count, size = i+1, size-s.size
	}
	if count == 0 {
		return 0, nil
	}
	if count == len(l.segments) {
		if err := l.roll(l.end); err != nil {
			return 0, err
		}
	}
	if start := l.segments[count].base; start > l.start {
		if _, err := l.deleteRecords(start); err != nil {
			return 0, err
		}
	}
	for ; deleted < count; deleted++ {
		if err := l.dropFirst(); err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// dropFirst removes the oldest segment for good, and its snapshot.
func (l *Log) dropFirst() error {
	s := l.segments[0]
	segments := slices.Clone(l.segments[1:])
	l.mu.Lock()
	l.segments = segments
	l.generation++
	l.mu.Unlock()
	if err := l.removeSegment(s); err != nil {
		return l.fail(err)
	}
	return remove(l.fs, fileName(s.base, snapshotSuffix))
}

// Delete closes the log and removes all of its files and the directory. Without the directory it would come back empty.
func (l *Log) Delete() error {
	l.w.Lock()
	defer l.w.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.background.Wait()
	l.mu.Lock()
	l.closed = true
	l.generation++
	segments := l.segments
	l.mu.Unlock()
	for _, s := range segments {
		s.close()
	}
	names, err := l.fs.List()
	if err != nil {
		return fmt.Errorf("unifiedlog: %w", err)
	}
	for _, name := range names {
		if err := remove(l.fs, name); err != nil {
			return fmt.Errorf("unifiedlog: %s: %w", name, err)
		}
	}
	if err := remove(l.fs, "."); err != nil {
		return fmt.Errorf("unifiedlog: the directory: %w", err)
	}
	return nil
}
