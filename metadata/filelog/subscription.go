package filelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
)

// subscription reads the files by itself; the watcher tells it how far. Only Close may be called beside Next.
type subscription struct {
	log       *Log
	watcher   *watcher
	closed    chan struct{}
	closeOnce sync.Once

	// mu is held while files are read, and never while Next waits.
	mu        sync.Mutex
	released  bool
	sequencer metadata.Sequencer
	readers   []*reader
	begun     bool      // the position is fixed
	version   int       // of the watcher when ready was made
	ready     []*cursor // what can be read, in order
	from      time.Time // what was there at first and is stamped earlier is passed over
	bytes     window
	event     metadata.Event // what Next has yielded; the next call writes over it
	waiting   bool           // event has been decoded, and a gap was yielded before it
}

// reader is the subscription's place in one broker's files.
type reader struct {
	broker  int32
	files   []*watchedFile // as the watcher had them when cursors was made
	cursors []*cursor      // sorted; those of files that are gone stay until they are read
	seeking bool           // nothing has been met that is not passed over
	gone    *watchedFile   // the watcher's lastGone
}

func newSubscription(l *Log) *subscription {
	return &subscription{log: l, closed: make(chan struct{}), version: -1}
}

// begin fixes the position: at the end of what is there now, or at a time.
func (s *subscription) begin(ctx context.Context, from metadata.Position) error {
	asked := make(chan struct{})
	select {
	case s.watcher.requests <- asked:
	case <-s.closed:
	case <-ctx.Done():
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	select {
	case <-asked:
	case <-s.closed:
	case <-ctx.Done():
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return metadata.ErrClosed
	}
	s.from = from.Time.Truncate(time.Millisecond) // as finely as events are stamped
	s.look()
	for _, r := range s.readers {
		r.seeking = !from.Time.IsZero()
		for i, c := range r.cursors {
			last := i+1 == len(r.cursors)
			if r.seeking {
				c.passed = !last && s.begunBy(r.cursors[i+1], from.Time)
				c.sought = c.limit
				continue
			}
			s.toEnd(c)
			if !last {
				c.release()
			}
		}
		r.cursors = slices.DeleteFunc(r.cursors, func(c *cursor) bool { return c.passed })
	}
	s.begun = true
	return nil
}

// begunBy tells whether a file was begun at the time or before it.
func (s *subscription) begunBy(c *cursor, at time.Time) bool {
	created, err := readCreated(s.log.root, c.file.name)
	return err == nil && !created.After(at)
}

// ended tells in a fixed order why Next must not go on (D2).
func (s *subscription) ended(ctx context.Context) error {
	select {
	case <-s.closed:
		return metadata.ErrClosed
	default:
		return s.log.ended(ctx)
	}
}

// Next returns the next event or gap, see [metadata.Subscription].
func (s *subscription) Next(ctx context.Context) (metadata.Item, error) {
	for {
		if err := s.ended(ctx); err != nil {
			return metadata.Item{}, err
		}
		item, changed, pause := s.step()
		switch {
		case item.Event != nil:
			if hook := s.log.cfg.Hooks.Delivered; hook != nil {
				hook(item.Event)
			}
			return item, nil
		case item.Gap != nil:
			if hook := s.log.cfg.Hooks.Gap; hook != nil {
				hook(*item.Gap)
			}
			return item, nil
		}
		s.wait(ctx, changed, pause)
	}
}

// wait waits for a change of the files, for the pause if it is not 0, or for the end.
func (s *subscription) wait(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	var due <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-due:
	case <-s.closed:
	case <-ctx.Done():
	}
}

// step returns the next item, or what to wait for.
func (s *subscription) step() (item metadata.Item, changed <-chan struct{}, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return metadata.Item{}, nil, time.Nanosecond
	}
	if s.waiting {
		s.waiting = false
		return metadata.Item{Event: &s.event}, nil, 0
	}
	for {
		for len(s.ready) > 0 {
			if item, ok := s.read(s.ready[0]); ok {
				return item, nil, 0
			}
			s.ready = s.ready[1:]
		}
		changed, pause, more := s.look()
		if !more {
			return metadata.Item{}, changed, pause
		}
	}
}

// look takes over what the watcher knows and lists in ready what can be read now. If that is nothing it returns what
// to wait for.
func (s *subscription) look() (changed <-chan struct{}, pause time.Duration, more bool) {
	w := s.watcher
	w.mu.Lock()
	changed = w.changed
	if w.version != s.version {
		s.version = w.version
		for _, b := range w.shown {
			s.adopt(b)
		}
		for _, r := range s.readers {
			for _, c := range r.cursors {
				c.limit, c.gone = max(c.limit, c.file.size), c.file.gone
			}
		}
	}
	w.mu.Unlock()
	now := time.Now()
	s.ready = s.ready[:0]
	for _, r := range s.readers {
		r.prune()
		for i, c := range r.cursors {
			superseded := i+1 < len(r.cursors)
			if c.readable(now, superseded) {
				s.ready = append(s.ready, c)
			} else if wait := c.due.Sub(now); wait > 0 && (pause == 0 || wait < pause) {
				pause = wait
			}
			c.superseded = superseded
		}
	}
	return changed, pause, len(s.ready) > 0
}

// adopt makes cursors for files that are new. w.mu is held.
func (s *subscription) adopt(b *watchedBroker) {
	at := slices.IndexFunc(s.readers, func(r *reader) bool { return r.broker == b.id })
	if at < 0 {
		s.readers = append(s.readers, &reader{broker: b.id})
		slices.SortFunc(s.readers, func(a, b *reader) int { return cmp.Compare(a.broker, b.broker) })
		at = slices.IndexFunc(s.readers, func(r *reader) bool { return r.broker == b.id })
	}
	r := s.readers[at]
	if slices.Equal(r.files, b.shown) {
		return
	}
	files := b.shown
	// M3: it may have come and gone unseen. A directory that was removed and made anew has none yet.
	if b.lastGone != nil && b.lastGone != r.gone && s.begun {
		files = append(slices.Clip(files), b.lastGone)
	}
	for _, f := range files {
		if !slices.Contains(r.files, f) {
			r.cursors = append(r.cursors, &cursor{reader: r, file: f, stuck: -1, torn: -1})
		}
	}
	r.files, r.gone = b.shown, b.lastGone
	slices.SortFunc(r.cursors, func(a, b *cursor) int { return a.file.name.compare(b.file.name) })
}

// prune closes files that need not be open, and forgets those that are gone and read as far as they can be.
func (r *reader) prune() {
	r.cursors = slices.DeleteFunc(r.cursors, func(c *cursor) bool {
		read := c.passed || c.offset >= c.limit
		if read && c.superseded || c.gone {
			read = read || c.stuck >= c.limit
			if read {
				c.release()
			}
		}
		return c.gone && read
	})
}

// gap is an item.
func gap(g metadata.Gap) (metadata.Item, bool) { return metadata.Item{Gap: &g}, true }

// take turns the bytes of an event into an item, or into none if it is a duplicate.
func (s *subscription) take(c *cursor, offset int64, b []byte) (metadata.Item, bool) {
	name := c.file.name
	err := s.event.UnmarshalBinary(b)
	if id := s.event.Segment.ID; err == nil && (id.BrokerID != name.broker || id.BrokerEpoch != name.epoch) {
		err = fmt.Errorf("%w: the event of segment %s is in a file of broker %d, epoch %d", metadata.ErrCorrupt, id, name.broker, name.epoch)
	}
	if err != nil { // M4
		sequence, reason, kind := int64(-1), metadata.GapCorrupt, metadata.DamageCorrupt
		if unknown := (*metadata.UnknownVersionError)(nil); errors.As(err, &unknown) {
			sequence, reason, kind = unknown.Sequence, metadata.GapUnknownVersion, metadata.DamageUnknownVersion
		}
		s.watcher.reportFile(c.file, kind, offset, err)
		return gap(s.sequencer.Unreadable(name.broker, name.epoch, sequence, reason))
	}
	missing, deliver := s.sequencer.Accept(&s.event)
	if !deliver {
		if hook := s.log.cfg.Hooks.Duplicate; hook != nil {
			hook(&s.event)
		}
	}
	if missing != nil {
		s.waiting = deliver
		return gap(*missing)
	}
	return metadata.Item{Event: &s.event}, deliver
}

// Close ends the subscription, and the call of Next under way.
func (s *subscription) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.log.unsubscribe(s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.released = true
		for _, r := range s.readers {
			for _, c := range r.cursors {
				c.release()
			}
		}
		s.readers, s.ready = nil, nil
	})
	return nil
}

// isGone tells whether an error of opening a file says that the file was removed.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
