package contract

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
)

// AppendRefusesBadBytes: every append takes whole batches with right checksums, all of them or none.
func AppendRefusesBadBytes(t *testing.T, k Kind) {
	good := batchtest.Make(10, 1, "a", "b")
	flipped := append(append([]byte(nil), good...), good...)
	flipped[len(flipped)-1] ^= 1
	tests := map[string]struct {
		raw      []byte
		kind     error
		position int
	}{
		"a flipped bit in the second batch": {flipped, k.ErrCorrupt, len(good)},
		"half a batch at the end":           {append(append([]byte(nil), good...), good[:30]...), k.ErrCorrupt, len(good)},
		"less than a header":                {good[:5], k.ErrCorrupt, 0},
		"zeros":                             {make([]byte, 61), k.ErrCorrupt, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for append, call := range map[string]func(Log) error{
				"Append": func(l Log) error { _, _, err := l.Append(t.Context(), 1, test.raw); return err },
				"AppendRaw": func(l Log) error {
					return l.AppendRaw(t.Context(), test.raw)
				},
				"AppendAsFollower": func(l Log) error {
					require.NoError(t, l.Follow(1))
					return l.AppendAsFollower(t.Context(), 1, 0, test.raw)
				},
			} {
				log, moves := k.new(t, 0)
				err := call(log)
				position, ok := k.Position(err)
				require.True(t, ok, append)
				assert.ErrorIs(t, err, test.kind, append)
				assert.Equal(t, test.position, position, append)
				end(t, log, 0, -1)
				assert.Empty(t, bytesOf(t, log, 0), append)
				assert.Zero(t, *moves, append)
			}
		})
	}
}

// AppendAsFollowerFence: an append that is not of the epoch followed, or not at the log's end, is refused (F2, F7).
func AppendAsFollowerFence(t *testing.T, k Kind) {
	raw := batchtest.Make(10, 3, "a", "b")
	given := func(t *testing.T) Log {
		log, _ := k.new(t, 10)
		require.NoError(t, log.Follow(3))
		return log
	}
	t.Run("the right epoch and end", func(t *testing.T) {
		log := given(t)
		require.NoError(t, log.AppendAsFollower(t.Context(), 3, 10, raw))
		end(t, log, 12, 3)
		assert.Equal(t, raw, bytesOf(t, log, 0))
	})
	stale := map[string]func(Log) error{
		"an older epoch": func(l Log) error { return l.AppendAsFollower(t.Context(), 2, 10, raw) },
		"a newer epoch":  func(l Log) error { return l.AppendAsFollower(t.Context(), 4, 10, raw) },
		"a lower end":    func(l Log) error { return l.AppendAsFollower(t.Context(), 3, 9, raw) },
		"a higher end":   func(l Log) error { return l.AppendAsFollower(t.Context(), 3, 11, raw) },
		"as a leader": func(l Log) error {
			_, err := l.Lead(4)
			require.NoError(t, err)
			return l.AppendAsFollower(t.Context(), 4, 10, raw)
		},
		"after a crash": func(l Log) error { _ = l.Crash(); return l.AppendAsFollower(t.Context(), 3, 10, raw) },
	}
	for name, call := range stale {
		t.Run(name, func(t *testing.T) {
			// C5: the check and the append are one step.
			log := given(t)
			assert.ErrorIs(t, call(log), follower.ErrStale)
			end(t, log, 10, -1)
			assert.Empty(t, bytesOf(t, log, 0))
		})
	}
}

// AppendOrder: offsets and epochs do not fall; a gap is taken.
func AppendOrder(t *testing.T, k Kind) {
	tests := map[string]struct {
		raw []byte
		ok  bool
	}{
		"next":                        {batchtest.Make(12, 3, "c"), true},
		"after a compaction gap":      {batchtest.Make(20, 3, "c"), true},
		"a newer epoch, not too new":  {batchtest.Make(12, 5, "c"), true},
		"below the end":               {batchtest.Make(11, 3, "c"), false},
		"a lower epoch (C3)":          {batchtest.Make(12, 2, "c"), false},
		"a negative epoch":            {batchtest.Make(12, -1, "c"), false},
		"above the partition's":       {batchtest.Make(12, 6, "c"), false},
		"the second below the first":  {append(batchtest.Make(12, 3, "c"), batchtest.Make(12, 3, "c")...), false},
		"the second of a lower epoch": {append(batchtest.Make(12, 4, "c"), batchtest.Make(13, 3, "c")...), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log, _ := k.new(t, 10)
			require.NoError(t, log.AppendRaw(t.Context(), batchtest.Make(10, 3, "a", "b")))
			require.NoError(t, log.Follow(5))
			before, cache := bytesOf(t, log, 0), log.Epochs()

			err := log.AppendAsFollower(t.Context(), 5, 12, test.raw)

			if test.ok {
				require.NoError(t, err)
				assert.Equal(t, append(before, test.raw...), bytesOf(t, log, 0))
				return
			}
			assert.ErrorIs(t, err, k.ErrOutOfOrder)
			assert.Equal(t, before, bytesOf(t, log, 0), "all or nothing")
			assert.Equal(t, cache, log.Epochs(), "a refused set does not touch the epoch cache")
			end(t, log, 12, 3)
		})
	}
}

// AppendAsFollowerTakesAnySequence: KAFKA-6003, a replica's append checks no producer's sequence numbers.
func AppendAsFollowerTakesAnySequence(t *testing.T, k Kind) {
	log, _ := k.new(t, 0)
	require.NoError(t, log.Follow(1))
	var raw []byte
	for i, producer := range []struct {
		id       int64
		sequence int32
	}{{7, 40}, {7, 90}, {7, 90}, {9, 0}} {
		raw = append(raw, batchtest.Spec{
			BaseOffset: int64(i), LeaderEpoch: 1, Records: 1, ProducerID: producer.id, BaseSequence: producer.sequence,
		}.Bytes()...)
	}
	require.NoError(t, log.AppendAsFollower(t.Context(), 1, 0, raw))
	end(t, log, 4, 1)
	assert.Equal(t, raw, bytesOf(t, log, 0))
}

// AppendWithoutOffsetsLeft: the offsets end.
func AppendWithoutOffsetsLeft(t *testing.T, k Kind) {
	log, _ := k.new(t, math.MaxInt64-2)
	_, _, err := log.Append(t.Context(), 1, batchtest.Make(0, 0, "a", "b", "c"))
	assert.ErrorIs(t, err, k.ErrOutOfOrder)
	end(t, log, math.MaxInt64-2, -1)
}

// NoOffsetComesWithAnError: Jepsen on Bufstream 0.1.0, whatever stops an append, no offset of 0 comes back that could be acknowledged.
func NoOffsetComesWithAnError(t *testing.T, k Kind) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	good := batchtest.Make(0, 0, "a", "b", "c")
	for name, call := range map[string]func(Log) (first, last int64, err error){
		"a context that has ended": func(l Log) (int64, int64, error) { return l.Append(cancelled, 2, good) },
		"no batches":               func(l Log) (int64, int64, error) { return l.Append(t.Context(), 2, nil) },
		"half a batch":             func(l Log) (int64, int64, error) { return l.Append(t.Context(), 2, good[:70]) },
		"an epoch that has ended":  func(l Log) (int64, int64, error) { return l.Append(t.Context(), 1, good) },
		"no offsets left":          func(l Log) (int64, int64, error) { return l.Append(t.Context(), 3, good) },
		"a Lead that is refused": func(l Log) (int64, int64, error) {
			start, err := l.Lead(1)
			return start, start, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, _ := k.new(t, math.MaxInt64-2)
			_, err := log.Lead(2)
			require.NoError(t, err)

			first, last, err := call(log)

			require.Error(t, err)
			assert.EqualValues(t, -1, first)
			assert.EqualValues(t, -1, last)
			end(t, log, math.MaxInt64-2, -1)
		})
	}
	log, _ := k.new(t, 0)
	start, ok := log.EpochStart(7)
	assert.False(t, ok)
	assert.EqualValues(t, -1, start)
}
