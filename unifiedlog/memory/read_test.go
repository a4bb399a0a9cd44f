package memory_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// aiven/inkless#666: an offset below the log's start is told from the log's end, where there is nothing yet.
func TestReadWholeBatches(t *testing.T) {
	// Given batches [0,2) [2,4) [4,6) [6,8), of one size.
	log, _ := newLog(t, 0)
	lead(t, log, 1, 4)
	size := len(batchtest.Make(0, 0, "a", "b"))
	all := log.Bytes(0)
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
	assert.ErrorIs(t, err, memory.ErrOutOfRange)

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

func TestReadAcrossCompactionGaps(t *testing.T) {
	// Given batches [0,2) to [8,10), of which [2,4) and [8,10) are compacted away.
	log, _ := newLog(t, 0)
	lead(t, log, 1, 5)
	size := len(batchtest.Make(0, 0, "a", "b"))
	all := log.Bytes(0)
	assert.Equal(t, 1, log.Compact(2, 5), "a range removes the batches that lie wholly within it")
	assert.Equal(t, 1, log.Compact(8, 10))

	// Then the end stays where it was, above the last batch, and its epoch is known.
	end(t, log, 10, 1)

	dst := make([]byte, 10*size)
	n, err := log.Read(t.Context(), 2, dst)
	require.NoError(t, err)
	assert.Equal(t, all[2*size:4*size], dst[:n], "the first batch may begin later than asked for")
	n, err = log.Read(t.Context(), 3, dst)
	require.NoError(t, err)
	assert.Equal(t, 2*size, n)
	n, err = log.Read(t.Context(), 8, dst)
	require.NoError(t, err)
	assert.Zero(t, n, "nothing is left between the last batch and the end")
	assert.Equal(t, all[4*size-2*size:4*size], log.Bytes(2))
}
