package kafkalog_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
	"github.com/walhop/walhop/walstorage"
)

// wrongFields are the changes of a configuration that are refused before anything is connected to.
var wrongFields = map[string][]func(*kafkalog.Config){
	"Seeds": {
		func(c *kafkalog.Config) { c.Seeds = nil },
		func(c *kafkalog.Config) { c.Seeds = []string{""} },
		func(c *kafkalog.Config) { c.Seeds = []string{"host:0"} },
		func(c *kafkalog.Config) { c.Seeds = []string{"host:port"} },
		func(c *kafkalog.Config) { c.Seeds = []string{"kafka://user:" + configtest.Secret + "@host:9092"} },
		func(c *kafkalog.Config) { c.Seeds = []string{"host:9092", configtest.Secret + "@host:9092"} },
	},
	"Opts": {
		func(c *kafkalog.Config) { c.Opts = []kgo.Opt{nil} },
		func(c *kafkalog.Config) { c.Opts = []kgo.Opt{kgo.ConsumerGroup("group")} },
		func(c *kafkalog.Config) { c.Opts = []kgo.Opt{kgo.MetadataMinAge(-1)} },
		seedInOpts("user:" + configtest.Secret + "@host"),
		seedInOpts("user:" + configtest.Secret + "@host:9092"),
		seedInOpts("kafka://host:9092?password=" + configtest.Secret),
		seedInOpts("[" + configtest.Secret),
	},
	"Topic": {
		func(c *kafkalog.Config) { c.Topic = "with space" },
		func(c *kafkalog.Config) { c.Topic = ".." },
		func(c *kafkalog.Config) { c.Topic = strings.Repeat("t", 250) },
	},
	"Partitions":        {func(c *kafkalog.Config) { c.Partitions = -1 }, func(c *kafkalog.Config) { c.Partitions = 10_001 }},
	"ReplicationFactor": {func(c *kafkalog.Config) { c.ReplicationFactor = -1 }},
	"MinInSyncReplicas": {func(c *kafkalog.Config) { c.MinInSyncReplicas = -1 }, func(c *kafkalog.Config) { c.MinInSyncReplicas = 4 }},
	"SegmentRetention":  {func(c *kafkalog.Config) { c.SegmentRetention = -1 }, func(c *kafkalog.Config) { c.SegmentRetention = 1 }},
	"RetentionMargin":   {func(c *kafkalog.Config) { c.RetentionMargin = -1 }},
	"Broker":            {func(c *kafkalog.Config) { c.Broker = -1 }},
	"BrokerEpoch":       {func(c *kafkalog.Config) { c.BrokerEpoch = -1 }},
	"EventVersion":      {func(c *kafkalog.Config) { c.EventVersion = metadata.LatestVersion + 1 }},
	"MaxEventBytes":     {func(c *kafkalog.Config) { c.MaxEventBytes = 1 }, func(c *kafkalog.Config) { c.MaxEventBytes = math.MaxInt32 }},
	"Rack":              {func(c *kafkalog.Config) { c.Rack = strings.Repeat("r", 256) }},
	"OpenTimeout":       {func(c *kafkalog.Config) { c.OpenTimeout = -1 }},
	"PublishTimeout":    {func(c *kafkalog.Config) { c.PublishTimeout = -1 }},
	"RefreshInterval":   {func(c *kafkalog.Config) { c.RefreshInterval = -1 }, func(c *kafkalog.Config) { c.RefreshInterval = 1 }},
}

// seedInOpts gives the client a seed that only it sees. No error repeats it (W11).
func seedInOpts(seed string) func(*kafkalog.Config) {
	return func(c *kafkalog.Config) { c.Seeds, c.Opts = nil, []kgo.Opt{kgo.SeedBrokers(seed)} }
}

// A configuration that is wrong is refused, and the error names the field (Q32).
func TestConfigNamesTheField(t *testing.T) {
	cluster := newCluster(t)
	configtest.Run(t, configtest.Table[kafkalog.Config]{
		Valid: kafkalog.Config{Seeds: cluster.ListenAddrs()},
		Open:  func(tb testing.TB, c kafkalog.Config) error { return openAndClose(tb.Context(), c) },
		Wrong: wrongFields,
		Any: map[string]string{
			"Now":    "nil is time.Now",
			"Hooks":  "every one of them may be nil",
			"Logger": "nil is none",
		},
	})
}

func openAndClose(ctx context.Context, cfg kafkalog.Config) error {
	log, err := kafkalog.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return log.Close()
}

// The client's own settings may say where the brokers are; its default, a broker on this machine, is not taken for granted.
func TestSeedsInOpts(t *testing.T) {
	cluster := newCluster(t)
	cfg := config(cluster, 1, 0)
	cfg.Seeds, cfg.Opts = nil, []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	require.NoError(t, openAndClose(t.Context(), cfg))

	cfg.Opts = nil
	require.ErrorIs(t, openAndClose(t.Context(), cfg), walstorage.ErrInvalidArgument)
}

// Times that are absurdly long do not overflow.
func TestLongTimes(t *testing.T) {
	cfg := config(newCluster(t), 1, 0)
	cfg.SegmentRetention, cfg.RetentionMargin = math.MaxInt64, math.MaxInt64
	cfg.OpenTimeout, cfg.PublishTimeout, cfg.RefreshInterval = math.MaxInt64, math.MaxInt64, math.MaxInt64
	log := open(t, cfg)
	_, err := log.Publish(t.Context(), event(1, 0, 0))
	require.NoError(t, err)
}

// The default of the leader's events is the leader's own.
func TestDefaults(t *testing.T) {
	require.Equal(t, 512<<10, kafkalog.DefaultMaxEventBytes)
	require.Equal(t, 65*time.Minute, kafkalog.DefaultSegmentRetention+kafkalog.DefaultRetentionMargin)
}
