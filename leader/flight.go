package leader

import (
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// flight is a sealed segment on its way: uploading, stored, then published, or given up. It takes one of
// MaxInFlightUploads slots from sealing until it is settled, published or given up, and its upload has returned: only
// then is its buffer free (W5). Flights are reused with their buffers.
type flight struct {
	// Set at sealing, then not changed.
	number    int64 // counts sealed segments from 1
	id        walstorage.SegmentID
	object    []byte // owned by the upload until it returns
	event     metadata.Event
	slices    int
	bodyBytes int
	sealedAt  time.Duration
	oldest    time.Duration // when the oldest Notify came whose records are in it, none if nobody notified

	// Guarded by the uploader's mu.
	state    flightState
	returned bool          // UploadSegment is not under way and will not be called again
	stuck    bool          // given up while the upload had not returned
	settled  bool          // published or given up, and out of the queue
	storedAt time.Duration // when it was stored
	numbered bool          // event.Sequence is taken
	// handedAt is when the event was first handed to Publish, none before.
	handedAt time.Duration
	// unsettled says that a Publish ended without telling whether it stored the event: from then on the event and its
	// sequence stay as they are (L5).
	unsettled bool
}

type flightState int8

const (
	flightUploading flightState = iota
	flightStored
	flightGivenUp
)

// takeFlight returns a free flight, nil if MaxInFlightUploads are in use. u.mu is held.
func (u *Uploader) takeFlight() *flight {
	if u.inUse >= u.cfg.MaxInFlightUploads {
		return nil
	}
	u.inUse++
	n := len(u.free)
	if n == 0 {
		return &flight{}
	}
	f := u.free[n-1]
	u.free = u.free[:n-1]
	return f
}

// release gives a flight's slot back once it is settled and its upload has returned. u.mu is held.
func (u *Uploader) release(f *flight) {
	if f.stuck {
		f.stuck = false
		u.stuck--
	}
	if cap(f.object) > u.keepBytes || f.bodyBytes > u.cfg.TargetBytes { // a batch larger than TargetBytes was in it
		u.account(-cap(f.object))
		f.object = nil
	}
	u.inUse--
	u.free = append(u.free, f)
	wake(u.wakeAssembler)
}

// account adds to the memory held for segments. u.mu is held.
func (u *Uploader) account(bytes int) {
	u.stats.BufferBytes += int64(bytes)
	u.stats.PeakBufferBytes = max(u.stats.PeakBufferBytes, u.stats.BufferBytes)
}

// settle takes the first flight of the queue out of it: it is published or given up. u.mu is held.
func (u *Uploader) settle() {
	f := u.queue[0]
	copy(u.queue, u.queue[1:])
	u.queue[len(u.queue)-1] = nil
	u.queue = u.queue[:len(u.queue)-1]
	u.settled = f.number
	f.settled = true
	if f.returned {
		u.release(f)
	}
	u.answerFlushes()
}

// giveUp marks a flight as given up and returns what to report once the lock is released. If its event's sequence cannot
// be given back, readers see a gap (L3). u.mu is held.
func (u *Uploader) giveUp(f *flight, err error) GivenUp {
	given := GivenUp{ID: f.id, Stored: f.state == flightStored, Sequence: -1, Err: err}
	if f.numbered {
		if f.unsettled {
			given.Sequence = f.event.Sequence // never reused: it may be in the log, or get there late (R12)
		} else {
			u.giveBack(f)
		}
	}
	f.state = flightGivenUp
	u.stats.GivenUp++
	return given
}

// giveBack takes back the sequence of a flight whose event is certainly not stored, and those after it. Where one
// after it were unsettled this one would be too: it was in the same call, before it (R12). u.mu is held.
func (u *Uploader) giveBack(f *flight) {
	u.nextSequence = f.event.Sequence
	for _, g := range u.queue {
		if g.numbered && g.event.Sequence >= f.event.Sequence {
			g.numbered = false
		}
	}
}

// report calls the hook for segments given up, with no lock held.
func (u *Uploader) report(given ...GivenUp) {
	if u.cfg.Hooks.GivenUp == nil {
		return
	}
	for _, g := range given {
		u.cfg.Hooks.GivenUp(g)
	}
}

// copyMetadata makes dst a copy of src that shares nothing with it, in dst's own memory where there is enough.
func copyMetadata(dst, src *segment.Metadata) {
	topics := dst.Topics[:cap(dst.Topics)]
	if len(topics) < len(src.Topics) {
		topics = append(topics, make([]segment.Topic, len(src.Topics)-len(topics))...)
	}
	topics = topics[:len(src.Topics)]
	for i := range src.Topics {
		slices := topics[i].Slices[:0]
		topics[i] = src.Topics[i]
		topics[i].Slices = append(slices, src.Topics[i].Slices...)
	}
	*dst = *src
	dst.Topics = topics
}
