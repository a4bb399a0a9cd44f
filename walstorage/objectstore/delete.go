package objectstore

import (
	"context"
	"errors"

	"github.com/walhop/walhop/walstorage"
)

// DeleteSegments implements [walstorage.WalStorageManager]. An id that is not valid gives ErrInvalidArgument before any
// request, and nothing is deleted; every other failure is a *walstorage.DeleteError. An id given twice counts once.
//
// A batch that is refused as a whole does not keep the batches after it from being tried. Where the store does not
// answer within the limits, and where the context ends or the manager is closed, the rest is not tried, and is named.
func (m *Manager) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	op := walstorage.Operation{Op: walstorage.OpDelete, Segments: len(ids)}
	if len(ids) == 1 {
		op.ID = ids[0]
	}
	return m.operate(ctx, op, func(o *operation) error {
		entered, leave, ok := m.enter(o.ctx)
		if !ok {
			if len(ids) == 0 {
				return o.fail(walstorage.ErrClosed, nil)
			}
			return &walstorage.DeleteError{Failures: notDeleted(ids, func(id walstorage.SegmentID) error {
				return &walstorage.Error{Op: walstorage.OpDelete, ID: id, Kind: walstorage.ErrClosed}
			})}
		}
		defer leave()
		for _, id := range ids {
			if err := id.Validate(); err != nil {
				var argument *walstorage.Error
				errors.As(err, &argument)
				return &walstorage.Error{Op: walstorage.OpDelete, ID: id, Kind: argument.Kind, Cause: argument.Cause}
			}
		}
		return o.delete(entered, ids)
	})
}

// errUntried says of a segment that no request was sent to delete it.
var errUntried = errors.New("not tried")

// notDeleted names ids, all of them, as failed.
func notDeleted(ids []walstorage.SegmentID, err func(walstorage.SegmentID) error) []walstorage.DeleteFailure {
	failures := make([]walstorage.DeleteFailure, len(ids))
	for i, id := range ids {
		failures[i] = walstorage.DeleteFailure{ID: id, Err: err(id)}
	}
	return failures
}

// delete deletes the ids batch by batch.
func (o *operation) delete(ctx context.Context, ids []walstorage.SegmentID) error {
	ids = unique(ids)
	var failures []walstorage.DeleteFailure
	for len(ids) > 0 {
		batch := ids[:min(o.m.limits.KeysPerDelete, len(ids))]
		ids = ids[len(batch):]
		failed, stop := o.request(ctx, batch[0]).deleteBatch(batch)
		failures = append(failures, failed...)
		if stop != nil {
			failures = append(failures, notDeleted(ids, func(id walstorage.SegmentID) error {
				return &walstorage.Error{Op: walstorage.OpDelete, ID: id, Kind: walstorage.KindOf(stop), Cause: errUntried}
			})...)
			break
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return &walstorage.DeleteError{Failures: failures}
}

// unique drops repetitions and keeps the order: some stores refuse a key that is named twice.
func unique(ids []walstorage.SegmentID) []walstorage.SegmentID {
	if len(ids) < 2 {
		return ids
	}
	seen := make(map[walstorage.SegmentID]struct{}, len(ids))
	kept := make([]walstorage.SegmentID, 0, len(ids))
	for _, id := range ids {
		if _, again := seen[id]; !again {
			seen[id] = struct{}{}
			kept = append(kept, id)
		}
	}
	return kept
}

// deleteBatch deletes one batch, and repeats what failed and may go better another time, and only that
// (Opndrive/opndrive#73). stop is not nil if the batches that follow are not to be tried, and says why.
func (r *request) deleteBatch(pending []walstorage.SegmentID) (failures []walstorage.DeleteFailure, stop error) {
	m := r.o.m
	var l leg
	var last error
	for {
		if r.ctx.Err() != nil {
			stop = r.ended(last)
			return append(failures, r.named(pending, stop)...), stop
		}
		keys := make([]string, len(pending))
		for i, id := range pending {
			keys[i] = m.keys.Key(id)
		}
		var perKey map[string]error // what the driver said of single keys, nil if it said nothing of any
		sent, err := r.attempt(&l, m.bulkGate, "Delete", m.cfg.BulkAttemptTimeout, last, func(ctx context.Context) error {
			err := m.driver.Delete(ctx, keys)
			var partial *DeleteError
			if errors.As(err, &partial) {
				perKey = make(map[string]error, len(partial.Failures))
				for _, failure := range partial.Failures {
					perKey[failure.Key] = r.classify(failure.Err, ctx, m.cfg.BulkAttemptTimeout)
				}
			}
			return err
		})
		switch {
		case !sent:
			return append(failures, r.named(pending, err)...), err
		case err == nil:
			return failures, nil
		case perKey != nil:
			var again []walstorage.SegmentID
			for i, id := range pending {
				failure := perKey[keys[i]]
				switch {
				case failure == nil, errors.Is(failure, walstorage.ErrSegmentNotFound): // deleted
				case errors.Is(failure, walstorage.ErrUnavailable):
					again, err = append(again, id), failure
				default:
					failures = append(failures, r.named([]walstorage.SegmentID{id}, failure)...)
				}
			}
			if pending = again; len(pending) == 0 {
				return failures, nil // the next batch sees for itself if the context has ended
			}
		case len(pending) == 1 && errors.Is(err, walstorage.ErrSegmentNotFound):
			return failures, nil // from a store that minds (yandex/ch-backup#69)
		case !r.retryable(err):
			if r.ctx.Err() != nil || errors.Is(err, walstorage.ErrClosed) {
				stop = err
			}
			return append(failures, r.named(pending, err)...), stop
		}
		last = err
		if ended := r.pause(&l, last); ended != nil {
			if perKey == nil || r.ctx.Err() != nil { // a store that answers for other keys may do so for the next batch
				stop = ended
			}
			return append(failures, r.named(pending, ended)...), stop
		}
	}
}

// named makes one failure of each id, with the error that it shares with the others.
func (r *request) named(ids []walstorage.SegmentID, err error) []walstorage.DeleteFailure {
	var shared *walstorage.Error
	errors.As(err, &shared)
	failures := make([]walstorage.DeleteFailure, len(ids))
	for i, id := range ids {
		own := *shared
		own.ID, own.Attempts = id, r.attempts
		failures[i] = walstorage.DeleteFailure{ID: id, Err: &own}
	}
	return failures
}
