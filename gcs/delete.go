package gcs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const (
	// keysPerDelete is as many as one attempt has time for, even if the service takes half a second for each.
	keysPerDelete = 100
	// deletesAtOnce is how many of them are under way at once.
	deletesAtOnce = 16
)

// errLeft is the cause of keys that are left for the next attempt.
var errLeft = errors.New("gcs: not tried, since the service did not answer for others")

// Delete implements objectstore.Driver (W9): a request for each key, and no look beforehand. A context that ends leaves
// the keys that are not done, each with its error. When as many keys as are under way at once were refused for the time
// being, the rest waits for the next attempt: a service in trouble is not asked a hundred times.
func (d *Driver) Delete(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	errs := make([]error, len(keys))
	var next, unavailable atomic.Int64
	var all sync.WaitGroup
	for range min(deletesAtOnce, len(keys)) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(keys) {
					return
				}
				if unavailable.Load() >= deletesAtOnce && ctx.Err() == nil {
					errs[i] = walstorage.NewError(walstorage.ErrUnavailable, errLeft)
					continue
				}
				if errs[i] = d.deleteOne(ctx, keys[i]); errors.Is(errs[i], walstorage.ErrUnavailable) {
					unavailable.Add(1)
				}
			}
		})
	}
	all.Wait()
	return d.deleteError(ctx, keys, errs)
}

func (d *Driver) deleteOne(ctx context.Context, key string) error {
	return d.call(ctx, &exchange{op: opDelete}, func(ctx context.Context, _ *stall.Watch) error {
		return d.bucket.Object(key).Delete(ctx)
	})
}

// deleteError makes the error of those keys that are not deleted. One that was not there is: unless that was the bucket,
// which is asked for once where an answer has left it open.
func (d *Driver) deleteError(ctx context.Context, keys []string, errs []error) error {
	var missing error
	asked := false
	var failures []objectstore.DeleteFailure
	for i, err := range errs {
		if errors.Is(err, walstorage.ErrSegmentNotFound) {
			if saysObject(err) {
				continue
			}
			if !asked {
				missing, asked = d.bucketExists(ctx), true
			}
			err = missing
		}
		switch {
		case errors.Is(err, walstorage.ErrBucketNotFound):
			return err
		case err != nil:
			failures = append(failures, objectstore.DeleteFailure{Key: keys[i], Err: err})
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return &objectstore.DeleteError{Failures: failures}
}
