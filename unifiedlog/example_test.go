package unifiedlog_test

import (
	"context"
	"fmt"
	"os"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog"
)

// A leader appends, a follower takes the same bytes behind its fence, and is there again after a restart.
func Example() {
	ctx := context.Background()
	leaderDir, _ := os.MkdirTemp("", "leader")
	followerDir, _ := os.MkdirTemp("", "follower")
	defer func() { _, _ = os.RemoveAll(leaderDir), os.RemoveAll(followerDir) }()
	leading, err := unifiedlog.Open(ctx, unifiedlog.Config{Dir: leaderDir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = leading.Close() }()
	following, err := unifiedlog.Open(ctx, unifiedlog.Config{Dir: followerDir})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(following.Follow(5))

	// batchtest makes the record batches that a producer would send.
	appended, err := leading.AppendAsLeader(ctx, 5, batchtest.Make(0, 0, "one", "two"))
	fmt.Println("appended", appended.First, "to", appended.Last, err)
	buf := make([]byte, 1024)
	n, err := leading.Read(ctx, 0, buf)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("as follower:", following.AppendAsFollower(ctx, 5, 0, buf[:n]))
	fmt.Println("once more:", following.AppendAsFollower(ctx, 5, 0, buf[:n]))
	fmt.Println("closed:", following.Close())

	following, err = unifiedlog.Open(ctx, unifiedlog.Config{Dir: followerDir, CleanShutdown: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = following.Close() }()
	end, epoch := following.End()
	fmt.Println("end", end, "epoch", epoch)
	// Output:
	// <nil>
	// appended 0 to 1 <nil>
	// as follower: <nil>
	// once more: follower: the log end or the leader epoch has changed
	// closed: <nil>
	// end 2 epoch 5
}
