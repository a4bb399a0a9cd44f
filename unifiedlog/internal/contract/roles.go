package contract

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
)

// AppendGivesOffsetsAndEpoch: a leader gives each batch the next offsets and its epoch, and changes nothing else.
func AppendGivesOffsetsAndEpoch(t *testing.T, k Kind) {
	// Given an empty log that starts at 40 and bytes that a producer numbered from 0.
	log, moves := k.new(t, 40)
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
	assert.Len(t, bytesOf(t, log, 40), len(produced))
}

// LeadAndFollowUseNewEpochs: no epoch is led that was led or followed before (B6).
func LeadAndFollowUseNewEpochs(t *testing.T, k Kind) {
	log, _ := k.new(t, 0)
	start, err := log.Lead(2)
	require.NoError(t, err)
	assert.EqualValues(t, 0, start)
	lead(t, log, 2, 1)

	start, err = log.Lead(2)
	require.NoError(t, err, "leading again in the epoch already led")
	assert.EqualValues(t, 0, start)

	assert.ErrorIs(t, log.Follow(2), k.ErrEpochUsed, "following the epoch that is led")
	require.NoError(t, log.Follow(3))
	require.NoError(t, log.Follow(3))
	assert.ErrorIs(t, log.Follow(2), k.ErrEpochUsed)
	_, err = log.Lead(3)
	assert.ErrorIs(t, err, k.ErrEpochUsed, "leading the epoch that another leads")
	_, _, err = log.Append(t.Context(), 2, batchtest.Make(0, 0, "late"))
	assert.ErrorIs(t, err, k.ErrNotLeader)

	start, err = log.Lead(4)
	require.NoError(t, err)
	assert.EqualValues(t, 2, start)
	got, ok := log.EpochStart(4)
	assert.True(t, ok, "the start of the epoch is in the cache before the first batch (B5)")
	assert.EqualValues(t, 2, got)
	end(t, log, 2, 2)
}

// CrashedLeaderNeedsNewEpoch: R8, a leader that comes back after a crash cannot lead in an epoch that it has led before (B6).
func CrashedLeaderNeedsNewEpoch(t *testing.T, k Kind) {
	log, _ := k.new(t, 0)
	lead(t, log, 1, 1)
	log.Crash()
	end(t, log, 0, -1)

	_, _, err := log.Append(t.Context(), 1, batchtest.Make(0, 0, "other bytes at the same offset"))
	assert.ErrorIs(t, err, k.ErrNotLeader)
	_, err = log.Lead(1)
	assert.ErrorIs(t, err, k.ErrEpochUsed)
	_, err = log.Lead(2)
	assert.NoError(t, err)

	// The epochs of batches that were found in the log count too.
	recovered, _ := k.new(t, 0)
	require.NoError(t, recovered.AppendRaw(t.Context(), batchtest.Make(0, 4, "found")))
	_, err = recovered.Lead(4)
	assert.ErrorIs(t, err, k.ErrEpochUsed)
	_, err = recovered.Lead(5)
	assert.NoError(t, err)
}

// AppendAsFollowerRacesFollow: an append of an epoch that has ended never lands behind a truncation (C5).
func AppendAsFollowerRacesFollow(t *testing.T, k Kind) {
	// Given a follower's log of epoch 1 and a writer that appends behind the fence while the broker moves on.
	for range 20 {
		log := k.New(t, 0, func() {})
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
