package retention_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// A broker sweeps its own segments. It calls Run in a goroutine of its own; here a single run is made, of a store that
// tells no time of its own.
func Example() {
	ctx := context.Background()
	storage, err := objectstore.New(memory.New(memory.Config{NoStored: true}), objectstore.Config{Cluster: "quay"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer storage.Close()
	for _, age := range []time.Duration{0, 30 * time.Minute, 2 * time.Hour, 3 * time.Hour} {
		id, err := walstorage.NewSegmentID(1, 42, time.Now().Add(-age), rand.Reader)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := storage.UploadSegment(ctx, id, []byte("segment")); err != nil {
			fmt.Println(err)
			return
		}
	}

	sweeper, err := retention.New(retention.Config{Storage: storage, Broker: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := sweeper.Sweep(ctx)
	fmt.Println("listed", result.Listed, "deleted", result.Deleted, "pending", result.Pending, err)
	// Output:
	// listed 4 deleted 2 pending 0 <nil>
}
