package segment

import (
	"math"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fewest bytes that a valid topic and a valid slice take on the wire, tag and length included. They bound what a
// decoder allocates for bytes that only look like many of them (S5).
const (
	minTopicBytes = 2 + (2 + 16) + (2 + 1) + minSliceBytes
	minSliceBytes = 2 + 2 // the others of a topic take 6: only one has partition 0
)

// UnmarshalBinary fills m with the Metadata encoded in b, which it does not keep. The slices and strings of m are used
// again where they fit, so that decoding the segments of one broker into one Metadata allocates nothing as long as the
// same topics come. Unknown fields are skipped, so that fields can be added; a known field of another wire type is
// corrupt. Of a singular field that comes twice the last counts.
//
// The error is a [*CorruptError] with the position in b; m's content is then undefined. What is decoded is valid
// ([Metadata.Validate]). Whatever b holds, not more than a small multiple of its size is allocated (S5).
func (m *Metadata) UnmarshalBinary(b []byte) error {
	d := decoder{m: m}
	if !d.segment(b) {
		return &CorruptError{Where: "index", Position: int64(d.at), Reason: d.reason}
	}
	if problem := m.problem(); problem != "" {
		return &CorruptError{Where: "index", Reason: problem}
	}
	return nil
}

// decoder holds what the decoding of one Metadata has to know. Its methods return false after setting at and reason.
type decoder struct {
	m      *Metadata
	at     int
	reason string
}

func (d *decoder) fail(at int, reason string) bool {
	d.at, d.reason = at, reason
	return false
}

func (d *decoder) segment(b []byte) bool {
	m := d.m
	m.Created = millis(0)
	m.ID.BrokerID, m.ID.BrokerEpoch = 0, 0
	clear(m.ID.UUID[:])
	var cluster, store []byte
	var created int64
	topics := 0
	f := fields{b: b}
	for f.next() {
		ok := true
		switch f.number {
		case fieldCluster:
			cluster, ok = f.bytes, f.is(protowire.BytesType)
		case fieldBrokerID:
			m.ID.BrokerID, ok = f.int32()
		case fieldBrokerEpoch:
			m.ID.BrokerEpoch, ok = f.int64()
		case fieldUUID:
			ok = f.uuid(&m.ID.UUID)
		case fieldCreated:
			created, ok = f.int64()
			m.Created = millis(created)
		case fieldStore:
			store, ok = f.bytes, f.is(protowire.BytesType)
		case fieldTopics:
			if ok = f.is(protowire.BytesType); !ok {
				break
			}
			if topics == cap(m.Topics) {
				more := min(1+f.count(fieldTopics), 1+f.left()/minTopicBytes)
				m.Topics = grow(m.Topics[:topics], more)
			}
			m.Topics = m.Topics[:topics+1]
			// Ages are differences to the creation time, which may stand behind the topics: they are resolved below.
			if !d.topic(&m.Topics[topics], f.bytes, f.start) {
				return false
			}
			topics++
		}
		if !ok {
			return d.fail(f.at, "a field has a wrong type, size or range")
		}
	}
	if f.reason != "" {
		return d.fail(f.at, f.reason)
	}
	m.Topics = m.Topics[:topics]
	setText(&m.Cluster, cluster)
	setText(&m.Store, store)
	for i := range m.Topics {
		for j := range m.Topics[i].Slices {
			slice := &m.Topics[i].Slices[j]
			slice.MaxTimestamp = fromAge(created, slice.MaxTimestamp)
		}
	}
	return true
}

// topic decodes b, which begins at byte base, into t.
func (d *decoder) topic(t *Topic, b []byte, base int) bool {
	clear(t.ID[:])
	var name []byte
	count := 0
	f := fields{b: b, base: base}
	for f.next() {
		ok := true
		switch f.number {
		case fieldTopicID:
			ok = f.uuid(&t.ID)
		case fieldTopicName:
			name, ok = f.bytes, f.is(protowire.BytesType)
		case fieldTopicSlices:
			if ok = f.is(protowire.BytesType); !ok {
				break
			}
			if count == cap(t.Slices) {
				more := min(1+f.count(fieldTopicSlices), 1+f.left()/(minSliceBytes+2))
				t.Slices = grow(t.Slices[:count], more)
			}
			t.Slices = t.Slices[:count+1]
			if !d.slice(&t.Slices[count], f.bytes, f.start) {
				return false
			}
			if count > 0 && t.Slices[count-1].Partition >= t.Slices[count].Partition {
				return d.fail(f.at, "the partitions of a topic are not in order") // one slice per partition (S1)
			}
			count++
		}
		if !ok {
			return d.fail(f.at, "a field has a wrong type, size or range")
		}
	}
	if f.reason != "" {
		return d.fail(f.at, f.reason)
	}
	t.Slices = t.Slices[:count]
	// Checked here and not only in the end, so that bytes that hold many topics of nothing are not taken for many (S5).
	if t.ID == uuid.Nil || len(name) == 0 || len(name) > maxTopicLength || count == 0 {
		return d.fail(base, "a topic lacks its id, a name of 1 to 249 bytes or a slice")
	}
	setText(&t.Name, name)
	return true
}

// slice decodes b, which begins at byte base, into s. MaxTimestamp is left as an age.
func (d *decoder) slice(s *Slice, b []byte, base int) bool {
	*s = Slice{}
	var span int64
	f := fields{b: b, base: base}
	for f.next() {
		ok := true
		switch f.number {
		case fieldPartition:
			s.Partition, ok = f.int32()
		case fieldLeaderEpoch:
			s.LeaderEpoch, ok = f.int32()
		case fieldEpochStart:
			s.EpochStart, ok = f.int64()
		case fieldBaseOffset:
			s.BaseOffset, ok = f.int64()
		case fieldLastOffsetDelta:
			span, ok = f.int64()
			ok = ok && span >= 0 && span <= maxSpan
		case fieldLength:
			s.Length, ok = f.int64()
		case fieldCRC32C:
			s.CRC32C, ok = uint32(f.varint), f.is(protowire.Fixed32Type)
		case fieldMaxTimestampAge:
			s.MaxTimestamp, ok = protowire.DecodeZigZag(f.varint), f.is(protowire.VarintType)
		}
		if !ok {
			return d.fail(f.at, "a field has a wrong type, size or range")
		}
	}
	if f.reason != "" {
		return d.fail(f.at, f.reason)
	}
	if s.Length <= 0 {
		return d.fail(base, "a slice has no length")
	}
	if s.BaseOffset > math.MaxInt64-span {
		return d.fail(base, "a last offset is beyond the largest offset")
	}
	s.LastOffset = s.BaseOffset + span
	return true
}

// grow returns a copy of s with room for exactly more elements: what is allocated is bounded by the caller (S5).
func grow[E any](s []E, more int) []E {
	return append(make([]E, 0, len(s)+more), s...)
}

// setText sets *text to the bytes, and allocates only if they differ.
func setText(text *string, b []byte) {
	if *text != string(b) {
		*text = string(b)
	}
}
