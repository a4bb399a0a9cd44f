package metadata

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/walhop/walhop/walstorage/segment"
)

// Version is the version of an encoded event. A reader skips an event of a version that it does not know, with a [Gap]
// (M4), so while a cluster is being upgraded its writers are configured to the lowest version that all readers know.
type Version int

// The versions.
const (
	// Version1 is the only version so far.
	Version1 Version = 1
	// LatestVersion is the newest version that this package reads and writes, and what writers use by default.
	LatestVersion = Version1
)

// Validate returns an error unless this package can write the version.
func (v Version) Validate() error {
	if v < Version1 || v > LatestVersion {
		return fmt.Errorf("%w %d, known are %d to %d", ErrUnknownVersion, int(v), int(Version1), int(LatestVersion))
	}
	return nil
}

// MaxEventBytes is the largest encoded event that a [Log] takes: 1,000,000 bytes, which fits with all overhead into a
// record of a Kafka topic with its defaults. leader.Config bounds its events well below.
const MaxEventBytes = 1_000_000

// Event says that a segment is stored: an envelope around exactly the segment's own index, one for each segment (M2).
// event.proto describes its wire form.
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

// Validate returns an error around [ErrInvalid] that names what is wrong, or nil if the event can be published.
func (e *Event) Validate() error {
	if err := e.Segment.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if problem := e.envelopeProblem(); problem != "" {
		return fmt.Errorf("%w: %s", ErrInvalid, problem)
	}
	return nil
}

// envelopeProblem says what is wrong beside the segment, which is valid; empty if nothing is.
func (e *Event) envelopeProblem() string {
	if e.Sequence < 0 || e.Sequence == math.MaxInt64 {
		return fmt.Sprintf("sequence %d is out of range", e.Sequence)
	}
	if least := segment.HeaderLength + e.Segment.BodyLength() + segment.TrailerLength; e.ObjectSize < least {
		return fmt.Sprintf("object size %d is less than its slices with header and trailer take, %d", e.ObjectSize, least)
	}
	return ""
}

// The fields of an event on the wire, see event.proto. The first two mean the same in every version.
const (
	fieldVersion    protowire.Number = 1
	fieldSequence   protowire.Number = 2
	fieldObjectSize protowire.Number = 3
	fieldSegment    protowire.Number = 4
)

// EncodedLen returns the number of bytes that AppendBinary appends for a valid event.
func (e *Event) EncodedLen() int {
	return 1 + protowire.SizeVarint(uint64(LatestVersion)) + 1 + protowire.SizeVarint(uint64(e.Sequence)) +
		1 + protowire.SizeVarint(uint64(e.ObjectSize)) + 1 + protowire.SizeBytes(e.Segment.EncodedLen())
}

// AppendBinary appends the event in the latest version, see [Event.AppendVersion].
func (e *Event) AppendBinary(dst []byte) ([]byte, error) { return e.AppendVersion(dst, LatestVersion) }

// MarshalBinary returns the event in the latest version, see [Event.AppendVersion].
func (e *Event) MarshalBinary() ([]byte, error) { return e.AppendVersion(nil, LatestVersion) }

// AppendVersion appends the wire form of e to dst and returns the longer slice. It allocates only if dst lacks the
// capacity. The error is [ErrUnknownVersion], or [ErrInvalid] for an event that is not valid or takes more than
// [MaxEventBytes]; dst is then returned as it was. There is no checksum: the carrier of an event has one.
func (e *Event) AppendVersion(dst []byte, version Version) ([]byte, error) {
	if err := version.Validate(); err != nil {
		return dst, err
	}
	if problem := e.envelopeProblem(); problem != "" {
		return dst, fmt.Errorf("%w: %s", ErrInvalid, problem)
	}
	size := e.Segment.EncodedLen()
	begin := len(dst)
	out := slices.Grow(dst, size+64)
	out = protowire.AppendTag(out, fieldVersion, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(version))
	out = protowire.AppendTag(out, fieldSequence, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(e.Sequence))
	out = protowire.AppendTag(out, fieldObjectSize, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(e.ObjectSize))
	out = protowire.AppendTag(out, fieldSegment, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(size))
	out, err := e.Segment.AppendBinary(out)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if n := len(out) - begin; n > MaxEventBytes {
		return dst, fmt.Errorf("%w: it takes %d bytes, more than %d", ErrInvalid, n, MaxEventBytes)
	}
	return out, nil
}

// UnmarshalBinary fills e with the event encoded in b, which it does not keep. The slices and strings of e are used
// again where they fit, so that a reader with one Event allocates nothing once it has seen the topics. Unknown fields
// are skipped.
//
// The error is [ErrCorrupt], or an [*UnknownVersionError]; e's content is then undefined. What is decoded is valid
// ([Event.Validate]).
func (e *Event) UnmarshalBinary(b []byte) error {
	if len(b) > MaxEventBytes {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrCorrupt, len(b), MaxEventBytes)
	}
	version, sequence, err := readVersion(b)
	if err != nil {
		return err
	}
	if version > uint64(LatestVersion) {
		return &UnknownVersionError{Version: version, Sequence: sequence}
	}
	e.Sequence, e.ObjectSize = 0, 0
	seen := false
	for at := 0; at < len(b); {
		number, kind, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return corruptAt(at, "a field's tag cannot be read")
		}
		value := b[at+n:]
		switch {
		case number == fieldSequence && kind == protowire.VarintType:
			e.Sequence, n = consumeInt64(value)
		case number == fieldObjectSize && kind == protowire.VarintType:
			e.ObjectSize, n = consumeInt64(value)
		case number == fieldSegment && kind == protowire.BytesType:
			var index []byte
			index, n = protowire.ConsumeBytes(value)
			if n < 0 {
				break
			}
			if err := e.Segment.UnmarshalBinary(index); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
			seen = true
		case number >= fieldVersion && number <= fieldSegment && number != fieldVersion:
			return corruptAt(at, "a field has the wrong type")
		default:
			n = protowire.ConsumeFieldValue(number, kind, value)
		}
		if n < 0 {
			return corruptAt(at, "a field cannot be read")
		}
		at = len(b) - len(value) + n
	}
	if !seen {
		return corruptAt(len(b), "the segment is missing")
	}
	if problem := e.envelopeProblem(); problem != "" {
		return corruptAt(len(b), problem)
	}
	return nil
}

// readVersion reads the two fields with which every event begins, whatever its version.
func readVersion(b []byte) (version uint64, sequence int64, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number != fieldVersion || kind != protowire.VarintType {
		return 0, 0, corruptAt(0, "it does not begin with a version")
	}
	at := n
	version, n = protowire.ConsumeVarint(b[at:])
	if n < 0 || version == 0 {
		return 0, 0, corruptAt(at, "the version cannot be read")
	}
	at += n
	number, kind, n = protowire.ConsumeTag(b[at:])
	if n < 0 || number != fieldSequence || kind != protowire.VarintType {
		return version, -1, nil
	}
	sequence, n = consumeInt64(b[at+n:])
	if n < 0 || sequence < 0 {
		sequence = -1
	}
	return version, sequence, nil
}

func consumeInt64(b []byte) (int64, int) {
	v, n := protowire.ConsumeVarint(b)
	return int64(v), n
}

func corruptAt(at int, reason string) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrCorrupt, at, reason)
}

// UnknownVersionError says that an event was written in a version that this reader does not know.
type UnknownVersionError struct {
	// Version is that version.
	Version uint64
	// Sequence is the event's sequence, which stands at the same place in every version, or -1 if it cannot be read.
	Sequence int64
}

// Error names the version.
func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("%v %d", ErrUnknownVersion, e.Version)
}

// Is tells whether target is [ErrUnknownVersion].
func (e *UnknownVersionError) Is(target error) bool { return target == ErrUnknownVersion }
