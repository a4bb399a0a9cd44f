package segment

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/walstorage"
)

// bytesSeed is a seed of one argument and what decoding it says: a part of the error's text, "" for none.
type bytesSeed struct {
	name string
	b    []byte
	says string
}

// kafkaLog returns the first batches of a log that Kafka wrote, whole ones of about so many bytes at most, with their
// first and last offset and the epoch of the first.
func kafkaLog(topic *kafkadata.Topic, limit int) (b []byte, epoch int32, base, last int64) {
	log := topic.Log()
	end := 0
	for s := batch.NewScanner(log); s.Next() && s.End() <= limit; end = s.End() {
		if end == 0 {
			epoch, base = s.LeaderEpoch(), s.BaseOffset()
		}
		if s.LeaderEpoch() != epoch {
			break
		}
		last = s.LastOffset()
	}
	return log[:end], epoch, base, last
}

// kafkaObject is an object of slices that Kafka wrote, one of each log whose first batch is small.
func kafkaObject(t testing.TB) (object []byte, md *Metadata) {
	b := newBuilder(t, BuilderConfig{})
	for _, topic := range kafkadata.Topics() {
		log, epoch, base, _ := kafkaLog(&topic, 300)
		if len(log) == 0 {
			continue
		}
		p := TopicIDPartition{TopicID: topic.TopicID, Topic: topic.Name}
		mustAppend(t, b, Run{Partition: p, LeaderEpoch: epoch, EpochStart: 0, Base: base}, log)
	}
	object, md, err := b.Seal(segmentID(t, 1, 1, 0x33), nil)
	require.NoError(t, err)
	return object, md.Clone()
}

// objectSeeds are whole objects: valid ones, and one with each part of the frame wrong.
func objectSeeds(t testing.TB) []bytesSeed {
	object, md := smallObject(t)
	kafka, _ := kafkaObject(t)
	body, index := object[HeaderLength:HeaderLength+md.BodyLength()], md.append(nil)
	indexStart := HeaderLength + len(body)
	set := func(at int, value ...byte) []byte {
		b := bytes.Clone(object)
		copy(b[at:], value)
		return b
	}
	// sealed is the same with a checksum that fits.
	sealed := func(at int, value ...byte) []byte {
		b := set(at, value...)
		return appendTrailer(b[:len(b)-TrailerLength], indexStart)
	}
	trailer := len(object) - TrailerLength
	return []bytesSeed{
		{"valid", object, ""},
		{"valid-kafka", kafka, ""},
		{"empty", nil, "shorter than header and trailer"},
		{"header-alone", object[:HeaderLength], "shorter than header and trailer"},
		{"header-and-trailer-alone", append(bytes.Clone(object[:HeaderLength]), object[trailer:]...), "longer than the object"},
		{"no-index", frameOf(md.ID, body, nil), "corrupt index"},
		{"cut-by-one", object[:len(object)-1], "no segment ends so"},
		{"one-byte-more", append(bytes.Clone(object), 0), "no segment ends so"},
		{"header-magic", set(0, 0x88), "no segment begins so"},
		{"version-flipped", set(9, 2), "checksum of header and index"},
		{"version-2", sealed(9, 2), "unsupported format version"},
		{"version-0", sealed(9, 0), "unsupported format version"},
		{"flags", sealed(11, 1), "unsupported format version"},
		{"broker-id", sealed(15, 9), "corrupt header"},
		{"broker-epoch", sealed(23, 9), "corrupt header"},
		{"index-flipped", set(indexStart+3, 'x'), "checksum of header and index"},
		{"index-length-largest", set(trailer, 0xff, 0xff, 0xff, 0xff), "longer than the object"},
		{"index-length-whole-body", set(trailer, 0, 0, 0, 0), "checksum of header and index"},
		{"checksum", set(trailer+4, 1, 2, 3, 4), "checksum of header and index"},
		{"trailer-magic", set(trailer+15, 0), "no segment ends so"},
		{"body-flipped", set(HeaderLength+70, 0xff), "checksum does not match"},
		{"body-one-too-long", frameOf(md.ID, append(bytes.Clone(body), 0), index), "corrupt body"},
		{"body-one-too-short", frameOf(md.ID, body[1:], index), "corrupt body"},
	}
}

// framedSeed is a body and an index that a good frame is put around.
type framedSeed struct {
	name        string
	body, index []byte
	says        string
}

// framedSeeds are objects whose checksums fit, one with each field of the index wrong.
func framedSeeds(t testing.TB) []framedSeed {
	object, md := smallObject(t)
	body := object[HeaderLength : HeaderLength+md.BodyLength()]
	with := func(change func(m *Metadata)) []byte {
		m := md.Clone()
		change(m)
		return m.append(nil)
	}
	slice := func(change func(s *Slice)) []byte { return with(func(m *Metadata) { change(&m.Topics[0].Slices[0]) }) }
	kafka, kafkaMetadata := kafkaObject(t)
	seeds := []framedSeed{
		{"valid", body, md.append(nil), ""},
		{"valid-kafka", kafka[HeaderLength : HeaderLength+kafkaMetadata.BodyLength()], kafkaMetadata.append(nil), "corrupt header"}, // of another broker
		{"nothing", nil, nil, "corrupt index"},
		{"cluster-empty", body, with(func(m *Metadata) { m.Cluster = "" }), "Cluster is empty"},
		{"cluster-no-utf8", body, with(func(m *Metadata) { m.Cluster = "\xff" }), "Cluster is no UTF-8"},
		{"store-long", body, with(func(m *Metadata) { m.Store = string(make([]byte, 256)) }), "Store"},
		{"broker-negative", body, with(func(m *Metadata) { m.ID.BrokerID = -1 }), "broker id -1"},
		{"epoch-negative", body, with(func(m *Metadata) { m.ID.BrokerEpoch = -1 }), "broker epoch -1"},
		{"uuid-version-4", body, with(func(m *Metadata) { m.ID.UUID[6] = 0x4a }), "not of version 7"},
		{"created-other", body, with(func(m *Metadata) { m.Created = m.Created.Add(time.Millisecond) }), "Created"},
		{"no-topic", body, with(func(m *Metadata) { m.Topics = nil }), "Topics is empty"},
		{"topic-id-zero", body, with(func(m *Metadata) { m.Topics[0].ID = uuid.Nil }), "a topic lacks"},
		{"topic-name-empty", body, with(func(m *Metadata) { m.Topics[0].Name = "" }), "a topic lacks"},
		{"topic-name-long", body, with(func(m *Metadata) { m.Topics[0].Name = string(make([]byte, 250)) }), "a topic lacks"},
		{"topic-twice", body, with(func(m *Metadata) { m.Topics[1].ID = m.Topics[0].ID }), "not greater than the one before"},
		{"topics-in-wrong-order", body, with(func(m *Metadata) { m.Topics[0], m.Topics[1] = m.Topics[1], m.Topics[0] }), "not greater"},
		{"partition-negative", body, slice(func(s *Slice) { s.Partition = -1 }), "Partition is negative"},
		{"partition-twice", body, slice(func(s *Slice) { s.Partition = 1 }), "not in order"},
		{"leader-epoch-negative", body, slice(func(s *Slice) { s.LeaderEpoch = -2 }), "LeaderEpoch"},
		{"leader-epoch-other", body, slice(func(s *Slice) { s.LeaderEpoch = 6 }), ""}, // nothing of the slice is used (S4)
		{"epoch-start-negative", body, slice(func(s *Slice) { s.EpochStart = -1 }), "EpochStart is negative"},
		{"epoch-start-above-base", body, slice(func(s *Slice) { s.EpochStart = 101 }), "BaseOffset is less than EpochStart"},
		{"base-one-too-low", body, slice(func(s *Slice) { s.BaseOffset-- }), ""}, // a compaction gap looks so (S4)
		{"base-one-too-high", body, slice(func(s *Slice) { s.BaseOffset++ }), "base offset 100 where 101 is due"},
		{"last-below-base", body, slice(func(s *Slice) { s.LastOffset = 99 }), "wrong type, size or range"},
		{"last-one-too-low", body, slice(func(s *Slice) { s.LastOffset-- }), "last offset 101, the index ends at 100"},
		{"last-one-too-high", body, slice(func(s *Slice) { s.LastOffset++ }), "the last offset is 101"},
		{"span-too-wide", body, slice(func(s *Slice) { s.LastOffset = s.BaseOffset + 1<<31 }), "wrong type, size or range"},
		{"last-beyond-the-largest", body, slice(func(s *Slice) { s.BaseOffset, s.LastOffset = math.MaxInt64, math.MinInt64 }), "beyond the largest"},
		{"length-zero", body, slice(func(s *Slice) { s.Length = 0 }), "no length"},
		{"length-one-more", body, slice(func(s *Slice) { s.Length++ }), "corrupt body"},
		{"length-huge", body, slice(func(s *Slice) { s.Length = 1<<50 + 1 }), "larger than any store takes"},
		{"lengths-shifted", body, with(func(m *Metadata) { m.Topics[0].Slices[0].Length++; m.Topics[0].Slices[1].Length-- }), "checksum does not match"},
		{"lengths-overflow", body, with(func(m *Metadata) { m.Topics[0].Slices[0].Length, m.Topics[0].Slices[1].Length = 1<<50, 1<<50 }), "larger than any store"},
		{"checksum-other", body, slice(func(s *Slice) { s.CRC32C++ }), "checksum does not match"},
		{"max-timestamp", body, slice(func(s *Slice) { s.MaxTimestamp = -2 }), "MaxTimestamp"},
	}
	// An index whose one slice fits the body, whatever stands in it: only the batch headers are left to object.
	alone := func(data []byte) []byte {
		return with(func(m *Metadata) {
			s := sliceOf(data, 5, 100, 101)
			s.EpochStart = 90
			m.Topics = m.Topics[:1]
			m.Topics[0].Slices = []Slice{s}
		})
	}
	vectors := batchtest.Vectors()
	for _, v := range []struct{ name, says string }{
		{"V1", ""},
		{"V3", "last offset 112, the index ends at 101"},
		{"V4", ""},
		{"V5", "last offset delta is negative"},
		{"V6", "the last offset is 100"},
		{"V7", ""},
		{"V8", "last offset 109"},
		{"V9", "magic 1"},
		{"V10", "the last offset is 100"},
	} {
		b := vectors[v.name]
		seeds = append(seeds, framedSeed{"batch-" + strings.ToLower(v.name), b, alone(b), v.says})
	}
	return seeds
}

// sliceSeed is a slice that verifies as far as length and checksum go.
type sliceSeed struct {
	name       string
	data       []byte
	epoch      int32
	base, last int64
	taken      int    // bytes of the prefix
	says       string // the error, "" for none
}

func sliceSeeds() []sliceSeed {
	v1 := batchtest.V1()
	tail := batchtest.Make(102, 5, "c")
	with := func(at int, value ...byte) []byte {
		b := join(v1, tail)
		copy(b[at:], value)
		return b
	}
	seeds := []sliceSeed{
		{"v1", v1, 5, 100, 101, 79, ""},
		{"two-batches", join(v1, tail), 5, 100, 102, 79 + len(tail), ""},
		{"gap-in-front", v1, 5, 90, 101, 79, ""},
		{"gap-inside", join(v1, batchtest.Make(250, 5, "x")), 5, 100, 250, 148, ""},
		{"base-below", v1, 5, 101, 101, 0, "base offset 100 where 101 is due"},
		{"last-above", v1, 5, 100, 100, 0, "last offset 101, the index ends at 100"},
		{"last-not-reached", v1, 5, 100, 102, 0, "the last offset is 101"},
		{"other-epoch-first", v1, 4, 100, 101, 0, ""},
		{"other-epoch-second", join(v1, batchtest.Make(102, 6, "x")), 5, 100, 102, 79, ""},
		{"older-epoch-second", join(v1, batchtest.Make(102, 4, "x")), 5, 100, 102, 79, ""},
		{"repeated", join(v1, v1), 5, 100, 101, 0, "base offset 100 where 102 is due"},
		{"overlapping", join(v1, batchtest.Make(101, 5, "x")), 5, 100, 101, 0, "base offset 101 where 102 is due"},
		{"partial-tail", join(v1, tail[:40]), 5, 100, 102, 0, "in the middle of a batch"},
		{"trailing-byte", join(v1, []byte{0}), 5, 100, 101, 0, "in the middle of a batch"},
		{"magic-1-second", join(v1, batchtest.V9()), 5, 100, 102, 0, "magic 1"},
		{"length-second-negative", with(79+8, 0xff), 5, 100, 102, 0, "length is negative"},
		{"length-first-swallows", with(8, 0, 0, 0, 67+byte(len(tail))), 5, 100, 102, 0, "the last offset is 101"},
		{"span-second-negative", with(79+23, 0x80), 5, 100, 102, 0, "last offset delta is negative"},
		{"zeros-second", join(v1, make([]byte, 61)), 5, 100, 102, 0, "length is too small"},
		{"no-epoch", batchtest.Make(0, -1, "a"), -1, 0, 0, len(batchtest.Make(0, -1, "a")), ""},
	}
	for _, topic := range kafkadata.Topics() {
		if log, epoch, base, last := kafkaLog(&topic, 500); len(log) > 0 {
			seeds = append(seeds, sliceSeed{"kafka-" + topic.Name, log, epoch, base, last, len(log), ""})
		}
	}
	return seeds
}

// indexSeeds are the bytes of an index.
func indexSeeds(t testing.TB) []bytesSeed {
	whole := sample(t)
	wire := whole.append(nil)
	field := func(number protowire.Number, typ protowire.Type, value ...byte) []byte {
		return append(protowire.AppendTag(nil, number, typ), value...)
	}
	more := func(extra []byte) []byte { return join(wire, extra) }
	kafka, kafkaMetadata := kafkaObject(t)
	topics := func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, fieldTopics, protowire.BytesType), b)
	}
	seeds := []bytesSeed{
		{"valid", wire, ""},
		{"valid-one-slice", plain(t, 1, 1).append(nil), ""},
		{"valid-two-by-three", plain(t, 2, 3).append(nil), ""},
		{"valid-kafka", kafka[HeaderLength+kafkaMetadata.BodyLength() : len(kafka)-TrailerLength], ""},
		{"unknown-fields", wireOf(whole, []byte{0xa0, 0x06, 0x07}), ""},
		{"unknown-group", more(field(100, protowire.StartGroupType, field(100, protowire.EndGroupType)...)), ""},
		{"cluster-twice", more(field(fieldCluster, protowire.BytesType, 1, 'c')), ""},
		{"nothing", nil, "Cluster is empty"},
		{"cut-by-one", wire[:len(wire)-1], "cut off or malformed"},
		{"cut-in-half", wire[:len(wire)/2], "cut off or malformed"},
		{"tag-zero", more([]byte{0}), "no field tag"},
		{"tag-endless", more(bytes.Repeat([]byte{0xff}, 12)), "no field tag"},
		{"group-open", more(field(100, protowire.StartGroupType)), "cut off or malformed"},
		{"cluster-as-number", more(field(fieldCluster, protowire.VarintType, 1)), "wrong type"},
		{"broker-too-large", more(field(fieldBrokerID, protowire.VarintType, 0xff, 0xff, 0xff, 0xff, 0x0f)), "wrong type, size or range"},
		{"broker-as-fixed", more(field(fieldBrokerID, protowire.Fixed32Type, 1, 2, 3, 4)), "wrong type"},
		{"uuid-15-bytes", more(append(field(fieldUUID, protowire.BytesType, 15), make([]byte, 15)...)), "wrong type, size or range"},
		{"created-other", more(field(fieldCreated, protowire.VarintType, 1)), "Created"},
		{"topics-as-number", more(field(fieldTopics, protowire.VarintType, 1)), "wrong type"},
		{"topic-empty", more(topics(nil)), "a topic lacks"},
		{"topic-length-endless", more(field(fieldTopics, protowire.BytesType, 0xff, 0xff, 0xff, 0xff, 0x0f)), "cut off or malformed"},
		{"many-empty-topics", bytes.Repeat(topics(nil), 200), "a topic lacks"},
		{"many-empty-slices", topics(bytes.Repeat(field(fieldTopicSlices, protowire.BytesType, 0), 200)), "a slice has no length"},
	}
	return seeds
}

// The seeds of all targets, each with its verdict (S1, S4, S5).
func TestCorpus(t *testing.T) {
	says := func(name, says string, err error) {
		t.Helper()
		if says == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, says, name)
		}
	}
	var objects, framed, slices, indexes []corpus.Seed
	for _, seed := range objectSeeds(t) {
		says(seed.name, seed.says, readAll(seed.b))
		objects = append(objects, corpus.Seed{Name: seed.name, Args: []any{seed.b}})
	}
	_, md := smallObject(t)
	for _, seed := range framedSeeds(t) {
		says(seed.name, seed.says, readAll(frameOf(md.ID, seed.body, seed.index)))
		framed = append(framed, corpus.Seed{Name: seed.name, Args: []any{seed.body, seed.index}})
	}
	for _, seed := range sliceSeeds() {
		prefix, _, err := VerifySlice(sliceOf(seed.data, seed.epoch, seed.base, seed.last), seed.data)
		says(seed.name, seed.says, err)
		assert.Len(t, prefix, seed.taken, seed.name)
		slices = append(slices, corpus.Seed{Name: seed.name, Args: []any{seed.data, seed.epoch, seed.base, seed.last}})
	}
	for _, seed := range indexSeeds(t) {
		var m Metadata
		says(seed.name, seed.says, m.UnmarshalBinary(seed.b))
		indexes = append(indexes, corpus.Seed{Name: seed.name, Args: []any{seed.b}})
	}
	corpus.Check(t, "FuzzObject", objects...)
	corpus.Check(t, "FuzzFramedObject", framed...)
	corpus.Check(t, "FuzzVerifySlice", slices...)
	corpus.Check(t, "FuzzMetadata", indexes...)
}

// S5: what a decoder allocates is bounded by what it is given, whatever that is: 12 times its size, and some text for
// the error. Checksums are made to fit, so that they shield nothing.
func TestDamagedBytesAllocateLittle(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 2))
	object, md := smallObject(t)
	body := object[HeaderLength : HeaderLength+md.BodyLength()]
	large := plain(t, 8, 16).append(nil)
	indexes := indexSeeds(t)
	accepted, refused := 0, 0
	for range 400 {
		index := indexes[random.IntN(len(indexes))].b
		switch random.IntN(3) {
		case 0:
			index = large
		case 1:
			index = md.append(nil)
		}
		index = corpus.Damage(random, index)
		damaged := frameOf(md.ID, corpus.Damage(random, body), index)
		limit := func(b []byte) uint64 { return uint64(12*len(b) + 2048) }
		var err error
		require.LessOrEqual(t, corpus.Allocated(func() { var m Metadata; err = m.UnmarshalBinary(index) }), limit(index))
		if err == nil {
			accepted++
		} else {
			refused++
			require.ErrorIs(t, err, walstorage.ErrCorrupt)
		}
		require.LessOrEqual(t, corpus.Allocated(func() { err = readAll(damaged) }), limit(damaged))
	}
	assert.Positive(t, accepted, "all is refused: too much is damaged")
	assert.Greater(t, refused, 200, "nearly all is accepted: too little is damaged")
}

// S5: verifying a slice allocates an error or nothing.
func TestVerifySliceAllocatesErrorsOnly(t *testing.T) {
	for _, seed := range sliceSeeds() {
		slice := sliceOf(seed.data, seed.epoch, seed.base, seed.last)
		allocations := testing.AllocsPerRun(10, func() { _, _, _ = VerifySlice(slice, seed.data) })
		if seed.says == "" {
			assert.Zero(t, allocations, seed.name)
		} else {
			assert.LessOrEqual(t, allocations, float64(10), seed.name)
		}
	}
}

// W4: a frame's checksum covers header and index, and each slice's its own bytes, computed as any CRC-32C.
func TestChecksumsArePlain(t *testing.T) {
	object, md := smallObject(t)
	table := crc32.MakeTable(crc32.Castagnoli)
	indexStart := HeaderLength + md.BodyLength()
	trailer := int64(len(object) - TrailerLength)
	covered := join(object[:HeaderLength], object[indexStart:trailer])
	assert.Equal(t, crc32.Checksum(covered, table), binary.BigEndian.Uint32(object[trailer+4:]))
	for entry := range md.All() {
		assert.Equal(t, crc32.Checksum(object[entry.Position:entry.Position+entry.Slice.Length], table), entry.Slice.CRC32C)
	}
}
