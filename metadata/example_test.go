package metadata_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// A leader publishes that a segment is stored; a follower learns which bytes its partition needs next.
func Example() {
	ctx := context.Background()
	topic, _ := memlog.New(memlog.Config{})
	leader, _ := topic.Open(memlog.Options{Broker: 1, BrokerEpoch: 7})
	follower, _ := topic.Open(memlog.Options{Broker: 2, BrokerEpoch: 3})
	defer leader.Close()
	defer follower.Close()

	// The follower subscribes and follows before anything is published: what came earlier it fetches from the leader.
	orders := segment.TopicIDPartition{TopicID: uuid.MustParse("2f5e8a0c-3c1f-4c55-9d3a-6d0f4f8f7a11"), Topic: "orders", Partition: 4}
	subscription, _ := follower.Subscribe(ctx, metadata.Position{})
	store, _ := metadata.NewStore(metadata.StoreConfig{Cluster: "cluster-a"})
	store.Follow(orders, 1, 12)

	// The leader has uploaded a segment with one slice of that partition. In truth segment.Builder makes the metadata.
	id, _ := walstorage.NewSegmentID(1, 7, time.Now(), rand.Reader)
	_, err := leader.Publish(ctx, &metadata.Event{
		Sequence:   0,
		ObjectSize: 4321,
		Segment: segment.Metadata{
			Cluster: "cluster-a", ID: id, Created: id.Created(),
			Topics: []segment.Topic{{ID: orders.TopicID, Name: orders.Topic, Slices: []segment.Slice{{
				Partition: 4, LeaderEpoch: 12, EpochStart: 500, BaseOffset: 1000, LastOffset: 1099, Length: 4096,
			}}}},
		},
	})
	fmt.Println("published:", err == nil)

	item, _ := subscription.Next(ctx)
	store.Apply(item)
	entry, verdict := store.Next(orders, 1000)
	fmt.Println(verdict.Outcome, entry.ID == id, entry.Slice.BaseOffset, entry.Slice.LastOffset)
	_, verdict = store.Next(orders, 1100)
	fmt.Println(verdict.Outcome)
	// Output:
	// published: true
	// found true 1000 1099
	// nothing
}
