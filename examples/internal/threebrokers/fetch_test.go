package threebrokers

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
)

// S1: FetchFromLeader asks at least once, and returns nil only after an answer that did not diverge. The follower's log has
// come to the end of the range before anything was asked, and is there again after the first answer, which truncates: at
// neither time is it the leader's.
func TestS1FetchFromLeader(t *testing.T) {
	c, err := newCluster(overFiles(t))
	require.NoError(t, err)
	defer c.close()
	r := c.create("orders", uuid.UUID{15: 1}, 0)
	leader, follower := r.replicas[0], r.replicas[1]
	// given a leader with one record of epoch 2, and a follower with others of epochs 1 and 3
	require.NoError(t, leader.log.AppendRaw(t.Context(), batchtest.Make(0, 2, "kept")))
	require.NoError(t, leader.lead(4))
	require.NoError(t, follower.log.AppendRaw(t.Context(), batchtest.Make(0, 1, "lost")))
	require.NoError(t, follower.log.AppendRaw(t.Context(), batchtest.Make(1, 3, "lost")))
	require.NoError(t, follower.log.Follow(4))
	follower.become(leader.broker.id, 4)

	leaderLEO, err := follower.broker.FetchFromLeader(t.Context(), r.TopicIDPartition, 4, 1)

	require.NoError(t, err)
	require.Equal(t, leader.log.Bytes(0), follower.log.Bytes(0), "nil, and the logs differ")
	require.EqualValues(t, 1, leaderLEO)
}
