package segment

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

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

// newLoad makes a load whose partitions come in the order of their keys, which is that of the object, or in another.
func newLoad(t testing.TB, ordered bool) load {
	l := load{id: segmentID(t, 1, 1, 0x5a)}
	for i := range 64 {
		topic := uuid.UUID{15: byte(1 + i/8)}
		binary.BigEndian.PutUint32(topic[:], uint32(i/8)*0x9e3779b9)
		l.runs = append(l.runs, Run{
			Partition:   TopicIDPartition{TopicID: topic, Topic: "topic-0123456789", Partition: int32(i % 8)},
			LeaderEpoch: 7, EpochStart: 1 << 30, Base: 1 << 34,
		})
	}
	if ordered {
		slices.SortFunc(l.runs, func(a, b Run) int { return a.Partition.Key().Compare(b.Partition.Key()) })
	}
	for i := range l.runs {
		var data []byte
		for j := range int64(4) {
			data = append(data, batchtest.Sized(l.runs[i].Base+j, 7, 1024, byte(i))...)
		}
		l.data = append(l.data, data)
	}
	return l
}

// newLoads makes enough copies of a load that their bytes are in no near cache, as they are in no leader's.
func newLoads(t testing.TB, ordered bool) []load {
	loads := make([]load, 256)
	for i := range loads {
		if loads[i] = newLoad(t, ordered); i > 0 {
			loads[i].runs = loads[0].runs
		}
	}
	return loads
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

// The limit and ours, side by side: reading, appending and sealing 64 partitions is at most 1.5 times the limit for a
// leader that visits its partitions in their order. "paired" takes turns and compares the medians, which holds on a busy
// machine too.
func BenchmarkEncode64Partitions(b *testing.B) {
	gathered := make([]byte, 0, DefaultTargetBytes)
	b.Run("limit", func(b *testing.B) {
		loads := newLoads(b, true)
		b.SetBytes(DefaultTargetBytes)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			sink += loads[i%len(loads)].limit(gathered)
		}
	})
	for _, order := range []struct {
		name    string
		ordered bool
	}{{"ordered", true}, {"unordered", false}} {
		object := make([]byte, 0, 2*DefaultTargetBytes)
		builder := newBuilder(b, BuilderConfig{})
		b.Run("encode/"+order.name, func(b *testing.B) {
			loads := newLoads(b, order.ordered)
			object = loads[0].encode(builder, object)
			b.SetBytes(DefaultTargetBytes)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				object = loads[i%len(loads)].encode(builder, object)
			}
		})
		b.Run("paired/"+order.name, func(b *testing.B) {
			loads := newLoads(b, order.ordered)
			var limits, encodes []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				sink += loads[i%len(loads)].limit(gathered)
				between := time.Now()
				object = loads[(i+len(loads)/2)%len(loads)].encode(builder, object)
				encodes = append(encodes, time.Since(between))
				limits = append(limits, between.Sub(start))
			}
			b.ReportMetric(float64(median(limits)), "limit-ns")
			b.ReportMetric(float64(median(encodes)), "encode-ns")
			b.ReportMetric(float64(median(encodes))/float64(median(limits)), "x-limit")
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
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
	l := newLoad(b, true)
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

// In the steady state no hot path allocates: never for each slice or batch.
func TestHotPathsAllocateNothing(t *testing.T) {
	ordered, unordered := newLoad(t, true), newLoad(t, false)
	builder := newBuilder(t, BuilderConfig{})
	dst := make([]byte, 0, 2*DefaultTargetBytes)
	object := ordered.encode(builder, nil)
	md := builder.metadata.Clone()
	wire := md.append(nil)
	wireDst := make([]byte, 0, md.EncodedLen())
	var decoded Metadata
	var r Reader
	require.Equal(t, uint32(DefaultTargetBytes), verifyAll(&r, object, md))
	for name, do := range map[string]func(){
		"encode 64 partitions in order": func() { dst = ordered.encode(builder, dst) },
		"encode 64 partitions":          func() { dst = unordered.encode(builder, dst) },
		"metadata encode": func() {
			if _, err := md.AppendBinary(wireDst); err != nil {
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
