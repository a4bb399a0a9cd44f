package kafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Adopt starts the broker on logs that it has not written: by topic, the directory to be copied to the place of partition
// 0, of which the topic exists and is empty. The broker is stopped, keeps its partition.metadata, and is started so that
// it trusts nothing: without the mark of a clean shutdown, and with 0 for what is flushed, it reads every segment, checks
// every batch, makes all indexes anew, and cuts off what is wrong. Adopt returns the lines of its log that tell of that.
//
// A leader epoch below those of the log would cost the log its history of epochs: each start of a broker that is alone
// raises the topic's by 2, and Adopt starts it as often as it takes for the topic to be above epoch.
func (b *Broker) Adopt(tb testing.TB, epoch int32, logs map[string]string) (complaints []string) {
	tb.Helper()
	topics := slices.Sorted(maps.Keys(logs))
	for b.cluster.leaderEpoch(tb, topics[0]) < epoch {
		b.Stop(tb)
		b.Start(tb)
	}
	b.Stop(tb)
	for _, topic := range topics {
		replaceLog(tb, b.Partition(topic, 0), logs[topic])
	}
	require.NoError(tb, os.Remove(filepath.Join(b.Data(), ".kafka_cleanshutdown")))
	forgetFlushed(tb, filepath.Join(b.Data(), "recovery-point-offset-checkpoint"), topics)
	before, err := os.ReadFile(b.log())
	require.NoError(tb, err)
	b.Start(tb)

	after, err := os.ReadFile(b.log())
	require.NoError(tb, err)
	said := string(after[len(before):])
	for _, topic := range topics {
		require.Contains(tb, said, fmt.Sprintf("[LogLoader partition=%s-0, dir=%s] Recovering", topic, b.Data()), "the broker has not read %s", topic)
	}
	for _, line := range lines(said) {
		for _, wrong := range []string{"Found invalid messages", "Corruption found", "Found a corrupted index", "stray"} {
			if strings.Contains(line, wrong) {
				complaints = append(complaints, line)
			}
		}
	}
	return complaints
}

// replaceLog puts the files of a directory in the place of a partition's, but for partition.metadata.
func replaceLog(tb testing.TB, partition, dir string) {
	tb.Helper()
	const metadata = "partition.metadata"
	old, err := os.ReadDir(partition)
	require.NoError(tb, err)
	for _, file := range old {
		if file.Name() != metadata {
			require.NoError(tb, os.Remove(filepath.Join(partition, file.Name())))
		}
	}
	fresh, err := os.ReadDir(dir)
	require.NoError(tb, err)
	for _, file := range fresh {
		if file.Name() == metadata {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(tb, err)
		require.NoError(tb, os.WriteFile(filepath.Join(partition, file.Name()), content, 0o600))
	}
}

// forgetFlushed sets what a checkpoint file of Kafka's says of the topics to 0: a version, a number of lines, and lines of
// topic, partition and offset.
func forgetFlushed(tb testing.TB, path string, topics []string) {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	all := lines(string(text))
	for i, line := range all {
		if fields := strings.Fields(line); len(fields) == 3 && slices.Contains(topics, fields[0]) {
			all[i] = fmt.Sprintf("%s %s 0", fields[0], fields[1])
		}
	}
	require.NoError(tb, os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o600))
}

// leaderEpoch returns the leader epoch of partition 0.
func (c *Cluster) leaderEpoch(tb testing.TB, topic string) (epoch int32) {
	tb.Helper()
	admin := c.Admin(tb)
	Eventually(tb, topic+" has a leader epoch", func(ctx context.Context) error {
		p, err := partition(ctx, admin, topic, 0)
		epoch = p.LeaderEpoch
		return err
	})
	return epoch
}
