package unifiedlog_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog"
)

// tailed reads everything that a tail has, from an offset on.
func tailed(t *testing.T, tail *unifiedlog.Tail, offset int64) (all []byte) {
	t.Helper()
	buf := make([]byte, 1<<17)
	for {
		n, err := tail.Read(t.Context(), offset, buf)
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		all = append(all, buf[:n]...)
		for s := batch.NewScanner(buf[:n]); s.Next(); {
			offset = s.LastOffset() + 1
		}
	}
}

// Of the directory of a real broker a tail tells every batch, and the epochs, and leaves all files as they are.
func TestTailOfKafkasDirectories(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		t.Run(topic.Name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(kafkaTopics, topic.Name))))
			before := filesIn(t, dir)
			tail, err := unifiedlog.OpenTail(dir, 0)
			require.NoError(t, err)
			moved, err := tail.Refresh(t.Context())
			require.NoError(t, err)
			assert.True(t, moved)
			assert.Equal(t, topic.Log(), tailed(t, tail, 0))
			end, epoch := tail.End()
			last := topic.Batches[len(topic.Batches)-1]
			assert.Equal(t, last.LastOffset+1, end)
			assert.Equal(t, last.LeaderEpoch, epoch)
			assert.Len(t, tail.Epochs(), len(topic.Epochs))
			moved, err = tail.Refresh(t.Context())
			require.NoError(t, err)
			assert.False(t, moved, "nothing is new")
			require.NoError(t, tail.Close())
			assert.Equal(t, before, filesIn(t, dir))
			_, err = tail.Read(t.Context(), 0, nil)
			assert.ErrorIs(t, err, unifiedlog.ErrClosed)
		})
	}
}

// A tail follows a log that is written beside it: appends, half of one, rolls, a truncation, and segments that are deleted.
func TestTailFollows(t *testing.T) {
	cfg := unifiedlog.Config{Dir: t.TempDir(), SegmentBytes: 300, RollFlush: unifiedlog.RollFlushInline}
	_, err := unifiedlog.OpenTail(cfg.Dir, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	log := open(t, cfg)
	tail, err := unifiedlog.OpenTail(cfg.Dir, 0)
	require.NoError(t, err)
	defer func() { _ = tail.Close() }()
	follow := func(wantMoved bool) {
		t.Helper()
		moved, err := tail.Refresh(t.Context())
		require.NoError(t, err)
		assert.Equal(t, wantMoved, moved)
		end, epoch := log.End()
		tailEnd, tailEpoch := tail.End()
		assert.Equal(t, end, tailEnd)
		if end > log.Start() {
			assert.Equal(t, epoch, tailEpoch)
		}
		want, err := readLog(log)
		require.NoError(t, err)
		assert.Equal(t, want, tailed(t, tail, log.Start()))
	}
	follow(false)
	for epoch := int32(1); epoch < 12; epoch++ {
		for range epoch {
			_, err := log.AppendAsLeader(t.Context(), epoch, batchtest.Make(0, 0, "a", "b"))
			require.NoError(t, err)
		}
		follow(true)
	}

	// Half of a batch is not there yet.
	file, err := os.OpenFile(filepath.Join(cfg.Dir, activeName(log)), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	end, _ := log.End()
	raw := batchtest.Make(end, 11, "half")
	_, err = file.Write(raw[:40])
	require.NoError(t, err)
	follow(false)
	require.NoError(t, file.Truncate(log.Segments()[len(log.Segments())-1].Size))
	require.NoError(t, file.Close())

	for _, to := range []int64{end - 3, end - 30, 7, 3} {
		_, err = log.TruncateTo(to)
		require.NoError(t, err)
		_, err = log.AppendAsLeader(t.Context(), 12+int32(end-to), batchtest.Make(0, 0, "another", "tail", "after the truncation"))
		require.NoError(t, err)
		follow(true)
	}
	// So is a truncation that later batches have hidden: the file is longer than it was.
	end, _ = log.End()
	_, err = log.TruncateTo(end - 1)
	require.NoError(t, err)
	for range 3 {
		_, err = log.AppendAsLeader(t.Context(), 499, batchtest.Make(0, 0, "x"))
		require.NoError(t, err)
	}
	follow(true)
	for range 30 {
		_, err = log.AppendAsLeader(t.Context(), 500, batchtest.Make(0, 0, "a", "b"))
		require.NoError(t, err)
	}
	follow(true)
	log.SetHighWatermark(1 << 62)
	require.NoError(t, log.DeleteRecords(log.Segments()[2].Base))
	_, err = log.Retain()
	require.NoError(t, err)
	follow(true)
	_, err = tail.Read(t.Context(), 0, nil)
	assert.ErrorIs(t, err, leader.ErrBelowLogStart)

	// It can begin later.
	end, _ = log.End()
	late, err := unifiedlog.OpenTail(cfg.Dir, end)
	require.NoError(t, err)
	_, err = late.Refresh(t.Context())
	require.NoError(t, err)
	segments := log.Segments()
	assert.Equal(t, segments[len(segments)-1].Base, late.Start())
	require.NoError(t, late.Close())
}

// activeName returns the name of the active segment's file.
func activeName(log *unifiedlog.Log) string {
	segments := log.Segments()
	return fmt.Sprintf("%020d.log", segments[len(segments)-1].Base)
}
