package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/segment"
)

const clusterID = "integration"

// replication is a leader, broker 1, and a follower, broker 2, with segments in files between them.
type replication struct {
	uploader   *leader.Uploader
	replicator *follower.Replicator

	mu        sync.Mutex
	leaders   map[segment.PartitionKey]leader.Log
	followers map[segment.PartitionKey]*unifiedlog.Log
}

func newReplication(t *testing.T) *replication {
	t.Helper()
	r := &replication{leaders: make(map[segment.PartitionKey]leader.Log), followers: make(map[segment.PartitionKey]*unifiedlog.Log)}
	storage, err := local.New(t.Context(), local.Config{Root: t.TempDir(), Store: objectstore.Config{Cluster: clusterID}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	topic, err := memlog.New(memlog.Config{})
	require.NoError(t, err)
	published, err := topic.Open(memlog.Options{Broker: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, published.Close()) })
	subscribed, err := topic.Open(memlog.Options{Broker: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, subscribed.Close()) })
	r.uploader, err = leader.New(leader.Config{Storage: storage, Metadata: published, Cluster: clusterID, Broker: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.uploader.Close(context.Background())) })
	r.replicator, err = follower.New(follower.Config{Storage: storage, Metadata: subscribed, Cluster: clusterID, Leader: r})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.replicator.Close(context.Background())) })
	return r
}

// begin lets the leader lead a partition in an epoch that begins at an offset, and the follower follow it.
func (r *replication) begin(t *testing.T, p segment.TopicIDPartition, epoch int32, start int64, from leader.Log, to *unifiedlog.Log) (*leader.Leadership, *follower.Following) {
	t.Helper()
	r.mu.Lock()
	r.leaders[p.Key()], r.followers[p.Key()] = from, to
	r.mu.Unlock()
	leadership, err := r.uploader.Lead(p, epoch, start, from)
	require.NoError(t, err)
	require.NoError(t, to.Follow(epoch))
	following, err := r.replicator.Follow(p, 1, epoch, to)
	require.NoError(t, err)
	return leadership, following
}

// settle waits until the follower has all that its leader has, and waits for the rest from the store.
func settle(t *testing.T, following *follower.Following, from leader.Log, to *unifiedlog.Log) {
	t.Helper()
	kafka.Eventually(t, "the follower has everything", func(context.Context) error {
		want, _ := from.End()
		following.Observe(want)
		if end, _ := to.End(); end != want || following.State().Kind == follower.Starting {
			return &behind{end: end, want: want, state: following.State()}
		}
		return nil
	})
}

type behind struct {
	end, want int64
	state     follower.State
}

func (b *behind) Error() string {
	return fmt.Sprintf("%v, at %d of %d", b.state, b.end, b.want)
}

// FetchFromLeader is the ordinary fetch. The leader's log and the follower's never diverge here.
func (r *replication) FetchFromLeader(ctx context.Context, p segment.TopicIDPartition, epoch int32, to int64) (int64, error) {
	r.mu.Lock()
	from, log := r.leaders[p.Key()], r.followers[p.Key()]
	r.mu.Unlock()
	for buffer := make([]byte, 1<<20); ; {
		leaderEnd, _ := from.End()
		if to < 0 {
			to = leaderEnd
		}
		end, _ := log.End()
		n, err := from.Read(ctx, end, buffer)
		if short := (*leader.ShortBufferError)(nil); errors.As(err, &short) {
			buffer = make([]byte, short.Need)
			continue
		}
		if err != nil || n == 0 || end >= to {
			return leaderEnd, err
		}
		if err := log.AppendAsFollower(ctx, epoch, end, buffer[:n]); err != nil {
			return leaderEnd, err
		}
	}
}
