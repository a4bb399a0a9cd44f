package unifiedlog

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/walhop/walhop/internal/batch"
)

// segment is one file of the log with its indexes. Its files and its base are fixed; the rest is changed by the writer
// alone, under Log.mu.
type segment struct {
	base int64
	file File
	size int64 // of the whole batches; the file may be longer after a failed write

	offsets entries
	times   entries
	txns    entries // its file is nil until there is an entry
	// checked says that the entries of txns were compared with the log.
	checked bool
	// unindexed says that an index is missing or damaged, which recovery mends.
	unindexed bool

	// lastIndexed is where the batch of the last offset entry begins, or the beginning of the segment.
	lastIndexed int64
	// lastTime and lastTimeOffset are the last time entry, -1 and the base if there is none.
	lastTime, lastTimeOffset int64
	// maxTime is the largest timestamp of any batch and maxTimeOffset the last offset of the first batch that has it.
	maxTime, maxTimeOffset int64
	// firstTime is the largest timestamp of the first batch, from which the age of the segment counts, -1 before it.
	firstTime int64
	created   time.Time
}

func (s *segment) name() string { return fileName(s.base, logSuffix) }

// relative returns the offset relative to the base; it fits (KAFKA-4451, KAFKA-6264).
func (s *segment) relative(offset int64) int32 { return int32(offset - s.base) }

// fits tells whether an offset can be told relative to the base.
func (s *segment) fits(offset int64) bool { return offset-s.base <= math.MaxInt32 && offset >= s.base }

// createSegment makes the files of an empty segment. The log file comes last: a segment without indexes is one that has
// to be recovered.
func createSegment(fsys FS, base int64, created time.Time) (*segment, error) {
	s := &segment{base: base, created: created, checked: true}
	s.reset()
	var err error
	if s.offsets, err = createEntries(fsys, fileName(base, indexSuffix), offsetEntrySize); err != nil {
		return nil, err
	}
	if s.times, err = createEntries(fsys, fileName(base, timeIndexSuffix), timeEntrySize); err != nil {
		s.close()
		return nil, err
	}
	s.txns = entries{name: fileName(base, txnIndexSuffix), size: txnEntrySize}
	if err = remove(fsys, s.txns.name); err != nil {
		s.close()
		return nil, err
	}
	if s.file, err = fsys.Create(s.name()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// reset sets what is known of the batches to nothing.
func (s *segment) reset() {
	s.lastIndexed = 0
	s.lastTime, s.lastTimeOffset = -1, s.base
	s.maxTime, s.maxTimeOffset = -1, s.base
	s.firstTime = -1
}

// close closes the files. What it could fail at was synced before or does not matter.
func (s *segment) close() {
	for _, file := range []File{s.file, s.offsets.file, s.times.file, s.txns.file} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// remove removes a file that may not be there.
func remove(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// note takes in one batch that stands at the position: time, and index entries where they are due. As in Kafka, an entry
// is made for a batch if more than interval bytes lie between the batch of the entry before and its own beginning, so
// the indexes are a function of the log and not of how many batches came in one append.
func (s *segment) note(h *batch.Header, position int64, interval int64) {
	if s.firstTime < 0 && position == 0 {
		s.firstTime = h.MaxTimestamp
	}
	if h.MaxTimestamp > s.maxTime {
		s.maxTime, s.maxTimeOffset = h.MaxTimestamp, h.LastOffset()
	}
	if position-s.lastIndexed > interval {
		var b [offsetEntrySize]byte
		s.offsets.add(offsetEntry{s.relative(h.LastOffset()), int32(position)}.put(&b))
		s.lastIndexed = position
		s.noteTime()
	}
}

// noteTime adds the largest timestamp so far to the time index, unless it is there.
func (s *segment) noteTime() {
	if s.maxTime > s.lastTime {
		var b [timeEntrySize]byte
		s.times.add(timeEntry{s.maxTime, s.relative(s.maxTimeOffset)}.put(&b))
		s.lastTime, s.lastTimeOffset = s.maxTime, s.maxTimeOffset
	}
}

// view is what a reader of a segment needs; it is taken under Log.mu and used without.
type view struct {
	*segment // base and file alone
	size     int64
	offsets  entries
	times    entries
	// next is the base of the next segment, or the log's end.
	next int64
}

func (s *segment) view(next int64) view {
	return view{segment: s, size: s.size, offsets: s.offsets, times: s.times, next: next}
}

// found is a batch and where it stands.
type found struct {
	batch.Header
	at int64
}

// before returns a place at which a batch begins, none that holds offset or a later one lying before it, as near as the
// index tells. An entry counts only if the batch that it names is there: a damaged index costs time and nothing else.
func (v *view) before(offset int64) (int64, error) {
	if offset <= v.base {
		return 0, nil
	}
	var b [offsetEntrySize]byte
	i, err := v.offsets.search(b[:], func() bool { return v.base+int64(getOffsetEntry(b[:]).relative) >= offset })
	if err != nil {
		return 0, err
	}
	if i == 0 {
		return 0, nil
	}
	if err := v.offsets.read(i-1, b[:]); err != nil {
		return 0, err
	}
	entry := getOffsetEntry(b[:])
	h, err := v.header(int64(entry.position))
	if err != nil {
		var damage *DamageError
		if errors.As(err, &damage) {
			return 0, nil
		}
		return 0, err
	}
	if h.LastOffset() != v.base+int64(entry.relative) || h.LastOffset() >= offset {
		return 0, nil
	}
	return h.at, nil
}

// header reads the header of the batch at a place.
func (v *view) header(at int64) (found, error) {
	if at < 0 || at > v.size-batch.HeaderLength {
		return found{}, &DamageError{File: v.name(), Position: at, Reason: noBatch}
	}
	var b [batch.HeaderLength]byte
	if err := readFull(v.file, b[:], at); err != nil {
		return found{}, err
	}
	h, err := v.parse(b[:], at)
	return found{h, at}, err
}

const noBatch = "no batch begins here"

// parse reads the header of the batch that begins at a place with the bytes b.
func (v *view) parse(b []byte, at int64) (batch.Header, error) {
	h, err := batch.ParseHeader(b)
	if err != nil && !errors.Is(err, batch.ErrPartial) || h.Length < batch.HeaderLength || int64(h.Length) > v.size-at {
		return h, &DamageError{File: v.name(), Position: at, Reason: noBatch}
	}
	return h, nil
}

// find returns the batch at a place, or, if that is -1, what seek finds.
func (v *view) find(offset, at int64) (found, error) {
	if at >= 0 {
		return v.header(at)
	}
	return v.seek(offset)
}

// seek returns the first batch whose last offset is offset or greater, io.EOF if there is none. The headers on the way
// have to stand in the order of their offsets.
func (v *view) seek(offset int64) (found, error) {
	from, err := v.before(offset)
	if err != nil {
		return found{}, err
	}
	w := newWalker(v.name(), v.file, from, v.size, false)
	w.chunk = seekBytes
	expected := v.base
	for {
		h, _, at, err := w.next()
		if err != nil {
			return found{}, err
		}
		if h.BaseOffset < expected || h.NextOffset() > v.next {
			return found{}, &DamageError{File: v.name(), Position: at, Reason: "the offsets are not between those of its neighbours"}
		}
		if h.LastOffset() >= offset {
			return found{h, at}, nil
		}
		expected = h.NextOffset()
	}
}

// sound returns where the first damaged batch below offset begins, and the end of the batches before it.
func (v *view) sound(offset int64) (at, end int64, err error) {
	from, err := v.before(offset)
	if err != nil {
		return 0, 0, err
	}
	w := newWalker(v.name(), v.file, from, v.size, false)
	at, end = from, v.base
	for {
		h, _, position, err := w.next()
		var damage *DamageError
		if err == io.EOF || errors.As(err, &damage) || err == nil && (h.BaseOffset < end || h.NextOffset() > v.next) {
			return at, end, nil
		}
		if err != nil {
			return 0, 0, err
		}
		at, end = position+int64(h.Length), h.NextOffset()
	}
}

// last returns the last batch, io.EOF if the segment is empty.
func (v *view) last() (found, error) {
	from := int64(0)
	if n := v.offsets.len(); n > 0 {
		var b [offsetEntrySize]byte
		if err := v.offsets.read(n-1, b[:]); err != nil {
			return found{}, err
		}
		entry := getOffsetEntry(b[:])
		if h, err := v.header(int64(entry.position)); err == nil && h.LastOffset() == v.base+int64(entry.relative) {
			from = h.at
		}
	}
	w := newWalker(v.name(), v.file, from, v.size, false)
	last := found{at: -1}
	for {
		h, _, at, err := w.next()
		if err == io.EOF && last.at >= 0 {
			return last, nil
		}
		if err != nil {
			return found{}, err
		}
		last = found{h, at}
	}
}
