package segment

import (
	"fmt"
	"iter"
)

// Reader reads a whole object without help of the metadata log. The zero Reader is ready for Reset. It may be used
// from many goroutines at once as long as none calls Reset.
type Reader struct {
	object   []byte
	metadata Metadata
}

// NewReader returns a reader of object, which must not change while the reader is in use. It checks header, index and
// trailer, and that the lengths in the index tile the body exactly (S1), but not the body: see [Reader.All]. The error
// is a [*CorruptError], or [ErrUnsupportedVersion].
func NewReader(object []byte) (*Reader, error) {
	r := new(Reader)
	if err := r.Reset(object); err != nil {
		return nil, err
	}
	return r, nil
}

// Reset makes r read another object, see [NewReader]. The Metadata returned before is overwritten, so that reading the
// objects of one broker with one Reader allocates nothing as long as the same topics come. After an error r reads
// nothing until the next Reset.
func (r *Reader) Reset(object []byte) error {
	r.object = nil
	f, err := parseFrame(object)
	if err != nil {
		return err
	}
	m := &r.metadata
	if err := m.UnmarshalBinary(object[f.indexStart:f.indexEnd]); err != nil {
		if corrupt, ok := err.(*CorruptError); ok {
			corrupt.Position += int64(f.indexStart)
		}
		return err
	}
	if m.ID.BrokerID != f.brokerID || m.ID.BrokerEpoch != f.brokerEpoch {
		return &CorruptError{Where: "header", Position: 12, Reason: fmt.Sprintf(
			"broker %d epoch %d, the index says segment %s", f.brokerID, f.brokerEpoch, m.ID,
		)}
	}
	if body := int64(f.indexStart - HeaderLength); m.BodyLength() != body {
		return &CorruptError{Where: "body", Position: HeaderLength, Reason: fmt.Sprintf(
			"%d bytes, the lengths in the index make %d", body, m.BodyLength(),
		)}
	}
	r.object = object
	return nil
}

// Metadata returns the object's index. It is valid until Reset and must not be changed.
func (r *Reader) Metadata() *Metadata { return &r.metadata }

// Match checks that the object is the one that an event described with md (F3). The error is a [*CorruptError].
func (r *Reader) Match(md *Metadata) error {
	m := &r.metadata
	reason := ""
	switch {
	case m.Cluster != md.Cluster:
		reason = fmt.Sprintf("cluster %q, the event says %q", m.Cluster, md.Cluster)
	case m.ID != md.ID:
		reason = fmt.Sprintf("segment %s, the event says %s", m.ID, md.ID)
	case !m.equal(md):
		reason = fmt.Sprintf("segment %s has another content than its event says", m.ID)
	default:
		return nil
	}
	return &CorruptError{Where: "index", Position: int64(HeaderLength + m.BodyLength()), Reason: reason}
}

// Verified is a slice whose bytes have been checked.
type Verified struct {
	Entry
	// Data are the batches, a part of the object: the prefix that [VerifySlice] returns.
	Data []byte
	// LastOffset is the last offset in Data.
	LastOffset int64
}

// All yields every slice of the object with its bytes, in order, each checked with [VerifySlice] when its turn comes. A
// corrupt slice comes with the error and without Data, Position counted in the object; the others go on.
func (r *Reader) All() iter.Seq2[Verified, error] {
	return func(yield func(Verified, error) bool) {
		if r.object == nil {
			return
		}
		for entry := range r.metadata.All() {
			v := Verified{Entry: entry}
			var err error
			v.Data, v.LastOffset, err = VerifySlice(*entry.Slice, r.object[entry.Position:entry.Position+entry.Slice.Length])
			if corrupt, ok := err.(*CorruptError); ok {
				corrupt.Position += entry.Position
				corrupt.Reason = entry.Partition.String() + ": " + corrupt.Reason
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
