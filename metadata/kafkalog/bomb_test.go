package kafkalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// M4: a foreign batch that is small on the topic and large in memory is not decompressed. A reader passes over it at once, and
// so does a writer that looks, however many records it holds.
func TestCompressedBomb(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cfg := config(cluster, 1, 0)
	cfg.Opts = []kgo.Opt{kgo.MaxDecompressBatchBytes(1 << 20)} // less than by default, for a test that takes no time
	log := open(t, cfg)
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))
	const records = 2000
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerLinger(time.Second))
	require.NoError(t, err)
	defer client.Close()
	var bomb []*kgo.Record
	for range records {
		bomb = append(bomb, &kgo.Record{Topic: kafkalog.DefaultTopic, Partition: 1, Key: []byte("no broker"), Value: make([]byte, 1000)})
	}
	require.NoError(t, client.ProduceSync(t.Context(), bomb...).FirstErr())

	fetches := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Count: -1, Observe: true})
	again := cfg
	again.BrokerEpoch = 1
	newer := open(t, again)
	publish(t, newer, event(1, 1, 0))
	wantGap(t, sub, 1, metadata.GapCorrupt)
	wantEvents(t, sub, event(1, 1, 0))
	require.Less(t, fetches.Hits(), records/4)
}

// A look that meets a batch with a wrong checksum has looked at what stands before it, and reads that only once.
func TestLookAtADamagedBatch(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	network := &flipper{}
	other := open(t, config(cluster, 4, 0)) // on the same partition
	for i := range int64(500) {
		publish(t, other, event(4, 0, i))
	}
	bad := event(4, 0, 500)
	bad.Segment.Topics[0].Name = "spoiled-topic-xx"
	publish(t, other, bad)

	network.pattern.Store([]byte("spoiled-topic-xx"))
	cfg := config(cluster, 1, 0)
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	fetches := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Count: -1, Observe: true})
	publish(t, open(t, cfg), event(1, 0, 0))
	require.Less(t, fetches.Hits(), 20)
}
