package objectstore

import (
	"context"
	"fmt"
	"time"
)

// Driver is what differs between object stores. Each call is one attempt: a driver never retries, and switches off the
// retries of the library it uses; [Manager] owns all of them. A driver classifies its errors: it returns a
// *walstorage.Error made by walstorage.NewError whose Kind is one of the kinds of package walstorage, with RetryAfter
// where the store names a time, and no Op, ID or Attempts; or it returns ctx's own error once ctx has ended; any other
// error counts as unclassified and is not retried.
//
// Every method may be called from many goroutines at once. A method returns soon after its context has ended, and once
// it has returned it touches no buffer that it was given. Keys come from walstorage.Keys: at most 900 bytes of
// A-Z a-z 0-9 . _ - and single slashes, never with a leading slash or a part that ends in a dot, as "." and ".." do.
//
// No method will ever be added to this interface.
type Driver interface {
	// Put stores the body as the object key, create only: an existing object is never changed, and gives
	// walstorage.ErrSegmentExists whatever its bytes are (Manager compares them). crc32c is the CRC-32C (Castagnoli)
	// of the body, which the store should verify. A nil error means that the object is whole and durable.
	Put(ctx context.Context, key string, body *Body, crc32c uint32) error
	// Get fills dst, which is not empty, with the object's bytes from offset on, which is not negative. A range that
	// ends beyond the object is walstorage.ErrInvalidRange, a missing object walstorage.ErrSegmentNotFound, a short
	// body walstorage.ErrUnavailable.
	Get(ctx context.Context, key string, offset int64, dst []byte) error
	// Stat describes the object.
	Stat(ctx context.Context, key string) (Object, error)
	// Delete deletes the objects, at most Limits().KeysPerDelete and at least one. A missing object counts as deleted.
	// Keys that could not be deleted come back in a *DeleteError; any other error means that none is known to be
	// deleted.
	Delete(ctx context.Context, keys []string) error
	// List returns one page of the objects whose keys begin with prefix, which is "" or ends in "/", in any order. The
	// first page is asked for with an empty token, each further one with the next of the page before; an empty next
	// ends the list. A page may be empty.
	List(ctx context.Context, prefix, token string) (page []Object, next string, err error)
	// Limits returns constants of the store.
	Limits() Limits
	// Close releases what the driver holds. Manager calls it once, after every other call has returned.
	Close() error
}

// Object describes one stored object.
type Object struct {
	Key string
	// Size is the length in bytes.
	Size int64
	// Stored is the store's own time of storing, the zero time if it tells none.
	Stored time.Time
	// CRC32C is the checksum of the whole object if HasCRC32C is set. If the store has none, Manager reads the object
	// where it has to compare.
	CRC32C    uint32
	HasCRC32C bool
}

// Limits are constants of a store.
type Limits struct {
	// KeysPerDelete is the largest number of keys in one Delete; 0 means 1,000.
	KeysPerDelete int
	// ObjectBytes is the largest size of an object in bytes; 0 means no limit.
	ObjectBytes int64
}

// DeleteFailure is one key that a Delete call did not delete, and why.
type DeleteFailure struct {
	Key string
	Err error
}

// DeleteError is what Driver.Delete returns if it deleted some keys, or could have, and not those named here.
type DeleteError struct {
	Failures []DeleteFailure
}

// Error names the number of failures and the first of them.
func (e *DeleteError) Error() string {
	if len(e.Failures) == 0 {
		return "delete: no failures"
	}
	return fmt.Sprintf("delete: %d keys not deleted, first %q: %v", len(e.Failures), e.Failures[0].Key, e.Failures[0].Err)
}

// Unwrap returns the errors of all failures.
func (e *DeleteError) Unwrap() []error {
	errs := make([]error, len(e.Failures))
	for i, failure := range e.Failures {
		errs[i] = failure.Err
	}
	return errs
}
