package leader

import (
	"context"
	"errors"
	"fmt"
)

// Log is a partition's local log as the uploader reads it. The broker implements it; unifiedlog/memory does so in
// memory. The methods are called by one goroutine at a time per partition, beside the broker's own appends. It has
// Start and End in common with follower.Log, so that one type of the broker implements both.
type Log interface {
	// Start returns the local log start offset.
	Start() int64
	// End returns the log end offset and the leader epoch of the offset before it, read together. The epoch is -1 if
	// the log tells none: it has never had a record. One whose records were all deleted, by age or by a purge, still
	// tells the epoch of its last, or the leader's check of its report (B3) passes unchecked.
	End() (logEndOffset int64, lastEpoch int32)
	// Read copies whole record batches from offset on into dst and returns how many bytes, 0 and nil at the log's end.
	// The first batch is the one that begins at offset, or, where compaction removed that one, the next. Read copies
	// as many whole batches as fit. Its errors are [*ShortBufferError] if the first does not fit, [ErrBelowLogStart]
	// and [ErrInsideBatch]; any other error is retried after a pause. dst is not touched after the return.
	Read(ctx context.Context, offset int64, dst []byte) (n int, err error)
}

var (
	// ErrBelowLogStart says that the offset asked for lies below the local log start: the uploader skips forward (L11).
	ErrBelowLogStart = errors.New("leader: offset is below the log start")
	// ErrInsideBatch says that the offset asked for lies inside a batch and not at its beginning.
	ErrInsideBatch = errors.New("leader: offset is inside a batch")
)

// ShortBufferError says that dst is too small for a single batch.
type ShortBufferError struct {
	// Need is the size of that batch in bytes.
	Need int
}

// Error names the size that is needed.
func (e *ShortBufferError) Error() string {
	return fmt.Sprintf("leader: buffer is too small for the next batch of %d bytes", e.Need)
}
