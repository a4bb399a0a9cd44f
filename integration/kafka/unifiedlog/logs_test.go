package unifiedlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage/segment"
)

// forever keeps the old timestamps of recorded logs from rolling a segment, and their producers from being forgotten.
const forever = 1 << 62 * time.Nanosecond

// written is a log that a follower has written.
type written struct {
	topic     string
	dir       string
	compacted bool
	end       int64
	epoch     int32
	bytes     []byte // of the whole log
}

// followers has a leader and a follower replicate logs that real brokers wrote, and made ones, and returns what the
// follower has then written. Both are closed.
func followers(t *testing.T) (all []written) {
	t.Helper()
	r := newReplication(t)
	root := t.TempDir()
	for _, topic := range kafkadata.Topics() {
		cfg := unifiedlog.Config{SegmentAge: forever, ProducerExpiration: forever}
		switch topic.Name { // as those topics were configured
		case "segments":
			cfg.SegmentAge, cfg.IndexIntervalBytes = time.Minute, 200
		case "compacted":
			cfg.SegmentAge, cfg.IndexIntervalBytes, cfg.Compacted = time.Minute, 100, true
		}
		all = append(all, replicate(t, r, root, topic.Name, topic.TopicID, cfg, topic.Runs()))
	}
	generated := unifiedlog.Config{SegmentBytes: 200_000, IndexIntervalBytes: 1000, SegmentAge: forever}
	all = append(all, replicate(t, r, root, "generated", uuid.UUID{6: 0x40, 8: 0x80, 15: 7}, generated, made()))
	require.Greater(t, r.replicator.Stats().Batches, int64(300), "batches that came through the store, of some 680")
	return all
}

// made are batches of 1 to 30 records of up to 4 kB, in five leader epochs.
func made() []kafkadata.Run {
	random := rand.New(rand.NewPCG(7, 7))
	var runs []kafkadata.Run
	offset := int64(0)
	for epoch := range int32(5) {
		run := kafkadata.Run{EpochStart: kafkadata.EpochStart{Epoch: 3 * epoch, Start: offset}}
		for range 100 {
			values := make([]string, 1+random.IntN(30))
			for i := range values {
				values[i] = fmt.Sprintf("%0*d", 1+random.IntN(4000)/len(values), i)
			}
			b := batchtest.Make(offset, run.Epoch, values...)
			run.Log = append(run.Log, b...)
			offset += int64(len(values))
		}
		run.End = offset
		runs = append(runs, run)
	}
	return runs
}

// replicate replicates one log, an epoch after the other.
func replicate(t *testing.T, r *replication, root, topic string, id uuid.UUID, cfg unifiedlog.Config, runs []kafkadata.Run) written {
	t.Helper()
	cfg.TopicID = id
	p := segment.TopicIDPartition{TopicID: id, Topic: topic}
	w := written{topic: topic, compacted: cfg.Compacted, dir: filepath.Join(root, "follower", topic+"-0")}
	cfg.Dir = filepath.Join(root, "leader", topic+"-0")
	from, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	cfg.Dir = w.dir
	to, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	for _, run := range runs {
		start, err := from.Lead(run.Epoch)
		require.NoError(t, err)
		leadership, following := r.begin(t, p, run.Epoch, start, from, to)
		settle(t, following, from, to)
		for s := batch.NewScanner(run.Log); s.Next(); { // each by itself, as producers send them
			require.NoError(t, from.AppendRaw(context.Background(), s.Bytes()))
			leadership.Notify()
		}
		settle(t, following, from, to)
		following.Stop()
		leadership.Resign()
		w.bytes, w.epoch = append(w.bytes, run.Log...), run.Epoch
	}
	w.end, _ = to.End()
	require.NoError(t, from.Close())
	require.NoError(t, to.Close())
	return w
}
