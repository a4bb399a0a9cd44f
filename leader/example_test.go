package leader_test

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// A broker with one partition, over a store and a metadata log in memory.
func Example() {
	ctx := context.Background()
	store, _, err := storemem.NewManager(objectstore.Config{Cluster: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	topic, err := memlog.New(memlog.Config{})
	if err != nil {
		log.Fatal(err)
	}
	meta, err := topic.Open(memlog.Options{Broker: 1, BrokerEpoch: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer meta.Close()

	uploader, err := leader.New(leader.Config{Storage: store, Metadata: meta, Cluster: "demo", Broker: 1, BrokerEpoch: 100})
	if err != nil {
		log.Fatal(err)
	}
	partition := segment.TopicIDPartition{TopicID: uuid.MustParse("8d4cf5f0-95f5-4fe1-8b49-a3f2e4b8f6a1"), Topic: "orders", Partition: 0}
	partitionLog := memory.New(memory.Config{})
	epochStart, err := partitionLog.Lead(3) // the broker becomes the leader in epoch 3
	if err != nil {
		log.Fatal(err)
	}
	leadership, err := uploader.Lead(partition, 3, epochStart, partitionLog)
	if err != nil {
		log.Fatal(err)
	}

	// The broker appends as it always did, and says so. (batchtest makes the record batches that a producer would send.)
	for _, value := range []string{"first", "second"} {
		if _, _, err := partitionLog.Append(ctx, 3, batchtest.Make(0, 3, value)); err != nil {
			log.Fatal(err)
		}
		leadership.Notify()
	}
	if err := uploader.Flush(ctx); err != nil { // only to have something to show: followers need no Flush
		log.Fatal(err)
	}
	for _, event := range topic.Events() {
		for slice := range event.Segment.All() {
			fmt.Printf("event %d: %s offsets %d to %d in leader epoch %d\n",
				event.Sequence, slice.Partition, slice.Slice.BaseOffset, slice.Slice.LastOffset, slice.Slice.LeaderEpoch)
		}
	}

	leadership.Resign()
	if err := uploader.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// event 0: orders-0 offsets 0 to 1 in leader epoch 3
}
