package unifiedlog

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt says that bytes given to an append are no whole record batches with right checksums (then it comes in a
	// [*BatchError]), or that bytes in a file of the log are damaged (then it comes in a [*DamageError]).
	ErrCorrupt = errors.New("unifiedlog: corrupt")
	// ErrOutOfOrder says that a batch does not begin at or above the log's end, or that its leader epoch is below the
	// epoch of the batch before it or above the epoch of the partition. Nothing was appended. It comes in a
	// [*BatchError].
	ErrOutOfOrder = errors.New("unifiedlog: record batch is out of order")
	// ErrNotLeader says that the log does not lead in the epoch given.
	ErrNotLeader = errors.New("unifiedlog: not the leader in this epoch")
	// ErrEpochUsed says that the epoch is not newer than every epoch that the log has led or followed (B6).
	ErrEpochUsed = errors.New("unifiedlog: the leader epoch is not new")
	// ErrOutOfRange says that an offset lies outside the log.
	ErrOutOfRange = errors.New("unifiedlog: offset is out of range")
	// ErrClosed says that the log has been closed.
	ErrClosed = errors.New("unifiedlog: the log is closed")
	// ErrFailed says that a file could not be synced or put right after a failed write. What is on the disk is not known
	// then: the log takes no writes any more and is to be opened anew. Reads go on.
	ErrFailed = errors.New("unifiedlog: the log has failed")
	// ErrTopicID says that the directory belongs to another topic than the one configured.
	ErrTopicID = errors.New("unifiedlog: the directory belongs to another topic id")
	// ErrUnfinishedSwap says that Kafka's log cleaner was interrupted in this directory while it replaced segments.
	// Only Kafka can finish that: start a broker on it once.
	ErrUnfinishedSwap = errors.New("unifiedlog: a log cleaner's swap is unfinished")
)

// What the leader's append refuses of a producer. All come in a [*BatchError], and nothing was appended. No follower's
// append ever returns one (F8).
var (
	// ErrInvalidRecord is Kafka's INVALID_RECORD: record count and offsets disagree, a client sent a control batch, a
	// batch of a producer id has no sequence number, or the broker's timestamp type.
	ErrInvalidRecord = errors.New("unifiedlog: invalid record batch")
	// ErrInvalidTimestamp is Kafka's INVALID_TIMESTAMP.
	ErrInvalidTimestamp = errors.New("unifiedlog: timestamp is out of range")
	// ErrTooLarge is Kafka's MESSAGE_TOO_LARGE.
	ErrTooLarge = errors.New("unifiedlog: record batch is too large")
	// ErrOutOfOrderSequence is Kafka's OUT_OF_ORDER_SEQUENCE_NUMBER.
	ErrOutOfOrderSequence = errors.New("unifiedlog: sequence number is out of order")
	// ErrProducerFenced is Kafka's INVALID_PRODUCER_EPOCH: a producer of a newer epoch has written.
	ErrProducerFenced = errors.New("unifiedlog: the producer epoch is fenced")
	// ErrInvalidTxnState is Kafka's INVALID_TXN_STATE: a batch outside of the producer's open transaction.
	ErrInvalidTxnState = errors.New("unifiedlog: the producer has an open transaction")
	// ErrCoordinatorFenced is Kafka's TRANSACTION_COORDINATOR_FENCED: the marker of an old transaction coordinator.
	ErrCoordinatorFenced = errors.New("unifiedlog: the transaction coordinator is fenced")
)

// BatchError names the batch that an append refused. errors.Is sees Kind.
type BatchError struct {
	// Position is where the batch begins in the bytes given.
	Position int
	// BaseOffset is the batch's base offset as it was given, -1 if its header could not be read.
	BaseOffset int64
	// Kind is [ErrCorrupt], [ErrOutOfOrder] or one of what a leader refuses.
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

// DamageError names the place of damage in a file of the log. It matches [ErrCorrupt].
type DamageError struct {
	// File is the name in the log's directory.
	File string
	// Position is where in the file the damaged batch or entry begins.
	Position int64
	// Reason says what is wrong with it.
	Reason string
}

// Error names file, place and reason.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s", ErrCorrupt, e.File, e.Position, e.Reason)
}

// Is tells whether target is [ErrCorrupt].
func (e *DamageError) Is(target error) bool { return target == ErrCorrupt }
