package metadata

import "github.com/walhop/walhop/walstorage/segment"

// Event says that a segment is stored: an envelope around exactly the segment's own index.
type Event struct {
	// Sequence counts the events of one broker epoch from 0. It is taken when the event is first handed to Publish, is
	// dense but for events given up, never reused, and not in the object (L3).
	Sequence int64
	// ObjectSize is the size of the whole object in bytes.
	ObjectSize int64
	// Segment is the object's index.
	Segment segment.Metadata
}

// Clone returns a copy that shares nothing with e.
func (e *Event) Clone() *Event {
	return &Event{Sequence: e.Sequence, ObjectSize: e.ObjectSize, Segment: *e.Segment.Clone()}
}
