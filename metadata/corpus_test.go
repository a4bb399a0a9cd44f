package metadata_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/walstorage/segment"
)

// envelope writes an event field by field, whatever the values: version, sequence and object size as numbers, then the
// index, where it is not nil.
func envelope(version, sequence, objectSize uint64, index []byte) []byte {
	number := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	b := number(number(number(nil, 1, version), 2, sequence), 3, objectSize)
	if index != nil {
		b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), index)
	}
	return b
}

// eventSeed is the wire form of an event and what decoding it says, "" for nothing.
type eventSeed struct {
	name string
	b    []byte
	says string
}

// eventSeeds are events, one with each field wrong.
func eventSeeds(t testing.TB) []eventSeed {
	event := testevent.New(1, 2, 3)
	whole, err := event.MarshalBinary()
	require.NoError(t, err)
	sized, err := testevent.Sized(2, 3).MarshalBinary()
	require.NoError(t, err)
	index, err := event.Segment.AppendBinary(nil)
	require.NoError(t, err)
	size := uint64(event.ObjectSize)
	// with encodes the event with an index in which something is wrong, which no encoder would do.
	with := func(at int, value ...byte) []byte {
		changed := slices.Clone(index)
		copy(changed[at:], value)
		return envelope(1, 3, size, changed)
	}
	topicID := bytes.Index(index, event.Segment.Topics[0].ID[:])
	uuidAt := bytes.Index(index, event.Segment.ID.UUID[:])
	head := envelope(1, 3, size, nil)
	extra := protowire.AppendString(protowire.AppendTag(nil, 15, protowire.BytesType), "from a later writer")
	return []eventSeed{
		{"valid", whole, ""},
		{"valid-two-by-three", sized, ""},
		{"valid-sequence-zero", envelope(1, 0, size, index), ""},
		{"valid-sequence-largest", envelope(1, math.MaxInt64-1, size, index), ""},
		{"unknown-field", slices.Concat(whole, extra), ""},
		{"segment-twice", slices.Concat(whole, whole[len(head):]), ""},
		{"empty", nil, "does not begin with a version"},
		{"version-0", envelope(0, 3, size, index), "version cannot be read"},
		{"version-2", envelope(2, 9, size, []byte("another form")), "unknown event version 2"},
		{"version-largest", envelope(math.MaxUint64, 9, size, nil), "unknown event version 18446744073709551615"},
		{"version-second", slices.Concat(whole[2:], whole[:2]), "does not begin with a version"},
		{"version-as-fixed", append([]byte{1<<3 | 5}, whole[1:]...), "does not begin with a version"},
		{"sequence-negative", envelope(1, math.MaxUint64, size, index), "sequence -1 is out of range"},
		{"sequence-at-the-limit", envelope(1, math.MaxInt64, size, index), "out of range"},
		{"sequence-as-bytes", slices.Concat(whole[:2], []byte{2<<3 | 2, 1, 3}, whole[4:]), "wrong type"},
		{"object-size-one-too-small", envelope(1, 3, segment.HeaderLength+segment.TrailerLength+uint64(event.Segment.BodyLength())-1, index), "object size"},
		{"object-size-negative", envelope(1, 3, math.MaxUint64, index), "object size -1"},
		{"segment-missing", envelope(1, 3, size, nil), "segment is missing"},
		{"segment-empty", envelope(1, 3, size, []byte{}), "Cluster is empty"},
		{"segment-cut-off", envelope(1, 3, size, index[:len(index)-1]), "cut off or malformed"},
		{"segment-as-number", slices.Concat(head, []byte{4 << 3, 1}), "wrong type"},
		{"segment-length-beyond", slices.Concat(head, []byte{4<<3 | 2, 0xff, 0xff, 0x03}), "cannot be read"},
		{"topic-id-zero", with(topicID, uuid.Nil[:]...), "a topic lacks"},
		{"uuid-version-4", with(uuidAt+6, 0x40), "not of version 7"},
		{"created-other", with(uuidAt, 0xff), "Created"},
		{"cut-in-half", whole[:len(whole)/2], "cannot be read"},
		{"cut-after-version", whole[:2], "segment is missing"},
		{"group-open", slices.Concat(whole, []byte{15<<3 | 3}), "cannot be read"},
		{"tag-endless", slices.Concat(whole, bytes.Repeat([]byte{0xff}, 12)), "tag cannot be read"},
	}
}

// The seeds of FuzzEventUnmarshal, each with its verdict (M4: corrupt and unknown are told apart).
func TestEventCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range eventSeeds(t) {
		var event metadata.Event
		err := event.UnmarshalBinary(seed.b)
		if seed.says == "" {
			assert.NoError(t, err, seed.name)
		} else {
			assert.ErrorContains(t, err, seed.says, seed.name)
		}
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.b}})
	}
	corpus.Check(t, "FuzzEventUnmarshal", files...)
}

// S5: an event that is damaged allocates at most 12 times its size, and some text for the error.
func TestDamagedEventsAllocateLittle(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 4))
	seeds := eventSeeds(t)
	large, err := testevent.Sized(16, 64).MarshalBinary()
	require.NoError(t, err)
	seeds = append(seeds, eventSeed{name: "large", b: large})
	refused := 0
	for range 500 {
		b := corpus.Damage(random, seeds[random.IntN(len(seeds))].b)
		var err error
		allocated := corpus.Allocated(func() { err = new(metadata.Event).UnmarshalBinary(b) })
		require.LessOrEqual(t, allocated, uint64(12*len(b)+2048), "%x", b)
		if err != nil {
			refused++
		}
	}
	assert.Greater(t, refused, 250)
	assert.Less(t, refused, 500)
}

// What an event says survives the wire, and a second time gives the same bytes: decode(encode(x)) == x.
func TestRandomEventsSurviveTheWire(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	var used metadata.Event
	for range 500 {
		event := randomEvent(random)
		wire, err := event.MarshalBinary()
		require.NoError(t, err)
		require.NoError(t, used.UnmarshalBinary(wire))
		require.Equal(t, event, used.Clone())
		again, err := used.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, wire, again)
	}
}

// randomEvent is any event that can be published.
func randomEvent(random *rand.Rand) *metadata.Event {
	e := &metadata.Event{Sequence: random.Int64N(math.MaxInt64)}
	e.Segment.ID = testevent.ID(random.Int32(), random.Int64(), random.Uint32())
	for t := range 1 + random.IntN(4) {
		topic := segment.Topic{ID: testevent.Topic(t).TopicID, Name: testevent.Topic(t).Topic}
		partition := int32(0)
		for range 1 + random.IntN(5) {
			partition += 1 + random.Int32N(1000)
			base := random.Int64N(math.MaxInt64 - 1<<31)
			topic.Slices = append(topic.Slices, segment.Slice{
				Partition: partition, LeaderEpoch: random.Int32() - 1, EpochStart: random.Int64N(base + 1), BaseOffset: base,
				LastOffset: base + random.Int64N(1<<31), Length: 1 + random.Int64N(1<<32), CRC32C: random.Uint32(),
				MaxTimestamp: random.Int64N(4e12) - 1,
			})
		}
		e.Segment.Topics = append(e.Segment.Topics, topic)
	}
	e.Segment.Created = e.Segment.ID.Created()
	e.Segment.Cluster, e.Segment.Store = "cluster", []string{"", "zone-b"}[random.IntN(2)]
	e.ObjectSize = segment.HeaderLength + e.Segment.BodyLength() + segment.TrailerLength + random.Int64N(1000)
	return e
}
