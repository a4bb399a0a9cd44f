package walstorage

import (
	"context"
	"iter"
	"time"
)

// Observe returns a manager that calls hooks around every call of m, for a [WalStorageManager] that is not made by
// objectstore.Manager, which has hooks of its own. It cannot see the requests that m sends, so each call counts as one
// attempt and AttemptStart and AttemptDone are not called. Close closes m.
func Observe(m WalStorageManager, hooks Hooks) WalStorageManager {
	return &observed{manager: m, hooks: hooks}
}

type observed struct {
	manager WalStorageManager
	hooks   Hooks
}

// call runs one operation between its two hooks; OperationDone is called even if the manager panics.
func (o *observed) call(ctx context.Context, op Operation, run func(ctx context.Context) error) (err error) {
	ctx = o.hooks.StartOperation(ctx, op)
	start := time.Now()
	returned := false
	defer func() {
		result := OperationResult{Duration: time.Since(start), Attempts: 1, Segments: op.Segments, Err: err}
		if !returned {
			result.Err = &Error{Op: op.Op, ID: op.ID, Attempts: 1}
		}
		o.hooks.EndOperation(ctx, op, result)
	}()
	err = run(ctx)
	returned = true
	return err
}

func (o *observed) UploadSegment(ctx context.Context, id SegmentID, data []byte) error {
	return o.call(ctx, Operation{Op: OpUpload, ID: id, Segments: 1, Bytes: int64(len(data))}, func(ctx context.Context) error {
		return o.manager.UploadSegment(ctx, id, data)
	})
}

func (o *observed) FetchSegment(ctx context.Context, id SegmentID, offset int64, dst []byte) error {
	return o.call(ctx, Operation{Op: OpFetch, ID: id, Segments: 1, Bytes: int64(len(dst))}, func(ctx context.Context) error {
		return o.manager.FetchSegment(ctx, id, offset, dst)
	})
}

func (o *observed) StatSegment(ctx context.Context, id SegmentID) (info SegmentInfo, err error) {
	err = o.call(ctx, Operation{Op: OpStat, ID: id, Segments: 1}, func(ctx context.Context) error {
		info, err = o.manager.StatSegment(ctx, id)
		return err
	})
	return info, err
}

func (o *observed) DeleteSegments(ctx context.Context, ids ...SegmentID) error {
	op := Operation{Op: OpDelete, Segments: len(ids)}
	if len(ids) == 1 {
		op.ID = ids[0]
	}
	return o.call(ctx, op, func(ctx context.Context) error { return o.manager.DeleteSegments(ctx, ids...) })
}

func (o *observed) ListSegments(ctx context.Context, options ListOptions) iter.Seq2[SegmentInfo, error] {
	return func(yield func(SegmentInfo, error) bool) {
		op := Operation{Op: OpList}
		ctx := o.hooks.StartOperation(ctx, op)
		start := time.Now()
		result := OperationResult{Attempts: 1}
		returned := false
		defer func() {
			result.Duration = time.Since(start)
			if !returned { // a panic, of the manager or of the caller's loop
				result.Err = &Error{Op: OpList, Attempts: 1}
			}
			o.hooks.EndOperation(ctx, op, result)
		}()
		for info, err := range o.manager.ListSegments(ctx, options) {
			if err != nil {
				result.Err = err
			} else {
				result.Segments++
			}
			if !yield(info, err) {
				break
			}
		}
		returned = true
	}
}

func (o *observed) Close() error { return o.manager.Close() }
