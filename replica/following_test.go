package replica_test

import (
	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/replica"
)

// The handle that follower.Replicator.Follow returns is what a Reporter tells answers to.
var _ replica.Following = (*follower.Following)(nil)
