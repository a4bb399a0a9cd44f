package unifiedlog

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage/segment"
)

// A walhop leader follows the files of a running broker, into which Kafka's own tool and transactions of a client write,
// and replicates them: the follower's log is the broker's, byte for byte, and passes Kafka's tool.
//
// What is led is the broker's log up to its end. How far consumers may read is not in those files; with one replica it is
// the same offset, and with more a leader replicates what is not committed yet all the same, as in Kafka.
func TestFollowARunningBroker(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{})
	const topic, segmentBytes = "running", 4 << 20
	cluster.Create(t, topic, 1, "segment.bytes", fmt.Sprint(segmentBytes), "max.message.bytes", "2000000")
	from := &tail{dir: cluster.Broker(1).Partition(topic, 0)}
	_, err := from.poll()
	require.NoError(t, err)

	// Given a leader on the broker's files
	p := segment.TopicIDPartition{TopicID: uuid.UUID{6: 0x40, 8: 0x80, 15: 1}, Topic: topic}
	r := newReplication(t)
	dir := filepath.Join(t.TempDir(), topic+"-0")
	to, err := unifiedlog.Open(t.Context(), unifiedlog.Config{Dir: dir, TopicID: p.TopicID, SegmentBytes: segmentBytes, MaxBatchBytes: 2_000_000})
	require.NoError(t, err)
	leadership, following := r.begin(t, p, 0, 0, from, to)
	settle(t, following, from, to)
	ctx, stop := context.WithCancel(t.Context())
	polling := make(chan error, 1)
	go func() { polling <- follow(ctx, from, leadership.Notify) }()

	// When producers write: Kafka's own, with each codec, and transactions, each third of which is aborted
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		result := cluster.Perform(t, cluster.Bootstrap(), topic, 20_000, 200, "acks=all", "linger.ms=2", "compression.type="+codec)
		t.Attr("producer-performance", codec+": "+result)
	}
	transactions(t, cluster, topic, 30)
	admin := cluster.Admin(t)
	kafka.Eventually(t, "the ends of all transactions are there, and seen", func(ctx context.Context) error {
		ends, err := admin.ListEndOffsets(ctx, topic)
		require.NoError(t, err)
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		require.NoError(t, err)
		end, _ := ends.Lookup(topic, 0)
		lastStable, _ := stable.Lookup(topic, 0)
		if seen, _ := from.End(); seen != end.Offset || lastStable.Offset != end.Offset {
			return fmt.Errorf("seen up to %d, the broker's log ends at %d, stable is %d", seen, end.Offset, lastStable.Offset)
		}
		return nil
	})
	stop()
	require.NoError(t, <-polling)

	// Then the follower has all of it, through the store but for what came while the machine stood still.
	settle(t, following, from, to)
	end, _ := to.End()
	require.Greater(t, end, int64(100_000))
	stats := r.replicator.Stats()
	require.Greater(t, stats.Batches, int64(len(from.batches)/2), "batches that came through the store")
	following.Stop()
	leadership.Resign()
	require.NoError(t, to.Close())
	want := kafka.LogBytes(t, from.dir)
	require.True(t, bytes.Equal(want, kafka.LogBytes(t, dir)), "the follower's log is not the broker's")
	require.Empty(t, cluster.Judge(t, false, dir))
	ours := cluster.Records(t, dir)[dir]
	require.Equal(t, kafka.Visible(ours, true), consumed(t, cluster, topic, end, kgo.ReadCommitted()))
	t.Attr("running", fmt.Sprintf("%d records in %d batches, %d through the store, %d bytes equal", end, len(from.batches), stats.Batches, len(want)))
}

// follow tells of what is appended until the context ends.
func follow(ctx context.Context, from *tail, notify func()) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		switch moved, err := from.poll(); {
		case err != nil:
			return err
		case moved:
			notify()
		}
	}
}

// transactions runs transactions of a few records.
func transactions(t *testing.T, cluster *kafka.Cluster, topic string, n int) {
	t.Helper()
	client := cluster.Client(t, kgo.DefaultProduceTopic(topic), kgo.TransactionalID("running"))
	for i := range n {
		require.NoError(t, client.BeginTransaction())
		for j := range 1 + i%5 {
			client.Produce(t.Context(), kgo.StringRecord(fmt.Sprint(i, j)), func(_ *kgo.Record, err error) { require.NoError(t, err) })
		}
		require.NoError(t, client.Flush(t.Context()))
		require.NoError(t, client.EndTransaction(t.Context(), kgo.TransactionEndTry(i%3 != 0)))
	}
}
