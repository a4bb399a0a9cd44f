package segment

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/walstorage"
)

// load is what 64 partitions hold for one segment of 256 KiB: 4 KiB each, in batches of 1 KiB.
type load struct {
	runs []Run
	data [][]byte
	id   walstorage.SegmentID
}

func newLoad(t testing.TB) load {
	l := load{id: segmentID(t, 1, 1, 0x5a)}
	for i := range 64 {
		topic := uuid.UUID{15: byte(1 + i/8)}
		binary.BigEndian.PutUint32(topic[:], uint32(i/8)*0x9e3779b9) // ids are random: the order of the runs is not theirs
		run := Run{
			Partition:   TopicIDPartition{TopicID: topic, Topic: "topic-0123456789", Partition: int32(i % 8)},
			LeaderEpoch: 7, EpochStart: 1 << 30, Base: 1 << 34,
		}
		var data []byte
		for j := range int64(4) {
			data = append(data, batchtest.Sized(run.Base+j, 7, 1024, byte(i))...)
		}
		l.runs = append(l.runs, run)
		l.data = append(l.data, data)
	}
	return l
}

// encode builds one segment as a leader does: each partition's batches are read into the buffer, appended and sealed.
func (l *load) encode(b *Builder, dst []byte) []byte {
	b.Reset()
	for i := range l.runs {
		if _, err := b.Append(l.runs[i], copy(b.Buffer(0), l.data[i])); err != nil {
			panic(err)
		}
	}
	object, _, err := b.Seal(l.id, dst)
	if err != nil {
		panic(err)
	}
	return object
}

// limit does the least that any encoder has to: it gathers the same bytes into one buffer and computes their CRC32C.
func (l *load) limit(dst []byte) uint32 {
	dst = dst[:0]
	for _, data := range l.data {
		dst = append(dst, data...)
	}
	return crc32.Checksum(dst, castagnoli)
}

// sink keeps the compiler from leaving work out.
var sink uint32

// Compare the two by their ns/op in one run: encode is at most 1.5 times the limit.
func BenchmarkEncode64Partitions(b *testing.B) {
	l := newLoad(b)
	dst := make([]byte, 0, 2*DefaultTargetBytes)
	builder := newBuilder(b, BuilderConfig{})
	b.Run("limit", func(b *testing.B) {
		b.SetBytes(DefaultTargetBytes)
		b.ReportAllocs()
		for b.Loop() {
			sink += l.limit(dst)
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(DefaultTargetBytes)
		b.ReportAllocs()
		for b.Loop() {
			sink += uint32(len(l.encode(builder, dst)))
		}
	})
	// seal alone: what is left when the bytes have been read.
	b.Run("seal", func(b *testing.B) {
		b.SetBytes(DefaultTargetBytes)
		b.ReportAllocs()
		l.encode(builder, dst)
		for b.Loop() {
			object, _, err := builder.Seal(l.id, dst)
			if err != nil {
				b.Fatal(err)
			}
			sink += uint32(len(object))
		}
	})
}

func BenchmarkMetadataEncode(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			m := plain(b, shape.topics, shape.partitions)
			dst := make([]byte, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				wire, err := m.AppendBinary(dst)
				if err != nil {
					b.Fatal(err)
				}
				sink += uint32(len(wire))
			}
			b.ReportMetric(float64(m.EncodedLen()), "bytes/segment")
		})
	}
}

func BenchmarkMetadataDecode(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			wire := plain(b, shape.topics, shape.partitions).append(nil)
			var m Metadata
			b.ReportAllocs()
			for b.Loop() {
				if err := m.UnmarshalBinary(wire); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(wire)), "bytes/segment")
		})
	}
}

// What a follower does with a whole object: open it, compare it with its event and check every slice.
func BenchmarkVerify64Partitions(b *testing.B) {
	l := newLoad(b)
	builder := newBuilder(b, BuilderConfig{})
	object := l.encode(builder, nil)
	var r Reader
	b.SetBytes(DefaultTargetBytes)
	b.ReportAllocs()
	for b.Loop() {
		sink += verifyAll(&r, object, &builder.metadata)
	}
}

func verifyAll(r *Reader, object []byte, md *Metadata) uint32 {
	if err := r.Reset(object); err != nil {
		panic(err)
	}
	if err := r.Match(md); err != nil {
		panic(err)
	}
	n := 0
	for v, err := range r.All() {
		if err != nil {
			panic(err)
		}
		n += len(v.Data)
	}
	return uint32(n)
}

// In the steady state no hot path allocates (rule 9 of the design: never for each slice or batch).
func TestHotPathsAllocateNothing(t *testing.T) {
	l := newLoad(t)
	builder := newBuilder(t, BuilderConfig{})
	dst := make([]byte, 0, 2*DefaultTargetBytes)
	object := l.encode(builder, nil)
	md := builder.metadata.Clone()
	wire := md.append(nil)
	var decoded Metadata
	var r Reader
	require.Equal(t, uint32(DefaultTargetBytes), verifyAll(&r, object, md))
	for name, do := range map[string]func(){
		"encode 64 partitions": func() { l.encode(builder, dst) },
		"metadata encode": func() {
			if _, err := md.AppendBinary(dst); err != nil {
				panic(err)
			}
		},
		"metadata decode": func() {
			if err := decoded.UnmarshalBinary(wire); err != nil {
				panic(err)
			}
		},
		"walk the index": func() {
			for entry := range md.All() {
				sink += uint32(entry.Position)
			}
		},
		"verify an object": func() { verifyAll(&r, object, md) },
	} {
		assert.Zero(t, testing.AllocsPerRun(20, do), name)
	}
}
