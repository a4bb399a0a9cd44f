package filelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/walhop/walhop/metadata"
)

// spareBuffer is the largest buffer that a writer keeps between two publications.
const spareBuffer = 4 << 20

// appendFile is what a writer needs of a file; tests put one that fails in its place.
type appendFile interface {
	io.WriterAt
	Sync() error
	Close() error
}

// writer appends to the files of one broker epoch. One publication at a time uses it.
type writer struct {
	cfg     Config
	root    *os.Root
	create  func(path string) (appendFile, error)
	syncDir func(root *os.Root, path string) error

	file     appendFile // nil if the next publication begins a file
	name     fileName
	begun    time.Time // by package time
	offset   int64     // where the next frame goes
	next     uint32    // number of the next file
	started  bool      // this writer has tried to create a file
	terminal error     // why nothing can ever be published again
	// abandoned is the path of the file last begun in vain, empty if there is none.
	abandoned string

	// buffer holds room for a file's header, then the frames of the publication. ends holds where each frame ends.
	buffer []byte
	ends   []int
}

func newWriter(cfg Config, root *os.Root) *writer {
	return &writer{
		cfg:  cfg,
		root: root,
		create: func(path string) (appendFile, error) {
			return root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		},
		syncDir: syncDir,
	}
}

// encode puts the events into the buffer and returns how many of them are valid, and what is wrong with the next.
func (w *writer) encode(events []*metadata.Event) (valid int, err error) {
	if cap(w.buffer) < headerLength || cap(w.buffer) > spareBuffer {
		w.buffer = make([]byte, headerLength, 64<<10)
	}
	w.buffer, w.ends = w.buffer[:headerLength], w.ends[:0]
	for _, e := range events {
		if err := metadata.CheckWriter(e, w.cfg.Broker, w.cfg.BrokerEpoch); err != nil {
			return len(w.ends), err
		}
		begin := len(w.buffer)
		w.buffer = append(w.buffer, make([]byte, frameHeaderLength)...)
		w.buffer, err = e.AppendVersion(w.buffer, w.cfg.EventVersion)
		if err != nil {
			w.buffer = w.buffer[:begin]
			return len(w.ends), err
		}
		w.ends = append(w.ends, len(w.buffer))
	}
	return len(w.ends), nil
}

// write stores what is in the buffer: all of it on disk, or an error. An error that is not [metadata.ErrUnknownOutcome]
// says that nothing of it is stored.
func (w *writer) write() error {
	if w.terminal != nil {
		return w.terminal
	}
	if err := w.look(); err != nil {
		return err
	}
	if w.file != nil && (w.offset >= w.cfg.RotateBytes || time.Since(w.begun) >= w.cfg.RotateAfter) {
		w.leave()
	}
	fresh := w.file == nil
	if fresh {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if err := w.append(fresh); err != nil {
		// The file may hold half a frame. It is not trusted again: the events go into a new one (L5).
		w.leave()
		if fresh {
			w.abandon()
		}
		return fmt.Errorf("%w: %w", metadata.ErrUnknownOutcome, err)
	}
	return nil
}

// abandon notes that the file just begun holds nothing acknowledged. It stays until the next one is abandoned, so that no
// more than one is there while the disk is full: a reader that finds it gone before it has read it can't know that it
// has missed nothing, and tells a gap.
func (w *writer) abandon() {
	if w.abandoned != "" {
		_ = w.root.Remove(w.abandoned)
	}
	w.abandoned = w.name.path()
}

// look lists the broker's files: a newer epoch fences this one (L6), and a file that is gone is not written again.
func (w *writer) look() error {
	dir := brokerDir(w.cfg.Broker)
	bases, err := readNames(w.root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeBrokerDir(w.root, w.cfg.Broker)
	}
	if err != nil {
		return fmt.Errorf("filelog: listing %s: %w", dir, err)
	}
	present := false
	for _, base := range bases {
		name, ok := parseFileName(w.cfg.Broker, base)
		switch {
		case !ok:
		case name.epoch > w.cfg.BrokerEpoch:
			w.leave()
			w.terminal = fmt.Errorf("%w: broker %d, epoch %d, by epoch %d", metadata.ErrFenced, w.cfg.Broker, w.cfg.BrokerEpoch, name.epoch)
			return w.terminal
		case name.epoch == w.cfg.BrokerEpoch && !w.started:
			return w.rival()
		case name == w.name:
			present = true
		}
	}
	if w.file != nil && !present {
		w.leave()
	}
	return nil
}

// rival says that another writer has used this broker epoch, which must never happen (L6).
func (w *writer) rival() error {
	w.leave()
	w.terminal = fmt.Errorf("%w: epoch %d of broker %d was used before, by another writer", metadata.ErrFenced, w.cfg.BrokerEpoch, w.cfg.Broker)
	return w.terminal
}

// begin creates a new file. Creating is exclusive, so no two writers ever share one.
func (w *writer) begin() error {
	w.name = fileName{broker: w.cfg.Broker, epoch: w.cfg.BrokerEpoch, number: w.next}
	w.started = true
	w.next++ // also if this fails: the name is not used again
	file, err := w.create(w.name.path())
	if errors.Is(err, fs.ErrExist) {
		return w.rival()
	}
	if err != nil {
		return fmt.Errorf("filelog: creating %s: %w", w.name.path(), err)
	}
	w.file, w.begun, w.offset = file, time.Now(), 0
	return nil
}

// append writes the buffer in one go and makes it durable.
func (w *writer) append(fresh bool) error {
	now := w.cfg.Now()
	data := w.buffer[headerLength:]
	if fresh {
		data = w.buffer
		w.name.putHeader(data, now)
	}
	begin := headerLength
	for _, end := range w.ends {
		offset := w.offset + int64(begin-headerLength)
		if fresh {
			offset = int64(begin)
		}
		w.name.putFrame(w.buffer[begin:end], offset, now)
		begin = end
	}
	if _, err := w.file.WriteAt(data, w.offset); err != nil {
		return fmt.Errorf("filelog: writing %s: %w", w.name.path(), err)
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("filelog: fsync of %s: %w", w.name.path(), err)
	}
	if fresh {
		if err := w.syncDir(w.root, brokerDir(w.cfg.Broker)); err != nil {
			return err
		}
	}
	w.offset += int64(len(data))
	return nil
}

// leave closes the file, so that the next publication begins a new one. What was acknowledged is on disk already.
func (w *writer) leave() {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
}
