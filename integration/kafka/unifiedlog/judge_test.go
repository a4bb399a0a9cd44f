package unifiedlog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
)

// What a walhop follower has written passes Kafka's own tool, and a real broker that trusts nothing starts on it, changes
// no byte of it, serves all of it to real consumers, of committed records alone too, and appends to it.
func TestKafkaTakesOurLogs(t *testing.T) {
	all := followers(t)
	cluster := kafka.Start(t, kafka.Config{Settings: map[string]string{
		"log.roll.ms": "4000000000000", // records of years ago stand beside those of now
	}})

	// The tool.
	var dirs, plain, compacted []string
	for _, w := range all {
		dirs = append(dirs, w.dir)
		if w.compacted {
			compacted = append(compacted, w.dir)
		} else {
			plain = append(plain, w.dir)
		}
	}
	require.Empty(t, cluster.Judge(t, false, plain...))
	require.Empty(t, cluster.Judge(t, true, compacted...))
	// It is a judge: a flipped bit in a log, or in an index, is found.
	generated := dirs[len(dirs)-1]
	damagedLog, damagedIndex := damaged(t, generated, ".log"), damaged(t, generated, ".index")
	require.NotEmpty(t, cluster.Judge(t, false, damagedLog))
	require.NotEmpty(t, cluster.Judge(t, false, damagedIndex))
	t.Attr("dump", fmt.Sprintf("%d logs, no complaint", len(all)))

	// The broker.
	logs := make(map[string]string)
	epoch := int32(0)
	for _, w := range all {
		logs[w.topic] = w.dir
		epoch = max(epoch, w.epoch)
		settings := []string{"max.message.bytes", "2000000"}
		if w.compacted {
			settings = append(settings, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "1.0")
		}
		cluster.Create(t, w.topic, 1, settings...)
	}
	cluster.Create(t, "damaged", 1)
	logs["damaged"] = damagedLog
	complaints := cluster.Broker(1).Adopt(t, epoch, logs)
	require.NotEmpty(t, complaints, "the broker judges too")
	for _, line := range complaints {
		require.Contains(t, line, "damaged-0")
	}
	records := cluster.Records(t, dirs...)
	for _, w := range all {
		t.Run(w.topic, func(t *testing.T) {
			require.True(t, bytes.Equal(w.bytes, kafka.LogBytes(t, cluster.Broker(1).Partition(w.topic, 0))), "the broker has changed the log")
			require.Subset(t, epochs(t, cluster.Broker(1).Partition(w.topic, 0)), epochs(t, w.dir), "the log has lost epochs")
			require.NotEmpty(t, records[w.dir])
			require.Equal(t, kafka.Visible(records[w.dir], false), consumed(t, cluster, w.topic, w.end, kgo.ReadUncommitted()))
			require.Equal(t, kafka.Visible(records[w.dir], true), consumed(t, cluster, w.topic, w.end, kgo.ReadCommitted()))
			record := kgo.StringRecord("after")
			record.Key = []byte("after")
			client := cluster.Client(t, kgo.DefaultProduceTopic(w.topic))
			require.NoError(t, client.ProduceSync(t.Context(), record).FirstErr())
			require.Equal(t, w.end, record.Offset)
		})
	}
	// Kafka's own consumer, where it matters most.
	txn := records[dirs[slices.IndexFunc(all, func(w written) bool { return w.topic == "txn" })]]
	uncommitted, committed := len(kafka.Visible(txn, false)), len(kafka.Visible(txn, true))
	require.Equal(t, 20, uncommitted)
	require.Equal(t, 13, committed)
	require.Len(t, cluster.Consume(t, cluster.Bootstrap(), "txn", 0, 0, uncommitted), uncommitted)
	require.Len(t, cluster.Consume(t, cluster.Bootstrap(), "txn", 0, 0, committed, "--isolation-level", "read_committed"), committed)
}

// damaged returns a copy of a log with a flipped bit in the middle of its second file of a kind.
func damaged(t *testing.T, dir, kind string) string {
	t.Helper()
	bad := filepath.Join(t.TempDir(), filepath.Base(dir))
	require.NoError(t, os.CopyFS(bad, os.DirFS(dir)))
	files, err := filepath.Glob(filepath.Join(bad, "*"+kind))
	require.NoError(t, err)
	content, err := os.ReadFile(files[1])
	require.NoError(t, err)
	content[len(content)/2] ^= 1
	require.NoError(t, os.WriteFile(files[1], content, 0o600))
	return bad
}

// consumed returns the offsets of the records of partition 0 that a consumer gets below the log's end. It is
// given the ends of transactions too, so that it sees that it has come to the log's.
func consumed(t *testing.T, cluster *kafka.Cluster, topic string, end int64, level kgo.IsolationLevel) (offsets []int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "at %d of %d", next, end)
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				offsets = append(offsets, r.Offset)
			}
		})
	}
	return offsets
}

// epochs returns the leader epochs of a log, each with the offset at which it begins.
func epochs(t *testing.T, dir string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "leader-epoch-checkpoint"))
	require.NoError(t, err)
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	require.Greater(t, len(all), 2, "after a version and a count")
	return all[2:]
}
