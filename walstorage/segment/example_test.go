package segment_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// Two partitions travel in one object.
func Example() {
	orders := segment.TopicIDPartition{
		TopicID: uuid.MustParse("5f0c8ff4-92a1-4d38-9c58-5a8d3a0f1f6e"), Topic: "orders", Partition: 0,
	}
	payments := segment.TopicIDPartition{
		TopicID: uuid.MustParse("0d1cbd57-98cc-4c0c-8a4c-4bb9b3b0bb23"), Topic: "payments", Partition: 4,
	}

	// The leader reads whole batches of its logs into the buffer of the open segment. (batchtest makes some.)
	builder, err := segment.NewBuilder(segment.BuilderConfig{Cluster: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	n := copy(builder.Buffer(0), batchtest.Make(100, 3, "a", "b", "c"))
	_, err = builder.Append(segment.Run{Partition: orders, LeaderEpoch: 3, EpochStart: 40, Base: 100}, n)
	if err != nil {
		fmt.Println(err)
		return
	}
	n = copy(builder.Buffer(0), batchtest.Make(7, 1, "x"))
	if _, err = builder.Append(segment.Run{Partition: payments, LeaderEpoch: 1, EpochStart: 0, Base: 7}, n); err != nil {
		fmt.Println(err)
		return
	}
	id, err := walstorage.NewSegmentID(2, 12, time.UnixMilli(1_700_000_000_000), bytes.NewReader(make([]byte, 10)))
	if err != nil {
		fmt.Println(err)
		return
	}
	object, metadata, err := builder.Seal(id, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(metadata.ID, "has", metadata.Slices(), "slices")

	// Whoever has the object can take it apart.
	reader, err := segment.NewReader(object)
	if err != nil {
		fmt.Println(err)
		return
	}
	for slice, err := range reader.All() {
		fmt.Println(slice.Partition, "from", slice.Slice.BaseOffset, "to", slice.LastOffset, err)
	}
	// Output:
	// 2/12-018bcfe5-6800-7000-8000-000000000000 has 2 slices
	// payments-4 from 7 to 7 <nil>
	// orders-0 from 100 to 102 <nil>
}
