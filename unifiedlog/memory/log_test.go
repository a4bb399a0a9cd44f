package memory_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// newLog returns a log that keeps count of its moves.
func newLog(t *testing.T, start int64) (*memory.Log, *int) {
	t.Helper()
	moves := 0
	return memory.New(memory.Config{Start: start, Moved: func() { moves++ }}), &moves
}

// lead appends n batches of two records each as the leader of the epoch.
func lead(t *testing.T, log *memory.Log, epoch int32, n int) {
	t.Helper()
	for range n {
		_, _, err := log.Append(context.Background(), epoch, batchtest.Make(0, 0, "a", "b"))
		require.NoError(t, err)
	}
}

// headers scans the whole log.
func headers(t *testing.T, log *memory.Log) []batch.Header {
	t.Helper()
	var all []batch.Header
	scanner := batch.NewScanner(log.Bytes(0))
	for scanner.Next() {
		require.NoError(t, batch.VerifyCRC(scanner.Bytes()))
		all = append(all, *scanner.Header())
	}
	require.NoError(t, scanner.Err())
	return all
}

func end(t *testing.T, log *memory.Log, wantEnd int64, wantEpoch int32) {
	t.Helper()
	leo, epoch := log.End()
	assert.Equal(t, wantEnd, leo, "log end offset")
	assert.Equal(t, wantEpoch, epoch, "epoch of the last batch")
}

func TestAppendGivesOffsetsAndEpoch(t *testing.T) {
	// Given an empty log that starts at 40 and bytes that a producer numbered from 0.
	log, moves := newLog(t, 40)
	end(t, log, 40, -1)
	produced := append(batchtest.Make(0, 7, "a", "b"), batchtest.Make(0, 7, "c")...)
	untouched := append([]byte(nil), produced...)

	// When they are appended by the leader of epoch 3.
	first, last, err := log.Append(t.Context(), 3, produced)
	require.NoError(t, err)

	// Then each batch has the next offsets and the epoch, its CRC still holds, and the caller's bytes are as they were.
	assert.EqualValues(t, 40, first)
	assert.EqualValues(t, 42, last)
	end(t, log, 43, 3)
	got := headers(t, log)
	require.Len(t, got, 2)
	assert.EqualValues(t, 40, got[0].BaseOffset)
	assert.EqualValues(t, 42, got[1].BaseOffset)
	assert.EqualValues(t, 3, got[0].LeaderEpoch)
	assert.EqualValues(t, 3, got[1].LeaderEpoch)
	assert.Equal(t, untouched, produced)
	assert.Equal(t, 1, *moves)
	assert.EqualValues(t, len(produced), log.Size())
}

func TestLeadAndFollowUseNewEpochs(t *testing.T) {
	log, _ := newLog(t, 0)
	start, err := log.Lead(2)
	require.NoError(t, err)
	assert.EqualValues(t, 0, start)
	lead(t, log, 2, 1)

	start, err = log.Lead(2)
	require.NoError(t, err, "leading again in the epoch already led")
	assert.EqualValues(t, 0, start)

	assert.ErrorIs(t, log.Follow(2), memory.ErrEpochUsed, "following the epoch that is led")
	require.NoError(t, log.Follow(3))
	require.NoError(t, log.Follow(3))
	assert.ErrorIs(t, log.Follow(2), memory.ErrEpochUsed)
	_, err = log.Lead(3)
	assert.ErrorIs(t, err, memory.ErrEpochUsed, "leading the epoch that another leads")
	_, _, err = log.Append(t.Context(), 2, batchtest.Make(0, 0, "late"))
	assert.ErrorIs(t, err, memory.ErrNotLeader)

	start, err = log.Lead(4)
	require.NoError(t, err)
	assert.EqualValues(t, 2, start)
	got, ok := log.EpochStart(4)
	assert.True(t, ok, "the start of the epoch is in the cache before the first batch (B5)")
	assert.EqualValues(t, 2, got)
	end(t, log, 2, 2)
}

// R8: a leader that comes back after a crash cannot lead in an epoch that it has led before (B6).
func TestCrashedLeaderNeedsNewEpoch(t *testing.T) {
	log, _ := newLog(t, 0)
	lead(t, log, 1, 1)
	log.Crash()
	end(t, log, 0, -1)

	_, _, err := log.Append(t.Context(), 1, batchtest.Make(0, 0, "other bytes at the same offset"))
	assert.ErrorIs(t, err, memory.ErrNotLeader)
	_, err = log.Lead(1)
	assert.ErrorIs(t, err, memory.ErrEpochUsed)
	_, err = log.Lead(2)
	assert.NoError(t, err)

	// The epochs of batches that were found in the log count too.
	recovered, _ := newLog(t, 0)
	require.NoError(t, recovered.AppendRaw(t.Context(), batchtest.Make(0, 4, "found")))
	_, err = recovered.Lead(4)
	assert.ErrorIs(t, err, memory.ErrEpochUsed)
	_, err = recovered.Lead(5)
	assert.NoError(t, err)
}

func TestBlocksKeepEveryByte(t *testing.T) {
	// Given batches from one byte to more than a block, in an order that leaves blocks partly full.
	log, _ := newLog(t, 0)
	random := rand.New(rand.NewPCG(1, 2))
	var want []byte
	next := int64(0)
	for range 300 {
		payload := make([]byte, 1+random.IntN(20_000))
		if random.IntN(50) == 0 {
			payload = make([]byte, 3<<20) // KAFKA-17375, KAFKA-9617: no size limit
		}
		raw := batchtest.Spec{BaseOffset: next, LeaderEpoch: 1, LastOffsetDelta: 4, Records: 5, Payload: payload}.Bytes()
		require.NoError(t, log.AppendRaw(t.Context(), raw))
		want = append(want, raw...)
		next += 5
	}

	// Then the log holds them byte for byte, and a truncation and a deletion leave exactly the rest.
	require.Equal(t, want, log.Bytes(0))
	assert.EqualValues(t, len(want), log.Size())
	var sizes []int
	scanner := batch.NewScanner(want)
	for scanner.Next() {
		sizes = append(sizes, len(scanner.Bytes()))
	}
	from, to := 0, len(want)
	for _, n := range sizes[:37] {
		from += n
	}
	for _, n := range sizes[211:] {
		to -= n
	}
	assert.EqualValues(t, 211*5, log.TruncateTo(211*5))
	require.NoError(t, log.DeleteRecords(37*5))
	assert.Equal(t, want[from:to], log.Bytes(0))
	assert.EqualValues(t, to-from, log.Size())

	// And what is appended next follows the truncation point.
	raw := batchtest.Make(211*5, 1, "next")
	require.NoError(t, log.AppendRaw(t.Context(), raw))
	assert.Equal(t, append(append([]byte(nil), want[from:to]...), raw...), log.Bytes(0))
}

func TestAppendAsFollowerRacesFollow(t *testing.T) {
	// Given a follower's log of epoch 1 and a writer that appends behind the fence while the broker moves on.
	for range 50 {
		log := memory.New(memory.Config{})
		require.NoError(t, log.Follow(1))
		var wg sync.WaitGroup
		wg.Go(func() {
			leo, _ := log.End()
			for {
				raw := batchtest.Make(leo, 1, "x")
				if log.AppendAsFollower(context.Background(), 1, leo, raw) != nil {
					return
				}
				leo++
			}
		})
		wg.Go(func() {
			for leo, _ := log.End(); leo < 20; leo, _ = log.End() {
			}
			assert.NoError(t, log.Follow(2))
			log.TruncateTo(10)
		})
		wg.Wait()

		// Then nothing of epoch 1 came after the truncation, and there is no hole (C5).
		end(t, log, 10, 1)
		for i, h := range headers(t, log) {
			assert.EqualValues(t, i, h.BaseOffset)
		}
	}
}
