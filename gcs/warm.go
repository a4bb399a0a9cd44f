package gcs

import (
	"context"
	"sync"
)

// warmConnections is as many as an uploader's default sends at once.
const warmConnections = 8

// Warm fetches a token and opens connections, so that the first uploads need not wait for them: it asks once, and then
// some times at once, whether the bucket exists. The error is what the service has answered: walstorage.ErrBucketNotFound,
// say, or walstorage.ErrAccessDenied. The driver can be used whatever Warm returns.
func (d *Driver) Warm(ctx context.Context) error {
	// The token first, and by one request alone.
	if err := d.askBucket(ctx); err != nil {
		return err
	}
	errs := make([]error, warmConnections)
	var asked sync.WaitGroup
	for i := range errs {
		asked.Go(func() { errs[i] = d.askBucket(ctx) })
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
