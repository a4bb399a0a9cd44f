package unifiedlog

import (
	"errors"
	"fmt"
	"io/fs"
)

// Flush syncs everything that was appended before the call and returns the recovery point, the end of what is synced.
// Appends and reads go on meanwhile. Where a sync fails the log has failed ([ErrFailed]): what the disk holds then is
// not known, and a second sync that succeeds would prove nothing.
func (l *Log) Flush() (recoveryPoint int64, err error) {
	l.mu.RLock()
	end, err := l.end, l.refusal()
	l.mu.RUnlock()
	if err != nil {
		return l.RecoveryPoint(), err
	}
	err = l.flushTo(end)
	return l.RecoveryPoint(), err
}

// RecoveryPoint returns the end of what is known to be synced. A broker keeps it, and hands it to the next [Open] in
// Config.RecoveryPoint.
func (l *Log) RecoveryPoint() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.flushed
}

// flushIfDue flushes after an append if Config.FlushRecords says so.
func (l *Log) flushIfDue() error {
	if l.cfg.FlushRecords == 0 {
		return nil
	}
	l.mu.RLock()
	end, due := l.end, l.end-l.flushed >= l.cfg.FlushRecords
	l.mu.RUnlock()
	if !due {
		return nil
	}
	return l.flushTo(end)
}

// flushTo makes target the recovery point, at least, as far as the log still goes there. It holds no lock over a sync but
// its own.
func (l *Log) flushTo(target int64) error {
	l.fl.Lock()
	defer l.fl.Unlock()
	for {
		l.mu.RLock()
		from, generation, segments := l.flushed, l.generation, l.segments
		target = min(target, l.end)
		closed := l.closed
		l.mu.RUnlock()
		if closed || target <= from {
			return nil
		}
		err := l.sync(segments, from, target)
		l.mu.Lock()
		if l.generation != generation {
			// A truncation or a deletion came between: it may have closed the files.
			l.mu.Unlock()
			continue
		}
		if err == nil {
			l.flushed = target
		}
		l.mu.Unlock()
		if err != nil {
			return l.fail(err)
		}
		return nil
	}
}

// sync syncs the files of the segments that hold the offsets [from, target), the oldest first, and the names.
//
// Of the active segment only the log: the segment with the recovery point is read again at recovery, and its indexes are
// made anew.
func (l *Log) sync(segments []*segment, from, target int64) error {
	names := false
	for i := floor(segments, from); i < len(segments) && (segments[i].base < target || i == 0); i++ {
		s := segments[i]
		if err := l.syncFiles(s, i < len(segments)-1); err != nil {
			return err
		}
		if i+1 < len(segments) {
			names = true
			if err := l.syncSnapshot(segments[i+1].base); err != nil {
				return err
			}
		}
		names = names || s.base >= from
	}
	if !names {
		return nil
	}
	if err := l.fs.SyncDir(); err != nil {
		return fmt.Errorf("sync of the directory: %w", err)
	}
	return nil
}

// syncFiles syncs the log of a segment, and its indexes if they are asked for.
func (l *Log) syncFiles(s *segment, indexes bool) error {
	files := []File{s.file}
	if indexes {
		l.mu.RLock()
		files = append(files, s.offsets.file, s.times.file, s.txns.file)
		l.mu.RUnlock()
	}
	for _, file := range files {
		if file == nil {
			continue
		}
		if err := file.Sync(); err != nil {
			return fmt.Errorf("sync of segment %d: %w", s.base, err)
		}
	}
	return nil
}

// syncIndexes syncs the indexes of a segment, and their names.
func (l *Log) syncIndexes(s *segment) error {
	if err := l.syncFiles(s, true); err != nil {
		return err
	}
	if err := l.fs.SyncDir(); err != nil {
		return fmt.Errorf("sync of the directory: %w", err)
	}
	return nil
}

// syncSnapshot syncs the snapshot at an offset, if there is one: recovery from there then need not go further back.
func (l *Log) syncSnapshot(offset int64) error {
	name := fileName(offset, snapshotSuffix)
	file, err := l.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = file.Sync()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync of %s: %w", name, err)
	}
	return nil
}

// Close writes what is pending, takes a snapshot of the producers, syncs everything and closes the files. If it returns
// nil, the log may be opened with Config.CleanShutdown, and its recovery point is its end. It waits for the flush of a
// rolled segment. Whatever it returns, the log is closed: later writes and reads give [ErrClosed]. Closing again returns
// nil.
func (l *Log) Close() error {
	l.w.Lock()
	defer l.w.Unlock()
	l.background.Wait()
	if l.closed {
		return nil
	}
	err := l.finish()
	l.mu.Lock()
	l.closed = true
	l.generation++
	segments := l.segments
	l.mu.Unlock()
	for _, s := range segments {
		s.close()
	}
	return err
}

// finish is what Close does before it closes the files.
func (l *Log) finish() error {
	if err := l.writable(); err != nil {
		return err
	}
	s := l.active()
	l.mu.Lock()
	s.noteTime()
	l.mu.Unlock()
	if err := l.flushIndexes(s, true); err != nil {
		return fmt.Errorf("unifiedlog: indexes of %s: %w", s.name(), err)
	}
	if err := l.takeSnapshot(); err != nil {
		return err
	}
	if err := l.flushTo(l.end); err != nil {
		return err
	}
	// The indexes of the active segment count from now on.
	if err := l.syncFiles(s, true); err != nil {
		return l.fail(err)
	}
	if err := l.syncSnapshot(l.producers.end); err != nil {
		return l.fail(err)
	}
	if err := l.fs.SyncDir(); err != nil {
		return l.fail(fmt.Errorf("sync of the directory: %w", err))
	}
	return nil
}
