package memory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/internal/contract"
)

// aiven/inkless#666: an offset below the log's start is told from the log's end, where there is nothing yet.
func TestReadWholeBatches(t *testing.T) { contract.ReadWholeBatches(t, kind) }

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
