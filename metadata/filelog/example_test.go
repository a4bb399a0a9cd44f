package filelog_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Two brokers, here in one process, share a directory. One publishes, the other reads.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "filelog")
	defer os.RemoveAll(dir)
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))

	leader, err := filelog.New(ctx, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Logger: logger})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leader.Close()
	follower, err := filelog.New(ctx, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1, Logger: logger})
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
	fmt.Println("on disk:", stored, err)

	item, _ := subscription.Next(ctx)
	fmt.Println("seen:", item.Event.Segment.ID == id)
	// Output:
	// on disk: 1 <nil>
	// seen: true
}
