package metadata_test

import (
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/walstorage/segment"
)

var shapes = []struct{ topics, partitions int }{{8, 8}, {64, 1}}

// BenchmarkEvent has the limit and ours side by side: copying the encoded bytes with a CRC-32C, then encoding, then
// decoding. It tells what share of a 256 KiB segment an event is.
func BenchmarkEvent(b *testing.B) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, shape := range shapes {
		event := testevent.Sized(shape.topics, shape.partitions)
		encoded, err := event.MarshalBinary()
		require.NoError(b, err)
		name := fmt.Sprintf("%dx%d", shape.topics, shape.partitions)
		buffer := make([]byte, 0, len(encoded)+64)
		b.Run(name+"/limit=copy+crc", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buffer = append(buffer[:0], encoded...)
				crc32.Checksum(buffer, castagnoli)
			}
		})
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if buffer, err = event.AppendBinary(buffer[:0]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(100*float64(len(encoded))/(256<<10), "%of256KiB")
		})
		b.Run(name+"/decode", func(b *testing.B) {
			var decoded metadata.Event
			b.ReportAllocs()
			for b.Loop() {
				if err := decoded.UnmarshalBinary(encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStore is an event of 64 slices from arrival to use, beside 10,000 followed partitions that stand still.
func BenchmarkStore(b *testing.B) {
	store := newStore(b, metadata.StoreConfig{})
	for n := range 10_000 {
		store.Follow(testevent.Partition(200+n%100, int32(n)), int32(n%5), 1)
	}
	event := testevent.Sized(8, 8)
	var partitions []segment.TopicIDPartition
	for _, topic := range event.Segment.Topics {
		for _, slice := range topic.Slices {
			p := segment.TopicIDPartition{TopicID: topic.ID, Topic: topic.Name, Partition: slice.Partition}
			store.Follow(p, 3, slice.LeaderEpoch)
			partitions = append(partitions, p)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		store.Apply(metadata.Item{Event: event})
		for i, p := range partitions {
			slice := &event.Segment.Topics[i/8].Slices[i%8]
			if _, verdict := store.Next(p, slice.BaseOffset); verdict.Outcome != metadata.Found {
				b.Fatal(verdict)
			}
			slice.BaseOffset, slice.LastOffset = slice.LastOffset+1, slice.LastOffset+40
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/slice")
}

// BenchmarkStoreBehind is the same where nobody reads and every slice evicts another.
func BenchmarkStoreBehind(b *testing.B) {
	store := newStore(b, metadata.StoreConfig{MaxEntries: 10_000})
	event := testevent.Sized(8, 8)
	for _, topic := range event.Segment.Topics {
		for _, slice := range topic.Slices {
			store.Follow(segment.TopicIDPartition{TopicID: topic.ID, Topic: topic.Name, Partition: slice.Partition}, 3, slice.LeaderEpoch)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		store.Apply(metadata.Item{Event: event})
		for i := range event.Segment.Topics {
			for j := range event.Segment.Topics[i].Slices {
				slice := &event.Segment.Topics[i].Slices[j]
				slice.BaseOffset, slice.LastOffset = slice.LastOffset+1, slice.LastOffset+40
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/slice")
}

func BenchmarkSequencer(b *testing.B) {
	var s metadata.Sequencer
	event := testevent.New(1, 1, 0)
	b.ReportAllocs()
	for b.Loop() {
		event.Sequence++
		event.Segment.ID = testevent.ID(1, 1, uint32(event.Sequence))
		s.Accept(event)
	}
}
