package segment

import (
	"errors"
	"fmt"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/walstorage"
)

var (
	// ErrUnsupportedMagic says that log bytes are in the record formats 0 or 1, which walhop does not carry (S3).
	ErrUnsupportedMagic = batch.ErrUnsupportedMagic
	// ErrUnsupportedVersion says that an object is intact, but of a format version or with flags that this code does not
	// know. It is not [walstorage.ErrCorrupt].
	ErrUnsupportedVersion = errors.New("segment: unsupported format version")
	// ErrSliceClosed says that the partition's slice in the open segment takes no more bytes, because [Builder.Close]
	// was called for it, or because the bytes belong to another run. They wait for the next segment.
	ErrSliceClosed = errors.New("segment: the partition's slice in this segment is closed")
	// ErrFull says that the open segment takes no further partition: it is at MaxSlices, or its event would exceed
	// MaxEventBytes. The bytes wait for the next segment.
	ErrFull = errors.New("segment: no room for another slice in this segment")
	// ErrPartialBatch says that the bytes given hold no whole batch.
	ErrPartialBatch = errors.New("segment: no whole batch")
	// ErrEmpty says that there is nothing to seal: no bytes, no object (L8).
	ErrEmpty = errors.New("segment: nothing to seal")
)

// CorruptError says where bytes are no segment, or no slice of it, and why. errors.Is matches [walstorage.ErrCorrupt].
type CorruptError struct {
	// Where names the part: "header", "body", "index", "trailer", "slice" or "batch".
	Where string
	// Position is the index of the first wrong byte as far as it is known, counted from the beginning of the bytes
	// that were given, or of the object where the part is one of the object's.
	Position int64
	// Reason says what is wrong.
	Reason string
}

// Error names the part, the position and the reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment: corrupt %s at byte %d: %s", e.Where, e.Position, e.Reason)
}

// Is tells whether target is walstorage.ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == walstorage.ErrCorrupt }

// SpanError says that a run cannot go on as one: the next batch ends 2^31 offsets or more after the offset at which it
// is due, across a compaction gap of that width, and no slice spans so much (S4). The run ends before it and a new one
// may begin at the batch.
type SpanError struct {
	// Due is the offset at which the run's next batch is due.
	Due int64
	// BaseOffset is the base offset of the batch that is there, a batch boundary.
	BaseOffset int64
}

// Error names both offsets.
func (e *SpanError) Error() string {
	return fmt.Sprintf("segment: batch at offset %d is too far from offset %d for one slice", e.BaseOffset, e.Due)
}

// batchError turns an error of package batch into one of this package, with position relative to where.
func batchError(err error, where string, offset int64) error {
	var corrupt *batch.CorruptError
	if errors.As(err, &corrupt) {
		return &CorruptError{Where: where, Position: offset + int64(corrupt.Position), Reason: corrupt.Reason}
	}
	return fmt.Errorf("segment: %w", err)
}
