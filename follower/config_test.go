package follower_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// validConfig returns a configuration that New takes.
func validConfig(t *testing.T) follower.Config {
	t.Helper()
	manager, _, err := storemem.NewManager(objectstore.Config{Cluster: cluster})
	require.NoError(t, err)
	topic, err := memlog.New(memlog.Config{})
	require.NoError(t, err)
	log, err := topic.Open(memlog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, manager.Close())
		require.NoError(t, log.Close())
	})
	return follower.Config{
		Storage: manager, Metadata: log, Cluster: cluster,
		Leader: fetcherFunc(func(context.Context, int64) (int64, error) { return 0, nil }),
	}
}

// Each wrong field is named, and of kind ErrInvalidArgument. The bounds between the durations are F6's.
func TestConfig(t *testing.T) {
	for _, test := range []struct {
		field  string
		change func(*follower.Config)
	}{
		{"Storage", func(c *follower.Config) { c.Storage = nil }},
		{"Metadata", func(c *follower.Config) { c.Metadata = nil }},
		{"Leader", func(c *follower.Config) { c.Leader = nil }},
		{"Cluster", func(c *follower.Config) { c.Cluster = "" }},
		{"StallAfter", func(c *follower.Config) { c.StallAfter = -1 }},
		{"TooFarBehind", func(c *follower.Config) { c.TooFarBehind = -1 }},
		{"FetchTimeout", func(c *follower.Config) { c.FetchTimeout = -1 }},
		{"LeaderMaxLinger", func(c *follower.Config) { c.LeaderMaxLinger = -1 }},
		{"LeaderMaxLinger", func(c *follower.Config) { c.LeaderMaxLinger = time.Second }},
		{"ReplicaLagTimeMax", func(c *follower.Config) { c.ReplicaLagTimeMax = 12 * time.Second }},
		{"ReplicaLagTimeMax", func(c *follower.Config) { c.TooFarBehind = 14 * time.Second }},
		{"MaxFetches", func(c *follower.Config) { c.MaxFetches = -1 }},
		{"MaxParkedBytes", func(c *follower.Config) { c.MaxParkedBytes = -1 }},
		{"Entries", func(c *follower.Config) { c.Entries.MaxEntries = -1 }},
	} {
		cfg := validConfig(t)
		test.change(&cfg)
		_, err := follower.New(cfg)
		require.ErrorContains(t, err, test.field)
	}
	r, err := follower.New(validConfig(t))
	require.NoError(t, err)
	require.NoError(t, r.Close(context.Background()))
}

// Follow names what is wrong with its arguments.
func TestFollowArguments(t *testing.T) {
	r, err := follower.New(validConfig(t))
	require.NoError(t, err)
	defer r.Close(context.Background())
	good, log := partitionOf(0), memory.New(memory.Config{})
	for _, test := range []struct {
		says          string
		partition     segment.TopicIDPartition
		leader, epoch int32
		log           follower.Log
	}{
		{"topic id", segment.TopicIDPartition{Topic: "t"}, 1, 1, log},
		{"topic name", segment.TopicIDPartition{TopicID: good.TopicID}, 1, 1, log},
		{"partition", segment.TopicIDPartition{TopicID: good.TopicID, Topic: "t", Partition: -1}, 1, 1, log},
		{"leader id", good, -1, 1, log},
		{"leader epoch", good, 1, -1, log},
		{"log", good, 1, 1, nil},
	} {
		_, err := r.Follow(test.partition, test.leader, test.epoch, test.log)
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
		require.ErrorContains(t, err, test.says)
	}
}
