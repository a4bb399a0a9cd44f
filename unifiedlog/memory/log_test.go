package memory_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/internal/contract"
	"github.com/walhop/walhop/unifiedlog/memory"
)

func TestAppendGivesOffsetsAndEpoch(t *testing.T) { contract.AppendGivesOffsetsAndEpoch(t, kind) }

func TestLeadAndFollowUseNewEpochs(t *testing.T) { contract.LeadAndFollowUseNewEpochs(t, kind) }

// R8: a leader that comes back after a crash cannot lead in an epoch that it has led before (B6).
func TestCrashedLeaderNeedsNewEpoch(t *testing.T) { contract.CrashedLeaderNeedsNewEpoch(t, kind) }

func TestAppendAsFollowerRacesFollow(t *testing.T) { contract.AppendAsFollowerRacesFollow(t, kind) }

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

func end(t *testing.T, log *memory.Log, wantEnd int64, wantEpoch int32) {
	t.Helper()
	leo, epoch := log.End()
	assert.Equal(t, wantEnd, leo, "log end offset")
	assert.Equal(t, wantEpoch, epoch, "epoch of the last batch")
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
