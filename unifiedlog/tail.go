package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/leader"
)

var _ leader.Log = (*Tail)(nil)

// Tail reads the log of a partition in a directory that another process writes: a running Kafka broker, say. It implements
// leader.Log, so that an uploader can lead what that broker leads, and never writes, locks or deletes anything. Its methods
// may be called from many goroutines at once.
//
// What it knows of the log is as of the last [Tail.Refresh]: whole batches with right checksums, up to the first that is not
// whole yet. That is the log's end; the high watermark stands in no file. The indexes are not looked at, since a broker
// fills them up in front: each batch is read once, from the first segment wanted on.
type Tail struct {
	dir string
	// refreshing is held by the one Refresh at a time, over its reads.
	refreshing sync.Mutex
	// last is the batch that was read last, by which a truncation shows that later batches have hidden.
	last found
	// log has segments without index files, and no writer but Refresh.
	log *Log
}

// OpenTail returns a tail of the log in the directory, which begins with the segment that holds the offset from, or with the
// first if that is above. It reads no batch: Refresh does. The error is that of the directory; one without a segment is
// fs.ErrNotExist.
func OpenTail(dir string, from int64) (*Tail, error) {
	t := &Tail{dir: dir, log: &Log{epoch: -1, below: -1}}
	bases, err := t.list()
	if err != nil {
		return nil, fmt.Errorf("unifiedlog: %w", err)
	}
	if len(bases) == 0 {
		return nil, fmt.Errorf("unifiedlog: no segment in %s: %w", dir, fs.ErrNotExist)
	}
	first, found := slices.BinarySearch(bases, from)
	if !found {
		first = max(0, first-1)
	}
	s, err := t.open(bases[first])
	if err != nil {
		return nil, fmt.Errorf("unifiedlog: %w", err)
	}
	t.log.segments, t.log.start, t.log.end = []*segment{s}, s.base, s.base
	return t, nil
}

// list returns the bases of the segments in the directory, in their order.
func (t *Tail) list() (bases []int64, err error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if base, ok := parseName(entry.Name(), logSuffix); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// open opens a segment for reading. Nothing of it is known yet.
func (t *Tail) open(base int64) (*segment, error) {
	file, err := os.Open(filepath.Join(t.dir, fileName(base, logSuffix)))
	if err != nil {
		return nil, err
	}
	s := &segment{
		base: base, file: osFile{file}, offsets: entries{size: offsetEntrySize}, times: entries{size: timeEntrySize}, txns: entries{size: txnEntrySize},
	}
	s.reset()
	return s, nil
}

// Refresh reads what the other process has written since, and returns whether the log's end or start has moved: then the
// uploader is to be notified. A log that was truncated, or begun anew, is read anew from there; what an uploader has
// taken of it may then be what the log does not hold any more: Resign first (B5).
func (t *Tail) Refresh(ctx context.Context) (moved bool, err error) {
	t.refreshing.Lock()
	defer t.refreshing.Unlock()
	l := t.log
	before, generation := l.end, l.generation
	bases, err := t.list()
	if err == nil {
		err = t.drop(bases)
	}
	for err == nil {
		if err = t.extend(ctx); err != nil {
			break
		}
		next, _ := slices.BinarySearch(bases, l.active().base+1)
		if next == len(bases) {
			break
		}
		var s *segment
		if s, err = t.open(bases[next]); err == nil {
			l.mu.Lock()
			l.segments = append(slices.Clip(l.segments), s)
			l.mu.Unlock()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // deleted meanwhile; the next call finds what is there
	}
	if err != nil {
		err = fmt.Errorf("unifiedlog: %w", err)
	}
	return l.end != before || l.generation != generation, err
}

// drop forgets segments that are not there any more, and reads one again that has become shorter.
func (t *Tail) drop(bases []int64) error {
	l := t.log
	keep, from := l.segments, 0
	for from < len(keep) {
		if _, there := slices.BinarySearch(bases, keep[from].base); there {
			break
		}
		from++ // deleted by age
	}
	to := from
	for to < len(keep) {
		_, there := slices.BinarySearch(bases, keep[to].base)
		size, err := keep[to].file.Size()
		if err != nil {
			return err
		}
		if !there || size < keep[to].size || to == len(keep)-1 && !t.unchanged(keep[to]) {
			break // truncated
		}
		to++
	}
	if from == 0 && to == len(keep) {
		return nil
	}
	left := slices.Clone(keep[from:to])
	end := l.end
	if to < len(keep) || len(left) == 0 {
		// The first segment that is not as it was is read again, if it is there.
		base := int64(-1)
		for _, b := range bases {
			if len(left) == 0 || b > left[len(left)-1].base {
				base = b
				break
			}
		}
		if base >= 0 {
			s, err := t.open(base)
			if err != nil {
				return err
			}
			left, end = append(left, s), base
		} else if len(left) == 0 {
			return fmt.Errorf("no segment in %s: %w", t.dir, fs.ErrNotExist)
		}
	}
	l.mu.Lock()
	l.segments, l.start = left, left[0].base
	l.end = max(end, l.start)
	l.epochs = l.epochs.TruncateFromEnd(l.end).TruncateFromStart(l.start)
	l.generation++
	l.mu.Unlock()
	for _, s := range keep {
		if !slices.Contains(left, s) {
			s.close()
		}
	}
	return nil
}

// unchanged tells whether the batch that was read last from the segment is still there.
func (t *Tail) unchanged(s *segment) bool {
	if s.size == 0 {
		return true
	}
	v := s.view(math.MaxInt64)
	h, err := v.header(t.last.at)
	return err == nil && h == t.last
}

// extend reads on in the last segment.
func (t *Tail) extend(ctx context.Context) error {
	l := t.log
	s := l.active()
	size, err := s.file.Size()
	if err != nil {
		return err
	}
	w := newWalker(s.name(), s.file, s.size, size, true)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, raw, at, err := w.next()
		var damage *DamageError
		if err == io.EOF || errors.As(err, &damage) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // not written yet, or not whole
		}
		if err != nil {
			return err
		}
		if h.BaseOffset < max(l.end, s.base) || !s.fits(h.LastOffset()) || h.LeaderEpoch < l.epochs.Latest() || batch.VerifyCRC(raw) != nil {
			return nil
		}
		l.mu.Lock()
		if h.LeaderEpoch >= 0 {
			l.epochs = l.epochs.Assign(h.LeaderEpoch, h.BaseOffset)
		}
		t.last = found{h, at}
		s.note(&h, at, DefaultIndexIntervalBytes)
		s.size, l.end = at+int64(h.Length), h.NextOffset()
		l.mu.Unlock()
	}
}

// Start implements leader.Log: the base of the first segment that the tail reads and that is still there.
func (t *Tail) Start() int64 { return t.log.Start() }

// End implements leader.Log: the end of what the last Refresh found, and the epoch of the offset before it.
func (t *Tail) End() (logEndOffset int64, lastEpoch int32) { return t.log.End() }

// Read implements leader.Log as [Log.Read] does, with the same checks.
func (t *Tail) Read(ctx context.Context, offset int64, dst []byte) (int, error) {
	return t.log.Read(ctx, offset, dst)
}

// Epochs returns the leader epochs of the batches that were read, oldest first.
func (t *Tail) Epochs() []EpochStart { return t.log.Epochs() }

// Close closes the files. Later reads give [ErrClosed].
func (t *Tail) Close() error {
	t.refreshing.Lock()
	defer t.refreshing.Unlock()
	l := t.log
	l.mu.Lock()
	l.closed = true
	l.generation++
	segments := l.segments
	l.segments = segments[:1]
	l.mu.Unlock()
	for _, s := range segments {
		s.close()
	}
	return nil
}
