package leader

import (
	"errors"
	"fmt"

	"github.com/walhop/walhop/walstorage/segment"
)

var (
	// ErrClosed says that the uploader has been closed.
	ErrClosed = errors.New("leader: uploader is closed")
	// ErrStaleEpoch says that Lead was called with a leader epoch that is not new; see [StaleEpochError].
	ErrStaleEpoch = errors.New("leader: leader epoch is not new")
	// ErrStuck says that an upload has not returned StuckAfter past its deadline.
	ErrStuck = errors.New("leader: upload does not return")
	// ErrExpired says that a segment could not be published within half the retention.
	ErrExpired = errors.New("leader: half the retention has passed")
	// ErrOtherEpoch says that the log holds a batch of an older leader epoch above the start of the one led.
	ErrOtherEpoch = errors.New("leader: batch of an older leader epoch")
	// ErrLog says that a log does not do what [Log] asks of it.
	ErrLog = errors.New("leader: the log breaks its contract")
)

// StaleEpochError says that Lead was called with a leader epoch below the one led (L7), or, after Resign, with one that
// was led before (B6). It matches [ErrStaleEpoch].
type StaleEpochError struct {
	Partition segment.TopicIDPartition
	// Epoch is the one asked for, Newest the newest that this uploader has led in the partition.
	Epoch, Newest int32
}

// Error names the partition and both epochs.
func (e *StaleEpochError) Error() string {
	return fmt.Sprintf("leader: Lead of %s in leader epoch %d, %d has been led", e.Partition, e.Epoch, e.Newest)
}

// Is tells whether target is ErrStaleEpoch.
func (e *StaleEpochError) Is(target error) bool { return target == ErrStaleEpoch }

// PanicError is what a contained panic counts as (L10).
type PanicError struct {
	// Where names the call that panicked, "Log.Read" say.
	Where string
	// Value is what was given to panic.
	Value any
}

// Error names the call and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("leader: panic in %s: %v", e.Where, e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
