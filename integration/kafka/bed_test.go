package kafka_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/integration/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What one client has produced, the others and the tools find, on one broker.
func TestOneBroker(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{})
	client := cluster.Client(t)
	cluster.Create(t, "bed", 1)

	// Given records of franz-go, of kcat and of Kafka's console producer
	var want []string
	for i := range 10 {
		record := &kgo.Record{Topic: "bed", Key: fmt.Append(nil, "key-", i), Value: fmt.Append(nil, "value-", i)}
		require.NoError(t, client.ProduceSync(t.Context(), record).FirstErr())
		require.Equal(t, int64(i), record.Offset)
		want = append(want, fmt.Sprintf("key-%d\tvalue-%d", i, i))
	}
	cluster.Kcat(t, cluster.Bootstrap(), "key-10\tvalue-10\n", "-P", "-t", "bed", "-K", "\t")
	cluster.Produce(t, cluster.Bootstrap(), "bed", []string{"key-11\tvalue-11"})
	want = append(want, "key-10\tvalue-10", "key-11\tvalue-11")

	// When each of them reads, then it finds all
	require.Equal(t, want, strings.Split(strings.TrimSpace(
		cluster.Kcat(t, cluster.Bootstrap(), "", "-C", "-t", "bed", "-p", "0", "-o", "beginning", "-e", "-q", "-K", "\t")), "\n"))
	require.Equal(t, want, cluster.Consume(t, cluster.Bootstrap(), "bed", 0, 0, len(want)))

	// And the files hold them too.
	dump := cluster.Dump(t, cluster.Broker(1).Partition("bed", 0), "--print-data-log")
	require.Contains(t, dump, "payload: value-11")
	require.NotContains(t, dump, "isvalid: false")
}

// Three brokers keep what they have acknowledged through a kill, a restart and a move of the leadership.
func TestThreeBrokers(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{Brokers: 3})
	cluster.Create(t, "bed", 1, "min.insync.replicas", "2", "segment.bytes", "1048576")
	client := cluster.Client(t, kgo.DefaultProduceTopic("bed"), kgo.MetadataMinAge(50*time.Millisecond))
	produce := func(value string) int64 {
		record := kgo.StringRecord(value)
		require.NoError(t, client.ProduceSync(t.Context(), record).FirstErr())
		return record.Offset
	}
	require.EqualValues(t, 0, produce("one"))

	// The leader is killed, and another one takes over.
	first := cluster.Leader(t, "bed", 0)
	first.Kill(t)
	require.EqualValues(t, 1, produce("two"))
	second := cluster.Leader(t, "bed", 0)
	require.NotEqual(t, first.ID, second.ID)
	first.Start(t)
	cluster.AwaitISR(t, "bed", 0)

	// The leadership is moved.
	third := cluster.MoveLeader(t, "bed", 0)
	require.NotEqual(t, second.ID, third.ID)
	require.EqualValues(t, 2, produce("three"))

	// A broker ends as it should.
	second.Stop(t)
	require.EqualValues(t, 3, produce("four"))
	second.Start(t)
	cluster.AwaitISR(t, "bed", 0)
	cluster.Await(t)

	// All have all.
	require.Equal(t, []string{"null\tone", "null\ttwo", "null\tthree", "null\tfour"},
		cluster.Consume(t, cluster.Bootstrap(), "bed", 0, 0, 4))
	var logs [][]byte
	for _, b := range cluster.Brokers() {
		log, err := os.ReadFile(filepath.Join(b.Partition("bed", 0), "00000000000000000000.log"))
		require.NoError(t, err)
		logs = append(logs, log)
	}
	require.Equal(t, logs[0], logs[1])
	require.Equal(t, logs[0], logs[2])

	// Records can be deleted, and a topic be made anew.
	cluster.DeleteRecords(t, "bed", 0, 3)
	cluster.AwaitStart(t, "bed", 0, 3)
	cluster.Delete(t, "bed")
	cluster.Create(t, "bed", 2)
	client = cluster.Client(t, kgo.DefaultProduceTopic("bed"), kgo.RecordPartitioner(kgo.ManualPartitioner())) // the old one asks for the old topic's id
	require.EqualValues(t, 0, produce("again"))
}

// Retention deletes old segments in seconds, a client can be throttled, and a broker stand still.
func TestRetentionThrottleAndPause(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{})
	cluster.Create(t, "old", 1, "retention.ms", "1000", "segment.bytes", "1048576")
	cluster.Perform(t, cluster.Bootstrap(), "old", 30_000, 100, "acks=1", "batch.size=10000")
	cluster.AwaitStart(t, "old", 0, 10_000)

	cluster.Create(t, "slow", 1)
	client := cluster.Client(t, kgo.ClientID("slow"), kgo.DefaultProduceTopic("slow"))
	cluster.Throttle(t, "slow", 10_000) // once the broker has heard of it, and the client has used up what it may at once
	longest := time.Duration(0)
	for range 300 {
		begun := time.Now()
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Value: make([]byte, 20_000)}).FirstErr())
		if longest = max(longest, time.Since(begun)); longest > 500*time.Millisecond {
			break
		}
	}
	require.Greater(t, longest, 500*time.Millisecond)
	cluster.Throttle(t, "slow", 0)

	broker := cluster.Broker(1)
	broker.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, client.Ping(ctx), context.DeadlineExceeded)
	broker.Resume(t)
	require.NoError(t, client.Ping(t.Context()))
}
