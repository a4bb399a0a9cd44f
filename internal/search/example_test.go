package search_test

import (
	"fmt"

	"github.com/walhop/walhop/internal/search"
)

// A follower that appends from the store while its gate is shut: the shortest way to two logs that differ below a record
// that they share, had it no second defence either.
func ExampleRun() {
	r, err := search.Run(search.Config{
		Brokers: 2, Partitions: 1, Epochs: 2, Records: 3,
		Break: search.Break{NoGate: true, NoLineage: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Problem)
	for _, line := range r.History {
		fmt.Println(line)
	}
	// Output:
	// the log ends in epoch 2 and parts from the leader's log of that epoch at offset 0
	//  1. B is elected for e2 | A[] B[] acked 0
	//  2. B learns that it leads e2, from offset 0 on | A[] B[] acked 0
	//  3. A, leader of e1, appends a record at 0 | A[e1] B[] acked 0
	//  4. A learns that it follows in e2 | A[e1] B[] acked 0
	//  5. B, leader of e2, appends a record at 0 | A[e1] B[e2] acked 0
	//  6. B, leader of e2, appends a record at 1 | A[e1] B[e2 e2] acked 0
	//  7. A is told of slice e2 from 0 (0-0e2 1-1e2), and decides to append at 1 | A[e1] B[e2 e2] acked 0
	//  8. A appends from the store, 1 to 2 | A[e1 e2] B[e2 e2] acked 0
}
