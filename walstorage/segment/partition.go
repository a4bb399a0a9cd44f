package segment

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/google/uuid"
)

// TopicIDPartition names a partition everywhere in walhop. The topic id is the identity; the name is for people, and
// two topics of one name and different ids are different topics.
type TopicIDPartition struct {
	// TopicID is the topic's id, never zero.
	TopicID uuid.UUID
	// Topic is the topic's name, 1 to 249 bytes (Kafka's own limit). It takes no part in comparisons.
	Topic string
	// Partition is the number of the partition, 0 or greater.
	Partition int32
}

// PartitionKey is the identity of a partition, fit for a map key.
type PartitionKey struct {
	TopicID   uuid.UUID
	Partition int32
}

// Key returns the partition's identity.
func (p TopicIDPartition) Key() PartitionKey {
	return PartitionKey{TopicID: p.TopicID, Partition: p.Partition}
}

// String returns "topic-partition", as Kafka names a partition's directory.
func (p TopicIDPartition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Compare orders partitions by topic id, then partition: the order of the slices in a segment.
func (k PartitionKey) Compare(other PartitionKey) int {
	if c := compareIDs(&k.TopicID, &other.TopicID); c != 0 {
		return c
	}
	return cmp.Compare(k.Partition, other.Partition)
}

func compareIDs(a, b *uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
