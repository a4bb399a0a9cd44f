package kafkalog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/metadata"
)

// newest returns the last record of a partition.
func newest(tb testing.TB, cluster *kafka.Cluster, topic string, partition int) *kgo.Record {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {int32(partition): kgo.NewOffset().AtEnd().Relative(-1)},
	}))
	require.NoError(tb, err)
	defer client.Close()
	fetches := client.PollRecords(tb.Context(), 1)
	require.NoError(tb, fetches.Err())
	return fetches.Records()[0]
}

// spoil changes the value of a record in the files of every replica, and the checksum of its batch with it.
func spoil(tb testing.TB, cluster *kafka.Cluster, topic string, partition int, r *kgo.Record, change func(value []byte)) {
	tb.Helper()
	damage(tb, cluster, topic, partition, r.Offset, func(batch []byte) {
		at := bytes.LastIndex(batch, r.Value)
		require.Positive(tb, at, "the value stands in its batch as it is")
		change(batch[at : at+len(r.Value)])
		binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	})
}

// damage changes the batch that holds an offset, in the files of every replica.
func damage(tb testing.TB, cluster *kafka.Cluster, topic string, partition int, offset int64, change func(batch []byte)) {
	tb.Helper()
	for _, broker := range cluster.Brokers() {
		path := filepath.Join(broker.Partition(topic, partition), "00000000000000000000.log")
		log, err := os.ReadFile(path)
		require.NoError(tb, err)
		for at := 0; ; {
			require.Less(tb, at, len(log), "offset %d in the log of broker %d", offset, broker.ID)
			batch := log[at : at+12+int(binary.BigEndian.Uint32(log[at+8:]))]
			if base := int64(binary.BigEndian.Uint64(batch)); base+int64(binary.BigEndian.Uint32(batch[23:])) < offset {
				at += len(batch)
				continue
			}
			change(batch)
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(tb, err)
			_, err = file.WriteAt(batch, int64(at))
			require.NoError(tb, err)
			require.NoError(tb, file.Close())
			break
		}
	}
}

// A batch whose bytes have changed on the broker's disk is a gap for its broker, and the events after it are delivered
// (M4). A reader that had it before misses nothing.
func testDamaged(t *testing.T, cluster *kafka.Cluster) {
	const topic = "damaged"
	log := open(t, config(cluster, topic, 1, 0))
	p := &publisher{log: log, broker: 1}
	live := subscribe(t, log, theEnd)
	require.NoError(t, p.publish(t.Context(), 10, 0))
	wantAll(t, live, p)

	// Given a bit that has flipped in the batch of the sixth event
	damage(t, cluster, topic, 1, 5, func(batch []byte) { batch[len(batch)-20] ^= 1 })

	// When the log is read from its beginning
	require.NoError(t, p.publish(t.Context(), 3, 0))
	last := p.events[len(p.events)-1].Segment.ID
	events, gaps := readUntil(t, subscribe(t, log, theBeginning), func(e *metadata.Event) bool { return e.Segment.ID == last })

	// Then all events but those of that batch are read, once and in order, and a gap tells of those.
	require.NotEmpty(t, gaps)
	for _, gap := range gaps {
		require.EqualValues(t, 1, gap.BrokerID)
	}
	require.Equal(t, metadata.GapCorrupt, gaps[0].Reason)
	got := events[1]
	require.Less(t, len(got), len(p.events))
	require.GreaterOrEqual(t, len(got), len(p.events)-3, "a batch has 3 events at most")
	next := 0
	for _, e := range got {
		for ; p.events[next].Segment.ID != e.Segment.ID; next++ {
			require.Less(t, next, len(p.events)-1)
		}
		require.Equal(t, p.events[next], e)
		require.NotEqualValues(t, 5, e.Sequence)
	}
}
