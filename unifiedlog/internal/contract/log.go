package contract

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
)

// Log is a log under test. A call without an error that fails all the same fails its test by itself.
type Log interface {
	leader.Log
	follower.Log
	Append(ctx context.Context, epoch int32, batches []byte) (first, last int64, err error)
	AppendRaw(ctx context.Context, batches []byte) error
	Lead(epoch int32) (start int64, err error)
	Follow(epoch int32) error
	DeleteRecords(offset int64) error

	Epochs() []EpochStart
	EpochStart(epoch int32) (start int64, ok bool)
	EndOffsetForEpoch(epoch int32) EpochEnd
	CheckFetch(offset int64, lastEpoch int32) (*EpochEnd, error)

	TruncateTo(offset int64) (end int64)
	TruncateDiverging(leader EpochEnd) (end int64)
	TruncateFullyAndStartAt(offset int64, epochs ...EpochStart)
	Flush() (end int64)
	// Crash loses what was not flushed, and returns the end of what is left. The log goes on after it.
	Crash() (end int64)
}

// EpochStart is the log's type of this name.
type EpochStart struct {
	Epoch int32
	Start int64
}

// EpochEnd is the log's type of this name.
type EpochEnd struct {
	Epoch int32
	End   int64
}

type epochs = []EpochStart

// Kind is a kind of log.
type Kind struct {
	// New returns an empty log that starts at an offset and calls moved as its configuration says.
	New func(t testing.TB, start int64, moved func()) Log
	// ErrCorrupt and the others are the log's errors of these names.
	ErrCorrupt, ErrOutOfOrder, ErrNotLeader, ErrEpochUsed, ErrOutOfRange error
	// Position returns the place of the batch that an append refused; ok is false if the error names none.
	Position func(err error) (position int, ok bool)
}

// new returns a log that keeps count of its moves.
func (k Kind) new(t testing.TB, start int64) (log Log, moves *int) {
	moves = new(int)
	return k.New(t, start, func() { *moves++ }), moves
}

// lead appends n batches of two records each as the leader of the epoch.
func lead(t *testing.T, log Log, epoch int32, n int) {
	t.Helper()
	for range n {
		_, _, err := log.Append(context.Background(), epoch, batchtest.Make(0, 0, "a", "b"))
		require.NoError(t, err)
	}
}

// bytesOf reads the log from the first batch on that begins at from or above.
func bytesOf(t *testing.T, log Log, from int64) []byte {
	t.Helper()
	var all []byte
	buf := make([]byte, 1<<20)
	offset := max(from, log.Start())
	for end, _ := log.End(); offset < end; {
		n, err := log.Read(context.Background(), offset, buf)
		if errors.Is(err, leader.ErrInsideBatch) {
			offset++
			continue
		}
		require.NoError(t, err)
		if n == 0 {
			break
		}
		all = append(all, buf[:n]...)
		for s := batch.NewScanner(buf[:n]); s.Next(); {
			offset = s.LastOffset() + 1
		}
	}
	return all
}

// headers scans the whole log.
func headers(t *testing.T, log Log) []batch.Header {
	t.Helper()
	var all []batch.Header
	scanner := batch.NewScanner(bytesOf(t, log, 0))
	for scanner.Next() {
		require.NoError(t, batch.VerifyCRC(scanner.Bytes()))
		all = append(all, *scanner.Header())
	}
	require.NoError(t, scanner.Err())
	return all
}

func end(t *testing.T, log Log, wantEnd int64, wantEpoch int32) {
	t.Helper()
	leo, epoch := log.End()
	assert.Equal(t, wantEnd, leo, "log end offset")
	assert.Equal(t, wantEpoch, epoch, "epoch of the last batch")
}
