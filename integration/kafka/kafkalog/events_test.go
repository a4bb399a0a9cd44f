package kafkalog

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// clusterID is the cluster of all events.
const clusterID = "integration"

// newEvent makes an event of a segment with one slice of each of some partitions.
func newEvent(broker int32, epoch, sequence int64, partitions int) *metadata.Event {
	id := walstorage.SegmentID{BrokerID: broker, BrokerEpoch: epoch, UUID: uuid.Must(uuid.NewV7())}
	topic := segment.Topic{ID: uuid.UUID{0: 0x0a, 6: 0x40, 8: 0x80}, Name: "events"}
	for p := range partitions {
		topic.Slices = append(topic.Slices, segment.Slice{
			Partition: int32(p), LeaderEpoch: 1, BaseOffset: 10 * sequence, LastOffset: 10*sequence + 9,
			Length: 1000, CRC32C: rand.Uint32(), MaxTimestamp: time.Now().UnixMilli(),
		})
	}
	e := &metadata.Event{Sequence: sequence, Segment: segment.Metadata{
		ID: id, Cluster: clusterID, Created: id.Created(), Topics: []segment.Topic{topic},
	}}
	e.ObjectSize = segment.HeaderLength + e.Segment.BodyLength() + int64(e.Segment.EncodedLen()) + segment.TrailerLength
	return e
}
