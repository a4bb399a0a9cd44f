package unifiedlog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog"
)

// Readers of every kind beside a writer that appends, truncates, rolls and deletes: each read is whole batches with right
// checksums, in one history; no read takes what is under way for damage.
func TestReadersBesideWriter(t *testing.T) {
	cfg := unifiedlog.Config{Dir: t.TempDir(), SegmentBytes: 2000, IndexIntervalBytes: 200, SegmentAge: forever}
	log := open(t, cfg)
	var done atomic.Bool
	var readers sync.WaitGroup
	for seed := range uint64(3) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 5))
			buf := make([]byte, 3000)
			offset := int64(0)
			for !done.Load() {
				n, err := log.Fetch(context.Background(), offset, 1<<62, buf)
				if err != nil {
					if !errors.Is(err, leader.ErrBelowLogStart) && !errors.Is(err, unifiedlog.ErrOutOfRange) {
						assert.NoError(t, err)
						return
					}
					offset = log.Start()
					continue
				}
				before := int64(-1)
				var epoch int32
				for s := batch.NewScanner(buf[:n]); s.Next(); {
					if !assert.NoError(t, batch.VerifyCRC(s.Bytes())) ||
						!assert.True(t, before < 0 || s.BaseOffset() == before && s.LeaderEpoch() >= epoch) {
						return
					}
					before, epoch = s.LastOffset()+1, s.LeaderEpoch()
				}
				if offset = max(before, offset); n == 0 || random.IntN(4) == 0 {
					end, _ := log.End()
					offset = log.Start() + random.Int64N(end-min(log.Start(), end)+1)
				}
				if _, _, err := log.OffsetForTime(context.Background(), batchtest.Time); !assert.NoError(t, err) {
					return
				}
				log.LastStableOffset()
				log.Segments()
			}
		})
	}
	readers.Go(func() {
		for !done.Load() {
			_, err := log.Flush()
			if !assert.NoError(t, err) {
				return
			}
		}
	})

	random := rand.New(rand.NewPCG(9, 5))
	for epoch := int32(1); epoch < 40; epoch++ {
		for range random.IntN(60) {
			_, err := log.AppendAsLeader(t.Context(), epoch, batchtest.Make(0, 0, "a", "b", string(make([]byte, random.IntN(200)))))
			require.NoError(t, err)
		}
		end, _ := log.End()
		switch random.IntN(3) {
		case 0:
			_, err := log.TruncateTo(end - random.Int64N(end-log.Start()+1)/2)
			require.NoError(t, err)
		case 1:
			log.SetHighWatermark(end)
			require.NoError(t, log.DeleteRecords(log.Start()+(end-log.Start())/3))
			_, err := log.Retain()
			require.NoError(t, err)
		}
	}
	done.Store(true)
	readers.Wait()
	require.NoError(t, log.Close())
	require.NoError(t, log.Close(), "closing again")

	// Then it is closed for good.
	_, err := log.Read(t.Context(), log.Start(), nil)
	assert.ErrorIs(t, err, unifiedlog.ErrClosed)
	_, err = log.AppendAsLeader(t.Context(), 99, batchtest.Make(0, 0, "a"))
	assert.ErrorIs(t, err, unifiedlog.ErrClosed)
	_, err = log.Flush()
	assert.ErrorIs(t, err, unifiedlog.ErrClosed)
	_, err = log.Retain()
	assert.ErrorIs(t, err, unifiedlog.ErrClosed)
	_, err = log.TruncateTo(0)
	assert.ErrorIs(t, err, unifiedlog.ErrClosed)
	assert.ErrorIs(t, log.Follow(100), unifiedlog.ErrClosed)
	assert.ErrorIs(t, log.Delete(), unifiedlog.ErrClosed)
	assert.ErrorIs(t, log.Roll(), unifiedlog.ErrClosed)
}

// A sync that hangs holds up neither reads nor appends (D1).
func TestReadsAndAppendsDoNotWaitForASync(t *testing.T) {
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk})
	require.NoError(t, err)
	_, err = log.AppendAsLeader(t.Context(), 1, batchtest.Make(0, 0, "a"))
	require.NoError(t, err)

	hanging, release := make(chan struct{}), make(chan struct{})
	disk.hang = func(what string) {
		if what == "sync 00000000000000000000.log" {
			hanging <- struct{}{}
			<-release
		}
	}
	var flush sync.WaitGroup
	flush.Go(func() {
		point, err := log.Flush()
		assert.NoError(t, err)
		assert.EqualValues(t, 1, point)
	})
	<-hanging
	appended, err := log.AppendAsLeader(t.Context(), 1, batchtest.Make(0, 0, "b"))
	require.NoError(t, err)
	assert.EqualValues(t, 1, appended.First)
	got, err := readLog(log)
	require.NoError(t, err)
	assert.Len(t, got, 2*len(batchtest.Make(0, 0, "a")))
	assert.Zero(t, log.RecoveryPoint())
	close(release)
	flush.Wait()
	assert.EqualValues(t, 1, log.RecoveryPoint())
	disk.hang = nil
	require.NoError(t, log.Close())
}

// A sync that fails once fails the log: what is on the disk is not known then, and the next sync would not tell.
func TestFailedSyncFailsTheLog(t *testing.T) {
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk})
	require.NoError(t, err)
	_, err = log.AppendAsLeader(t.Context(), 1, batchtest.Make(0, 0, "a"))
	require.NoError(t, err)
	disk.fault = func(_ int, what string) error {
		if what == "sync 00000000000000000000.log" {
			return errDisk
		}
		return nil
	}
	_, err = log.Flush()
	require.ErrorIs(t, err, unifiedlog.ErrFailed)
	require.ErrorIs(t, err, errDisk)
	disk.fault = nil
	_, err = log.AppendAsLeader(t.Context(), 1, batchtest.Make(0, 0, "b"))
	require.ErrorIs(t, err, unifiedlog.ErrFailed)
	point, err := log.Flush()
	require.ErrorIs(t, err, unifiedlog.ErrFailed)
	assert.Zero(t, point)
	got, err := readLog(log)
	require.NoError(t, err, "reads go on")
	assert.Len(t, got, len(batchtest.Make(0, 0, "a")))
	assert.ErrorIs(t, log.Close(), unifiedlog.ErrFailed, "it was no clean shutdown")
}
