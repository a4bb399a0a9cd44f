package batch_test

import (
	"fmt"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
)

// A log read that was cut by size: two whole batches and the beginning of a third.
func Example() {
	var log []byte
	log = append(log, batchtest.Make(100, 5, "a", "b")...)
	log = append(log, batchtest.Make(102, 5, "c")...)
	log = append(log, batchtest.Make(103, 5, "d")[:40]...)

	s := batch.NewScanner(log)
	for s.Next() {
		h := s.Header()
		fmt.Printf("at %d: offsets %d-%d, epoch %d\n", s.Position(), h.BaseOffset, h.LastOffset(), h.LeaderEpoch)
	}
	tail, partial := s.PartialTail()
	fmt.Println("partial:", partial, "at", tail, "error:", s.Err())
	// Output:
	// at 0: offsets 100-101, epoch 5
	// at 77: offsets 102-102, epoch 5
	// partial: true at 146 error: <nil>
}
