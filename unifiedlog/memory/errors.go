package memory

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt says that bytes are no whole record batches, or that a batch's CRC is wrong. Nothing was appended. It
	// comes in a [*BatchError].
	ErrCorrupt = errors.New("memory: corrupt record batch")
	// ErrOutOfOrder says that a batch does not begin at or above the log's end, or that its leader epoch is below the
	// epoch of the batch before it or above the epoch of the partition. Nothing was appended. It comes in a
	// [*BatchError].
	ErrOutOfOrder = errors.New("memory: record batch is out of order")
	// ErrNotLeader says that the log does not lead in the epoch given.
	ErrNotLeader = errors.New("memory: not the leader in this epoch")
	// ErrEpochUsed says that the epoch is not newer than every epoch that the log has led or followed (B6).
	ErrEpochUsed = errors.New("memory: the leader epoch is not new")
	// ErrOutOfRange says that an offset lies outside the log.
	ErrOutOfRange = errors.New("memory: offset is out of range")
)

// BatchError names the batch that an append refused. errors.Is sees [ErrCorrupt] or [ErrOutOfOrder].
type BatchError struct {
	// Position is where the batch begins in the bytes given.
	Position int
	// BaseOffset is the batch's base offset, -1 if its header could not be read.
	BaseOffset int64
	// Kind is [ErrCorrupt] or [ErrOutOfOrder].
	Kind error
	// Cause says more.
	Cause error
}

// Error names the kind, the batch and the cause.
func (e *BatchError) Error() string {
	return fmt.Sprintf("%v at byte %d, base offset %d: %v", e.Kind, e.Position, e.BaseOffset, e.Cause)
}

// Unwrap returns the kind and the cause.
func (e *BatchError) Unwrap() []error { return []error{e.Kind, e.Cause} }
