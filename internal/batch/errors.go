package batch

import (
	"errors"
	"fmt"
)

var (
	// ErrPartial says that the bytes end before the batch does. It is no corruption: a read of a log by size ends so.
	ErrPartial = errors.New("batch: partial batch at the end")
	// ErrCorrupt says that bytes are no record batch; see [CorruptError].
	ErrCorrupt = errors.New("batch: corrupt batch")
	// ErrUnsupportedMagic says that the bytes are in the formats 0 or 1; see [UnsupportedMagicError].
	ErrUnsupportedMagic = errors.New("batch: unsupported magic")
)

// CorruptError says where bytes are no record batch, and why. It matches [ErrCorrupt].
type CorruptError struct {
	// Position is the index of the batch's first byte in the bytes given.
	Position int
	// Reason says what is wrong with it.
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("batch: corrupt batch at byte %d: %s", e.Position, e.Reason)
}

// Is tells whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// UnsupportedMagicError says where a batch of format 0 or 1 begins. It matches [ErrUnsupportedMagic]. Such bytes are
// valid, walhop just doesn't carry them: the brokers of today write format 2 only (S3).
type UnsupportedMagicError struct {
	// Position is the index of the batch's first byte in the bytes given.
	Position int
	// Magic is 0 or 1.
	Magic int8
}

func (e *UnsupportedMagicError) Error() string {
	return fmt.Sprintf("batch: batch at byte %d has magic %d, only 2 is supported", e.Position, e.Magic)
}

// Is tells whether target is ErrUnsupportedMagic.
func (e *UnsupportedMagicError) Is(target error) bool { return target == ErrUnsupportedMagic }
