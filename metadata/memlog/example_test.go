package memlog_test

import (
	"context"
	"fmt"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/metadata/memlog"
)

// A leader and a follower share a topic. The log of the follower loses one event on purpose.
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
	stored, err := leader.Publish(ctx, testevent.New(1, 1, 0), testevent.New(1, 1, 1), testevent.New(1, 1, 2))
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
