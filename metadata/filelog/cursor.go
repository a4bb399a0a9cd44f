package filelog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"github.com/walhop/walhop/metadata"
)

const (
	// settle is how long bytes that make no frame may stand at the end of a file, unchanged, before they are given up:
	// a network file system can show a file's new size before its new bytes.
	settle = time.Second
	// retryOpen is the pause after the operating system has refused to open or read a file.
	retryOpen = time.Second
)

var (
	errTorn     = errors.New("the writer began an event here and did not finish it")
	errChecksum = errors.New("an event does not match its checksum")
	errNoFrame  = errors.New("no event begins here")
	errShort    = errors.New("the file is shorter than it has been seen to be")
)

// cursor is the place of a subscription in one file.
type cursor struct {
	reader *reader
	file   *watchedFile
	handle *os.File
	offset int64 // of the next frame; below headerLength the header has not been passed
	limit  int64 // the size as the watcher last saw it
	sought int64 // the size when the subscription began, if that was from a time: what comes after is not passed over

	checked    bool // the header has been looked at
	passed     bool // there is nothing to read here, whatever comes
	superseded bool // the broker has a later file: the writer does not come back to this one
	gone       bool // the file has been removed
	lost       bool // what stands at offset is known to be no frame, and has been reported
	unknown    bool // the file has a format version that is not known: whatever comes in it is missed
	told       bool // a gap has been yielded since the file was last read, as it cannot be read

	// stuck is the limit with which reading came to nothing; there is no use in trying again with the same one before
	// due, if that is set. torn is the offset of a torn tail that has been reported.
	stuck int64
	due   time.Time
	torn  int64
}

// readable tells whether it is worth reading now.
func (c *cursor) readable(now time.Time, superseded bool) bool {
	switch {
	case c.passed || c.offset >= c.limit:
		return false
	case c.limit > c.stuck, superseded && !c.superseded, c.gone:
		return true
	}
	return !c.due.IsZero() && !now.Before(c.due)
}

// later gives up reading until the file grows, or until due.
func (c *cursor) later(due time.Time) {
	c.stuck, c.due = c.limit, due
}

// settled tells whether bytes at the end of a file that make no frame are to be given up: the writer has gone on to
// another file, or they have been the same for a while. Otherwise it makes the cursor wait.
func (c *cursor) settled() bool {
	now := time.Now()
	if c.superseded || c.gone || c.stuck == c.limit && !c.due.IsZero() && !now.Before(c.due) {
		return true
	}
	c.later(now.Add(settle))
	return false
}

func (c *cursor) release() {
	if c.handle != nil {
		_ = c.handle.Close()
		c.handle = nil
	}
}

// window is a part of a file in memory.
type window struct {
	cursor *cursor // whose file it is, nil if it holds nothing
	start  int64
	bytes  []byte
	buffer []byte
}

// windowSize is how much is read at once where that much is there.
const windowSize = 64 << 10

// at returns n bytes or more of the file from offset on. They must lie below the cursor's limit.
func (w *window) at(c *cursor, offset, n int64) ([]byte, error) {
	if w.cursor == c && offset >= w.start && offset+n <= w.start+int64(len(w.bytes)) {
		return w.bytes[offset-w.start:], nil
	}
	size := min(max(n, windowSize), c.limit-offset)
	if int64(cap(w.buffer)) < size {
		w.buffer = make([]byte, size)
	}
	w.cursor = nil
	read, err := c.handle.ReadAt(w.buffer[:size], offset)
	if int64(read) < n {
		return nil, err
	}
	// A file that ends earlier than its size says still holds the frames before that.
	w.cursor, w.start, w.bytes = c, offset, w.buffer[:read]
	return w.bytes, nil
}

// forget makes the next look read again.
func (w *window) forget() { w.cursor = nil }

// read returns the next item of the file. Without one there is nothing more to read for now.
func (s *subscription) read(c *cursor) (metadata.Item, bool) {
	if !c.passed && !s.open(c) {
		return s.unopened(c)
	}
	for !c.passed && c.offset < c.limit {
		item, state := s.readFrame(c)
		switch state {
		case yielded:
			return item, true
		case blocked:
			s.bytes.forget()
			return metadata.Item{}, false
		}
	}
	return metadata.Item{}, false
}

// state says how an attempt to read a frame has ended.
type state int

const (
	moved   state = iota // the cursor has moved, and there is no item
	yielded              // there is an item
	blocked              // nothing more can be read for now
)

// open opens the file if it is not.
func (s *subscription) open(c *cursor) bool {
	if c.handle != nil {
		return true
	}
	handle, err := s.log.root.Open(c.file.name.path())
	if err != nil {
		s.refused(c, err)
		return false
	}
	c.handle = handle
	return true
}

// refused notes that the operating system would not open or read the file.
func (s *subscription) refused(c *cursor, err error) {
	if isGone(err) {
		c.passed, c.gone = true, true
		return
	}
	c.release()
	s.watcher.reportFile(c.file, metadata.DamageUnreadable, c.offset, err)
	c.later(time.Now().Add(retryOpen))
}

// unopened yields a gap if the file was removed before it was read (M3, M6), or cannot be read.
func (s *subscription) unopened(c *cursor) (metadata.Item, bool) {
	switch {
	case !c.passed:
		return s.tell(c)
	case c.reader.seeking:
		return metadata.Item{}, false
	}
	return gap(s.sequencer.Unreadable(c.file.name.broker, c.file.name.epoch, -1, metadata.GapMissing))
}

// tell yields a gap, once, for a file that cannot be read (M3). It may stay so for ever, and the broker's later files are
// read meanwhile: they tell of it if they are of the same epoch, but not if they are of the next.
func (s *subscription) tell(c *cursor) (metadata.Item, bool) {
	if c.told {
		return metadata.Item{}, false
	}
	c.told = true
	return gap(s.sequencer.Unreadable(c.file.name.broker, c.file.name.epoch, -1, metadata.GapCorrupt))
}

// readFrame reads what stands at the cursor's offset, which is below its limit.
func (s *subscription) readFrame(c *cursor) (metadata.Item, state) {
	if !c.checked {
		return s.readHeader(c)
	}
	if c.unknown {
		return s.skipUnknown(c)
	}
	if c.limit-c.offset < frameHeaderLength {
		return s.tail(c)
	}
	b, err := s.bytes.at(c, c.offset, frameHeaderLength)
	if err != nil {
		return s.unread(c, err)
	}
	head, ok := c.file.name.parseFrame(b, c.offset)
	if !ok {
		return s.resync(c)
	}
	c.lost = false
	if c.limit-c.offset < head.size() {
		return s.tail(c)
	}
	b, err = s.bytes.at(c, c.offset, head.size())
	if err != nil {
		return s.unread(c, err)
	}
	offset := c.offset
	event := b[frameHeaderLength:head.size()]
	if !head.intact(event) {
		if offset+head.size() == c.limit && !c.settled() {
			return metadata.Item{}, blocked
		}
		c.offset += head.size()
		s.watcher.reportFile(c.file, metadata.DamageCorrupt, offset, errChecksum)
		item, _ := gap(s.sequencer.Unreadable(c.file.name.broker, c.file.name.epoch, -1, metadata.GapCorrupt))
		return item, yielded
	}
	c.offset += head.size()
	c.told = false
	if c.reader.seeking {
		if offset < c.sought && head.stamp.Before(s.from) {
			return metadata.Item{}, moved
		}
		c.reader.seeking = false // a position picks the place and filters nothing afterwards
	}
	item, ok := s.take(c, offset, event)
	if !ok {
		return metadata.Item{}, moved
	}
	return item, yielded
}

// unread handles an error of reading.
func (s *subscription) unread(c *cursor, err error) (metadata.Item, state) {
	if !errors.Is(err, io.EOF) {
		s.refused(c, err)
	} else if c.settled() {
		// Shorter than the size that was seen: a cache is behind, or what was there is lost.
		s.watcher.reportFile(c.file, metadata.DamageTorn, c.offset, errShort)
		c.later(time.Now().Add(settle))
	} else {
		return metadata.Item{}, blocked
	}
	if item, ok := s.tell(c); ok {
		s.bytes.forget()
		return item, yielded
	}
	return metadata.Item{}, blocked
}

// readHeader looks at the header of the file.
func (s *subscription) readHeader(c *cursor) (metadata.Item, state) {
	if c.limit < headerLength {
		return s.tail(c)
	}
	var header [headerLength]byte
	if _, err := c.handle.ReadAt(header[:], 0); err != nil {
		return s.unread(c, err)
	}
	_, err := c.file.name.parseHeader(header[:])
	if err == errHeader && c.limit == headerLength && !c.settled() {
		return metadata.Item{}, blocked
	}
	c.checked = true
	c.offset = max(c.offset, headerLength)
	switch err {
	case errFormatVersion:
		c.unknown = true
		s.watcher.reportFile(c.file, metadata.DamageUnknownVersion, 0, err)
		return s.skipUnknown(c)
	case errHeader: // its frames can be read all the same
		s.watcher.reportFile(c.file, metadata.DamageCorrupt, 0, err)
	}
	return metadata.Item{}, moved
}

// skipUnknown passes over what stands in a file of an unknown format version, with a gap each time there is more of it
// (M3, M4).
func (s *subscription) skipUnknown(c *cursor) (metadata.Item, state) {
	c.offset = c.limit
	item, _ := gap(s.sequencer.Unreadable(c.file.name.broker, c.file.name.epoch, -1, metadata.GapUnknownVersion))
	return item, yielded
}

// tail handles the beginning of a frame, or of a header, that ends with the file. It may be under way; if it is not, it
// is the torn tail of a writer that was killed or whose disk failed. It was never acknowledged: the writer has repeated
// it in its next file, or its leadership is over, and the sequences tell whether anything is missing.
func (s *subscription) tail(c *cursor) (metadata.Item, state) {
	if c.lost || c.torn == c.offset {
		c.later(time.Time{})
		return metadata.Item{}, blocked
	}
	if c.settled() {
		c.torn = c.offset
		s.watcher.reportFile(c.file, metadata.DamageTorn, c.offset, errTorn)
		c.later(time.Time{})
	}
	return metadata.Item{}, blocked
}

// resync handles bytes that are no frame. A good frame behind them shows that they once were one, or several: there is
// a gap, and reading goes on there (M4).
func (s *subscription) resync(c *cursor) (metadata.Item, state) {
	from := c.offset
	if !c.lost {
		from++
	}
	zero := true
	for at := from; c.limit-at >= frameHeaderLength; {
		b, err := s.bytes.at(c, at, frameHeaderLength)
		if err != nil {
			return s.unread(c, err)
		}
		if i := c.file.name.findFrame(b, at); i >= 0 {
			return s.found(c, at+int64(i))
		}
		zero = zero && len(bytes.TrimLeft(b, "\x00")) == 0
		at += int64(len(b)) - frameHeaderLength + 1
	}
	last := max(from, c.limit-frameHeaderLength+1) // where a frame may begin whose header is not whole yet
	if c.lost {
		c.offset = last
		c.later(time.Time{})
		return metadata.Item{}, blocked
	}
	if zero { // space that was given to the file and never filled
		return s.tail(c)
	}
	if !c.settled() {
		return metadata.Item{}, blocked
	}
	item, _ := s.damaged(c)
	c.offset, c.lost = last, true
	return item, yielded
}

// found goes on at a good frame.
func (s *subscription) found(c *cursor, offset int64) (metadata.Item, state) {
	if c.lost {
		c.offset, c.lost = offset, false
		return metadata.Item{}, moved
	}
	item, _ := s.damaged(c)
	c.offset = offset
	return item, yielded
}

// damaged reports that no frame begins at the cursor's offset.
func (s *subscription) damaged(c *cursor) (metadata.Item, bool) {
	s.watcher.reportFile(c.file, metadata.DamageCorrupt, c.offset, errNoFrame)
	return gap(s.sequencer.Unreadable(c.file.name.broker, c.file.name.epoch, -1, metadata.GapCorrupt))
}

// toEnd puts the cursor behind the last whole frame. What stands behind that began before the subscription and may be
// finished yet. Only the end of the file is read, as far as it takes to find one frame.
func (s *subscription) toEnd(c *cursor) {
	if c.limit <= headerLength {
		c.offset = c.limit
		return
	}
	if !s.open(c) {
		c.offset, c.lost = c.limit, true
		return
	}
	defer s.bytes.forget()
	for back := int64(windowSize); ; back *= 4 {
		start := max(headerLength, c.limit-back)
		if at, ok := s.lastFrame(c, start); ok {
			c.offset = at
			return
		}
		if start == headerLength || back > 4*metadata.MaxEventBytes {
			// There is no frame, only damage from before the subscription: frames are looked for from here on.
			c.offset, c.lost = c.limit, true
			return
		}
	}
}

// lastFrame finds the last frame that begins at start or later and is whole, and returns where it ends.
func (s *subscription) lastFrame(c *cursor, start int64) (end int64, ok bool) {
	for at := start; c.limit-at >= frameHeaderLength; {
		b, err := s.bytes.at(c, at, frameHeaderLength)
		if err != nil {
			return 0, false
		}
		i := c.file.name.findFrame(b, at)
		if i < 0 {
			at += int64(len(b)) - frameHeaderLength + 1
			continue
		}
		at += int64(i)
		head, _ := c.file.name.parseFrame(b[i:], at)
		if c.limit-at < head.size() {
			return at, true
		}
		at += head.size()
		end, ok = at, true
	}
	return end, ok
}
