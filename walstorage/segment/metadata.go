package segment

import (
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/walstorage"
)

// Metadata says what one segment holds, slice by slice. It is the index inside the object, and, in a metadata.Event,
// what the metadata topic carries. The wire format is described in segment.proto.
type Metadata struct {
	// Cluster is the id of the Kafka cluster.
	Cluster string
	// ID is the segment's id.
	ID walstorage.SegmentID
	// Created is the segment's creation time in whole milliseconds; it equals ID.Created().
	Created time.Time
	// Store names the store that holds the object. It is reserved: empty means the only one.
	Store string
	// Topics are sorted by id, each at most once, with at least one slice each.
	Topics []Topic
}

// Topic holds the slices of one topic.
type Topic struct {
	ID   uuid.UUID
	Name string
	// Slices are sorted by partition, each partition at most once (S1).
	Slices []Slice
}

// Slice describes a run of whole record batches of one partition. The slices of a segment stand back to back in the
// order of the index, so a slice's position is the sum of the lengths before it (S1).
type Slice struct {
	// Partition is the number of the partition, 0 or greater.
	Partition int32
	// LeaderEpoch is the leader epoch under which the bytes were read and are published; every batch carries it (S4).
	// It is 0 or greater, or -1 where the log's batches carry none.
	LeaderEpoch int32
	// EpochStart is the offset at which that leader epoch began, 0 to BaseOffset.
	EpochStart int64
	// BaseOffset is the last offset of the run's previous slice + 1, or the run's start. The first batch may begin
	// later, after a compaction gap (S4).
	BaseOffset int64
	// LastOffset is the last offset of the last batch, BaseOffset or greater and less than BaseOffset + 2^31 (S4).
	LastOffset int64
	// Length is the number of bytes, greater than 0.
	Length int64
	// CRC32C is the CRC-32C (Castagnoli) of the bytes.
	CRC32C uint32
	// MaxTimestamp is the largest max timestamp in the batch headers, in Unix milliseconds, -1 if none has one.
	MaxTimestamp int64
}

// Slices returns the number of slices.
func (m *Metadata) Slices() int {
	n := 0
	for i := range m.Topics {
		n += len(m.Topics[i].Slices)
	}
	return n
}

// BodyLength returns the number of bytes of all slices.
func (m *Metadata) BodyLength() int64 {
	var n int64
	for i := range m.Topics {
		for j := range m.Topics[i].Slices {
			n += m.Topics[i].Slices[j].Length
		}
	}
	return n
}

// Entry is one slice of a segment with the partition that it is of and its place.
type Entry struct {
	// Partition is the partition.
	Partition TopicIDPartition
	// Slice points into the Metadata.
	Slice *Slice
	// Position is where the slice begins in the object, in bytes.
	Position int64
}

// All yields the slices in the order in which they stand in the object. It allocates nothing.
func (m *Metadata) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		position := int64(HeaderLength)
		for i := range m.Topics {
			topic := &m.Topics[i]
			for j := range topic.Slices {
				slice := &topic.Slices[j]
				partition := TopicIDPartition{TopicID: topic.ID, Topic: topic.Name, Partition: slice.Partition}
				if !yield(Entry{Partition: partition, Slice: slice, Position: position}) {
					return
				}
				position += slice.Length
			}
		}
	}
}

// Clone returns a copy that shares nothing with m.
func (m *Metadata) Clone() *Metadata {
	clone := *m
	clone.Topics = slices.Clone(m.Topics)
	all := make([]Slice, 0, m.Slices())
	for i := range clone.Topics {
		start := len(all)
		all = append(all, clone.Topics[i].Slices...)
		clone.Topics[i].Slices = all[start:len(all):len(all)]
	}
	return &clone
}

// equal tells whether m and other say the same.
func (m *Metadata) equal(other *Metadata) bool {
	return m.Cluster == other.Cluster && m.ID == other.ID && m.Created.Equal(other.Created) && m.Store == other.Store &&
		slices.EqualFunc(m.Topics, other.Topics, func(a, b Topic) bool {
			return a.ID == b.ID && a.Name == b.Name && slices.Equal(a.Slices, b.Slices)
		})
}
