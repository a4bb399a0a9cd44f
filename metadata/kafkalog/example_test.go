package kafkalog_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Two brokers, here in one process, share the metadata topic of a Kafka cluster, here in the same process. One publishes,
// the other reads.
func Example() {
	ctx := context.Background()
	cluster, err := kfake.NewCluster()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()

	leader, err := kafkalog.Open(ctx, kafkalog.Config{Seeds: cluster.ListenAddrs(), Broker: 1, BrokerEpoch: 1, Rack: "zone-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leader.Close()
	follower, err := kafkalog.Open(ctx, kafkalog.Config{Seeds: cluster.ListenAddrs(), Broker: 2, BrokerEpoch: 1, Rack: "zone-b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer follower.Close()
	subscription, _ := follower.Subscribe(ctx, metadata.Position{})

	id, _ := walstorage.NewSegmentID(1, 1, time.Now(), rand.Reader)
	stored, err := leader.Publish(ctx, &metadata.Event{Sequence: 0, ObjectSize: 5000, Segment: segment.Metadata{
		Cluster: "cluster-a", ID: id, Created: id.Created(),
		Topics: []segment.Topic{{ID: uuid.UUID{15: 1}, Name: "orders", Slices: []segment.Slice{{
			BaseOffset: 0, LastOffset: 9, Length: 4096,
		}}}},
	}})
	fmt.Println("on all in-sync replicas:", stored, err)

	item, _ := subscription.Next(ctx)
	fmt.Println("seen:", item.Event.Segment.ID == id)
	// Output:
	// on all in-sync replicas: 1 <nil>
	// seen: true
}
