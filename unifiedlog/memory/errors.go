package memory

import "github.com/walhop/walhop/unifiedlog"

// What a log refuses, as the log on disk says it.
var (
	// ErrCorrupt says that bytes are no whole record batches, or that a batch's CRC is wrong. Nothing was appended. It
	// comes in a [*BatchError].
	ErrCorrupt = unifiedlog.ErrCorrupt
	// ErrOutOfOrder says that a batch does not begin at or above the log's end, or that its leader epoch is below the
	// epoch of the batch before it or above the epoch of the partition. Nothing was appended. It comes in a
	// [*BatchError].
	ErrOutOfOrder = unifiedlog.ErrOutOfOrder
	// ErrNotLeader says that the log does not lead in the epoch given.
	ErrNotLeader = unifiedlog.ErrNotLeader
	// ErrEpochUsed says that the epoch is not newer than every epoch that the log has led or followed (B6).
	ErrEpochUsed = unifiedlog.ErrEpochUsed
	// ErrOutOfRange says that an offset lies outside the log.
	ErrOutOfRange = unifiedlog.ErrOutOfRange
)

// BatchError names the batch that an append refused. errors.Is sees [ErrCorrupt] or [ErrOutOfOrder].
type BatchError = unifiedlog.BatchError
