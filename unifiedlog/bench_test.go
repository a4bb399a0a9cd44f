package unifiedlog_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog"
)

// The measure of a follower: 64 slices of 4 KiB go into 64 partitions. A round is all of them.
const (
	sliceCount = 64
	sliceBytes = 4096
)

// slices64 returns a slice for each partition and a function that moves them all to the next offsets.
func slices64() (all [][]byte, next func()) {
	all = make([][]byte, sliceCount)
	for i := range all {
		all[i] = batchtest.Sized(0, 1, sliceBytes, byte(i))
	}
	offset := int64(0)
	return all, func() {
		offset++
		for _, b := range all {
			binary.BigEndian.PutUint64(b, uint64(offset))
		}
	}
}

// rawRound writes the same bytes into as many files, with a CRC-32C over each, and nothing else.
type rawRound struct {
	files []*os.File
	at    int64
	sum   uint32
}

func newRawRound(tb testing.TB, dir string) *rawRound {
	r := &rawRound{}
	for i := range sliceCount {
		file, err := os.Create(filepath.Join(dir, fmt.Sprint("raw", i)))
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = file.Close() })
		r.files = append(r.files, file)
	}
	return r
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *rawRound) run(tb testing.TB, all [][]byte) {
	for i, b := range all {
		r.sum ^= crc32.Checksum(b, castagnoli)
		if _, err := r.files[i].WriteAt(b, r.at); err != nil {
			tb.Fatal(err)
		}
	}
	r.at += sliceBytes
}

// logs64 are the logs of 64 partitions that follow.
func logs64(tb testing.TB, dir string) []*unifiedlog.Log {
	logs := make([]*unifiedlog.Log, sliceCount)
	for i := range logs {
		log, err := unifiedlog.Open(context.Background(), unifiedlog.Config{
			Dir: filepath.Join(dir, fmt.Sprint("topic-", i)), SegmentAge: forever, RollFlush: unifiedlog.RollFlushNone,
		})
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = log.Close() })
		require.NoError(tb, log.Follow(1))
		logs[i] = log
	}
	return logs
}

func appendRound(tb testing.TB, logs []*unifiedlog.Log, all [][]byte) {
	for i, b := range all {
		if err := logs[i].AppendAsFollower(context.Background(), 1, int64(binary.BigEndian.Uint64(b)), b); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkFollower appends as a follower and writes the raw bytes, turn by turn in one run, and reports both medians and
// their ratio, which is to be 1.5 at most.
func BenchmarkFollower(b *testing.B) {
	all, next := slices64()
	raw, logs := newRawRound(b, b.TempDir()), logs64(b, b.TempDir())
	b.SetBytes(sliceCount * sliceBytes)
	var ours, theirs []time.Duration
	for b.Loop() {
		begun := time.Now()
		raw.run(b, all)
		between := time.Now()
		appendRound(b, logs, all)
		theirs, ours = append(theirs, between.Sub(begun)), append(ours, time.Since(between))
		next()
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(median(ours), "us/round")
	b.ReportMetric(median(theirs), "us/raw-round")
	b.ReportMetric(median(ours)/median(theirs), "ratio")
}

// BenchmarkLeader appends batches of 4 KiB as the leader.
func BenchmarkLeader(b *testing.B) {
	log := logs64(b, b.TempDir())[0]
	raw := batchtest.Sized(0, 1, sliceBytes, 'x')
	b.SetBytes(sliceBytes)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := log.AppendAsLeader(context.Background(), 2, raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead reads 256 KiB at a time, at the place where the read before ended and at any, checked as always, beside
// reading the file alone.
func BenchmarkRead(b *testing.B) {
	const batches, size = 4096, 1 << 18
	dir := b.TempDir()
	log := logs64(b, dir)[0]
	for i := range int64(batches) {
		raw := batchtest.Sized(i, 1, sliceBytes, 'x')
		require.NoError(b, log.AppendAsFollower(context.Background(), 1, i, raw))
	}
	dst := make([]byte, size)
	read := func(b *testing.B, offset int64) {
		if n, err := log.Read(context.Background(), offset, dst); n != size || err != nil {
			b.Fatal(n, err)
		}
	}
	b.Run("on", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		offset := int64(0)
		for b.Loop() {
			read(b, offset)
			offset = (offset + size/sliceBytes) % batches
		}
	})
	b.Run("anywhere", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		offset := int64(0)
		for b.Loop() {
			read(b, offset)
			offset = (offset + 1021) % (batches - 64)
		}
	})
	b.Run("file", func(b *testing.B) {
		file, err := os.Open(filepath.Join(dir, "topic-0", "00000000000000000000.log"))
		require.NoError(b, err)
		defer func() { _ = file.Close() }()
		b.SetBytes(size)
		at := int64(0)
		for b.Loop() {
			if _, err := file.ReadAt(dst, at); err != nil {
				b.Fatal(err)
			}
			at = (at + size) % (batches * sliceBytes)
		}
	})
	b.Run("checksum", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			for s := batch.NewScanner(dst); s.Next(); {
				_ = batch.VerifyCRC(s.Bytes())
			}
		}
	})
}
