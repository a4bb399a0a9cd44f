package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Open opens the log in a directory, and makes it if there is none. Unless Config.CleanShutdown is set it recovers the log
// first: every segment from the recovery point on is read, the log ends before the first batch that is not what was
// appended, and indexes, snapshots and epochs are made anew from what is left. Its errors are of kind
// walstorage.ErrInvalidArgument for a wrong configuration, [ErrTopicID], [ErrUnfinishedSwap], the context's, and those of
// the file system.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	fsys := cfg.FS
	if fsys == nil {
		if fsys, err = OpenDir(cfg.Dir); err != nil {
			return nil, fmt.Errorf("unifiedlog: %w", err)
		}
	}
	l := &Log{cfg: cfg, fs: fsys, epoch: -1, below: -1}
	if err := l.load(ctx); err != nil {
		for _, s := range l.segments {
			s.close()
		}
		return nil, fmt.Errorf("unifiedlog: %w", err)
	}
	return l, nil
}

// load brings the log up. Nobody else knows of it yet, so no lock is needed.
func (l *Log) load(ctx context.Context) error {
	files, err := l.sweep()
	if err != nil {
		return err
	}
	if err := l.checkTopicID(files.metadata); err != nil {
		return err
	}
	if err := l.openSegments(files); err != nil {
		return err
	}
	r := recovery{l: l, ctx: ctx, snapshots: files.snapshots}
	if err := r.run(); err != nil {
		return err
	}
	if len(l.segments) == 0 {
		if err := l.begin(l.cfg.LogStart); err != nil {
			return err
		}
	}
	l.start = max(l.cfg.LogStart, l.segments[0].base)
	l.end = max(l.end, l.start)
	l.highWatermark = min(max(l.cfg.HighWatermark, l.start), l.end)
	l.flushed = min(l.cfg.RecoveryPoint, l.end)
	if l.cfg.CleanShutdown && !r.changed {
		l.flushed = l.end
	}
	if err := r.settleEpochs(); err != nil {
		return err
	}
	if err := r.settleProducers(); err != nil {
		return err
	}
	return nil
}

// directory is what lies in the directory of the log.
type directory struct {
	logs      []int64 // bases, in their order
	indexes   map[string]bool
	snapshots []int64 // offsets, in their order
	metadata  bool
}

// sweep lists the directory and removes what an interrupted write, or Kafka, has left half done.
func (l *Log) sweep() (d directory, err error) {
	names, err := l.fs.List()
	if err != nil {
		return d, err
	}
	d.indexes = map[string]bool{}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, swapSuffix):
			return d, fmt.Errorf("%w: %s", ErrUnfinishedSwap, name)
		case strings.HasSuffix(name, deletedSuffix), strings.HasSuffix(name, cleanedSuffix), strings.HasSuffix(name, temporarySuffix):
			if err := remove(l.fs, name); err != nil {
				return d, err
			}
		case name == metadataName:
			d.metadata = true
		}
		if base, ok := parseName(name, logSuffix); ok {
			d.logs = append(d.logs, base)
		}
		if offset, ok := parseName(name, snapshotSuffix); ok {
			d.snapshots = append(d.snapshots, offset)
		}
	}
	for _, name := range names {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
			base, ok := parseName(name, suffix)
			if !ok {
				continue
			}
			if _, found := slices.BinarySearch(d.logs, base); found {
				d.indexes[name] = true
			} else if err := remove(l.fs, name); err != nil { // of a segment whose log has been deleted
				return d, err
			}
		}
	}
	return d, nil
}

// checkTopicID compares partition.metadata with the configuration, and writes it if there is none.
func (l *Log) checkTopicID(there bool) error {
	if !there {
		if l.cfg.TopicID == uuid.Nil {
			return nil
		}
		return replace(l.fs, metadataName, encodeMetadata(l.cfg.TopicID))
	}
	b, err := readAll(l.fs, metadataName, metadataLimit)
	if err != nil {
		return err
	}
	id, err := decodeMetadata(b)
	if err != nil {
		return err
	}
	if l.cfg.TopicID != uuid.Nil && id != l.cfg.TopicID {
		return fmt.Errorf("%w: %v, not %v", ErrTopicID, id, l.cfg.TopicID)
	}
	l.cfg.TopicID = id
	return nil
}

// TopicID returns the topic id of partition.metadata, the zero UUID if there is none.
func (l *Log) TopicID() uuid.UUID { return l.cfg.TopicID }

// openSegments opens the files of the segments. One whose indexes are missing or are damaged at first sight is marked for
// recovery by empty indexes in their place.
func (l *Log) openSegments(d directory) error {
	for _, base := range d.logs {
		s := &segment{base: base, created: l.cfg.Now()}
		s.reset()
		l.segments = append(l.segments, s)
		var err error
		if s.file, err = l.fs.Open(s.name()); err != nil {
			return err
		}
		if s.size, err = s.file.Size(); err != nil {
			return err
		}
		for _, index := range []struct {
			e      *entries
			suffix string
			size   int
		}{
			{&s.offsets, indexSuffix, offsetEntrySize},
			{&s.times, timeIndexSuffix, timeEntrySize},
			{&s.txns, txnIndexSuffix, txnEntrySize},
		} {
			name := fileName(base, index.suffix)
			if d.indexes[name] {
				*index.e, err = openEntries(l.fs, name, index.size)
				var damage *DamageError
				if errors.As(err, &damage) {
					l.cfg.Logger.Warn("an index is damaged and made anew", "dir", l.cfg.Dir, "err", err)
				} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			if index.e.file == nil {
				*index.e = entries{name: name, size: index.size}
				s.unindexed = s.unindexed || index.suffix != txnIndexSuffix || d.indexes[name]
			}
		}
	}
	return nil
}

// begin makes the first segment. Its name is synced at once, so that no later segment can be there without it.
func (l *Log) begin(base int64) error {
	s, err := createSegment(l.fs, base, l.cfg.Now())
	if err != nil {
		return err
	}
	l.segments = []*segment{s}
	l.end = base
	return l.fs.SyncDir()
}
