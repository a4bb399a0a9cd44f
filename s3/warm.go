package s3

import (
	"context"
	"sync"
)

// warmConnections is as many as an uploader's default sends at once.
const warmConnections = 8

// Warm implements objectstore.Warmer: it opens connections, and the session of a directory bucket, so that the first
// uploads need not wait for them. It asks once, and then some times at once, whether the bucket exists. The error is what the store has answered:
// walstorage.ErrBucketNotFound, say, or walstorage.ErrAccessDenied. The driver can be used whatever Warm returns.
func (d *Driver) Warm(ctx context.Context) error {
	// The session first, and by one request alone.
	if err := d.headBucket(ctx); err != nil {
		return err
	}
	errs := make([]error, warmConnections)
	var asked sync.WaitGroup
	for i := range errs {
		asked.Go(func() { errs[i] = d.headBucket(ctx) })
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
