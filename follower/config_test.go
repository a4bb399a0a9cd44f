package follower_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/configtest"
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
	type config = follower.Config
	configtest.Run(t, configtest.Table[config]{
		Valid: validConfig(t),
		Open: func(_ testing.TB, c config) error {
			replicator, err := follower.New(c)
			if err != nil {
				return err
			}
			return replicator.Close(context.Background())
		},
		Wrong: map[string][]func(*config){
			"Storage":  {func(c *config) { c.Storage = nil }},
			"Metadata": {func(c *config) { c.Metadata = nil }},
			"Leader":   {func(c *config) { c.Leader = nil }},
			"Cluster":  {func(c *config) { c.Cluster = "" }, func(c *config) { c.Cluster = "a/b" }},
			"StallAfter": {
				func(c *config) { c.StallAfter = -1 },
				func(c *config) { c.StallAfter = time.Millisecond }, // below LeaderMaxLinger
			},
			"TooFarBehind":    {func(c *config) { c.TooFarBehind = -1 }},
			"FetchTimeout":    {func(c *config) { c.FetchTimeout = -1 }},
			"LeaderMaxLinger": {func(c *config) { c.LeaderMaxLinger = -1 }, func(c *config) { c.LeaderMaxLinger = time.Second }},
			"ReplicaLagTimeMax": {
				func(c *config) { c.ReplicaLagTimeMax = -1 },
				func(c *config) { c.ReplicaLagTimeMax = 12 * time.Second },
				func(c *config) { c.TooFarBehind = 14 * time.Second },
				func(c *config) { c.TooFarBehind = math.MaxInt64 }, // no sum of times overflows
				func(c *config) { c.StallAfter, c.TooFarBehind = math.MaxInt64, math.MaxInt64 },
			},
			"MaxFetches":         {func(c *config) { c.MaxFetches = -1 }},
			"MaxParkedBytes":     {func(c *config) { c.MaxParkedBytes = -1 }},
			"Entries.MaxEntries": {func(c *config) { c.Entries.MaxEntries = -1 }},
		},
		Any: map[string]string{
			"Seed":   "every number is a seed",
			"Now":    "nil is time.Now",
			"Hooks":  "every one of them may be nil",
			"Logger": "nil is none",
		},
	})
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
