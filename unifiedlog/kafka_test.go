package unifiedlog_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/unifiedlog"
)

// kafkaTopics are the directories that a real broker left, of which kafkadata embeds the logs.
const kafkaTopics = "../internal/kafkadata/topics"

// forever keeps the old timestamps of those logs from rolling a segment, and their producers from being forgotten.
const forever = 1 << 62 * time.Nanosecond

// kafkaConfig returns the configuration that a topic of kafkadata was made with.
func kafkaConfig(topic string, dir string) unifiedlog.Config {
	cfg := unifiedlog.Config{Dir: dir, SegmentAge: forever, ProducerExpiration: forever}
	switch topic {
	case "segments":
		cfg.SegmentAge, cfg.IndexIntervalBytes = time.Minute, 200
	case "compacted":
		cfg.SegmentAge, cfg.IndexIntervalBytes, cfg.Compacted = time.Minute, 100, true
	}
	return cfg
}

// filesIn returns the files of a directory by name.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		b, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(b)
	}
	return files
}

// open opens a log and closes it at the end of the test, whatever came of it.
func open(t *testing.T, cfg unifiedlog.Config) *unifiedlog.Log {
	t.Helper()
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// appendRun appends the batches of one leader epoch as a follower, size batches at a time.
func appendRun(t *testing.T, log *unifiedlog.Log, epoch int32, run []byte, size int) {
	t.Helper()
	require.NoError(t, log.Follow(epoch))
	var slice []byte
	count := 0
	flush := func() {
		if len(slice) > 0 {
			end, _ := log.End()
			require.NoError(t, log.AppendAsFollower(t.Context(), epoch, end, slice))
		}
		slice, count = nil, 0
	}
	for s := batch.NewScanner(run); s.Next(); {
		slice = append(slice, s.Bytes()...)
		if count++; count == size {
			flush()
		}
	}
	flush()
}

// A follower that appends what a real broker wrote ends with that broker's files, byte for byte: logs, every index, the
// snapshots of the producers, the epochs and the topic id; however many batches come in one append.
func TestFilesEqualKafkas(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		if topic.Name == "compacted" {
			continue // the cleaner made its segments, see TestSegmentsEqualKafkas
		}
		for _, size := range []int{1, 3, 1 << 20} {
			t.Run(topic.Name, func(t *testing.T) {
				// Given an empty directory, opened anew for each leader epoch, as that broker was.
				cfg := kafkaConfig(topic.Name, t.TempDir())
				cfg.TopicID = topic.TopicID
				for _, run := range topic.Runs() {
					log := open(t, cfg)
					appendRun(t, log, run.Epoch, run.Log, size)
					require.NoError(t, log.Close())
					cfg.CleanShutdown = true
				}

				// Then all files are there, and no other.
				want := filesIn(t, filepath.Join(kafkaTopics, topic.Name))
				delete(want, "dump.txt")
				got := filesIn(t, cfg.Dir)
				assert.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
				for name := range want {
					assert.Equal(t, want[name], got[name], name)
				}
			})
		}
	}
}

// The same for each segment by itself: its log and its indexes. Here the segments that Kafka's cleaner made are, too.
func TestSegmentsEqualKafkas(t *testing.T) {
	compared := 0
	for _, topic := range kafkadata.Topics() {
		want := filesIn(t, filepath.Join(kafkaTopics, topic.Name))
		for _, segment := range topic.Segments {
			t.Run(fmt.Sprint(topic.Name, segment.BaseOffset), func(t *testing.T) {
				cfg := kafkaConfig(topic.Name, t.TempDir())
				cfg.SegmentAge, cfg.LogStart = forever, segment.BaseOffset
				log := open(t, cfg)
				appendRun(t, log, topic.Runs()[len(topic.Runs())-1].Epoch, segment.Log, 2)
				require.NoError(t, log.Close())
				got := filesIn(t, cfg.Dir)
				prefix := fmt.Sprintf("%020d.", segment.BaseOffset)
				for _, suffix := range []string{"log", "index", "timeindex", "txnindex"} {
					assert.Equal(t, want[prefix+suffix], got[prefix+suffix], suffix)
					compared++
				}
			})
		}
	}
	assert.Equal(t, 18*4, compared)
}

// A compacted topic as a whole: the gaps that compaction left go in as they are, the snapshots of the producers are Kafka's.
// Its checkpoint of the epochs begins where the first record that is left does.
func TestCompactedEqualsKafkas(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		if topic.Name != "compacted" {
			continue
		}
		cfg := kafkaConfig(topic.Name, t.TempDir())
		cfg.SegmentAge, cfg.TopicID = forever, topic.TopicID
		log := open(t, cfg)
		for _, segment := range topic.Segments {
			require.NoError(t, log.Roll())
			appendRun(t, log, 0, segment.Log, 1)
		}
		require.NoError(t, log.Close())
		want, got := filesIn(t, filepath.Join(kafkaTopics, topic.Name)), filesIn(t, cfg.Dir)
		delete(want, "dump.txt")
		want["leader-epoch-checkpoint"] = "0\n1\n0 5\n"
		assert.Equal(t, want, got)
	}
}

// Of what a real broker wrote, the logs alone are enough: recovery makes every index and snapshot anew, byte for byte. Only
// the snapshots that the broker left between segments are not made again.
func TestRecoveryOfKafkasLogs(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		t.Run(topic.Name, func(t *testing.T) {
			want := filesIn(t, filepath.Join(kafkaTopics, topic.Name))
			cfg := kafkaConfig(topic.Name, t.TempDir())
			for name, b := range want {
				if strings.HasSuffix(name, ".log") || name == "partition.metadata" {
					require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, name), []byte(b), 0o644))
				}
			}
			log := open(t, cfg)
			assert.Equal(t, topic.TopicID, log.TopicID())
			require.NoError(t, log.Close())
			delete(want, "dump.txt")
			switch topic.Name {
			case "epochs":
				delete(want, "00000000000000000012.snapshot")
			case "compacted":
				want["leader-epoch-checkpoint"] = "0\n1\n0 5\n"
			}
			assert.Equal(t, want, filesIn(t, cfg.Dir))
		})
	}
}
