package kafkalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// newCluster starts a Kafka cluster in this process, which ends with the test.
func newCluster(tb testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	tb.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(cluster.Close)
	return cluster
}

// config is that of a broker on the cluster, its topic being small.
func config(cluster *kfake.Cluster, broker int32, epoch int64) kafkalog.Config {
	return kafkalog.Config{Seeds: cluster.ListenAddrs(), Partitions: 3, ReplicationFactor: 1, Broker: broker, BrokerEpoch: epoch}
}

// open opens a log that is closed with the test.
func open(tb testing.TB, cfg kafkalog.Config) *kafkalog.Log {
	tb.Helper()
	log, err := kafkalog.Open(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, log.Close()) })
	return log
}

// event returns the event of a new segment of the broker.
func event(broker int32, epoch, sequence int64) *metadata.Event {
	return testevent.New(broker, epoch, sequence)
}
