package walstorage

import (
	"context"
	"time"
)

// Hooks are the points where metrics, logs and traces attach. Every field may be nil. The functions run on the
// goroutine of the operation, must be safe for concurrent use, must not block, and must not panic. New fields may be
// added, so name the fields when you fill one in.
//
// OperationStart and OperationDone are called exactly once for each call of a [WalStorageManager] method but Close, on
// every path out of it; AttemptStart and AttemptDone exactly once for each request sent to the store. The start
// functions return the context under which the work goes on, so a span begun there becomes the parent of what follows;
// a nil context returned counts as the one given.
type Hooks struct {
	OperationStart func(ctx context.Context, op Operation) context.Context
	OperationDone  func(ctx context.Context, op Operation, result OperationResult)
	AttemptStart   func(ctx context.Context, attempt Attempt) context.Context
	AttemptDone    func(ctx context.Context, attempt Attempt, result AttemptResult)
	// ForeignObject is called once for each object in the cluster's place that is no segment of walhop's, when a list
	// comes to it. It is passed over and never deleted. Of the first 1,000 the manager remembers that it has told them.
	ForeignObject func(key string)
}

// Operation describes one call. Op is fit for a metric label, ID is not.
type Operation struct {
	Op Op
	// ID is the segment, the zero id for deletes of several segments and for lists.
	ID SegmentID
	// Segments is the number of segments that the call names: 1, for a delete any number, for a list 0.
	Segments int
	// Bytes is the length of the buffer given, 0 for operations without one.
	Bytes int64
}

// OperationResult tells how an operation ended.
type OperationResult struct {
	// Duration is the time from OperationStart, waits and all attempts included. For a list it includes the time that
	// the caller's loop took.
	Duration time.Duration
	// Attempts is the number of requests sent.
	Attempts int
	// Segments is the number of segments that a list yielded, for other operations that of the call.
	Segments int
	// Err is what the caller gets. [KindOf] gives a label for it.
	Err error
}

// Attempt describes one request to the store.
type Attempt struct {
	Operation
	// Number counts the requests of this operation from 1.
	Number int
	// Call is the driver's method: "Put", "Get", "Stat", "Delete" or "List". Its upload settles "exists" by a Stat, so
	// an attempt is not always of the operation's own kind.
	Call string
}

// AttemptResult tells how one request ended.
type AttemptResult struct {
	Duration time.Duration
	Err      error
}

// StartOperation calls OperationStart and returns its context. It is for implementations of [WalStorageManager].
func (h Hooks) StartOperation(ctx context.Context, op Operation) context.Context {
	if h.OperationStart == nil {
		return ctx
	}
	if started := h.OperationStart(ctx, op); started != nil {
		return started
	}
	return ctx
}

// EndOperation calls OperationDone. It is for implementations of [WalStorageManager].
func (h Hooks) EndOperation(ctx context.Context, op Operation, result OperationResult) {
	if h.OperationDone != nil {
		h.OperationDone(ctx, op, result)
	}
}

// StartAttempt calls AttemptStart and returns its context. It is for implementations of [WalStorageManager].
func (h Hooks) StartAttempt(ctx context.Context, attempt Attempt) context.Context {
	if h.AttemptStart == nil {
		return ctx
	}
	if started := h.AttemptStart(ctx, attempt); started != nil {
		return started
	}
	return ctx
}

// EndAttempt calls AttemptDone. It is for implementations of [WalStorageManager].
func (h Hooks) EndAttempt(ctx context.Context, attempt Attempt, result AttemptResult) {
	if h.AttemptDone != nil {
		h.AttemptDone(ctx, attempt, result)
	}
}
