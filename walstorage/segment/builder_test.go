package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/walstorage"
)

// topicA, topicB and topicC are in the order of their ids.
var (
	topicA = uuid.MustParse("0a000000-0000-4000-8000-000000000001")
	topicB = uuid.MustParse("0b000000-0000-4000-8000-000000000002")
	topicC = uuid.MustParse("0c000000-0000-4000-8000-000000000003")
)

const cluster = "4L6g3nShT-eMCtK--X86sw"

func partition(topic uuid.UUID, name string, number int32) TopicIDPartition {
	return TopicIDPartition{TopicID: topic, Topic: name, Partition: number}
}

// segmentID makes an id that is the same in every run.
func segmentID(t testing.TB, broker int32, epoch int64, n byte) walstorage.SegmentID {
	t.Helper()
	id, err := walstorage.NewSegmentID(broker, epoch, time.UnixMilli(batchtest.Time+25), bytes.NewReader(bytes.Repeat([]byte{n}, 10)))
	require.NoError(t, err)
	return id
}

func newBuilder(t testing.TB, cfg BuilderConfig) *Builder {
	t.Helper()
	if cfg.Cluster == "" {
		cfg.Cluster = cluster
	}
	b, err := NewBuilder(cfg)
	require.NoError(t, err)
	return b
}

// appendBytes reads data into the buffer, as a leader.Log would, and appends it.
func appendBytes(t testing.TB, b *Builder, run Run, data []byte) (Appended, error) {
	t.Helper()
	buffer := b.Buffer(len(data))
	require.GreaterOrEqual(t, len(buffer), len(data), "no room in the segment")
	return b.Append(run, copy(buffer, data))
}

func mustAppend(t testing.TB, b *Builder, run Run, data []byte) Appended {
	t.Helper()
	appended, err := appendBytes(t, b, run, data)
	require.NoError(t, err)
	require.Equal(t, len(data), appended.Bytes)
	return appended
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// split returns the slices of an object, verified, by partition.
func split(t testing.TB, object []byte) map[PartitionKey][]byte {
	t.Helper()
	r, err := NewReader(object)
	require.NoError(t, err)
	found := map[PartitionKey][]byte{}
	for v, err := range r.All() {
		require.NoError(t, err)
		require.Equal(t, v.Slice.LastOffset, v.LastOffset)
		found[v.Partition.Key()] = v.Data
	}
	return found
}

// apache/pulsar#1738: the position of a slice is the sum of the lengths before it, never a multiple of its own (S1).
func TestPositionsAreRunningSums(t *testing.T) {
	// Given three partitions with payloads of unequal sizes, appended in another order than that of the object.
	v1, v7, v3 := batchtest.V1(), batchtest.V7(), batchtest.V3()
	require.Equal(t, []int{79, 69, 78}, []int{len(v1), len(v7), len(v3)})
	b := newBuilder(t, BuilderConfig{})
	mustAppend(t, b, Run{Partition: partition(topicC, "c", 0), LeaderEpoch: 5, EpochStart: 7, Base: 112}, v3)
	mustAppend(t, b, Run{Partition: partition(topicA, "a", 3), LeaderEpoch: 5, EpochStart: 7, Base: 100}, v1)
	mustAppend(t, b, Run{Partition: partition(topicB, "b", 1), LeaderEpoch: 5, EpochStart: 7, Base: 100}, v7)

	// When they are combined.
	id := segmentID(t, 1, 2, 0x11)
	object, md, err := b.Seal(id, nil)
	require.NoError(t, err)

	// Then each slice stands where the index says, and is what went in.
	var positions []int64
	var slices [][]byte
	for entry := range md.All() {
		positions = append(positions, entry.Position)
		slices = append(slices, object[entry.Position:entry.Position+entry.Slice.Length])
	}
	assert.Equal(t, []int64{HeaderLength, HeaderLength + 79, HeaderLength + 148}, positions)
	assert.Equal(t, [][]byte{v1, v7, v3}, slices)
	assert.Equal(t, map[PartitionKey][]byte{
		{TopicID: topicA, Partition: 3}: v1, {TopicID: topicB, Partition: 1}: v7, {TopicID: topicC, Partition: 0}: v3,
	}, split(t, object))
	assert.NoError(t, VerifyObject(md, object))
	assert.Equal(t, int64(79+69+78), md.BodyLength())
	assert.Equal(t, id.Created(), md.Created)
	assert.Equal(t, cluster, md.Cluster)
	assert.Equal(t, id, md.ID)
}

// apache/pulsar#1738: whatever the sizes, the order of the appends and their number for each partition: what comes out is
// what went in (S2).
func TestRandomSegments(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBuilder(t, BuilderConfig{TargetBytes: 1 << 16})
		for round := range 3 { // the builder is used again
			runs := map[PartitionKey]*Run{}
			want := map[PartitionKey][]byte{}
			for range random.IntN(60) {
				topic := []uuid.UUID{topicA, topicB, topicC}[random.IntN(3)]
				p := partition(topic, "t"+topic.String(), int32(random.IntN(6)))
				run := runs[p.Key()]
				if run == nil {
					base := random.Int64N(1 << 40)
					run = &Run{Partition: p, LeaderEpoch: int32(random.IntN(200)) - 1, EpochStart: random.Int64N(base + 1), Base: base}
					runs[p.Key()] = run
				}
				var data []byte
				next := run.Base
				for range random.IntN(4) { // 0 batches too: no bytes, no slice
					if random.IntN(3) == 0 {
						next += random.Int64N(1000) // a compaction gap
					}
					spec := batchtest.NewSpec(next, run.LeaderEpoch, "v")
					spec.LastOffsetDelta = int32(random.IntN(100))
					spec.MaxTimestamp = random.Int64() - random.Int64()
					spec.Payload = make([]byte, random.IntN(300))
					data = append(data, spec.Bytes()...)
					next += int64(spec.LastOffsetDelta) + 1
				}
				if len(b.Buffer(0)) < len(data) {
					break
				}
				appended := mustAppend(t, b, *run, data)
				require.Equal(t, next, max(appended.Next, next))
				run.Base = appended.Next
				if len(data) > 0 {
					want[p.Key()] = append(want[p.Key()], data...)
				}
			}
			object, md, err := b.Seal(segmentID(t, 3, 4, byte(round)), nil)
			if len(want) == 0 {
				require.ErrorIs(t, err, ErrEmpty)
				continue
			}
			require.NoError(t, err)
			require.NoError(t, md.Validate())
			require.Equal(t, want, split(t, object), "seed %d", seed)
			require.Equal(t, len(want), md.Slices())
			require.LessOrEqual(t, len(object), b.SealedLen())
			require.NoError(t, VerifyObject(md.Clone(), object))
			b.Reset()
		}
	}
}

// redpanda-data/redpanda#27671: attributes, timestamps, producer fields and checksum pass as one unit, whatever they
// say; nothing in a batch is rewritten (S2).
func TestEveryAttributeAndEpochSurvives(t *testing.T) {
	for _, epoch := range []int32{-1, 0, 5} {
		b := newBuilder(t, BuilderConfig{})
		run := Run{Partition: partition(topicA, "a", 0), LeaderEpoch: epoch, Base: 10}
		var want []byte
		for attributes := range int16(64) { // codec, timestamp type, transactional, control
			spec := batchtest.NewSpec(run.Base, epoch, "value")
			spec.Attributes = attributes
			spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = int64(attributes), 3, 9
			data := spec.Bytes()
			run.Base = mustAppend(t, b, run, data).Next
			want = append(want, data...)
		}
		object, md, err := b.Seal(segmentID(t, 1, 1, 1), nil)
		require.NoError(t, err)
		assert.Equal(t, want, split(t, object)[run.Partition.Key()], "epoch %d", epoch)
		assert.Equal(t, epoch, md.Topics[0].Slices[0].LeaderEpoch)

		// The epoch survives the wire too.
		var decoded Metadata
		wire, err := md.AppendBinary(nil)
		require.NoError(t, err)
		require.NoError(t, decoded.UnmarshalBinary(wire))
		assert.True(t, decoded.equal(md))
	}
}

// The byte vectors that are legal batches pass untouched: opaque payloads (twmb/franz-go#854), counts that fit nothing
// (segmentio/kafka-go#1438, KAFKA-6554), a checksum of zero (redpanda-data/redpanda#4113).
func TestLegalVectorsPass(t *testing.T) {
	for _, name := range []string{"V1", "V3", "V4", "V6", "V7", "V8", "V10"} {
		data := batchtest.Vectors()[name]
		b := newBuilder(t, BuilderConfig{})
		p := partition(topicA, "a", 0)
		mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, Base: 7}, data)
		object, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
		require.NoError(t, err)
		assert.Equal(t, data, split(t, object)[p.Key()], name)
	}
}

// Aiven-Open/tiered-storage-for-apache-kafka#762: batches are found by their own headers, and no index of positions is
// rounded. However small they are, and however many share a slice, each comes out as it went in, and none as a part of
// another.
func TestBatchesAreNeverMerged(t *testing.T) {
	b := newBuilder(t, BuilderConfig{})
	p := partition(topicA, "a", 0)
	var given [][]byte
	for n := range int64(200) {
		given = append(given, batchtest.Make(100+n, 5, "x"))
	}
	mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, Base: 100}, join(given...))
	object, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
	require.NoError(t, err)

	var found [][]byte
	for s := batch.NewScanner(split(t, object)[p.Key()]); s.Next(); {
		found = append(found, s.Bytes())
	}
	assert.Equal(t, given, found)
}

// segmentio/kafka-go#621: a jump inside a slice is a legal compaction gap; the index declares the whole range (S4).
func TestCompactionGapInsideASlice(t *testing.T) {
	b := newBuilder(t, BuilderConfig{})
	p := partition(topicA, "a", 0)
	data := join(batchtest.V8(), batchtest.Make(250, 5, "after the gap"))
	appended := mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, EpochStart: 90, Base: 95}, data)
	assert.Equal(t, Appended{Next: 251, Bytes: len(data), Batches: 2}, appended)

	object, md, err := b.Seal(segmentID(t, 1, 1, 1), nil)
	require.NoError(t, err)
	slice := md.Topics[0].Slices[0]
	assert.Equal(t, int64(95), slice.BaseOffset, "the gap before the first batch is the slice's")
	assert.Equal(t, int64(250), slice.LastOffset)
	assert.Equal(t, data, split(t, object)[p.Key()])
}

// What Append takes, and what it says of the rest.
func TestAppendTakesTheGoodPrefix(t *testing.T) {
	v1, v5, v9 := batchtest.V1(), batchtest.V5(), batchtest.V9()
	for _, test := range []struct {
		name  string
		data  []byte
		epoch int32
		base  int64
		want  Appended
		check func(t *testing.T, err error)
	}{
		{"whole batches", join(v1, batchtest.Make(102, 5, "x")), 5, 100, Appended{Next: 103, Bytes: 148, Batches: 2}, nil},
		{"nothing", nil, 5, 100, Appended{Next: 100}, nil},
		{"partial tail", join(v1, v1[:30]), 5, 100, Appended{Next: 102, Bytes: 79, Batches: 1}, nil},
		{"partial alone (aiven/inkless#260)", v1[:30], 5, 100, Appended{Next: 100}, isError(ErrPartialBatch)},
		{
			"another epoch after the first batch", join(v1, batchtest.Make(102, 6, "x")), 5, 100,
			Appended{Next: 102, Bytes: 79, Batches: 1, OtherEpoch: true, Epoch: 6},
			nil,
		},
		{"another epoch at once", v1, 6, 100, Appended{Next: 100, OtherEpoch: true, Epoch: 5}, nil},
		{"V5 alone (KAFKA-6554)", v5, 5, 100, Appended{Next: 100}, isCorrupt(0)},
		{"V1, then V5 (aiven/inkless#260)", join(v1, v5), 5, 100, Appended{Next: 102, Bytes: 79, Batches: 1}, isCorrupt(79)},
		{"V1, then V9 (redpanda-data/redpanda#5685)", join(v1, v9), 5, 100, Appended{Next: 102, Bytes: 79, Batches: 1}, isError(ErrUnsupportedMagic)},
		{"offsets go back", join(v1, v1), 5, 100, Appended{Next: 102, Bytes: 79, Batches: 1}, isCorrupt(79)},
		{"begins below the base", v1, 5, 101, Appended{Next: 101}, isCorrupt(0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBuilder(t, BuilderConfig{})
			p := partition(topicA, "a", 0)

			appended, err := appendBytes(t, b, Run{Partition: p, LeaderEpoch: test.epoch, Base: test.base}, test.data)

			assert.Equal(t, test.want, appended)
			if test.check == nil {
				require.NoError(t, err)
			} else {
				test.check(t, err)
			}
			assert.Equal(t, test.want.Bytes, b.Len())
			object, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
			if test.want.Bytes == 0 {
				assert.ErrorIs(t, err, ErrEmpty, "no slice was opened for bytes that were not taken")
				assert.Zero(t, b.Slices())
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.data[:test.want.Bytes], split(t, object)[p.Key()])
		})
	}
}

func isError(target error) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		assert.ErrorIs(t, err, target)
		assert.NotErrorIs(t, err, walstorage.ErrCorrupt)
	}
}

func isCorrupt(position int64) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt)
		assert.ErrorIs(t, err, walstorage.ErrCorrupt)
		assert.Equal(t, position, corrupt.Position)
		assert.NotEmpty(t, corrupt.Reason)
		assert.Contains(t, err.Error(), corrupt.Where)
	}
}

// A slice is one run of one epoch: what does not continue it waits for the next segment (S1, S4, L4).
func TestOneSlicePerPartitionAndSegment(t *testing.T) {
	p := partition(topicA, "a", 0)
	begin := Run{Partition: p, LeaderEpoch: 5, EpochStart: 50, Base: 100}
	for _, test := range []struct {
		name string
		run  Run
		data []byte
		err  error
	}{
		{"goes on", Run{p, 5, 50, 102}, batchtest.Make(102, 5, "x"), nil},
		{"goes on after a gap", Run{p, 5, 50, 102}, batchtest.Make(202, 5, "x"), nil},
		{"a newer epoch", Run{p, 6, 102, 102}, batchtest.Make(102, 6, "x"), ErrSliceClosed},
		{"a run that skipped (L11)", Run{p, 5, 50, 202}, batchtest.Make(202, 5, "x"), ErrSliceClosed},
		{"the same bytes again", begin, batchtest.V1(), ErrSliceClosed},
		{"another start of the epoch", Run{p, 5, 51, 102}, batchtest.Make(102, 5, "x"), ErrSliceClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBuilder(t, BuilderConfig{})
			mustAppend(t, b, begin, batchtest.V1())

			appended, err := appendBytes(t, b, test.run, test.data)

			require.ErrorIs(t, err, test.err)
			assert.Equal(t, 1, b.Slices())
			if test.err != nil {
				assert.Equal(t, Appended{Next: test.run.Base}, appended)
				assert.Equal(t, 79, b.Len())
				// In the next segment it begins a slice of its own.
				b.Reset()
				mustAppend(t, b, test.run, test.data)
				assert.Equal(t, 1, b.Slices())
			}
		})
	}
}

func TestCloseEndsTheSlice(t *testing.T) {
	b := newBuilder(t, BuilderConfig{})
	p, q := partition(topicA, "a", 0), partition(topicA, "a", 1)
	mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, Base: 100}, batchtest.V1())
	b.Close(p.Key())
	b.Close(q.Key()) // has no slice: nothing to close

	_, err := appendBytes(t, b, Run{Partition: p, LeaderEpoch: 5, Base: 102}, batchtest.Make(102, 5, "x"))
	require.ErrorIs(t, err, ErrSliceClosed)
	mustAppend(t, b, Run{Partition: q, LeaderEpoch: 5, Base: 100}, batchtest.V1())

	object, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
	require.NoError(t, err)
	assert.Equal(t, map[PartitionKey][]byte{p.Key(): batchtest.V1(), q.Key(): batchtest.V1()}, split(t, object))
}

// A slice spans fewer than 2^31 offsets (S4, KAFKA-4451 and KAFKA-6264).
func TestSpan(t *testing.T) {
	p := partition(topicA, "a", 0)
	run := Run{Partition: p, LeaderEpoch: 5, Base: 100}

	t.Run("the widest slice", func(t *testing.T) {
		b := newBuilder(t, BuilderConfig{})
		mustAppend(t, b, run, join(batchtest.V1(), batchtest.Make(100+maxSpan, 5, "x")))
		_, md, err := b.Seal(segmentID(t, 1, 1, 1), nil)
		require.NoError(t, err)
		require.NoError(t, md.Validate())
		assert.Equal(t, int64(100+maxSpan), md.Topics[0].Slices[0].LastOffset)
	})
	t.Run("one offset more ends it", func(t *testing.T) {
		b := newBuilder(t, BuilderConfig{})
		far := batchtest.Make(100+maxSpan+1, 5, "x")
		appended, err := appendBytes(t, b, run, join(batchtest.V1(), far))
		require.NoError(t, err)
		assert.Equal(t, Appended{Next: 102, Bytes: 79, Batches: 1}, appended)
		next := Run{Partition: p, LeaderEpoch: 5, Base: 102}
		_, err = appendBytes(t, b, next, far)
		require.ErrorIs(t, err, ErrSliceClosed)
		// The run goes on in the next segment: from there the batch is near enough.
		b.Reset()
		mustAppend(t, b, next, far)
	})
	t.Run("found by a later append", func(t *testing.T) {
		b := newBuilder(t, BuilderConfig{})
		mustAppend(t, b, run, batchtest.V1())
		next := Run{Partition: p, LeaderEpoch: 5, Base: 102}
		_, err := appendBytes(t, b, next, batchtest.Make(100+maxSpan+1, 5, "x"))
		require.ErrorIs(t, err, ErrSliceClosed)
		_, err = appendBytes(t, b, next, batchtest.Make(102, 5, "x"))
		require.ErrorIs(t, err, ErrSliceClosed)
	})
	t.Run("a gap that no slice spans", func(t *testing.T) {
		b := newBuilder(t, BuilderConfig{})
		const far = 100 + 1<<33
		_, err := appendBytes(t, b, run, batchtest.Make(far, 5, "x"))
		var span *SpanError
		require.ErrorAs(t, err, &span)
		assert.Equal(t, SpanError{Due: 100, BaseOffset: far}, *span)
		// A new run begins at the batch.
		mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, Base: span.BaseOffset}, batchtest.Make(far, 5, "x"))
	})
}

// KAFKA-9617, KAFKA-6834: a batch larger than the target is a segment of its own (S3).
func TestBatchLargerThanTheTarget(t *testing.T) {
	b := newBuilder(t, BuilderConfig{TargetBytes: 1000, MaxBytes: 50_000})
	p := partition(topicA, "a", 0)
	big := batchtest.Sized(101, 5, 50_000, 'x')

	// Given a segment that holds something, there is no room for it.
	mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, Base: 100}, batchtest.Make(100, 5, "small"))
	require.Nil(t, b.Buffer(len(big)))
	require.False(t, b.Full())
	b.Reset()

	// When the segment is empty, the buffer grows for it.
	mustAppend(t, b, Run{Partition: p, LeaderEpoch: 5, Base: 101}, big)
	assert.True(t, b.Full())
	assert.Nil(t, b.Buffer(0))
	object, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
	require.NoError(t, err)
	assert.Equal(t, big, split(t, object)[p.Key()])

	// Then it has its old size again.
	b.Reset()
	assert.Len(t, b.Buffer(0), 1000)
	// Beyond MaxBytes there is no segment.
	assert.Nil(t, b.Buffer(50_001))
}

// The buffer that grew for a large batch does not stay so for others if that batch is not taken: its Lead has ended, or it
// is too far away. Found by TestBuilderAgainstAModel, seed 123.
func TestBufferOfABatchThatWasNotTaken(t *testing.T) {
	b := newBuilder(t, BuilderConfig{TargetBytes: 200})
	require.Len(t, b.Buffer(500), 500)
	require.Len(t, b.Buffer(400), 400)
	require.Len(t, b.Buffer(1), 200)

	data := batchtest.Sized(1<<31, 5, 500, 'x')
	_, err := appendBytes(t, b, Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5}, data)
	require.ErrorAs(t, err, new(*SpanError))
	require.Len(t, b.Buffer(1), 200)
	mustAppend(t, b, Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 1 << 31}, data)
	require.Nil(t, b.Buffer(1))
}

func TestFull(t *testing.T) {
	t.Run("TargetBytes", func(t *testing.T) {
		b := newBuilder(t, BuilderConfig{TargetBytes: 79})
		assert.False(t, b.Full())
		mustAppend(t, b, Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 100}, batchtest.V1())
		assert.True(t, b.Full())
		assert.Nil(t, b.Buffer(1))
	})
	t.Run("MaxSlices", func(t *testing.T) {
		b := newBuilder(t, BuilderConfig{MaxSlices: 2})
		for i := range int32(2) {
			assert.False(t, b.Full())
			mustAppend(t, b, Run{Partition: partition(topicA, "a", i), LeaderEpoch: 5, Base: 100}, batchtest.V1())
		}
		assert.True(t, b.Full())
		_, err := appendBytes(t, b, Run{Partition: partition(topicA, "a", 2), LeaderEpoch: 5, Base: 100}, batchtest.V1())
		require.ErrorIs(t, err, ErrFull)
		// A slice that is there may go on.
		mustAppend(t, b, Run{Partition: partition(topicA, "a", 1), LeaderEpoch: 5, Base: 102}, batchtest.Make(102, 5, "x"))
	})
	t.Run("MaxEventBytes", func(t *testing.T) {
		const limit = 4096
		b := newBuilder(t, BuilderConfig{MaxEventBytes: limit})
		name := string(bytes.Repeat([]byte{'n'}, maxTopicLength))
		n := 0
		for !b.Full() {
			p := partition(uuid.NewSHA1(uuid.Nil, []byte{byte(n)}), name, 1<<31-1)
			spec := batchtest.NewSpec(1<<62, 1<<31-1, "x")
			spec.MaxTimestamp = 1<<63 - 1
			mustAppend(t, b, Run{Partition: p, LeaderEpoch: 1<<31 - 1, EpochStart: 1 << 61, Base: 1<<62 - 1}, spec.Bytes())
			n++
		}
		_, md, err := b.Seal(segmentID(t, 1<<31-1, 1<<63-1, 1), nil)
		require.NoError(t, err)
		assert.Greater(t, n, 5)
		assert.LessOrEqual(t, md.EncodedLen(), limit-maxEnvelopeBytes, "the bound holds for the largest values")
	})
	t.Run("the defaults fit each other", func(t *testing.T) {
		// MaxSlices slices of as many topics, with names of 16 bytes, fit into MaxEventBytes.
		assert.Less(t, maxEnvelopeBytes+maxSegmentBytes+255+DefaultMaxSlices*sliceEventBytes(16), DefaultMaxEventBytes)
	})
}

func TestBuilderConfig(t *testing.T) {
	type config = BuilderConfig
	configtest.Run(t, configtest.Table[config]{
		Valid: config{Cluster: "c"},
		Open: func(_ testing.TB, c config) error {
			_, err := NewBuilder(c)
			return err
		},
		Wrong: map[string][]func(*config){
			"Cluster":     {func(c *config) { c.Cluster = "" }, func(c *config) { c.Cluster = "a/b" }},
			"TargetBytes": {func(c *config) { c.TargetBytes = -1 }, func(c *config) { c.TargetBytes = 60 }},
			"MaxBytes": {
				func(c *config) { c.MaxBytes = -1 },
				func(c *config) { c.TargetBytes, c.MaxBytes = 1000, 999 },
				func(c *config) { c.MaxBytes = 1 << 31 },
			},
			"MaxSlices":     {func(c *config) { c.MaxSlices = -1 }},
			"MaxEventBytes": {func(c *config) { c.MaxEventBytes = -1 }, func(c *config) { c.MaxEventBytes = 100 }},
		},
	})
	b := newBuilder(t, BuilderConfig{})
	assert.Len(t, b.Buffer(0), DefaultTargetBytes)
}

func TestAppendRefusesAWrongRun(t *testing.T) {
	good := Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 100}
	for name, change := range map[string]func(*Run){
		"no topic id":            func(r *Run) { r.Partition.TopicID = uuid.Nil },
		"no topic name":          func(r *Run) { r.Partition.Topic = "" },
		"long topic name":        func(r *Run) { r.Partition.Topic = string(make([]byte, 250)) },
		"negative partition":     func(r *Run) { r.Partition.Partition = -1 },
		"epoch -2":               func(r *Run) { r.LeaderEpoch = -2 },
		"negative epoch start":   func(r *Run) { r.EpochStart = -1 },
		"base below epoch start": func(r *Run) { r.EpochStart = 101 },
	} {
		b := newBuilder(t, BuilderConfig{})
		run := good
		change(&run)
		_, err := appendBytes(t, b, run, batchtest.V1())
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument, name)
		assert.Zero(t, b.Slices())
	}
	b := newBuilder(t, BuilderConfig{TargetBytes: 1000})
	for _, n := range []int{-1, 1001} {
		_, err := b.Append(good, n)
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	}
}

func TestSealRefusesAWrongID(t *testing.T) {
	b := newBuilder(t, BuilderConfig{})
	mustAppend(t, b, Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 100}, batchtest.V1())
	_, _, err := b.Seal(walstorage.SegmentID{}, nil)
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	// Nothing is lost by that.
	_, _, err = b.Seal(segmentID(t, 1, 1, 1), nil)
	require.NoError(t, err)
}

// Whether the slices were appended in the order of the object or not, and whatever dst there is, the object is the same
// and stays as it is while the builder goes on: the two never share a buffer (W5).
func TestSealGivesTheObjectAway(t *testing.T) {
	runs := []Run{
		{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 100},
		{Partition: partition(topicA, "a", 1), LeaderEpoch: 5, Base: 100},
		{Partition: partition(topicB, "b", 0), LeaderEpoch: 5, Base: 100},
	}
	id := segmentID(t, 1, 1, 1)
	var want []byte
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		for _, capacity := range []int{0, 100, 2000, 1 << 20} {
			b := newBuilder(t, BuilderConfig{TargetBytes: 1000})
			dst := make([]byte, 0, capacity)
			var object, before []byte
			for range 4 { // the buffers change hands
				b.Reset()
				if before != nil {
					require.Equal(t, before, object, "the builder wrote into an object that it had given away")
					dst = make([]byte, 0, capacity)
				}
				for _, i := range order {
					mustAppend(t, b, runs[i], batchtest.V1())
				}
				var md *Metadata
				var err error
				object, md, err = b.Seal(id, dst)
				require.NoError(t, err)
				require.NoError(t, VerifyObject(md, object))
				if want == nil {
					want = bytes.Clone(object)
				}
				require.Equal(t, want, object, "order %v, capacity %d", order, capacity)
				require.Equal(t, 3, b.Slices(), "what was sealed can be counted")
				require.Equal(t, 3*79, b.Len())
				before = bytes.Clone(object)
				b.Reset()
				clear(b.Buffer(0)) // the next segment
			}
		}
	}
}

func TestSealEndsTheSegment(t *testing.T) {
	b := newBuilder(t, BuilderConfig{})
	run := Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 100}
	mustAppend(t, b, run, batchtest.V1())
	_, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
	require.NoError(t, err)

	assert.Nil(t, b.Buffer(0))
	run.Base = 102
	_, err = b.Append(run, 0)
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	_, _, err = b.Seal(segmentID(t, 1, 1, 2), nil)
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)

	b.Reset()
	mustAppend(t, b, run, batchtest.Make(102, 5, "x"))
}

// MaxTimestamp is the largest of the headers, -1 if none has one.
func TestMaxTimestamp(t *testing.T) {
	for _, test := range []struct {
		given []int64
		want  int64
	}{
		{[]int64{5, 9, 7}, 9},
		{[]int64{-1, -1}, -1},
		{[]int64{-1 << 63}, -1},
		{[]int64{0, -1}, 0},
		{[]int64{1<<63 - 1, 3}, 1<<63 - 1},
	} {
		b := newBuilder(t, BuilderConfig{})
		run := Run{Partition: partition(topicA, "a", 0), LeaderEpoch: 5, Base: 100}
		for _, timestamp := range test.given {
			spec := batchtest.NewSpec(run.Base, 5, "x")
			spec.MaxTimestamp = timestamp
			run.Base = mustAppend(t, b, run, spec.Bytes()).Next
		}
		object, _, err := b.Seal(segmentID(t, 1, 1, 1), nil)
		require.NoError(t, err)
		r, err := NewReader(object)
		require.NoError(t, err)
		assert.Equal(t, test.want, r.Metadata().Topics[0].Slices[0].MaxTimestamp, "%v", test.given)
	}
}
