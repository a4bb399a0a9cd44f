package kafkalog

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// What is wrong with a cluster, the credentials, the permissions or the topic is told within a bounded time, and nothing
// stays behind.
func testFirstStart(t *testing.T, cluster *kafka.Cluster) {
	credentials := func(password string) []kgo.Opt {
		return []kgo.Opt{kgo.SASL(plain.Auth{User: kafka.User, Pass: password}.AsMechanism())}
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	topics := map[string][]string{
		"compacted":  {"cleanup.policy", "compact"},
		"forgetful":  {"retention.ms", "60000"},
		"small":      {"max.message.bytes", "100000"},
		"unwritable": {"min.insync.replicas", "2"},
	}
	for topic, settings := range topics {
		cluster.Create(t, topic, 3, settings...)
	}
	cluster.Create(t, "narrow", 1)

	for name, wrong := range map[string]struct {
		change func(*kafkalog.Config)
		kind   error
		says   string
	}{
		"nobody there":   {func(c *kafkalog.Config) { c.Seeds = []string{nobody.Addr().String()} }, kafkalog.ErrUnreachable, ""},
		"no credentials": {func(c *kafkalog.Config) { c.Seeds = []string{cluster.Broker(1).SASL()} }, nil, ""},
		"wrong password": {func(c *kafkalog.Config) {
			c.Seeds, c.Opts = []string{cluster.Broker(1).SASL()}, credentials("planted-secret")
		}, kafkalog.ErrAuthentication, ""},
		"no permission": {func(c *kafkalog.Config) {
			c.Seeds, c.Opts = []string{cluster.Broker(1).SASL()}, credentials(kafka.Password)
		}, kafkalog.ErrAuthorization, "topic"},
		"compacted":          {func(c *kafkalog.Config) { c.Topic = "compacted" }, kafkalog.ErrTopic, "cleanup.policy"},
		"retention":          {func(c *kafkalog.Config) { c.Topic = "forgetful" }, kafkalog.ErrTopic, "retention.ms"},
		"message limit":      {func(c *kafkalog.Config) { c.Topic = "small" }, kafkalog.ErrTopic, "max.message.bytes"},
		"too few replicas":   {func(c *kafkalog.Config) { c.Topic = "unwritable" }, kafkalog.ErrTopic, "min.insync.replicas"},
		"too few partitions": {func(c *kafkalog.Config) { c.Topic = "narrow" }, kafkalog.ErrTopic, "Partitions"},
		"too many replicas":  {func(c *kafkalog.Config) { c.Topic, c.ReplicationFactor = "replicated", 3 }, kafkalog.ErrTopic, "ReplicationFactor"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(cluster, "first", 1, 0)
			cfg.OpenTimeout = 3 * time.Second
			wrong.change(&cfg)
			begun := time.Now()
			log, err := kafkalog.Open(t.Context(), cfg)
			if err == nil {
				_ = log.Close()
			}
			require.Error(t, err)
			require.Less(t, time.Since(begun), 10*time.Second)
			if wrong.kind != nil {
				require.ErrorIs(t, err, wrong.kind)
			}
			require.ErrorContains(t, err, wrong.says)
			require.NotContains(t, err.Error(), "planted-secret") // W11
			require.NotContains(t, err.Error(), kafka.Password)
		})
	}

	t.Run("no answer", func(t *testing.T) {
		cfg := config(cluster, "first", 1, 0)
		cfg.OpenTimeout = 2 * time.Second
		cluster.Broker(1).Pause(t)
		begun := time.Now()
		_, err := kafkalog.Open(t.Context(), cfg)
		cluster.Broker(1).Resume(t)
		require.ErrorIs(t, err, kafkalog.ErrUnreachable)
		require.Less(t, time.Since(begun), 10*time.Second)
		cluster.Await(t)
	})

	// The permissions that the package's documentation lists suffice.
	t.Run("permissions", func(t *testing.T) {
		acls := kadm.NewACLs().Allow("User:"+kafka.User).AllowHosts("*").Topics("granted").ResourcePatternType(kadm.ACLPatternLiteral).
			Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe, kadm.OpDescribeConfigs, kadm.OpCreate)
		_, err := cluster.Admin(t).CreateACLs(t.Context(), acls)
		require.NoError(t, err)
		cfg := config(cluster, "granted", 1, 0)
		cfg.Seeds, cfg.Opts = []string{cluster.Broker(1).SASL()}, credentials(kafka.Password)
		log := open(t, cfg)
		sub := subscribe(t, log, theEnd)
		p := &publisher{log: log, broker: 1}
		require.NoError(t, p.publish(t.Context(), 5, 0))
		wantAll(t, sub, p)
	})
}
