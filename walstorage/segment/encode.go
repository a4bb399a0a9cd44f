package segment

import (
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers, as in segment.proto. They are never changed and never reused.
const (
	fieldCluster     protowire.Number = 1
	fieldBrokerID    protowire.Number = 2
	fieldBrokerEpoch protowire.Number = 3
	fieldUUID        protowire.Number = 4
	fieldCreated     protowire.Number = 5
	fieldStore       protowire.Number = 6
	fieldTopics      protowire.Number = 7

	fieldTopicID     protowire.Number = 1
	fieldTopicName   protowire.Number = 2
	fieldTopicSlices protowire.Number = 3

	fieldPartition       protowire.Number = 1
	fieldLeaderEpoch     protowire.Number = 2
	fieldEpochStart      protowire.Number = 3
	fieldBaseOffset      protowire.Number = 4
	fieldLastOffsetDelta protowire.Number = 5
	fieldLength          protowire.Number = 6
	fieldCRC32C          protowire.Number = 7
	fieldMaxTimestampAge protowire.Number = 8
)

// Upper bounds of encoded sizes, with which the Builder keeps below MaxEventBytes without encoding anything. Every
// field number above is below 16, so that a tag takes one byte.
const (
	// maxSliceBytes is the largest encoding of a slice, its own tag and length (below 128) included.
	maxSliceBytes = 2 + (1 + 5) + (1 + 10) + (1 + 9) + (1 + 9) + (1 + 5) + (1 + 8) + (1 + 4) + (1 + 10)
	// maxTopicBytes is the largest encoding of a topic less its slices and the bytes of its name.
	maxTopicBytes = (1 + 5) + (2 + 16) + (1 + 2)
	// maxSegmentBytes is the largest encoding of the rest, less the bytes of cluster and store.
	maxSegmentBytes = (1 + 2) + (1 + 5) + (1 + 9) + (2 + 16) + (1 + 9) + (1 + 2)
	// maxEnvelopeBytes is more than what a metadata.Event adds to the index.
	maxEnvelopeBytes = 64
)

// AppendBinary appends the wire form of m (segment.proto) to dst and returns the longer slice. It allocates only if
// dst lacks the capacity. The error says that m is not valid, see [Metadata.Validate].
//
// The form is canonical: equal values give equal bytes. Fields with their default are left out, fields stand in the
// order of their numbers.
func (m *Metadata) AppendBinary(dst []byte) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return dst, err
	}
	return m.append(dst), nil
}

// MarshalBinary returns the wire form of m, see [Metadata.AppendBinary].
func (m *Metadata) MarshalBinary() ([]byte, error) { return m.AppendBinary(nil) }

// EncodedLen returns the number of bytes that AppendBinary appends.
func (m *Metadata) EncodedLen() int {
	created := m.Created.UnixMilli()
	n := sizeBytes(len(m.Cluster)) + sizeInt(int64(m.ID.BrokerID)) + sizeInt(m.ID.BrokerEpoch) +
		sizeBytes(len(m.ID.UUID)) + sizeInt(created) + sizeBytes(len(m.Store))
	for i := range m.Topics {
		n += 1 + protowire.SizeBytes(m.Topics[i].size(created))
	}
	return n
}

// append encodes m, which is valid. Sizes are not computed beforehand: a message is written behind room for its length,
// which is filled in afterwards.
func (m *Metadata) append(dst []byte) []byte {
	if cap(dst)-len(dst) < m.maxEncodedLen() {
		dst = slices.Grow(dst, m.EncodedLen())
	}
	created := m.Created.UnixMilli()
	dst = appendText(dst, fieldCluster, m.Cluster)
	dst = appendInt(dst, fieldBrokerID, int64(m.ID.BrokerID))
	dst = appendInt(dst, fieldBrokerEpoch, m.ID.BrokerEpoch)
	dst = protowire.AppendTag(dst, fieldUUID, protowire.BytesType)
	dst = protowire.AppendBytes(dst, m.ID.UUID[:])
	dst = appendInt(dst, fieldCreated, created)
	dst = appendText(dst, fieldStore, m.Store)
	for i := range m.Topics {
		dst = m.Topics[i].append(dst, created)
	}
	return dst
}

// append encodes a topic with its own tag and length.
func (t *Topic) append(dst []byte, created int64) []byte {
	dst = append(dst, byte(protowire.EncodeTag(fieldTopics, protowire.BytesType)), 0)
	start := len(dst)
	dst = append(dst, byte(protowire.EncodeTag(fieldTopicID, protowire.BytesType)), byte(len(t.ID)))
	dst = append(dst, t.ID[:]...)
	dst = appendText(dst, fieldTopicName, t.Name)
	for i := range t.Slices {
		dst = t.Slices[i].append(dst, created)
	}
	length := len(dst) - start
	if length < 0x80 {
		dst[start-1] = byte(length)
		return dst
	}
	// The length takes more than the one byte that was left for it: make room.
	extra := protowire.SizeVarint(uint64(length)) - 1
	dst = append(dst, make([]byte, extra)...)
	copy(dst[start+extra:], dst[start:start+length])
	protowire.AppendVarint(dst[:start-1], uint64(length))
	return dst
}

// maxEncodedLen is a cheap upper bound of EncodedLen.
func (m *Metadata) maxEncodedLen() int {
	n := maxSegmentBytes + len(m.Cluster) + len(m.Store)
	for i := range m.Topics {
		n += maxTopicBytes + len(m.Topics[i].Name) + len(m.Topics[i].Slices)*maxSliceBytes
	}
	return n
}

// size is the encoded size of a topic without its own tag and length.
func (t *Topic) size(created int64) int {
	n := sizeBytes(len(t.ID)) + sizeBytes(len(t.Name))
	for i := range t.Slices {
		n += 1 + 1 + t.Slices[i].size(created) // a slice is shorter than 128 bytes
	}
	return n
}

// size is the encoded size of a slice without its own tag and length.
func (s *Slice) size(created int64) int {
	n := sizeInt(int64(s.Partition)) + sizeInt(int64(s.LeaderEpoch)) + sizeInt(s.EpochStart) + sizeInt(s.BaseOffset) +
		sizeInt(s.LastOffset-s.BaseOffset) + sizeInt(s.Length) + sizeInt(int64(protowire.EncodeZigZag(age(created, s.MaxTimestamp))))
	if s.CRC32C != 0 {
		n += 1 + 4
	}
	return n
}

// append encodes a slice with its own tag and length.
func (s *Slice) append(dst []byte, created int64) []byte {
	start := len(dst)
	if cap(dst)-start >= maxSliceBytes {
		return dst[:start+s.put(dst[start:start+maxSliceBytes], created)]
	}
	var room [maxSliceBytes]byte
	return append(dst, room[:s.put(room[:], created)]...)
}

// put writes a slice with its own tag and length to the beginning of room, which has maxSliceBytes, and returns how much
// it is.
func (s *Slice) put(room []byte, created int64) int {
	w := writer{b: room, n: 2}
	w.int(fieldPartition, uint64(s.Partition))
	w.int(fieldLeaderEpoch, uint64(s.LeaderEpoch))
	w.int(fieldEpochStart, uint64(s.EpochStart))
	w.int(fieldBaseOffset, uint64(s.BaseOffset))
	w.int(fieldLastOffsetDelta, uint64(s.LastOffset-s.BaseOffset))
	w.int(fieldLength, uint64(s.Length))
	if s.CRC32C != 0 {
		w.b[w.n] = byte(protowire.EncodeTag(fieldCRC32C, protowire.Fixed32Type))
		binary.LittleEndian.PutUint32(w.b[w.n+1:], s.CRC32C)
		w.n += 1 + 4
	}
	w.int(fieldMaxTimestampAge, protowire.EncodeZigZag(age(created, s.MaxTimestamp)))
	w.b[0] = byte(protowire.EncodeTag(fieldTopicSlices, protowire.BytesType))
	w.b[1] = byte(w.n - 2) // one byte: always below 128 (maxSliceBytes)
	return w.n
}

// writer writes fields into room that is large enough.
type writer struct {
	b []byte
	n int
}

// int writes a field of the type varint, or nothing for the default.
func (w *writer) int(field protowire.Number, v uint64) {
	if v == 0 {
		return
	}
	b, n := w.b, w.n
	b[n] = byte(field) << 3 // below 16 with type 0: one byte
	n++
	for v >= 0x80 {
		b[n] = byte(v) | 0x80
		v >>= 7
		n++
	}
	b[n] = byte(v)
	w.n = n + 1
}

// age is what stands on the wire for a max timestamp: small numbers for records as young as these are. The difference
// wraps around, so that every timestamp survives.
func age(created, maxTimestamp int64) int64 { return created - maxTimestamp }

// fromAge is the inverse of age.
func fromAge(created, age int64) int64 { return created - age }

func appendInt(dst []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), uint64(v))
}

func appendText(dst []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), text)
}

func sizeInt(v int64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(v))
}

func sizeBytes(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(n)
}

// millis is the inverse of time.Time.UnixMilli as Metadata.Created has it.
func millis(v int64) time.Time { return time.UnixMilli(v).UTC() }
