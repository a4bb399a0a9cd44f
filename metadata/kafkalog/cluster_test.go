package kafkalog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// subscribe begins to read at the end.
func subscribe(tb testing.TB, log *kafkalog.Log) metadata.Subscription {
	tb.Helper()
	return subscribeFrom(tb, log, time.Time{})
}

func subscribeFrom(tb testing.TB, log *kafkalog.Log, from time.Time) metadata.Subscription {
	tb.Helper()
	sub, err := log.Subscribe(tb.Context(), metadata.Position{Time: from})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, sub.Close()) })
	return sub
}

// publish publishes events, all of which have to be stored.
func publish(tb testing.TB, log *kafkalog.Log, events ...*metadata.Event) {
	tb.Helper()
	stored, err := log.Publish(tb.Context(), events...)
	require.NoError(tb, err)
	require.Equal(tb, len(events), stored)
}

// next returns what comes next.
func next(tb testing.TB, sub metadata.Subscription) metadata.Item {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	item, err := sub.Next(ctx)
	require.NoError(tb, err)
	return item
}

// wantEvents checks that the events come next, each once, and nothing else between them.
func wantEvents(tb testing.TB, sub metadata.Subscription, events ...*metadata.Event) {
	tb.Helper()
	for i, want := range events {
		item := next(tb, sub)
		require.NotNil(tb, item.Event, "event %d of %d: got %v", i, len(events), item.Gap)
		require.Equal(tb, want.Segment.ID, item.Event.Segment.ID, "event %d of %d has sequence %d", i, len(events), item.Event.Sequence)
	}
}

// wantGap checks that a gap of the broker comes next.
func wantGap(tb testing.TB, sub metadata.Subscription, broker int32, reason metadata.GapReason) metadata.Gap {
	tb.Helper()
	item := next(tb, sub)
	require.NotNil(tb, item.Gap, "got event %+v", item.Event)
	require.Equal(tb, broker, item.Gap.BrokerID)
	require.Equal(tb, reason, item.Gap.Reason)
	return *item.Gap
}

// wantNothing checks that nothing has come yet.
func wantNothing(tb testing.TB, sub metadata.Subscription) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 50*time.Millisecond)
	defer cancel()
	item, err := sub.Next(ctx)
	require.ErrorIs(tb, err, context.DeadlineExceeded, "got %+v", item)
}

// admin returns a client for what an operator does.
func admin(tb testing.TB, cluster *kfake.Cluster) *kadm.Client {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// records counts what the topic holds, duplicates included.
func records(tb testing.TB, cluster *kfake.Cluster) (n int64) {
	tb.Helper()
	ends, err := admin(tb, cluster).ListEndOffsets(tb.Context(), kafkalog.DefaultTopic)
	require.NoError(tb, err)
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// produces observes the produce requests that the cluster gets.
func produces(cluster *kfake.Cluster) *kfake.FaultHandle {
	return cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Observe: true})
}

// fault makes the next n answers to a request carry an error; n is -1 for all.
func fault(cluster *kfake.Cluster, key kmsg.Key, err *kerr.Error, n int) *kfake.FaultHandle {
	return cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: n})
}
