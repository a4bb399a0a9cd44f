package batchtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
)

func TestMakeBuildsValidBatches(t *testing.T) {
	b := batchtest.Make(7, 3, "a", "bb", "ccc")
	h, err := batch.ParseHeader(b)
	require.NoError(t, err)
	assert.NoError(t, batch.VerifyCRC(b))
	assert.Equal(t, len(b), h.Length)
	assert.Equal(t, int64(9), h.LastOffset())
	assert.Equal(t, int32(3), h.Records)
	assert.Equal(t, int64(batchtest.Time+2), h.MaxTimestamp)
}

func TestSizedHitsEverySize(t *testing.T) {
	for size := 70; size < 20_000; size += 1 + size/100 {
		b := batchtest.Sized(5, 1, size, 'x')
		require.Len(t, b, size)
		require.NoError(t, batch.VerifyCRC(b))
	}
	for _, around := range []int{70 + 64, 61 + 64, 61 + 8192, 70 + 8192} {
		for size := around - 20; size < around+20; size++ {
			require.Len(t, batchtest.Sized(5, 1, max(size, 70), 'x'), max(size, 70))
		}
	}
}
