package kafkalog

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// Defaults of [Config].
const (
	// DefaultTopic is named like KIP-405's __remote_log_metadata.
	DefaultTopic = "__remote_wal_log_metadata"
	// DefaultPartitions is what KIP-405 gives its topic.
	DefaultPartitions = 50
	// DefaultReplicationFactor is what KIP-405 gives its topic.
	DefaultReplicationFactor = 3
	// DefaultSegmentRetention is that of retention.Config.
	DefaultSegmentRetention = time.Hour
	// DefaultRetentionMargin is the grace of retention.Config.
	DefaultRetentionMargin = 5 * time.Minute
	// DefaultMaxEventBytes is that of leader.Config.
	DefaultMaxEventBytes = 512 << 10
	// DefaultOpenTimeout leaves a cluster the time to elect the leaders of a new topic.
	DefaultOpenTimeout = 15 * time.Second
	// DefaultPublishTimeout is above what a failover of a partition takes with Kafka's defaults (measured: 12.5 s after
	// kill -9), and it counts only where the caller's context has no earlier end.
	DefaultPublishTimeout = 30 * time.Second
	// DefaultRefreshInterval is how soon an added partition is found.
	DefaultRefreshInterval = 10 * time.Second
)

// Config configures a [Log]. Seeds is required.
type Config struct {
	// Seeds are brokers of the Kafka cluster, each as host:port or host (port 9092). May be empty where Opts has
	// kgo.SeedBrokers.
	Seeds []string
	// Opts are further settings of the client: TLS, SASL, a dialer, a logger. Those on which the guarantees rest (acks,
	// where to read from) are set by the package and cannot be changed by them.
	Opts []kgo.Opt

	// Topic is the name of the metadata topic, 1 to 249 of A-Z a-z 0-9 . _ -. Default [DefaultTopic].
	Topic string
	// Partitions is over how many partitions the brokers are spread: broker b publishes to partition b modulo
	// Partitions. The topic is created with so many, and must not have fewer; it may have more. It must be the same on
	// every broker, and the same for ever: a broker whose partition changes is not fenced across its two partitions. 1 to
	// 10,000, default 50.
	Partitions int32
	// ReplicationFactor is that of a topic that has to be created, 1 or greater. Default 3.
	ReplicationFactor int16
	// MinInSyncReplicas is the min.insync.replicas of a topic that has to be created, 1 to ReplicationFactor. Default one
	// less than ReplicationFactor, 1 at least.
	MinInSyncReplicas int
	// SegmentRetention is how long segments are kept (retention.Config.Retention), and RetentionMargin how much longer
	// events are (M6): retention.ms is the sum. A topic that is there and keeps less than SegmentRetention is refused,
	// one that keeps less than the sum is warned of. Defaults 1 h and 5 min.
	SegmentRetention, RetentionMargin time.Duration

	// Broker is the id of the broker whose events are published, 0 or greater.
	Broker int32
	// BrokerEpoch is its epoch, 0 or greater, never used before by a process that published (L6).
	BrokerEpoch int64
	// EventVersion is the version of the events that are published (M4). Default [metadata.LatestVersion].
	EventVersion metadata.Version
	// MaxEventBytes is the largest event that the broker's leader makes (leader.Config.MaxEventBytes): a topic that takes
	// no record of that size is refused (L8). 4 KiB to [metadata.MaxEventBytes]. Default 512 KiB, the leader's own.
	MaxEventBytes int

	// Rack is the client.rack: the zone of this process. Where the cluster has a rack-aware replica selector, events are
	// read from a replica in that zone. Default none.
	Rack string

	// OpenTimeout limits Open, and Subscribe, where the context given does not end earlier. Default 15 s.
	OpenTimeout time.Duration
	// PublishTimeout limits Publish where the context given does not end earlier. Default 30 s.
	PublishTimeout time.Duration
	// RefreshInterval is how often a subscription looks for added partitions and for a topic that was created again, 10 ms
	// or greater. New leaders are found at once. Default 10 s.
	RefreshInterval time.Duration

	// Now is the wall clock that stamps records where the topic leaves that to the writer (D4). Default time.Now.
	Now func() time.Time
	// Hooks observe the log.
	Hooks metadata.Hooks
	// Logger gets a line for each setting of the topic that should be changed, for whatever is found damaged or foreign,
	// and for a topic that was created, grew or was created again. Default none.
	Logger *slog.Logger
}

// unlimited is 36 years. What is longer counts as it, so that sums do not overflow.
const unlimited = time.Duration(1 << 60)

// withDefaults checks the configuration and fills in the defaults. The error is of kind walstorage.ErrInvalidArgument and
// names the field that is wrong.
func (c Config) withDefaults() (Config, error) {
	c.Topic = cmp.Or(c.Topic, DefaultTopic)
	c.Partitions = cmp.Or(c.Partitions, DefaultPartitions)
	c.ReplicationFactor = cmp.Or(c.ReplicationFactor, DefaultReplicationFactor)
	c.MinInSyncReplicas = cmp.Or(c.MinInSyncReplicas, max(1, int(c.ReplicationFactor)-1))
	c.SegmentRetention = min(cmp.Or(c.SegmentRetention, DefaultSegmentRetention), unlimited)
	c.RetentionMargin = min(cmp.Or(c.RetentionMargin, DefaultRetentionMargin), unlimited)
	c.EventVersion = cmp.Or(c.EventVersion, metadata.LatestVersion)
	c.MaxEventBytes = cmp.Or(c.MaxEventBytes, DefaultMaxEventBytes)
	c.OpenTimeout = cmp.Or(c.OpenTimeout, DefaultOpenTimeout)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, DefaultPublishTimeout)
	c.RefreshInterval = cmp.Or(c.RefreshInterval, DefaultRefreshInterval)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func (c Config) check() error {
	if err := c.EventVersion.Validate(); err != nil {
		return fmt.Errorf("%w: kafkalog: Config.EventVersion: %w", walstorage.ErrInvalidArgument, err)
	}
	for i, seed := range c.Seeds {
		if problem := seedProblem(seed); problem != "" {
			return invalid("Seeds[%d] %s, want host:port", i, problem) // the seed itself is not repeated: it may be a URL (W11)
		}
	}
	for i, opt := range c.Opts {
		if opt == nil {
			return invalid("Opts[%d] is nil", i)
		}
	}
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{!isTopicName(c.Topic), "Topic has to be 1 to 249 of A-Z a-z 0-9 . _ -"},
		{c.Partitions < 1 || c.Partitions > 10_000, fmt.Sprintf("Partitions is %d, want 1 to 10000", c.Partitions)},
		{c.ReplicationFactor < 1, fmt.Sprintf("ReplicationFactor is %d, want 1 or greater", c.ReplicationFactor)},
		{
			c.MinInSyncReplicas < 1 || c.MinInSyncReplicas > int(c.ReplicationFactor),
			fmt.Sprintf("MinInSyncReplicas is %d, want 1 to ReplicationFactor, %d", c.MinInSyncReplicas, c.ReplicationFactor),
		},
		{c.SegmentRetention < time.Second, fmt.Sprintf("SegmentRetention is %v, want 1s or greater", c.SegmentRetention)},
		{c.RetentionMargin < 0, fmt.Sprintf("RetentionMargin is %v, want 0 (the default) or greater", c.RetentionMargin)},
		{c.Broker < 0, fmt.Sprintf("Broker is %d, want 0 or greater", c.Broker)},
		{c.BrokerEpoch < 0, fmt.Sprintf("BrokerEpoch is %d, want 0 or greater", c.BrokerEpoch)},
		{
			c.MaxEventBytes < 4<<10 || c.MaxEventBytes > metadata.MaxEventBytes,
			fmt.Sprintf("MaxEventBytes is %d, want 4096 to %d", c.MaxEventBytes, metadata.MaxEventBytes),
		},
		{len(c.Rack) > 255, fmt.Sprintf("Rack has %d bytes, want 255 at most", len(c.Rack))},
		{c.OpenTimeout < 0, fmt.Sprintf("OpenTimeout is %v, want 0 (the default) or greater", c.OpenTimeout)},
		{c.PublishTimeout < 0, fmt.Sprintf("PublishTimeout is %v, want 0 (the default) or greater", c.PublishTimeout)},
		{c.RefreshInterval < 10*time.Millisecond, fmt.Sprintf("RefreshInterval is %v, want 10ms or greater", c.RefreshInterval)},
	} {
		if wrong.is {
			return invalid("%s", wrong.what)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("kafkalog: Config."+format, args...))
}

// seedProblem says what is wrong with a seed, "" if nothing is.
func seedProblem(seed string) string {
	host, port := seed, ""
	if strings.Contains(seed, ":") {
		var err error
		if host, port, err = net.SplitHostPort(seed); err != nil {
			return "is no address"
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "has no port"
		}
	}
	if host == "" || strings.ContainsAny(host, "/@ ,?#") {
		return "has no host"
	}
	return ""
}

// isTopicName tells whether Kafka takes the name for a topic.
func isTopicName(name string) bool {
	return name != "" && len(name) <= 249 && name != "." && name != ".." && !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
	})
}

// partition is where the broker publishes (M2).
func (c Config) partition() int32 { return c.Broker % c.Partitions }
