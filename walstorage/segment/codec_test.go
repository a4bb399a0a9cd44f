package segment

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/walstorage"
)

// sample is a Metadata with a value in every field.
func sample(t testing.TB) *Metadata {
	id := segmentID(t, 3, 4711, 0x5a)
	return &Metadata{
		Cluster: cluster, ID: id, Created: id.Created(), Store: "zone-b",
		Topics: []Topic{
			{ID: topicA, Name: "orders", Slices: []Slice{
				{Partition: 0, LeaderEpoch: 0, EpochStart: 0, BaseOffset: 0, LastOffset: 0, Length: 1, CRC32C: 0, MaxTimestamp: -1},
				{
					Partition: 7, LeaderEpoch: 12, EpochStart: 1000, BaseOffset: 1 << 34, LastOffset: 1<<34 + 299,
					Length: 4096, CRC32C: 0xdeadbeef, MaxTimestamp: batchtest.Time + 20,
				},
			}},
			{ID: topicB, Name: "payments.eu", Slices: []Slice{
				{
					Partition: math.MaxInt32, LeaderEpoch: -1, EpochStart: 5, BaseOffset: 5, LastOffset: 5 + maxSpan,
					Length: 1 << 40, CRC32C: 1, MaxTimestamp: batchtest.Time + 1_000_000,
				},
			}},
		},
	}
}

// golden is the wire form of sample, written out field by field. A protobuf library made the same bytes of segment.proto.
var golden = strings.Join([]string{
	"0a 16 344c3667336e5368542d654d43744b2d2d5838367377", // cluster
	"10 03", "18 e724", // broker_id, broker_epoch
	"22 10 018bcfe568197a5a9a5a5a5a5a5a5a5a", // uuid
	"28 99d095ffbc31",                        // created_ms
	"32 06 7a6f6e652d62",                     // store
	"3a 41",                                  // topics[0]
	"0a 10 0a000000000040008000000000000001", // id
	"12 06 6f7264657273",                     // name
	"1a 09",                                  // slices[0]: all defaults but
	"30 01", "40 b4a0abfef962",               // length, max_timestamp_age
	"1a 1a",          // slices[1]
	"08 07", "10 0c", // partition, leader_epoch
	"18 e807", "20 8080808040", "28 ab02", // epoch_start, base_offset, last_offset_delta
	"30 8020", "3d efbeadde", "40 0a", // length, crc32c, max_timestamp_age
	"3a 4c", // topics[1]
	"0a 10 0b000000000040008000000000000002",
	"12 0b 7061796d656e74732e6575",
	"1a 2b",
	"08 ffffffff07", "10 ffffffffffffffffff01",
	"18 05", "20 05", "28 ffffffff07",
	"30 808080808020", "3d 01000000", "40 cd887a",
}, " ")

// The bytes on the wire are pinned: a change here breaks objects and events that exist.
func TestGoldenBytes(t *testing.T) {
	want, err := hex.DecodeString(strings.ReplaceAll(golden, " ", ""))
	require.NoError(t, err)

	wire, err := sample(t).AppendBinary([]byte("before"))

	require.NoError(t, err)
	assert.Equal(t, hex.EncodeToString(want), hex.EncodeToString(wire[len("before"):]))
	assert.Equal(t, len(want), sample(t).EncodedLen())

	var decoded Metadata
	require.NoError(t, decoded.UnmarshalBinary(want))
	assert.Equal(t, *sample(t), decoded)
	marshalled, err := decoded.MarshalBinary()
	require.NoError(t, err)
	assert.Equal(t, want, marshalled)
}

// So are those of a whole object.
func TestGoldenObject(t *testing.T) {
	b := newBuilder(t, BuilderConfig{Cluster: "c"})
	mustAppend(t, b, Run{Partition: partition(topicA, "a", 1), LeaderEpoch: 5, EpochStart: 90, Base: 100}, batchtest.V1())
	object, _, err := b.Seal(segmentID(t, 3, 4711, 0x5a), nil)
	require.NoError(t, err)
	want := strings.Join([]string{
		"8957414c484f500a", "0001", "0000", "00000003", "0000000000001267", // header
		hex.EncodeToString(batchtest.V1()),
		"0a0163", "1003", "18e724", "2210018bcfe568197a5a9a5a5a5a5a5a5a5a", "2899d095ffbc31", // index
		"3a2a", "0a100a000000000040008000000000000001", "120161",
		"1a13", "0801", "1005", "185a", "2064", "2801", "304f", "3d" + "CRC32C", "4030",
		"0000004d", "CHECKSUM", "89504f484c41570a", // trailer
	}, "")
	got := hex.EncodeToString(object)
	// The two checksums are computed by another path.
	want = strings.ReplaceAll(want, "CRC32C", hex.EncodeToString(protowire.AppendFixed32(nil, checksum(batchtest.V1()))))
	index := object[HeaderLength+79 : len(object)-TrailerLength]
	want = strings.ReplaceAll(want, "CHECKSUM", fmt.Sprintf("%08x", checksum(append(bytes.Clone(object[:HeaderLength]), index...))))
	assert.Equal(t, want, got)
}

// checksum is CRC-32C bit by bit.
func checksum(b []byte) uint32 {
	crc := ^uint32(0)
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ 0x82f63b78*(crc&1)
		}
	}
	return ^crc
}

// plain is shaped like the segments of the size goals: topics with names of 16 bytes whose slices fill 256 KiB, offsets
// just below 2^35, epochs of 127.
func plain(t testing.TB, topics, partitions int) *Metadata {
	id := segmentID(t, 1000, 1<<34, 0x5a)
	m := &Metadata{Cluster: cluster, ID: id, Created: id.Created()}
	for i := range topics {
		topic := Topic{ID: uuid.UUID{0: 1, 7: byte(i), 15: 0xff}, Name: fmt.Sprintf("topic-%010d", i)}
		for j := range partitions {
			base := int64(1)<<35 - 1000 - int64(j)
			topic.Slices = append(topic.Slices, Slice{
				Partition: int32(j + 1), LeaderEpoch: 127, EpochStart: 1<<35 - 5000, BaseOffset: base, LastOffset: base + 500,
				Length: int64(DefaultTargetBytes / (topics * partitions)), CRC32C: 0x9e3779b9 + uint32(i*partitions+j),
				MaxTimestamp: m.Created.UnixMilli() - 4000,
			})
		}
		m.Topics = append(m.Topics, topic)
	}
	return m
}

// shapes are the two layouts of the size goals, with the share of 256 KiB that their events may have.
var shapes = []struct {
	name               string
	topics, partitions int
	share              float64
}{
	{"8x8", 8, 8, 0.010},
	{"64x1", 64, 1, 0.018},
}

// envelopeBytes is what the envelope of an event adds.
const envelopeBytes = 15

func TestMetadataIsSmall(t *testing.T) {
	for _, shape := range shapes {
		m := plain(t, shape.topics, shape.partitions)
		require.NoError(t, m.Validate())
		require.Equal(t, int64(DefaultTargetBytes), m.BodyLength())
		size := m.EncodedLen() + envelopeBytes
		assert.LessOrEqual(t, float64(size), shape.share*DefaultTargetBytes, "%s: %d bytes", shape.name, size)
	}
}

// randomMetadata draws a valid Metadata with values of all magnitudes.
func randomMetadata(t testing.TB, random *rand.Rand) *Metadata {
	magnitude := func(bits int) int64 { return random.Int64N(1 << (1 + random.IntN(bits))) }
	created := time.UnixMilli(magnitude(47))
	id, err := walstorage.NewSegmentID(int32(magnitude(30)), magnitude(62), created, bytes.NewReader(binaryOf(random, 10)))
	require.NoError(t, err)
	m := &Metadata{Cluster: cluster[:1+random.IntN(len(cluster))], ID: id, Created: id.Created()}
	for i := range 1 + random.IntN(6) {
		topic := Topic{ID: uuid.UUID{0: byte(i), 9: 1}, Name: strings.Repeat("n", 1+random.IntN(249))}
		partition := int32(0)
		for range 1 + random.IntN(6) {
			base := magnitude(61)
			topic.Slices = append(topic.Slices, Slice{
				Partition: partition, LeaderEpoch: int32(magnitude(30)) - 1, EpochStart: random.Int64N(base + 1), BaseOffset: base,
				LastOffset: base + magnitude(30), Length: 1 + magnitude(40), CRC32C: uint32(magnitude(32)), MaxTimestamp: magnitude(62) - 1,
			})
			partition += 1 + int32(magnitude(20))
		}
		m.Topics = append(m.Topics, topic)
	}
	return m
}

func binaryOf(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// What is encoded is decoded, also into a Metadata that held another one.
func TestCodecRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var reused Metadata
	for range 500 {
		m := randomMetadata(t, random)
		wire, err := m.AppendBinary(nil)
		require.NoError(t, err)
		require.Len(t, wire, m.EncodedLen())
		require.LessOrEqual(t, len(wire), m.maxEncodedLen())
		require.NoError(t, reused.UnmarshalBinary(wire))
		require.True(t, m.equal(&reused), "%+v\n%+v", m, &reused)

		clone := reused.Clone()
		require.Equal(t, &reused, clone)
		clone.Topics[0].Slices[0].Length++
		require.False(t, reused.equal(clone), "a clone shares nothing")
	}
}

// A newer writer's fields are skipped wherever they stand, of every wire type.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	m := sample(t)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 7)
	unknown = protowire.AppendFixed32(protowire.AppendTag(unknown, 101, protowire.Fixed32Type), 7)
	unknown = protowire.AppendFixed64(protowire.AppendTag(unknown, 102, protowire.Fixed64Type), 7)
	unknown = protowire.AppendBytes(protowire.AppendTag(unknown, 103, protowire.BytesType), []byte("later"))
	unknown = protowire.AppendTag(unknown, 104, protowire.StartGroupType)
	unknown = protowire.AppendTag(unknown, 104, protowire.EndGroupType)

	wire := bytes.Clone(unknown)
	wire = append(wire, wireOf(m, unknown)...)
	wire = append(wire, unknown...)

	var decoded Metadata
	require.NoError(t, decoded.UnmarshalBinary(wire))
	assert.True(t, decoded.equal(m))
}

// wireOf encodes m with extra bytes at the end of every topic and slice.
func wireOf(m *Metadata, extra []byte) []byte {
	created := m.Created.UnixMilli()
	head := *m
	head.Topics = nil
	wire := head.append(nil)
	for i := range m.Topics {
		topic := protowire.AppendBytes(protowire.AppendTag(nil, fieldTopicID, protowire.BytesType), m.Topics[i].ID[:])
		topic = appendText(topic, fieldTopicName, m.Topics[i].Name)
		for j := range m.Topics[i].Slices {
			slice := m.Topics[i].Slices[j].append(nil, created)[2:]
			slice = append(slice, extra...)
			topic = protowire.AppendBytes(protowire.AppendTag(topic, fieldTopicSlices, protowire.BytesType), slice)
		}
		topic = append(topic, extra...)
		wire = protowire.AppendBytes(protowire.AppendTag(wire, fieldTopics, protowire.BytesType), topic)
	}
	return wire
}

// The fields may come in any order, and of one that comes twice the last counts: any protobuf library may write an index.
func TestFieldsInAnyOrder(t *testing.T) {
	m := sample(t)
	head := *m
	head.Topics = nil
	topics := m.append(nil)[len(head.append(nil)):]
	wrong := appendText(appendInt(nil, fieldBrokerID, 99), fieldCluster, "other")
	wire := join(topics, wrong, head.append(nil))
	var decoded Metadata
	require.NoError(t, decoded.UnmarshalBinary(wire))
	assert.True(t, decoded.equal(m))
}

// Values outside of their ranges are named by Validate, refused by the encoder and corrupt for the decoder.
func TestValidate(t *testing.T) {
	for _, test := range []struct {
		names  string
		change func(m *Metadata)
	}{
		{"Cluster", func(m *Metadata) { m.Cluster = "" }},
		{"Cluster", func(m *Metadata) { m.Cluster = strings.Repeat("c", 256) }},
		{"Cluster", func(m *Metadata) { m.Cluster = "\xff" }},
		{"Store", func(m *Metadata) { m.Store = strings.Repeat("s", 256) }},
		{"broker id", func(m *Metadata) { m.ID.BrokerID = -1 }},
		{"broker epoch", func(m *Metadata) { m.ID.BrokerEpoch = -1 }},
		{"UUID", func(m *Metadata) { m.ID.UUID = topicA }},
		{"Created", func(m *Metadata) { m.Created = m.Created.Add(time.Millisecond) }},
		{"Topics", func(m *Metadata) { m.Topics = nil }},
		{"Topics[1].ID", func(m *Metadata) { m.Topics[1].ID = topicA }},
		{"Topics[0].ID", func(m *Metadata) { m.Topics[0].ID = uuid.Nil }},
		{"Topics[1].Name", func(m *Metadata) { m.Topics[1].Name = "" }},
		{"Topics[1].Name", func(m *Metadata) { m.Topics[1].Name = strings.Repeat("n", 250) }},
		{"Topics[1].Slices", func(m *Metadata) { m.Topics[1].Slices = nil }},
		{"Topics[0].Slices[1].Partition", func(m *Metadata) { m.Topics[0].Slices[1].Partition = 0 }},
		{"Topics[0].Slices[0].Partition", func(m *Metadata) { m.Topics[0].Slices[0].Partition = -1 }},
		{"Topics[0].Slices[0].LeaderEpoch", func(m *Metadata) { m.Topics[0].Slices[0].LeaderEpoch = -2 }},
		{"Topics[0].Slices[0].EpochStart", func(m *Metadata) { m.Topics[0].Slices[0].EpochStart = -1 }},
		{"Topics[0].Slices[1].BaseOffset", func(m *Metadata) { m.Topics[0].Slices[1].EpochStart = 1 << 35 }},
		{"Topics[0].Slices[1].Length", func(m *Metadata) { m.Topics[0].Slices[1].Length = 0 }},
		{"Topics[0].Slices[1].Length", func(m *Metadata) { m.Topics[0].Slices[1].Length = math.MaxInt64 }},
		{"Topics[0].Slices[1].Length", func(m *Metadata) {
			m.Topics[0].Slices[0].Length, m.Topics[0].Slices[1].Length = maxBodyLength, maxBodyLength
		}},
		{"Topics[1].Slices[0].MaxTimestamp", func(m *Metadata) { m.Topics[1].Slices[0].MaxTimestamp = -2 }},
	} {
		m := sample(t)
		test.change(m)

		err := m.Validate()
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument, test.names)
		assert.Contains(t, err.Error(), test.names)

		dst, err := m.AppendBinary([]byte("kept"))
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
		assert.Equal(t, "kept", string(dst))

		var decoded Metadata
		err = decoded.UnmarshalBinary(m.append(nil))
		require.ErrorIs(t, err, walstorage.ErrCorrupt, test.names)
	}
	// These two cannot be put on the wire at all.
	for names, last := range map[string]int64{"LastOffset is less": 1 << 33, "LastOffset is 2^31": 1<<34 + maxSpan + 1} {
		m := sample(t)
		m.Topics[0].Slices[1].LastOffset = last
		err := m.Validate()
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
		assert.Contains(t, err.Error(), names)
	}
}

// What no encoder of ours makes is refused, with its position.
func TestMalformedMetadata(t *testing.T) {
	good := sample(t).append(nil)
	bad := func(field []byte) []byte { return join(good, field) }
	inSlice := func(field []byte) []byte { return wireOf(sample(t), field) }
	tag := protowire.AppendTag
	for _, test := range []struct {
		name string
		wire []byte
	}{
		{"nothing", nil},
		{"a tag cut off", bad([]byte{0x80})},
		{"field number 0", bad([]byte{0x00, 0x01})},
		{"a varint cut off", bad([]byte{0x10, 0x80})},
		{"a varint of 11 bytes", bad(append([]byte{0x10}, bytes.Repeat([]byte{0xff}, 11)...))},
		{"a length beyond the end", bad([]byte{0x0a, 0x7f})},
		{"a length of 2^63", bad(protowire.AppendVarint([]byte{0x0a}, 1<<63))},
		{"a group that does not end", bad(tag(nil, 100, protowire.StartGroupType))},
		{"the end of no group", bad(tag(nil, 100, protowire.EndGroupType))},
		{"cluster as a number", bad(appendInt(nil, fieldCluster, 1))},
		{"store as a number", bad(appendInt(nil, fieldStore, 1))},
		{"topics as a number", bad(appendInt(nil, fieldTopics, 1))},
		{"broker id beyond 32 bits", bad(appendInt(nil, fieldBrokerID, 1<<32))},
		{"uuid of 15 bytes", bad(protowire.AppendBytes(tag(nil, fieldUUID, protowire.BytesType), make([]byte, 15)))},
		{"epoch as text", bad(appendText(nil, fieldBrokerEpoch, "1"))},
		{"created as fixed64", bad(protowire.AppendFixed64(tag(nil, fieldCreated, protowire.Fixed64Type), 1))},
		{"an empty topic", bad(protowire.AppendBytes(tag(nil, fieldTopics, protowire.BytesType), nil))},
		{"crc as a varint", inSlice(appendInt(nil, fieldCRC32C, 1))},
		{"partition as text", inSlice(appendText(nil, fieldPartition, "1"))},
		{"span negative", inSlice(appendInt(nil, fieldLastOffsetDelta, -1))},
		{"span of 2^31", inSlice(appendInt(nil, fieldLastOffsetDelta, 1<<31))},
		{"length negative", inSlice(appendInt(nil, fieldLength, -1))},
		{"last offset overflows", inSlice(appendInt(appendInt(nil, fieldBaseOffset, math.MaxInt64), fieldLastOffsetDelta, 1))},
		{"age as a fixed32", inSlice(protowire.AppendFixed32(tag(nil, fieldMaxTimestampAge, protowire.Fixed32Type), 1))},
	} {
		var decoded Metadata
		err := decoded.UnmarshalBinary(test.wire)
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, test.name)
		assert.ErrorIs(t, err, walstorage.ErrCorrupt)
		assert.Equal(t, "index", corrupt.Where)
		assert.LessOrEqual(t, corrupt.Position, int64(len(test.wire)))
	}
	// Cut at every byte: a protobuf message may end after any field, the ranges tell what is missing.
	for cut := range good {
		var decoded Metadata
		err := decoded.UnmarshalBinary(good[:cut])
		if cut == len(good)-len("3a4c")/2-0x4c { // just the second topic is missing: a message, if another one
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, walstorage.ErrCorrupt, "cut at %d", cut)
	}
}

// Bytes that look like many topics or slices make the decoder allocate a small multiple of their size at most (S5).
func TestDecodeAllocatesLittle(t *testing.T) {
	const input = 1 << 18
	tag := func(field protowire.Number) []byte { return protowire.AppendTag(nil, field, protowire.BytesType) }
	repeat := func(b []byte) []byte { return bytes.Repeat(b, input/len(b)) }
	emptyTopic := append(tag(fieldTopics), 0)
	topicHead := appendText(protowire.AppendBytes(tag(fieldTopicID), topicA[:]), fieldTopicName, "t")
	smallSlice := append(tag(fieldTopicSlices), 2, 0x30, 1) // a length of 1
	smallTopic := protowire.AppendBytes(tag(fieldTopics), append(bytes.Clone(topicHead), smallSlice...))

	ascending := bytes.Clone(topicHead)
	for i := int64(1); len(ascending) < input; i++ {
		slice := appendInt(appendInt(nil, fieldPartition, i), fieldLength, 1)
		ascending = protowire.AppendBytes(append(ascending, tag(fieldTopicSlices)...), slice)
	}
	for _, test := range []struct {
		name string
		wire []byte
	}{
		{"empty topics", repeat(emptyTopic)},
		{"a topic of empty slices", protowire.AppendBytes(tag(fieldTopics), repeat(append(tag(fieldTopicSlices), 0)))},
		{"a topic of equal slices", protowire.AppendBytes(tag(fieldTopics), append(bytes.Clone(topicHead), repeat(smallSlice)...))},
		{"the smallest slices there are", protowire.AppendBytes(tag(fieldTopics), ascending)},
		{"the smallest topics there are", repeat(smallTopic)},
		{"a long cluster", protowire.AppendBytes(tag(fieldCluster), make([]byte, input))},
		{"long names", repeat(protowire.AppendBytes(tag(fieldTopics), protowire.AppendBytes(tag(fieldTopicName), make([]byte, 1000))))},
		{"nested groups", bytes.Repeat(protowire.AppendTag(nil, 100, protowire.StartGroupType), input/2)},
	} {
		var decoded Metadata
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decoded.UnmarshalBinary(test.wire)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, walstorage.ErrCorrupt, test.name)
		assert.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(12*len(test.wire)), test.name)
	}
}
