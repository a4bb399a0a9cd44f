package unifiedlog_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/unifiedlog"
)

// fuzzed is the log of one segment of which FuzzIndexes puts any bytes in the place of the indexes.
func fuzzed(t testing.TB) (files map[string][]byte, whole []byte) {
	t.Helper()
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk, IndexIntervalBytes: 100, SegmentAge: forever, ProducerExpiration: forever})
	require.NoError(t, err)
	for i := range int32(8) {
		_, err := log.AppendAsLeader(t.Context(), i/3, at(transactional(7, i, "a"), batchtest.Time+int64(i)))
		require.NoError(t, err)
		if i%2 == 1 {
			_, err = log.AppendMarkers(t.Context(), i/3, at(marker(7, i == 5), batchtest.Time+int64(i)))
			require.NoError(t, err)
		}
	}
	whole, err = readLog(log)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	return disk.bytesOf(), whole
}

const firstSegment = "00000000000000000000"

func indexSeeds(t testing.TB) []corpus.Seed {
	files, _ := fuzzed(t)
	index, times, txns := files[firstSegment+".index"], files[firstSegment+".timeindex"], files[firstSegment+".txnindex"]
	require.NotEmpty(t, index)
	require.NotEmpty(t, times)
	require.NotEmpty(t, txns)
	reversed := slices.Concat(index[8:16], index[:8])
	large := bytes.Repeat([]byte{0x7f, 0xff, 0xff, 0xff}, 17)
	return []corpus.Seed{
		{Name: "whole", Args: []any{index, times, txns}},
		{Name: "empty", Args: []any{[]byte{}, []byte{}, []byte{}}},
		{Name: "shorter", Args: []any{index[:8], times[:12], txns[:34]}},
		{Name: "not-whole", Args: []any{index[:7], times[:11], txns[:33]}},
		{Name: "zeros", Args: []any{make([]byte, 80), make([]byte, 120), make([]byte, 102)}},
		{Name: "zeros-behind", Args: []any{slices.Concat(index, make([]byte, 16)), slices.Concat(times, make([]byte, 24)), txns}},
		{Name: "reversed", Args: []any{reversed, times, slices.Concat(txns[34:], txns[:34])}},
		{Name: "largest", Args: []any{large[:64], large[:60], large}},
		{Name: "negative", Args: []any{bytes.Repeat([]byte{0xff}, 16), bytes.Repeat([]byte{0xff}, 24), bytes.Repeat([]byte{0xff}, 68)}},
		{Name: "twice", Args: []any{slices.Concat(index, index), slices.Concat(times, times), slices.Concat(txns, txns)}},
	}
}

func TestIndexesCorpus(t *testing.T) {
	seeds := indexSeeds(t)
	for _, seed := range seeds {
		tryIndexes(t, seed.Args[0].([]byte), seed.Args[1].([]byte), seed.Args[2].([]byte))
	}
	corpus.Check(t, "FuzzIndexes", seeds...)
}

// S5: any bytes as the indexes of a log that was shut down cleanly: every record is read all the same.
func FuzzIndexes(f *testing.F) {
	f.Fuzz(func(t *testing.T, index, times, txns []byte) { tryIndexes(t, index, times, txns) })
}

func tryIndexes(t *testing.T, index, times, txns []byte) {
	files, whole := fuzzed(t)
	files[firstSegment+".index"], files[firstSegment+".timeindex"], files[firstSegment+".txnindex"] = index, times, txns
	disk := fromFiles(files)
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{
		FS: disk, IndexIntervalBytes: 100, CleanShutdown: true, SegmentAge: forever, ProducerExpiration: forever,
	})
	require.NoError(t, err)
	got, err := readLog(log)
	require.NoError(t, err)
	require.Equal(t, whole, got)
	buf := make([]byte, 2000)
	for s := batch.NewScanner(whole); s.Next(); {
		n, err := log.Read(t.Context(), s.BaseOffset(), buf)
		require.NoError(t, err)
		require.Equal(t, whole[s.Position():], buf[:n])
	}
	for time := int64(batchtest.Time) - 1; time < batchtest.Time+9; time++ {
		found, ok, err := log.OffsetForTime(t.Context(), time)
		require.NoError(t, err)
		want := max(time, batchtest.Time)
		require.Equal(t, want < batchtest.Time+8, ok)
		require.True(t, !ok || found.Timestamp == want, "%d: %v", time, found)
	}
	_, err = log.AbortedTransactions(t.Context(), 0, 12)
	require.NoError(t, err)
	end, err := log.TruncateTo(7)
	require.NoError(t, err)
	require.EqualValues(t, 7, end)
	_, err = log.AppendAsLeader(t.Context(), 9, batchtest.Make(0, 0, "on"))
	require.NoError(t, err)
	got, err = readLog(log)
	require.NoError(t, err)
	require.Len(t, got, len(upTo(whole, 7))+len(batchtest.Make(0, 0, "on")))
	require.NoError(t, log.Close())
}

// FuzzLog has any bytes as the log of a segment, which is recovered: what is left is whole batches in order, and the bytes
// before the first that is none.
func FuzzLog(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte, clean bool) { tryLog(t, raw, clean) })
}

func logSeeds(t testing.TB) (seeds []corpus.Seed) {
	_, whole := fuzzed(t)
	add := func(name string, raw []byte) {
		seeds = append(seeds, corpus.Seed{Name: name, Args: []any{raw, false}}, corpus.Seed{Name: name + "-clean", Args: []any{raw, true}})
	}
	add("whole", whole)
	add("empty", []byte{})
	add("torn", whole[:len(whole)-7])
	add("zeros-behind", slices.Concat(whole, make([]byte, 100)))
	add("twice", slices.Concat(whole, whole))
	add("gap", slices.Concat(batchtest.Make(0, 0, "a"), batchtest.Make(9, 0, "b"), batchtest.Make(10, 0, "c")))
	add("gap-before-the-last", slices.Concat(batchtest.Make(0, 0, "a"), batchtest.Make(9, 0, "b")))
	add("epochs-fall", slices.Concat(batchtest.Make(0, 5, "a"), batchtest.Make(1, 4, "b")))
	add("far", slices.Concat(batchtest.Make(0, 0, "a"), batchtest.Make(1<<40, 0, "b")))
	for name, vector := range batchtest.Vectors() {
		add(strings.ToLower(name), vector)
	}
	return seeds
}

func TestLogCorpus(t *testing.T) {
	seeds := logSeeds(t)
	for _, seed := range seeds {
		tryLog(t, seed.Args[0].([]byte), seed.Args[1].(bool))
	}
	slices.SortFunc(seeds, func(a, b corpus.Seed) int { return strings.Compare(a.Name, b.Name) })
	corpus.Check(t, "FuzzLog", seeds...)
}

func tryLog(t *testing.T, raw []byte, clean bool) {
	disk := fromFiles(map[string][]byte{firstSegment + ".log": raw})
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk, CleanShutdown: clean, SegmentAge: forever})
	require.NoError(t, err)
	got, err := readLog(log)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(raw, got))
	end, _ := log.End()
	next := int64(0)
	for s := batch.NewScanner(got); s.Next(); {
		require.NoError(t, batch.VerifyCRC(s.Bytes()))
		require.GreaterOrEqual(t, s.BaseOffset(), next)
		next = s.LastOffset() + 1
	}
	require.Equal(t, next, end)
	epoch, _ := log.Epoch()
	if _, err := log.AppendAsLeader(t.Context(), max(epoch, epoch+1), batchtest.Make(0, 0, "on")); !errors.Is(err, unifiedlog.ErrNotLeader) && !errors.Is(err, unifiedlog.ErrOutOfOrder) {
		require.NoError(t, err)
	}
	require.NoError(t, log.Close())
}
