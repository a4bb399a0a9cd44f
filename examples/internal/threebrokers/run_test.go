package threebrokers

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// overFiles is three brokers over files, and little to do for them.
func overFiles(t *testing.T) Config {
	root := t.TempDir()
	return Config{
		Load:          Load{Duration: 300 * time.Millisecond, Rate: 4, Partitions: 5, Linger: 5 * time.Millisecond},
		Cluster:       "test",
		Place:         root,
		Announcements: InFiles(t.TempDir()),
		Store: func(ctx context.Context, config objectstore.Config) (*objectstore.Manager, error) {
			return local.New(ctx, local.Config{Root: root, Store: config})
		},
	}
}

// compare can fail: a follower with another log is a difference.
func TestCompareSeesDifferences(t *testing.T) {
	c, err := newCluster(overFiles(t))
	require.NoError(t, err)
	defer c.close()
	require.NoError(t, c.replay(context.Background(), &bytes.Buffer{}))
	require.NoError(t, c.compare(&bytes.Buffer{}).Err(0.95))
	victim := c.all()[0].replicas[1]
	victim.stop()
	end, _ := victim.log.End()
	victim.log.TruncateTo(end - 1)
	var out bytes.Buffer
	differing := c.compare(&out)
	require.Equal(t, 1, differing.Differences)
	require.ErrorContains(t, differing.Err(0), "differ")
	require.Contains(t, out.String(), "on broker 1 differs from its leader's log")
}

// KAFKA-16452, aiven/inkless#605 (B3): a follower's high watermark comes from its leader's answers, never lies above its own
// log's end, never falls, and is not stuck where it was: the next answer raises it.
func TestHighWatermarkOfAFollower(t *testing.T) {
	c, err := newCluster(overFiles(t))
	require.NoError(t, err)
	defer c.close()
	require.NoError(t, c.replay(context.Background(), &bytes.Buffer{}))
	follower := c.all()[0].replicas[1]
	follower.stop()
	end, _ := follower.log.End()
	require.Greater(t, end, int64(4))
	follower.highWatermark.Store(1) // what an old checkpoint says

	for _, step := range []struct {
		answer replica.Answer
		want   int64
	}{
		{replica.Answer{HighWatermark: 2}, 2},
		{replica.Answer{HighWatermark: 0}, 2}, // of a new leader that knows less yet
		{replica.Answer{HighWatermark: -1, Err: replica.ErrNotLeader}, 2},
		{replica.Answer{HighWatermark: end, Diverging: &replica.Diverging{}}, 2},
		{replica.Answer{HighWatermark: 3}, 3},
		{replica.Answer{HighWatermark: end + 5}, end},
	} {
		step.answer.Partition = follower.TopicIDPartition
		follower.broker.answered(0, step.answer)
		require.Equal(t, step.want, follower.highWatermark.Load(), "%+v", step.answer)
	}
}

// Too little through the store is an error where the caller says so.
func TestShare(t *testing.T) {
	require.Error(t, Result{Batches: 100, Through: 94}.Err(0.95))
	require.NoError(t, Result{Batches: 100, Through: 95}.Err(0.95))
	require.NoError(t, Result{Batches: 100, Through: 1}.Err(0))
	require.NoError(t, Result{}.Err(0.95), "nothing was to be replicated")
}

// A store that cannot be opened, or announcements that cannot be made, is an error that names the broker.
func TestRunFails(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"keys: Cluster": func(c *Config) { c.Cluster = "not/legal" },
		"/missing":      func(c *Config) { c.Announcements = InFiles(t.TempDir() + "/missing") },
	} {
		config := overFiles(t)
		change(&config)
		_, err := Run(context.Background(), &bytes.Buffer{}, config)
		require.ErrorContains(t, err, "broker 0: ")
		require.ErrorContains(t, err, says)
	}
}
