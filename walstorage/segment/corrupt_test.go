package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/walstorage"
)

// smallObject is an object of three slices in two topics.
func smallObject(t testing.TB) (object []byte, md *Metadata) {
	b := newBuilder(t, BuilderConfig{})
	mustAppend(t, b, Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, EpochStart: 90, Base: 100}, batchtest.V1())
	mustAppend(t, b, Run{Partition: partition(topicA, "a", 1), LeaderEpoch: 5, EpochStart: 90, Base: 100}, join(batchtest.V8(), batchtest.Make(250, 5, "x")))
	mustAppend(t, b, Run{Partition: partition(topicB, "b", 0), LeaderEpoch: 5, EpochStart: 90, Base: 112}, batchtest.V3())
	object, md, err := b.Seal(segmentID(t, 3, 4711, 0x5a), nil)
	require.NoError(t, err)
	return object, md.Clone()
}

// readAll does what a tool does with an object: opens it and checks every slice. It returns the first error.
func readAll(object []byte) error {
	r, err := NewReader(object)
	if err != nil {
		return err
	}
	for _, err := range r.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

func requireCorrupt(t *testing.T, err error, at string, n int) {
	t.Helper()
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt, "%s %d", at, n)
	require.ErrorIs(t, err, walstorage.ErrCorrupt, "%s %d", at, n)
	require.NotEmpty(t, corrupt.Where)
	require.NotEmpty(t, corrupt.Reason)
}

// K4, Jepsen on NATS 2.12.1: an object that is cut off is found out, wherever it is cut, at a frame border too. So is one
// with bytes too many.
func TestTruncatedObject(t *testing.T) {
	object, md := smallObject(t)
	require.NoError(t, readAll(object))
	for n := range object {
		requireCorrupt(t, readAll(object[:n]), "cut at", n)
		requireCorrupt(t, VerifyObject(md, object[:n]), "cut at", n)
	}
	requireCorrupt(t, readAll(append(bytes.Clone(object), 0)), "longer by", 1)
	requireCorrupt(t, readAll(object[1:]), "begins at", 1)
}

// K3, K9, Jepsen on NATS 2.12.1: any flipped bit is found out, and told as corruption.
func TestFlippedBits(t *testing.T) {
	object, _ := smallObject(t)
	for bit := range len(object) * 8 {
		object[bit/8] ^= 1 << (bit % 8)
		requireCorrupt(t, readAll(object), "bit", bit)
		object[bit/8] ^= 1 << (bit % 8)
	}
	require.NoError(t, readAll(object))
}

// One corrupt slice leaves the others readable, and is named with its place.
func TestCorruptSliceLeavesTheOthers(t *testing.T) {
	object, md := smallObject(t)
	var second Entry
	for entry := range md.All() {
		if entry.Partition.Partition == 1 {
			second = entry
		}
	}
	object[second.Position+70] ^= 4

	require.NoError(t, VerifyObject(md, object), "the frame is intact")
	r, err := NewReader(object)
	require.NoError(t, err)
	var good []string
	var bad error
	for v, err := range r.All() {
		if err != nil {
			require.NoError(t, bad)
			bad = err
			assert.Equal(t, second.Partition, v.Partition)
			assert.Nil(t, v.Data)
			continue
		}
		good = append(good, v.Partition.String())
	}
	assert.Equal(t, []string{"a-0", "b-0"}, good)
	var corrupt *CorruptError
	require.ErrorAs(t, bad, &corrupt)
	assert.Equal(t, second.Position, corrupt.Position)
	assert.Contains(t, bad.Error(), "a-1")
}

// frameOf puts header and trailer with a good checksum around a body and an index.
func frameOf(id walstorage.SegmentID, body, index []byte) []byte {
	object := appendHeader(nil, id)
	object = append(object, body...)
	start := len(object)
	object = append(object, index...)
	return appendTrailer(object, start)
}

// An index that does not tile its body exactly is corrupt, though every checksum fits (S1).
func TestIndexTilesTheBody(t *testing.T) {
	_, md := smallObject(t)
	id := md.ID
	body := make([]byte, md.BodyLength())
	require.NoError(t, func() error { _, err := NewReader(frameOf(id, body, md.append(nil))); return err }())
	for name, test := range map[string]struct {
		body   []byte
		change func(m *Metadata)
	}{
		"a hole at the end":                     {append(bytes.Clone(body), 0), func(*Metadata) {}},
		"the last slice too long":               {body[1:], func(*Metadata) {}},
		"no body":                               {nil, func(*Metadata) {}},
		"a length too large":                    {body, func(m *Metadata) { m.Topics[0].Slices[0].Length++ }},
		"a length too small":                    {body, func(m *Metadata) { m.Topics[0].Slices[0].Length-- }},
		"lengths of a multiple":                 {body, func(m *Metadata) { m.Topics[1].Slices[0].Length += 1 << 40 }},
		"another broker in the index":           {body, func(m *Metadata) { m.ID.BrokerID++ }},
		"another epoch in the index":            {body, func(m *Metadata) { m.ID.BrokerEpoch++ }},
		"the same partition twice (S1)":         {body, func(m *Metadata) { m.Topics[0].Slices[1].Partition = 0 }},
		"a topic twice (S1)":                    {body, func(m *Metadata) { m.Topics[1].ID = topicA }},
		"a slice without bytes":                 {body, func(m *Metadata) { m.Topics[0].Slices[0].Length = 0 }},
		"a slice of more than 2^31 offsets":     {body, func(m *Metadata) { m.Topics[0].Slices[0].LastOffset = 1 << 40 }},
		"an epoch that began after the slice":   {body, func(m *Metadata) { m.Topics[0].Slices[0].EpochStart = 101 }},
		"a creation time that is not the id's":  {body, func(m *Metadata) { m.Created = m.Created.Add(1e6) }},
		"partitions that go down":               {body, func(m *Metadata) { m.Topics[0].Slices[0].Partition = 2 }},
		"topics that are not in order of ids":   {body, func(m *Metadata) { m.Topics[0], m.Topics[1] = m.Topics[1], m.Topics[0] }},
		"an index without topics and no slices": {nil, func(m *Metadata) { m.Topics = nil }},
	} {
		changed := md.Clone()
		test.change(changed)
		_, err := NewReader(frameOf(id, test.body, changed.append(nil)))
		require.ErrorIs(t, err, walstorage.ErrCorrupt, name)
	}
}

// A version or flags that this code does not know are no corruption.
func TestOtherVersions(t *testing.T) {
	object, _ := smallObject(t)
	sealAgain := func(change func(object []byte)) []byte {
		other := bytes.Clone(object)
		change(other)
		trailer := len(other) - TrailerLength
		start := trailer - int(binary.BigEndian.Uint32(other[trailer:]))
		crc := crc32.Update(crc32.Checksum(other[:HeaderLength], castagnoli), castagnoli, other[start:trailer])
		binary.BigEndian.PutUint32(other[trailer+4:], crc)
		return other
	}
	require.NoError(t, readAll(sealAgain(func([]byte) {})))
	for name, change := range map[string]func(object []byte){
		"version 2": func(object []byte) { object[9] = 2 },
		"flags 0x1": func(object []byte) { object[11] = 1 },
	} {
		err := readAll(sealAgain(change))
		require.ErrorIs(t, err, ErrUnsupportedVersion)
		assert.NotErrorIs(t, err, walstorage.ErrCorrupt)
		assert.Contains(t, err.Error(), name)
	}
}

// F3: an intact object of another cluster, of another segment or with another content than the event says is refused.
func TestVerifyObject(t *testing.T) {
	object, md := smallObject(t)
	require.NoError(t, VerifyObject(md, object))
	for reason, change := range map[string]func(m *Metadata){
		"cluster": func(m *Metadata) { m.Cluster = "other" },
		"segment": func(m *Metadata) { m.ID = segmentID(t, 3, 4711, 0x5b) },
		"broker":  func(m *Metadata) { m.ID.BrokerID = 4 },
		"content": func(m *Metadata) { m.Topics[0].ID[15]++ },
		"another": func(m *Metadata) { m.Topics[0].Slices[0].CRC32C++ },
	} {
		other := md.Clone()
		change(other)
		err := VerifyObject(other, object)
		requireCorrupt(t, err, reason, 0)
		if reason == "cluster" || reason == "segment" || reason == "content" {
			assert.Contains(t, err.Error(), reason)
		}
	}
	require.ErrorIs(t, VerifyObject(md, nil), walstorage.ErrCorrupt)
}

// sliceOf returns the entry that fits data as its leader would have made it, whatever stands in it.
func sliceOf(data []byte, epoch int32, base, last int64) Slice {
	return Slice{LeaderEpoch: epoch, BaseOffset: base, LastOffset: last, Length: int64(len(data)), CRC32C: crc32.Checksum(data, castagnoli)}
}

// F3: the bytes of a slice against its entry.
func TestVerifySlice(t *testing.T) {
	v1 := batchtest.V1() // 100-101, epoch 5
	more := batchtest.Make(102, 5, "x", "y")
	newer := batchtest.Make(102, 6, "x", "y")
	gap := batchtest.Make(250, 5, "x")
	for _, test := range []struct {
		name       string
		data       []byte
		slice      Slice
		prefix     int
		lastOffset int64
	}{
		{"one batch", v1, sliceOf(v1, 5, 100, 101), 79, 101},
		{"two batches", join(v1, more), sliceOf(join(v1, more), 5, 100, 103), 79 + len(more), 103},
		{"a gap before the first batch", v1, sliceOf(v1, 5, 90, 101), 79, 101},
		{"a gap inside (segmentio/kafka-go#621)", join(v1, gap), sliceOf(join(v1, gap), 5, 100, 250), 79 + len(gap), 250},
		{"another epoch ends the slice", join(v1, newer), sliceOf(join(v1, newer), 5, 100, 103), 79, 101},
		{"another epoch at once", v1, sliceOf(v1, 4, 100, 101), 0, 99},
		{"what follows another epoch is not looked at", join(v1, newer, batchtest.V5()), sliceOf(join(v1, newer, batchtest.V5()), 5, 100, 103), 79, 101},
		{"a negative count (segmentio/kafka-go#1438)", batchtest.V4(), sliceOf(batchtest.V4(), 5, 100, 101), 79, 101},
		{"no gzip (twmb/franz-go#854)", batchtest.V7(), sliceOf(batchtest.V7(), 5, 100, 101), 69, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix, lastOffset, err := VerifySlice(test.slice, test.data)
			require.NoError(t, err)
			assert.Equal(t, test.data[:test.prefix], prefix)
			assert.Equal(t, test.lastOffset, lastOffset)
		})
	}

	altered := func(change func(s *Slice)) Slice {
		s := sliceOf(v1, 5, 100, 101)
		change(&s)
		return s
	}
	flipped := func(at int) []byte {
		b := bytes.Clone(v1)
		b[at] ^= 1
		return b
	}
	for _, test := range []struct {
		name  string
		data  []byte
		slice Slice
	}{
		{"short", v1[:78], sliceOf(v1, 5, 100, 101)},
		{"long", join(v1, []byte{0}), sliceOf(v1, 5, 100, 101)},
		{"no bytes", nil, sliceOf(v1, 5, 100, 101)},
		{"another checksum", v1, altered(func(s *Slice) { s.CRC32C++ })},
		// What the batch's own checksum does not cover the slice's does (S4).
		{"base offset flipped", flipped(7), sliceOf(v1, 5, 100, 101)},
		{"length flipped", flipped(11), sliceOf(v1, 5, 100, 101)},
		{"leader epoch flipped", flipped(15), sliceOf(v1, 5, 100, 101)},
		{"magic flipped", flipped(16), sliceOf(v1, 5, 100, 101)},
		{"a value flipped", flipped(78), sliceOf(v1, 5, 100, 101)},
		{"begins below the base", v1, sliceOf(v1, 5, 101, 101)},
		{"ends before the last offset", v1, sliceOf(v1, 5, 100, 102)},
		{"ends after the last offset", v1, sliceOf(v1, 5, 100, 100)},
		{"offsets go back", join(more, v1), sliceOf(join(more, v1), 5, 100, 101)},
		{"the same batch twice", join(v1, v1), sliceOf(join(v1, v1), 5, 100, 101)},
		{"a negative span (KAFKA-6554)", join(v1, batchtest.V5()), sliceOf(join(v1, batchtest.V5()), 5, 100, 101)},
		{"a partial batch", join(v1, v1[:30]), sliceOf(join(v1, v1[:30]), 5, 100, 101)},
		{"zeros (redpanda-data/redpanda#4113)", make([]byte, 61), sliceOf(make([]byte, 61), 0, 0, 0)},
		{"a newer epoch's batch and a last offset below the prefix", join(v1, newer), sliceOf(join(v1, newer), 5, 100, 100)},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix, _, err := VerifySlice(test.slice, test.data)
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			assert.ErrorIs(t, err, walstorage.ErrCorrupt)
			assert.LessOrEqual(t, corrupt.Position, int64(len(test.data)))
			assert.Nil(t, prefix)
		})
	}

	// redpanda-data/redpanda#5685: the old formats are not called corrupt.
	_, _, err := VerifySlice(sliceOf(batchtest.V9(), 5, 7, 8), batchtest.V9())
	require.ErrorIs(t, err, ErrUnsupportedMagic)
	assert.NotErrorIs(t, err, walstorage.ErrCorrupt)
	var magic *CorruptError
	assert.False(t, errors.As(err, &magic))
}

// A reader is used again for the next object, also after one that it refused.
func TestReaderReset(t *testing.T) {
	object, md := smallObject(t)
	var r Reader
	for range r.All() {
		t.Fatal("the zero reader has no slices")
	}
	require.Error(t, r.Reset(object[1:]))
	for range r.All() {
		t.Fatal("a refused object has no slices")
	}
	require.NoError(t, r.Reset(object))
	require.NoError(t, r.Match(md))
	assert.Equal(t, md, r.Metadata())
	n := 0
	for range r.All() {
		n++
		break // ends the walk
	}
	assert.Equal(t, 1, n)
}
