package kafkadata_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

const cluster = "kafkadata"

// given a leader and a follower of every topic at once, when the logs that a real Kafka wrote are appended at the leader,
// one Lead for each leader epoch in them, then every batch reaches the follower through the store, byte for byte (S2), and
// nothing falls back.
func TestRealLogsAreReplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		storage, driver, err := storemem.NewManager(objectstore.Config{Cluster: cluster})
		require.NoError(t, err)
		topic, err := memlog.New(memlog.Config{})
		require.NoError(t, err)
		published, err := topic.Open(memlog.Options{Broker: 1})
		require.NoError(t, err)
		subscribed, err := topic.Open(memlog.Options{Broker: 2})
		require.NoError(t, err)
		uploader, err := leader.New(leader.Config{
			Storage: storage, Metadata: published, Cluster: cluster, Broker: 1, Random: rand.NewChaCha8([32]byte{1}),
		})
		require.NoError(t, err)
		peer := &peer{logs: map[segment.PartitionKey]*memory.Log{}}
		replicator, err := follower.New(follower.Config{Storage: storage, Metadata: subscribed, Cluster: cluster, Leader: peer})
		require.NoError(t, err)

		topics := kafkadata.Topics()
		require.Len(t, topics, 13)
		leaders, followers := make([]*memory.Log, len(topics)), make([]*memory.Log, len(topics))
		rounds, batches := 0, 0
		for i, topic := range topics {
			leaders[i], followers[i] = memory.New(memory.Config{}), memory.New(memory.Config{})
			peer.logs[partition(&topic).Key()] = leaders[i]
			rounds = max(rounds, len(topic.Runs()))
			batches += len(topic.Batches)
		}

		// Each round is one leader epoch of every topic that has so many, all of them in the same segments.
		for round := range rounds {
			leaderships := make([]*leader.Leadership, len(topics))
			for i, topic := range topics {
				runs := topic.Runs()
				if round >= len(runs) {
					continue
				}
				p, epoch := partition(&topic), runs[round].Epoch
				start, err := leaders[i].Lead(epoch)
				require.NoError(t, err)
				require.Equal(t, max(runs[round].Start, start), start, "the epoch begins where the checkpoint says, or the log does")
				leaderships[i], err = uploader.Lead(p, epoch, start, leaders[i])
				require.NoError(t, err)
				require.NoError(t, followers[i].Follow(epoch))
				_, err = replicator.Follow(p, 1, epoch, followers[i])
				require.NoError(t, err)
			}
			pass(100 * time.Millisecond) // every gate is open
			for i, topic := range topics {
				if runs := topic.Runs(); round < len(runs) {
					require.NoError(t, leaders[i].AppendRaw(ctx, runs[round].Log))
					leaderships[i].Notify()
				}
			}
			pass(100 * time.Millisecond)
		}

		for i, topic := range topics {
			want := topic.Log()
			require.True(t, bytes.Equal(want, followers[i].Bytes(0)), "%s: the follower's log is not Kafka's", topic.Name)
			wantEnd, wantEpoch := leaders[i].End()
			end, epoch := followers[i].End()
			require.Equal(t, wantEnd, end, topic.Name)
			require.Equal(t, wantEpoch, epoch, "%s: the leader epoch cache, rebuilt", topic.Name)
			require.Len(t, followers[i].Epochs(), len(topic.Epochs), topic.Name)
		}
		stats := replicator.Stats()
		require.EqualValues(t, batches, stats.Batches, "every batch came through the store")
		require.Zero(t, stats.Fallbacks)

		// and what is stored is the same, read without any help of the metadata log
		var stored int
		for _, key := range driver.Store().Keys() {
			object, ok := driver.Store().Object(key)
			require.True(t, ok)
			reader, err := segment.NewReader(object)
			require.NoError(t, err)
			for _, err := range reader.All() {
				require.NoError(t, err)
				stored++
			}
		}
		require.EqualValues(t, uploader.Stats().PublishedSlices, stored)

		require.NoError(t, uploader.Close(ctx))
		require.NoError(t, replicator.Close(ctx))
		require.NoError(t, published.Close())
		require.NoError(t, subscribed.Close())
		require.NoError(t, storage.Close())
	})
}

func partition(topic *kafkadata.Topic) segment.TopicIDPartition {
	return segment.TopicIDPartition{TopicID: topic.TopicID, Topic: topic.Name}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// peer answers the ordinary fetches, which find nothing: each epoch begins with an empty answer.
type peer struct {
	mu   sync.Mutex
	logs map[segment.PartitionKey]*memory.Log
}

func (p *peer) FetchFromLeader(_ context.Context, id segment.TopicIDPartition, _ int32, _ int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leo, _ := p.logs[id.Key()].End()
	return leo, nil
}
