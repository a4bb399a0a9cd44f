package unifiedlog_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog"
)

// answers are what a log tells of itself beside its batches.
type answers struct {
	End       int64
	Epoch     int32
	Epochs    []unifiedlog.EpochStart
	Producers []unifiedlog.ProducerInfo
	Stable    int64
	Aborted   []unifiedlog.AbortedTransaction
	Times     map[int64]unifiedlog.TimeOffset
	Latest    [2]int64
}

func ask(t *testing.T, log *unifiedlog.Log) (a answers, err error) {
	a.End, a.Epoch = log.End()
	a.Epochs, a.Producers = log.Epochs(), log.Producers()
	log.SetHighWatermark(a.End)
	a.Stable = log.LastStableOffset()
	if a.Aborted, err = log.AbortedTransactions(t.Context(), log.Start(), a.End); err != nil {
		return a, err
	}
	a.Times = map[int64]unifiedlog.TimeOffset{}
	for time := int64(batchtest.Time) - 1; time < batchtest.Time+60; time += 3 {
		found, ok, err := log.OffsetForTime(t.Context(), time)
		if err != nil {
			return a, err
		}
		if ok {
			a.Times[time] = found
		}
	}
	a.Latest[0], a.Latest[1] = log.LatestTime()
	return a, nil
}

// flipLog returns the files of a log that has something in every kind of file.
func flipLog(t *testing.T) map[string][]byte {
	t.Helper()
	disk := newCrashFS()
	cfg := smallConfig(disk)
	cfg.TopicID = topicID
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	time := int64(batchtest.Time)
	lead := func(epoch int32, raw []byte) {
		t.Helper()
		_, err := log.AppendAsLeader(t.Context(), epoch, at(raw, time))
		require.NoError(t, err)
		time += 2
	}
	end := func(epoch int32, raw []byte) {
		t.Helper()
		_, err := log.AppendMarkers(t.Context(), epoch, at(raw, time))
		require.NoError(t, err)
	}
	for i := range int32(3) {
		epoch := 2 * i
		lead(epoch, batchtest.Make(0, 0, "a", "b"))
		lead(epoch, transactional(7, i, "c"))
		lead(epoch, transactional(8, 2*i, "d", "e"))
		end(epoch, marker(7, false))
		lead(epoch, batchtest.Make(0, 0, "f", "g", "h"))
		end(epoch, marker(8, i == 1))
		lead(epoch, batchtest.Make(0, 0, "i"))
	}
	lead(7, transactional(9, 0, "open"))
	require.NoError(t, log.Close())
	return disk.bytesOf()
}

// A flipped bit in any byte of any file is found at recovery or read, and nothing but what was appended is ever served:
// after a clean shutdown, which reads nothing, and after a crash. What indexes, snapshots and epochs tell is told all the
// same.
func TestFlippedBits(t *testing.T) {
	files := flipLog(t)
	kinds := map[string]int{}
	for name := range files {
		_, suffix, _ := strings.Cut(name, ".")
		kinds[suffix]++
	}
	require.Greater(t, kinds["log"], 3)
	require.Positive(t, kinds["txnindex"])
	require.Positive(t, kinds["snapshot"])

	whole := fromFiles(files)
	cfg := smallConfig(whole)
	cfg.CleanShutdown = true
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	want, err := readLog(log)
	require.NoError(t, err)
	expected, err := ask(t, log)
	require.NoError(t, err)
	require.Len(t, expected.Aborted, 5)
	require.NoError(t, log.Close())

	flips, refused := 0, 0
	for name, original := range files {
		for i := range original {
			if raceDetector && i%5 != 0 {
				continue
			}
			bit := byte(1) << (uint(i*7+len(name)) % 8)
			for start, change := range map[string]func(*unifiedlog.Config){
				"after a clean shutdown":                  func(c *unifiedlog.Config) { c.CleanShutdown = true },
				"after a crash, all is read":              func(*unifiedlog.Config) {},
				"after a crash, the last segment is read": func(c *unifiedlog.Config) { c.RecoveryPoint = expected.End },
			} {
				cfg := smallConfig(fromFiles(files))
				change(&cfg)
				cfg.FS.(*crashFS).names[name].data[i] ^= bit
				what := fmt.Sprintf("%s, byte %d, bit %#x, %s", name, i, bit, start)
				flips++
				if !flip(t, what, cfg, want, expected, strings.HasSuffix(name, ".log")) {
					refused++
				}
			}
		}
	}
	t.Logf("%d flips, %d found and refused, the others mended or without effect", flips, refused)
	assert.Greater(t, refused, flips/3)
}

// flip opens a damaged log and tells whether it is all there.
func flip(t *testing.T, what string, cfg unifiedlog.Config, want []byte, expected answers, ofLog bool) bool {
	t.Helper()
	log, err := unifiedlog.Open(t.Context(), cfg)
	if err != nil {
		require.ErrorIs(t, err, unifiedlog.ErrCorrupt, what)
		return false
	}
	defer func() { require.NoError(t, log.Close(), what) }()
	got, err := readLog(log)
	require.True(t, bytes.HasPrefix(want, got), "%s: something else is served: %x %x", what, want[:min(len(want), 200)], got[:min(len(got), 200)])
	if err != nil {
		require.ErrorIs(t, err, unifiedlog.ErrCorrupt, what)
		// What recovery reads it leaves without damage, but where a batch and the checkpoint contradict each other.
		require.True(t, cfg.CleanShutdown || cfg.RecoveryPoint > 0 || strings.Contains(err.Error(), "leader epoch"), what)
		require.True(t, ofLog || strings.Contains(err.Error(), "leader epoch"), what)
		return false
	}
	if !ofLog {
		require.Equal(t, len(want), len(got), "%s: records are lost", what)
		told, err := ask(t, log)
		require.NoError(t, err, what)
		require.Equal(t, expected, told, what)
		return true
	}
	require.Less(t, len(got), len(want), "%s: the damage was not found", what)
	return false
}

// A base offset that is moved within a gap which compaction left is the one change that the log cannot find: no checksum
// covers it, and its neighbours do not contradict it.
func TestFlippedBaseOffsetInAGap(t *testing.T) {
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), smallConfig(disk))
	require.NoError(t, err)
	raw := slices.Concat(batchtest.Make(0, 0, "a"), batchtest.Make(16, 0, "b"), batchtest.Make(64, 0, "c"))
	require.NoError(t, log.AppendRaw(t.Context(), raw))
	require.NoError(t, log.Close())
	disk.names["00000000000000000000.log"].data[len(raw)/3+7] ^= 32

	log, err = unifiedlog.Open(t.Context(), smallConfig(disk))
	require.NoError(t, err)
	got, err := readLog(log)
	require.NoError(t, err)
	assert.Equal(t, batchtest.Make(48, 0, "b"), got[len(raw)/3:][:len(raw)/3])
	require.NoError(t, log.Close())
}
