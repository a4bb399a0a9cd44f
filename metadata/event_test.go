package metadata_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// H3: the event is an envelope around exactly the segment's index, and the sequence is in the envelope alone.
func TestEventIsAnEnvelopeAroundTheIndex(t *testing.T) {
	event := testevent.Sized(3, 2)
	encoded, err := event.MarshalBinary()
	require.NoError(t, err)
	assert.Len(t, encoded, event.EncodedLen())

	index, err := event.Segment.AppendBinary(nil)
	require.NoError(t, err)
	assert.Equal(t, index, encoded[len(encoded)-len(index):], "the index is not in the event byte for byte")

	var decoded metadata.Event
	require.NoError(t, decoded.UnmarshalBinary(encoded))
	assert.Equal(t, event, &decoded)
}

func TestEventDecodesIntoOneThatWasUsed(t *testing.T) {
	var reused metadata.Event
	for _, event := range []*metadata.Event{testevent.Sized(5, 5), testevent.Sized(1, 1), testevent.Sized(2, 9), testevent.New(1, 2, 0)} {
		encoded, err := event.MarshalBinary()
		require.NoError(t, err)
		require.NoError(t, reused.UnmarshalBinary(encoded))
		clear(encoded) // nothing of it is kept
		assert.Equal(t, event, reused.Clone())
	}
}

func TestEventSkipsFieldsItDoesNotKnow(t *testing.T) {
	encoded, err := testevent.New(1, 2, 3).MarshalBinary()
	require.NoError(t, err)
	encoded = protowire.AppendTag(encoded, 15, protowire.BytesType)
	encoded = protowire.AppendString(encoded, "from a later writer")

	var decoded metadata.Event
	require.NoError(t, decoded.UnmarshalBinary(encoded))
	assert.Equal(t, testevent.New(1, 2, 3), &decoded)
}

// M4, H4: an unknown version is told apart from corruption, and says which event it was.
func TestEventOfUnknownVersion(t *testing.T) {
	encoded, err := testevent.New(1, 2, 77).MarshalBinary()
	require.NoError(t, err)
	encoded[1] = 2 // the version
	encoded = append(encoded[:len(encoded)/2], "another form from here on"...)

	var decoded metadata.Event
	err = decoded.UnmarshalBinary(encoded)
	require.ErrorIs(t, err, metadata.ErrUnknownVersion)
	assert.NotErrorIs(t, err, metadata.ErrCorrupt)
	var unknown *metadata.UnknownVersionError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, metadata.UnknownVersionError{Version: 2, Sequence: 77}, *unknown)
	assert.ErrorContains(t, err, "version 2")

	huge := protowire.AppendVarint([]byte{1 << 3}, math.MaxUint64)
	require.ErrorAs(t, decoded.UnmarshalBinary(huge), &unknown)
	assert.Equal(t, metadata.UnknownVersionError{Version: math.MaxUint64, Sequence: -1}, *unknown)
}

// M4: a writer is configured to a version, and one that it can't write is refused.
func TestEventVersionOfTheWriter(t *testing.T) {
	event := testevent.New(1, 2, 3)
	encoded, err := event.AppendVersion([]byte("before"), metadata.Version1)
	require.NoError(t, err)
	require.NoError(t, new(metadata.Event).UnmarshalBinary(encoded[len("before"):]))

	for _, version := range []metadata.Version{-1, 0, metadata.LatestVersion + 1} {
		encoded, err := event.AppendVersion([]byte("before"), version)
		require.ErrorIs(t, err, metadata.ErrUnknownVersion)
		assert.Equal(t, "before", string(encoded))
	}
}

func TestEventThatCannotBePublished(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(e *metadata.Event)
		says   string
	}{
		"sequence below 0":      {func(e *metadata.Event) { e.Sequence = -1 }, "sequence -1"},
		"sequence at the limit": {func(e *metadata.Event) { e.Sequence = math.MaxInt64 }, "sequence"},
		"object smaller than its body": {
			func(e *metadata.Event) { e.ObjectSize = e.Segment.BodyLength() }, "object size",
		},
		"zero topic id (N4)": {func(e *metadata.Event) { e.Segment.Topics[0].ID = [16]byte{} }, "Topics[0]"},
		"no topic":           {func(e *metadata.Event) { e.Segment.Topics = nil }, "Topics"},
		"no segment id":      {func(e *metadata.Event) { e.Segment.ID = walstorage.SegmentID{} }, "UUID"},
		"partition twice": {func(e *metadata.Event) {
			topic := &e.Segment.Topics[0]
			topic.Slices = append(topic.Slices, topic.Slices[0])
		}, "Slices[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			event := testevent.New(1, 2, 3)
			tt.change(event)
			err := event.Validate()
			require.ErrorIs(t, err, metadata.ErrInvalid)
			assert.ErrorContains(t, err, tt.says)

			encoded, err := event.AppendBinary([]byte("before"))
			require.ErrorIs(t, err, metadata.ErrInvalid)
			assert.Equal(t, "before", string(encoded), "a refused event left something behind")
		})
	}
}

func TestEventTooLarge(t *testing.T) {
	slices := make([]segment.Slice, 40_000)
	for i := range slices {
		slices[i] = testevent.Slice(int32(i), 1<<30, 1<<60, 1<<60+9)
		slices[i].CRC32C = math.MaxUint32
	}
	event := testevent.New(1, 2, 3, slices...)
	require.Greater(t, event.EncodedLen(), metadata.MaxEventBytes)
	_, err := event.MarshalBinary()
	require.ErrorIs(t, err, metadata.ErrInvalid)
	assert.ErrorContains(t, err, "1000000")

	assert.ErrorIs(t, new(metadata.Event).UnmarshalBinary(make([]byte, metadata.MaxEventBytes+1)), metadata.ErrCorrupt)
}

func TestEventCorrupt(t *testing.T) {
	whole, err := testevent.New(1, 2, 3).MarshalBinary()
	require.NoError(t, err)
	second, err := new(metadata.Event).AppendVersion(nil, 1)
	require.ErrorIs(t, err, metadata.ErrInvalid)
	require.Empty(t, second)

	for n := range len(whole) {
		assert.ErrorIs(t, new(metadata.Event).UnmarshalBinary(whole[:n]), metadata.ErrCorrupt, "cut after %d bytes", n)
	}
	for name, b := range map[string][]byte{
		"version 0":                protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 0),
		"version is not the first": append(slices.Clone(whole[2:]), whole[:2]...),
		"version of another type":  append([]byte{1<<3 | 5}, whole[1:]...),
		"sequence of another type": append(append(slices.Clone(whole[:2]), 2<<3|1, 1, 2, 3, 4, 5, 6, 7, 8), whole[4:]...),
		"negative sequence":        append(append(slices.Clone(whole[:2]), 2<<3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), whole[4:]...),
		"segment as a number":      append(slices.Clone(whole[:8]), 4<<3, 1),
		"nothing but a version":    whole[:2],
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorIs(t, new(metadata.Event).UnmarshalBinary(b), metadata.ErrCorrupt)
		})
	}
}

// At most 1.0 % of a 256 KiB body at 8 x 8, 1.8 % at 64 x 1, with the envelope.
func TestEventSize(t *testing.T) {
	for _, tt := range []struct {
		topics, partitions int
		share              float64
	}{{8, 8, 0.010}, {64, 1, 0.018}} {
		event := testevent.Sized(tt.topics, tt.partitions)
		assert.LessOrEqual(t, float64(event.EncodedLen()), tt.share*(256<<10), "%d x %d", tt.topics, tt.partitions)
	}
}

func TestEventAllocatesNothing(t *testing.T) {
	event := testevent.Sized(8, 8)
	buffer := make([]byte, 0, event.EncodedLen()+64)
	var err error
	assert.Zero(t, testing.AllocsPerRun(100, func() { buffer, err = event.AppendBinary(buffer[:0]) }), "encode")
	require.NoError(t, err)
	var decoded metadata.Event
	assert.Zero(t, testing.AllocsPerRun(100, func() { err = errors.Join(err, decoded.UnmarshalBinary(buffer)) }), "decode")
	require.NoError(t, err)
}

func TestEventCloneSharesNothing(t *testing.T) {
	event := testevent.Sized(2, 2)
	clone := event.Clone()
	event.Segment.Topics[1].Slices[1].BaseOffset = 1
	event.Segment.Topics[0].Name = "other"
	assert.Equal(t, testevent.Sized(2, 2), clone)
}

// S5: a decoder given any bytes returns an error or a value, and what it returns is valid and encodes to itself.
func FuzzEventUnmarshal(f *testing.F) {
	var used metadata.Event
	f.Fuzz(func(t *testing.T, b []byte) {
		var event metadata.Event
		err := event.UnmarshalBinary(b)
		again := used.UnmarshalBinary(b) // into an event that held another one
		require.Equal(t, err == nil, again == nil)
		if err != nil {
			require.True(t, errors.Is(err, metadata.ErrCorrupt) != errors.Is(err, metadata.ErrUnknownVersion), "%v", err)
			var unknown *metadata.UnknownVersionError
			if errors.As(err, &unknown) {
				require.Greater(t, unknown.Version, uint64(metadata.LatestVersion))
				require.GreaterOrEqual(t, unknown.Sequence, int64(-1))
			}
			return
		}
		require.NoError(t, event.Validate())
		encoded, err := event.MarshalBinary()
		require.NoError(t, err)
		require.Len(t, encoded, event.EncodedLen())
		var second metadata.Event
		require.NoError(t, second.UnmarshalBinary(encoded))
		require.Equal(t, event.Clone(), second.Clone())
		require.Equal(t, event.Clone(), used.Clone())
		// It is what a Store takes, whatever it says, and is found where it says.
		store := newStore(t, metadata.StoreConfig{})
		for entry := range event.Segment.All() {
			store.Follow(entry.Partition, -1, entry.Slice.LeaderEpoch)
		}
		store.Apply(metadata.Item{Event: &event})
		for entry := range event.Segment.All() {
			got, verdict := store.Next(entry.Partition, entry.Slice.BaseOffset)
			require.Equal(t, metadata.Verdict{Outcome: metadata.Found}, verdict)
			require.Equal(t, metadata.Entry{ID: event.Segment.ID, Slice: *entry.Slice, Position: entry.Position, ObjectSize: event.ObjectSize}, got)
		}
	})
}
