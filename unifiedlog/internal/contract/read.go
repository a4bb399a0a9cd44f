package contract

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
)

// ReadWholeBatches: aiven/inkless#666, an offset below the log's start is told from the log's end, where there is nothing yet.
func ReadWholeBatches(t *testing.T, k Kind) {
	// Given batches [0,2) [2,4) [4,6) [6,8), of one size.
	log, _ := k.new(t, 0)
	lead(t, log, 1, 4)
	size := len(batchtest.Make(0, 0, "a", "b"))
	all := bytesOf(t, log, 0)
	read := func(offset int64, room int) ([]byte, error) {
		dst := make([]byte, room)
		n, err := log.Read(t.Context(), offset, dst)
		return dst[:n], err
	}

	got, err := read(0, 4*size)
	require.NoError(t, err)
	assert.Equal(t, all, got)

	got, err = read(2, 2*size+size/2)
	require.NoError(t, err)
	assert.Equal(t, all[size:3*size], got, "a batch that does not fit waits")

	got, err = read(8, size)
	require.NoError(t, err)
	assert.Empty(t, got, "nothing at the log's end")

	_, err = read(2, size-1)
	var short *leader.ShortBufferError
	require.ErrorAs(t, err, &short)
	assert.Equal(t, size, short.Need)

	_, err = read(3, size)
	assert.ErrorIs(t, err, leader.ErrInsideBatch)
	_, err = read(9, size)
	assert.ErrorIs(t, err, k.ErrOutOfRange)

	require.NoError(t, log.DeleteRecords(3))
	_, err = read(2, size)
	assert.ErrorIs(t, err, leader.ErrBelowLogStart)
	_, err = read(3, size)
	assert.ErrorIs(t, err, leader.ErrInsideBatch, "the log start may lie inside a batch")
	got, err = read(4, 4*size)
	require.NoError(t, err)
	assert.Equal(t, all[2*size:], got)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = log.Read(cancelled, 4, make([]byte, size))
	assert.ErrorIs(t, err, context.Canceled)
}
