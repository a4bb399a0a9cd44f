package follower_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// ordinaryFetch stands for the replica fetch that every broker has; this leader has nothing.
type ordinaryFetch struct{}

func (ordinaryFetch) FetchFromLeader(context.Context, segment.TopicIDPartition, int32, int64) (int64, error) {
	return 0, nil
}

// A broker is told that broker 1 leads a partition in epoch 7, and follows it.
func Example() {
	storage, _, err := storemem.NewManager(objectstore.Config{Cluster: "docs"})
	if err != nil {
		panic(err)
	}
	defer storage.Close()
	topic, err := memlog.New(memlog.Config{})
	if err != nil {
		panic(err)
	}
	events, err := topic.Open(memlog.Options{Broker: 2})
	if err != nil {
		panic(err)
	}
	defer events.Close()

	replicating := make(chan struct{})
	replicator, err := follower.New(follower.Config{
		Storage: storage, Metadata: events, Leader: ordinaryFetch{}, Cluster: "docs",
		Hooks: follower.Hooks{StateChanged: func(p segment.TopicIDPartition, s follower.State) {
			if s.Kind == follower.Replicating {
				close(replicating)
			}
		}},
	})
	if err != nil {
		panic(err)
	}
	log := memory.New(memory.Config{})
	if err := log.Follow(7); err != nil {
		panic(err)
	}
	partition := segment.TopicIDPartition{TopicID: uuid.UUID{1}, Topic: "orders", Partition: 0}
	following, err := replicator.Follow(partition, 1, 7, log)
	if err != nil {
		panic(err)
	}
	following.Observe(0) // with each answer of the leader
	<-replicating
	fmt.Println(following.State().Kind)

	following.Stop() // before anything else writes to the log
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(replicator.Close(ctx))
	// Output:
	// replicating
	// <nil>
}
