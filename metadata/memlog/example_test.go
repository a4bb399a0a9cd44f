package memlog_test

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

// A leader and a follower share a topic. The follower's handle loses one event on purpose, and is told so.
func Example() {
	ctx := context.Background()
	topic, _ := memlog.New(memlog.Config{})
	leader, _ := topic.Open(memlog.Options{Broker: 1, BrokerEpoch: 1})
	follower, _ := topic.Open(memlog.Options{Broker: 2, BrokerEpoch: 1, Faults: memlog.Faults{
		Deliver: func(d memlog.Delivery) memlog.DeliveryFault { return memlog.DeliveryFault{Lose: d.Number == 1} },
	}})
	defer leader.Close()
	defer follower.Close()

	subscription, _ := follower.Subscribe(ctx, metadata.Position{})
	stored, err := leader.Publish(ctx, event(0), event(1), event(2))
	fmt.Println("stored", stored, err)

	for range 3 {
		item, _ := subscription.Next(ctx)
		if item.Gap != nil {
			fmt.Println(item.Gap)
			continue
		}
		fmt.Println("event", item.Event.Sequence)
	}
	// Output:
	// stored 3 <nil>
	// event 0
	// gap of broker 1 epoch 1, sequences [1,2): missing
	// event 2
}

// event returns the event of a segment with one slice.
func event(sequence int64) *metadata.Event {
	id, _ := walstorage.NewSegmentID(1, 1, time.Now(), rand.Reader)
	return &metadata.Event{Sequence: sequence, ObjectSize: 5000, Segment: segment.Metadata{
		Cluster: "cluster-a", ID: id, Created: id.Created(),
		Topics: []segment.Topic{{ID: uuid.UUID{15: 1}, Name: "orders", Slices: []segment.Slice{{
			BaseOffset: 10 * sequence, LastOffset: 10*sequence + 9, Length: 4096,
		}}}},
	}}
}
