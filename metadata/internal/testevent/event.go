// Package testevent makes valid events for the tests of the metadata packages.
package testevent

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Cluster is the cluster of all events.
const Cluster = "test-cluster"

var created = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

// ID returns the id of segment number n of a broker, always the same one.
func ID(broker int32, epoch int64, n uint32) walstorage.SegmentID {
	id := walstorage.SegmentID{BrokerID: broker, BrokerEpoch: epoch}
	millis := created.UnixMilli()
	for i := range 6 {
		id.UUID[i] = byte(millis >> (40 - 8*i))
	}
	id.UUID[6], id.UUID[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id.UUID[12:], n)
	id.UUID[9] = byte(broker)
	binary.BigEndian.PutUint16(id.UUID[10:], uint16(epoch))
	return id
}

// Topic returns the topic number n, with a name of 16 bytes.
func Topic(n int) segment.TopicIDPartition {
	p := segment.TopicIDPartition{Topic: "topic-" + string([]byte{byte('0' + n/100%10), byte('0' + n/10%10), byte('0' + n%10)}) + "-events"}
	p.TopicID = uuid.UUID{0: 0x0a, 6: 0x40, 8: 0x80, 14: byte(n >> 8), 15: byte(n)}
	return p
}

// Partition returns a partition of [Topic].
func Partition(topic int, partition int32) segment.TopicIDPartition {
	p := Topic(topic)
	p.Partition = partition
	return p
}

// Slice returns a slice of the offsets from base to last.
func Slice(partition, leaderEpoch int32, base, last int64) segment.Slice {
	return segment.Slice{
		Partition: partition, LeaderEpoch: leaderEpoch, BaseOffset: base, LastOffset: last,
		Length: 100 * (last - base + 1), CRC32C: uint32(base), MaxTimestamp: created.UnixMilli() - 7,
	}
}

// New returns the event of segment number n with that sequence. Without slices it holds one of topic 0.
func New(broker int32, epoch, sequence int64, slices ...segment.Slice) *metadata.Event {
	if len(slices) == 0 {
		slices = []segment.Slice{Slice(0, 1, 10*sequence, 10*sequence+9)}
	}
	topic := Topic(0)
	return Finish(&metadata.Event{Sequence: sequence, Segment: segment.Metadata{
		ID:     ID(broker, epoch, uint32(sequence)),
		Topics: []segment.Topic{{ID: topic.TopicID, Name: topic.Topic, Slices: slices}},
	}})
}

// Sized returns an event of as many topics and partitions of each, with offsets below 2^35 and epochs below 128.
func Sized(topics, partitions int) *metadata.Event {
	e := &metadata.Event{Sequence: 1_000_000, Segment: segment.Metadata{ID: ID(3, 42, 7)}}
	for t := range topics {
		topic := segment.Topic{ID: Topic(t).TopicID, Name: Topic(t).Topic}
		for p := range partitions {
			base := int64(1)<<34 + int64(1000*t+p)
			slice := Slice(int32(p), 100, base, base+39)
			slice.EpochStart = base - 1<<20
			slice.CRC32C = 0x9e3779b9 * uint32(t+p+1)
			topic.Slices = append(topic.Slices, slice)
		}
		e.Segment.Topics = append(e.Segment.Topics, topic)
	}
	return Finish(e)
}

// Finish fills in what follows from the rest.
func Finish(e *metadata.Event) *metadata.Event {
	e.Segment.Cluster = Cluster
	e.Segment.Created = e.Segment.ID.Created()
	e.ObjectSize = segment.HeaderLength + e.Segment.BodyLength() + int64(e.Segment.EncodedLen()) + segment.TrailerLength
	return e
}
