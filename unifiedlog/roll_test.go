package unifiedlog_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog"
)

// bases returns the bases of the segments.
func bases(log *unifiedlog.Log) (all []int64) {
	for _, s := range log.Segments() {
		all = append(all, s.Base)
	}
	return all
}

func TestRoll(t *testing.T) {
	// Each appends batches of 70 bytes with one record.
	one := func(offset, time int64) []byte { return at(batchtest.Sized(offset, 0, 70, 'x'), time) }
	tests := map[string]struct {
		change  func(*unifiedlog.Config)
		batches [][]byte
		bases   []int64
	}{
		"by size, which is not passed": {
			func(c *unifiedlog.Config) { c.SegmentBytes = 140 },
			[][]byte{one(0, 0), one(1, 0), one(2, 0), one(3, 0), one(4, 0)},
			[]int64{0, 2, 4},
		},
		"KAFKA-17375, a batch larger than a segment has its own": {
			func(c *unifiedlog.Config) { c.SegmentBytes = 140 },
			[][]byte{batchtest.Sized(0, 0, 400, 'x'), one(1, 0), batchtest.Sized(2, 0, 3<<20, 'x'), one(3, 0), one(4, 0), one(5, 0)},
			[]int64{0, 1, 2, 3, 5},
		},
		"by time, counted from the first batch": {
			func(c *unifiedlog.Config) { c.SegmentAge = time.Second },
			[][]byte{one(0, 5000), one(1, 6000), one(2, 6001), one(3, 1), one(4, 7002)},
			[]int64{0, 2, 4},
		},
		"when an index is full": {
			func(c *unifiedlog.Config) { c.IndexIntervalBytes, c.MaxIndexBytes = 1, 64 }, // 4 entries of a time index
			[][]byte{one(0, 1), one(1, 2), one(2, 3), one(3, 4), one(4, 5), one(5, 6), one(6, 7)}, []int64{0, 5},
		},
		"KAFKA-4451, KAFKA-6264, where offsets do not fit": {
			func(*unifiedlog.Config) {},
			[][]byte{one(0, 0), one(math.MaxInt32, 0), one(math.MaxInt32+1, 0), one(1<<40, 0)},
			[]int64{0, math.MaxInt32 + 1, 1 << 40},
		},
		"a gap does not show in the name": {
			func(c *unifiedlog.Config) { c.SegmentBytes = 140 },
			[][]byte{one(0, 0), one(1, 0), one(10, 0), one(11, 0)},
			[]int64{0, 2},
		},
	}
	for name, test := range tests {
		for _, together := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				cfg := unifiedlog.Config{FS: newCrashFS(), SegmentAge: forever, ProducerExpiration: forever, RollFlush: unifiedlog.RollFlushInline}
				test.change(&cfg)
				log := open(t, cfg)
				var all []byte
				for _, b := range test.batches {
					if all = append(all, b...); !together {
						require.NoError(t, log.AppendRaw(t.Context(), b))
					}
				}
				if together {
					require.NoError(t, log.AppendRaw(t.Context(), all))
				}
				assert.Equal(t, test.bases, bases(log))
				got, err := readLog(log)
				require.NoError(t, err)
				assert.Equal(t, all, got)
				require.NoError(t, log.Close())

				// The same after a restart, with recovery and without.
				for _, clean := range []bool{false, true} {
					cfg.CleanShutdown = clean
					again := open(t, cfg)
					got, err := readLog(again)
					require.NoError(t, err)
					assert.Equal(t, all, got)
					assert.Equal(t, test.bases, bases(again))
					require.NoError(t, again.Close())
				}
			})
		}
	}
}

// A segment over a gap has its snapshot of the producers at its own base (KAFKA-4451).
func TestSnapshotOverAGap(t *testing.T) {
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk})
	require.NoError(t, err)
	require.NoError(t, log.AppendRaw(t.Context(), produced(7, 0, 0, 1)))
	require.NoError(t, log.AppendRaw(t.Context(), batchtest.Make(1<<40, 0, "far")))
	assert.Contains(t, disk.bytesOf(), fmt.Sprintf("%020d.snapshot", int64(1)<<40))
	require.NoError(t, log.Close())
}

// Without timestamps the age of a segment is that of its files (Config.Now).
func TestRollByTheClock(t *testing.T) {
	now := time.UnixMilli(batchtest.Time)
	log := open(t, unifiedlog.Config{Dir: t.TempDir(), SegmentAge: time.Minute, Now: func() time.Time { return now }})
	without := at(batchtest.Sized(0, 0, 70, 'x'), -1)
	for range 3 {
		_, err := log.AppendAsLeader(t.Context(), 1, without)
		require.NoError(t, err)
		now = now.Add(40 * time.Second)
	}
	assert.Equal(t, []int64{0, 2}, bases(log))
	require.NoError(t, log.Roll())
	require.NoError(t, log.Roll(), "an empty segment is not rolled")
	assert.Equal(t, []int64{0, 2, 3}, bases(log))
}

// What is rolled is synced in the background, and the recovery point follows it; Close waits for it.
func TestRollFlushes(t *testing.T) {
	for flush, want := range map[unifiedlog.RollFlush]int64{
		unifiedlog.RollFlushInline: 4, unifiedlog.RollFlushNone: 0, unifiedlog.RollFlushBackground: 4,
	} {
		disk := newCrashFS()
		log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk, SegmentBytes: 140, RollFlush: flush})
		require.NoError(t, err)
		for range 5 {
			_, err := log.AppendAsLeader(t.Context(), 1, batchtest.Sized(0, 0, 70, 'x'))
			require.NoError(t, err)
		}
		if flush == unifiedlog.RollFlushBackground {
			require.Eventually(t, func() bool { return log.RecoveryPoint() == want }, 5*time.Second, time.Millisecond)
		}
		assert.Equal(t, want, log.RecoveryPoint())
		left := disk.crash(loseUnsynced, 0)
		require.NoError(t, log.Close())

		log, err = unifiedlog.Open(t.Context(), unifiedlog.Config{FS: left, SegmentBytes: 140, RecoveryPoint: want})
		require.NoError(t, err)
		end, _ := log.End()
		assert.Equal(t, want, end)
		require.NoError(t, log.Close())
	}
}

// FlushRecords: an append that returned is on the disk.
func TestFlushRecords(t *testing.T) {
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk, FlushRecords: 2})
	require.NoError(t, err)
	for i, point := range []int64{0, 2, 2, 4} {
		_, err = log.AppendAsLeader(t.Context(), 1, batchtest.Make(0, 0, "x"))
		require.NoError(t, err)
		assert.Equal(t, point, log.RecoveryPoint(), i)
	}
	require.NoError(t, log.Close())
}

func TestRetain(t *testing.T) {
	// Given segments [0,2) [2,4) [4,6) [6,7), their timestamps a minute apart.
	now := time.UnixMilli(batchtest.Time)
	given := func(t *testing.T, change func(*unifiedlog.Config)) (*unifiedlog.Log, unifiedlog.Config) {
		cfg := unifiedlog.Config{
			Dir: t.TempDir(), SegmentBytes: 140, SegmentAge: forever, Now: func() time.Time { return now }, RollFlush: unifiedlog.RollFlushInline,
		}
		change(&cfg)
		log := open(t, cfg)
		for i := range int64(7) {
			require.NoError(t, log.AppendRaw(t.Context(), at(batchtest.Sized(i, int32(i/2), 70, 'x'), now.UnixMilli()-(3-i/2)*60_000)))
		}
		require.Equal(t, []int64{0, 2, 4, 6}, bases(log))
		return log, cfg
	}
	tests := map[string]struct {
		change        func(*unifiedlog.Config)
		highWatermark int64
		start         int64
		left          []int64
	}{
		"nothing is configured":                 {func(*unifiedlog.Config) {}, 7, 0, []int64{0, 2, 4, 6}},
		"by age":                                {func(c *unifiedlog.Config) { c.RetentionAge = 90 * time.Second }, 7, 0, []int64{4, 6}},
		"by age, all of them":                   {func(c *unifiedlog.Config) { c.RetentionAge = time.Nanosecond }, 7, 0, []int64{7}},
		"by age, not above the high watermark":  {func(c *unifiedlog.Config) { c.RetentionAge = 90 * time.Second }, 3, 0, []int64{2, 4, 6}},
		"by size":                               {func(c *unifiedlog.Config) { c.RetentionBytes = 210 }, 7, 0, []int64{4, 6}},
		"by size, just not":                     {func(c *unifiedlog.Config) { c.RetentionBytes = 351 }, 7, 0, []int64{0, 2, 4, 6}},
		"below the log start":                   {func(*unifiedlog.Config) {}, 0, 5, []int64{4, 6}},
		"below the log start, that is the end":  {func(*unifiedlog.Config) {}, 0, 7, []int64{6}},
		"the high watermark is the log's start": {func(c *unifiedlog.Config) { c.RetentionAge = time.Nanosecond }, 0, 0, []int64{0, 2, 4, 6}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now = time.UnixMilli(batchtest.Time)
			log, cfg := given(t, test.change)
			now = now.Add(time.Second)
			log.SetHighWatermark(test.highWatermark)
			require.NoError(t, log.DeleteRecords(test.start))
			deleted, err := log.Retain()
			require.NoError(t, err)
			assert.Equal(t, test.left, bases(log))
			rolled := len(bases(log)) == 1 && bases(log)[0] == 7
			if !rolled {
				assert.Equal(t, 4-len(test.left), deleted)
			}
			assert.Equal(t, max(test.start, test.left[0]), log.Start())

			// Then the files are gone too, and the log is the same after a restart; R5: its end still tells its epoch.
			end, epoch := log.End()
			assert.Equal(t, int64(7), end)
			assert.Equal(t, int32(3), epoch)
			want, err := readLog(log)
			require.NoError(t, err)
			cfg.LogStart = log.Start()
			require.NoError(t, log.Close())
			logs, err := filepath.Glob(filepath.Join(cfg.Dir, "*.log"))
			require.NoError(t, err)
			assert.Len(t, logs, len(test.left))
			again := open(t, cfg)
			got, err := readLog(again)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			end, epoch = again.End()
			assert.Equal(t, int64(7), end)
			assert.Equal(t, int32(3), epoch)
			require.NoError(t, again.Delete())
			_, err = os.Stat(cfg.Dir)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// KAFKA-15695, KAFKA-16452: start and high watermark stay in the log and in order, whatever is asked for.
func TestStartAndHighWatermarkStayInTheLog(t *testing.T) {
	cfg := unifiedlog.Config{Dir: t.TempDir()}
	log := open(t, cfg)
	require.NoError(t, log.AppendRaw(t.Context(), batchtest.Make(0, 0, "a", "b", "c", "d")))
	assert.EqualValues(t, 4, log.SetHighWatermark(9))
	assert.EqualValues(t, 4, log.SetHighWatermark(2), "it never falls")
	require.NoError(t, log.DeleteRecords(4))
	require.NoError(t, log.AppendRaw(t.Context(), batchtest.Make(4, 0, "e", "f")))
	require.NoError(t, log.DeleteRecords(5))
	assert.EqualValues(t, 5, log.HighWatermark())
	end, err := log.TruncateTo(0)
	require.NoError(t, err)
	assert.Zero(t, end)
	assert.Zero(t, log.HighWatermark())
	require.NoError(t, log.TruncateFullyAndStartAt(500))
	assert.EqualValues(t, 500, log.Start())
	assert.EqualValues(t, 500, log.HighWatermark())
	assert.EqualValues(t, 500, log.LastStableOffset())
	require.NoError(t, log.Close())

	// What a broker kept of before does not fit any more.
	for _, kept := range []struct{ start, highWatermark, wantStart, wantHighWatermark int64 }{
		{0, 0, 500, 500}, {500, 4, 500, 500}, {0, 900, 500, 500}, {600, 600, 600, 600},
	} {
		cfg.LogStart, cfg.HighWatermark = kept.start, kept.highWatermark
		log = open(t, cfg)
		assert.Equal(t, kept.wantStart, log.Start())
		assert.Equal(t, kept.wantHighWatermark, log.HighWatermark())
		end, _ = log.End()
		assert.Equal(t, kept.wantStart, end)
		require.NoError(t, log.Close())
	}
}
