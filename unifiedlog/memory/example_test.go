package memory_test

import (
	"context"
	"fmt"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// A leader appends, a follower takes the same bytes behind its fence, and the leader finds that they agree.
func Example() {
	ctx := context.Background()
	leading, following := memory.New(memory.Config{}), memory.New(memory.Config{})
	if err := following.Follow(5); err != nil {
		fmt.Println(err)
		return
	}

	// batchtest makes the record batches that a producer would send.
	first, last, err := leading.Append(ctx, 5, batchtest.Make(0, 0, "one", "two"))
	fmt.Println("appended", first, "to", last, err)

	buf := make([]byte, 1024)
	n, err := leading.Read(ctx, 0, buf)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("as follower:", following.AppendAsFollower(ctx, 5, 0, buf[:n]))
	fmt.Println("once more:", following.AppendAsFollower(ctx, 5, 0, buf[:n]))

	diverging, err := leading.CheckFetch(following.End())
	fmt.Println("diverging:", diverging, err)
	// Output:
	// appended 0 to 1 <nil>
	// as follower: <nil>
	// once more: follower: the log end or the leader epoch has changed
	// diverging: <nil> <nil>
}
