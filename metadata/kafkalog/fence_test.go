package kafkalog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// wantFenced checks that a writer is fenced and stays so, and that nothing of what it tries is stored.
func wantFenced(tb testing.TB, cluster *kfake.Cluster, log *kafkalog.Log, e *metadata.Event) {
	tb.Helper()
	before := records(tb, cluster)
	for range 2 {
		stored, err := log.Publish(tb.Context(), e)
		require.ErrorIs(tb, err, metadata.ErrFenced)
		require.Zero(tb, stored)
	}
	require.Equal(tb, before, records(tb, cluster))
}

// L6: from the first batch of a newer epoch on the partition refuses what the older one sends, at once and for good.
func TestOlderEpochIsFenced(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	older, newer := open(t, config(cluster, 1, 4)), open(t, config(cluster, 1, 7))
	sub := subscribe(t, open(t, config(cluster, 2, 0)))
	publish(t, older, event(1, 4, 0), event(1, 4, 1))
	publish(t, newer, event(1, 7, 0))
	wantFenced(t, cluster, older, event(1, 4, 2))
	publish(t, newer, event(1, 7, 1))
	wantEvents(t, sub, event(1, 4, 0), event(1, 4, 1), event(1, 7, 0), event(1, 7, 1))
	wantNothing(t, sub)

	// Of three, the newest is the one that goes on.
	newest := open(t, config(cluster, 1, 8))
	publish(t, newest, event(1, 8, 0))
	wantFenced(t, cluster, newer, event(1, 7, 2))
	publish(t, newest, event(1, 8, 1))
}

// L6, redpanda-data/redpanda#9759: a writer that starts after a newer epoch has published looks at the end of the topic before
// it writes. It can be read with.
func TestFencedFromTheStart(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	newer := open(t, config(cluster, 1, 7))
	waiting := open(t, config(cluster, 1, 3)) // before there is anything to be seen
	publish(t, newer, event(1, 7, 0))

	late := open(t, config(cluster, 1, 4))
	sub := subscribe(t, late)
	wantFenced(t, cluster, late, event(1, 4, 0))
	wantFenced(t, cluster, waiting, event(1, 3, 0))
	publish(t, newer, event(1, 7, 1))
	wantEvents(t, sub, event(1, 7, 1))
}

// Two processes with one broker epoch, which must never be: the second to write stops.
func TestRivalOfTheSameEpoch(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	first, second := open(t, config(cluster, 1, 4)), open(t, config(cluster, 1, 4))
	publish(t, first, event(1, 4, 0))
	wantFenced(t, cluster, second, event(1, 4, 1))
	wantFenced(t, cluster, open(t, config(cluster, 1, 4)), event(1, 4, 1))
	publish(t, first, event(1, 4, 1))
}

// The records of other brokers on the same partition fence nobody, whatever their epochs.
func TestOthersOnThePartition(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	one, four := open(t, config(cluster, 1, 2)), open(t, config(cluster, 4, 9)) // of 3 partitions both have number 1
	for i := range int64(100) {
		publish(t, one, event(1, 2, i))
		publish(t, four, event(4, 9, i))
	}
	publish(t, open(t, config(cluster, 1, 3)), event(1, 3, 0))
	wantFenced(t, cluster, one, event(1, 2, 100))
	publish(t, four, event(4, 9, 100))
}

// A newer epoch whose events this version cannot read fences all the same: the record tells the epoch itself.
func TestFencedByAnUnknownVersion(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 4))
	publish(t, log, event(1, 4, 0))
	write(t, cluster, 1, "1", []byte{0x08, 0x7f, 0x10, 0x00}, kgo.RecordHeader{Key: "epoch", Value: []byte("5")})
	wantFenced(t, cluster, open(t, config(cluster, 1, 4)), event(1, 4, 1))
}

// write writes a record of any kind into a partition of the topic.
func write(tb testing.TB, cluster *kfake.Cluster, partition int32, key string, value []byte, headers ...kgo.RecordHeader) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(tb, err)
	defer client.Close()
	record := &kgo.Record{Topic: kafkalog.DefaultTopic, Partition: partition, Key: []byte(key), Value: value, Headers: headers}
	require.NoError(tb, client.ProduceSync(tb.Context(), record).FirstErr())
}

// M1, L6: a publication whose answer was lost before the writer was overtaken is not said to be rejected.
func TestFencedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	network := &lossy{key: int16(kmsg.Produce)}
	cfg := config(cluster, 1, 4)
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	older, newer := open(t, cfg), open(t, config(cluster, 1, 7))
	publish(t, older, event(1, 4, 0))
	publish(t, newer, event(1, 7, 0)) // which the older one learns from the answer to its second attempt only
	network.lose.Store(1)
	_, err := older.Publish(t.Context(), event(1, 4, 1))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.NotErrorIs(t, err, metadata.ErrFenced)
	wantFenced(t, cluster, older, event(1, 4, 1))
}

// A producer id that has run out of epochs, or that someone took and left no trace, is replaced by a new one.
func TestRefusedWithoutATrace(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 4))
	publish(t, log, event(1, 4, 0))
	fresh := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Count: -1, Observe: true})
	fault(cluster, kmsg.Produce, kerr.InvalidProducerEpoch, 1)
	publish(t, log, event(1, 4, 1))
	require.LessOrEqual(t, fresh.Hits(), 1)
	require.EqualValues(t, 2, records(t, cluster))
}

// L6: two writers that have both looked before either has written are both let in by the partition; the next look, a second
// later, tells. Until then the older one's events get in, which harms nobody: readers trust the leader epoch alone (F1).
func TestOvertakenBetweenLookAndWrite(t *testing.T) {
	virtual(t, func(t *testing.T, cluster *kfake.Cluster, cfg func(broker int32, epoch int64) kafkalog.Config) {
		older, newer := open(t, cfg(1, 4)), open(t, cfg(1, 7))
		release := make(chan struct{})
		held := hold(cluster, release)
		done := make(chan error, 1)
		go func() {
			_, err := newer.Publish(context.Background(), event(1, 7, 0))
			done <- err
		}()
		<-held // it has looked
		publish(t, older, event(1, 4, 0))
		close(release)
		require.NoError(t, <-done)

		publish(t, older, event(1, 4, 1))
		time.Sleep(time.Second)
		_, err := older.Publish(t.Context(), event(1, 4, 2))
		require.ErrorIs(t, err, metadata.ErrFenced)
		publish(t, newer, event(1, 7, 1))
	})
}

// virtual runs a test in virtual time against a cluster on a network without sockets.
func virtual(t *testing.T, test func(t *testing.T, cluster *kfake.Cluster, cfg func(broker int32, epoch int64) kafkalog.Config)) {
	synctest.Test(t, func(t *testing.T) {
		network := new(kfake.VirtualNetwork)
		cluster := newCluster(t, kfake.ListenFn(network.Listen), kfake.Ports(9092, 9093, 9094))
		test(t, cluster, func(broker int32, epoch int64) kafkalog.Config {
			cfg := config(cluster, broker, epoch)
			cfg.Opts = []kgo.Opt{kgo.Dialer(network.DialContext)}
			return cfg
		})
	})
}
