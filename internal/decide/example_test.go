package decide_test

import (
	"fmt"

	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/segment"
)

// A follower in epoch 4 whose log ends at 7 with a batch of epoch 3: the entry of epoch 4 goes on at 7, which is not where
// epoch 4 began, so the logs may have parted.
func Example() {
	judge := decide.Follower{Epoch: 4}
	judge.Answered(7, 7, nil)
	fmt.Println("gate open:", judge.Admits(false))
	entry := metadata.Entry{Slice: segment.Slice{LeaderEpoch: 4, EpochStart: 5, BaseOffset: 7, LastOffset: 8}}
	next := judge.Next(7, 3, &entry, metadata.Verdict{Outcome: metadata.Found})
	fmt.Println("lineage:", next == decide.Lineage, "gate open:", judge.Open())
	// Output:
	// gate open: true
	// lineage: true gate open: false
}
