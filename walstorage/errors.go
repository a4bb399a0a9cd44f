package walstorage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The kinds of errors (W7). Every error of a [WalStorageManager] matches exactly one of them by errors.Is, or the
// caller's own context error, or it is unclassified: then [Error.Kind] is nil, the Manager does not retry it, and the
// follower paces it like [ErrUnavailable].
var (
	// ErrSegmentNotFound says that the segment is not in the store. It is never said of a missing bucket or of a
	// refused request.
	ErrSegmentNotFound = errors.New("segment not found")
	// ErrSegmentExists says that the segment exists with other bytes; they stay.
	ErrSegmentExists = errors.New("segment exists with other content")
	// ErrInvalidRange says that the range asked for ends beyond the segment.
	ErrInvalidRange = errors.New("range is beyond the end of the segment")
	// ErrInvalidArgument says that the call can never succeed as it is; no request was sent.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrTooLarge says that the store takes no object of this size.
	ErrTooLarge = errors.New("segment is too large for the store")
	// ErrCorrupt says that bytes do not match their checksum or their format.
	ErrCorrupt = errors.New("corrupt data")
	// ErrAccessDenied says that the store refused the credentials or the permission.
	ErrAccessDenied = errors.New("access denied")
	// ErrBucketNotFound says that the bucket, container or root directory does not exist.
	ErrBucketNotFound = errors.New("bucket not found")
	// ErrNoSpace says that the store is full.
	ErrNoSpace = errors.New("no space left in the store")
	// ErrUnavailable says that the store did not answer, or not yet: throttling, 5xx, time-outs, lost connections. It
	// is the one kind worth a retry.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed says that the manager has been closed.
	ErrClosed = errors.New("manager is closed")
)

// kinds lists every sentinel above.
var kinds = []error{
	ErrSegmentNotFound, ErrSegmentExists, ErrInvalidRange, ErrInvalidArgument, ErrTooLarge, ErrCorrupt, ErrAccessDenied,
	ErrBucketNotFound, ErrNoSpace, ErrUnavailable, ErrClosed,
}

// KindOf returns the kind of err: one of the sentinels of this package, [context.Canceled] or
// [context.DeadlineExceeded], or nil if err is nil or unclassified.
func KindOf(err error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind
		}
	}
	for _, kind := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Op names an operation of a [WalStorageManager] in errors and hooks.
type Op string

// The operations.
const (
	OpUpload Op = "upload"
	OpFetch  Op = "fetch"
	OpStat   Op = "stat"
	OpDelete Op = "delete"
	OpList   Op = "list"
)

// Error is the error of a [WalStorageManager] and of a driver. errors.Is sees Kind; errors.As also reaches what the
// store's own library returned, behind Cause.
type Error struct {
	// Op is the operation that failed, empty where a driver made the error.
	Op Op
	// ID is the segment, the zero id for an operation on none or on many.
	ID SegmentID
	// Attempts is the number of requests sent, 0 if none was.
	Attempts int
	// RetryAfter is the time that the store asked to wait, 0 if it asked for none.
	RetryAfter time.Duration
	// Kind is a sentinel of this package, the caller's context error, or nil if the failure is unclassified.
	Kind error
	// Cause says more about the failure, nil if nothing is known. It is not unwrapped by errors.Is: a deadline of one
	// attempt in it must not look like the caller's own (W7).
	Cause error
}

// NewError returns an error of the kind given with its cause. Drivers use it to classify what their library returns;
// Manager fills in the operation, the id and the attempts.
func NewError(kind, cause error) *Error { return &Error{Kind: kind, Cause: cause} }

// Error returns the operation, the segment, the kind, the attempts and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(string(e.Op))
		if e.ID != (SegmentID{}) {
			b.WriteString(" segment " + e.ID.String())
		}
		b.WriteString(": ")
	}
	switch {
	case e.Kind != nil:
		b.WriteString(e.Kind.Error())
	case e.Cause == nil:
		b.WriteString("unclassified error")
	}
	if e.Cause != nil {
		if e.Kind != nil {
			b.WriteString(": ")
		}
		b.WriteString(e.Cause.Error())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	return b.String()
}

// Is tells whether the kind is target.
func (e *Error) Is(target error) bool { return e.Kind != nil && errors.Is(e.Kind, target) }

// As reaches the error types behind Cause. There is deliberately no Unwrap: errors.Is would find the deadline of a
// single attempt there and take it for the caller's.
func (e *Error) As(target any) bool { return e.Cause != nil && errors.As(e.Cause, target) }

// DeleteFailure is one segment that DeleteSegments did not delete, and why.
type DeleteFailure struct {
	ID  SegmentID
	Err error
}

// DeleteError lists the segments that a DeleteSegments call did not delete, those not tried because of a cancelled
// context included; the other segments of the call are deleted (W9). errors.Is and errors.As look through every failure.
type DeleteError struct {
	Failures []DeleteFailure
}

// Error names the number of failures and the first of them.
func (e *DeleteError) Error() string {
	if len(e.Failures) == 0 {
		return "delete: no failures"
	}
	first := e.Failures[0]
	return fmt.Sprintf("delete: %d segments not deleted, first %s: %v", len(e.Failures), first.ID, first.Err)
}

// Unwrap returns the errors of all failures.
func (e *DeleteError) Unwrap() []error {
	errs := make([]error, len(e.Failures))
	for i, failure := range e.Failures {
		errs[i] = failure.Err
	}
	return errs
}
