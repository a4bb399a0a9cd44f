package gcs

import (
	"context"

	"github.com/walhop/walhop/internal/httpstore"
)

// Warm fetches a token and opens connections, so that the first uploads need not wait for them: it asks once, and then
// some times at once, whether the bucket exists. The error is what the service has answered: walstorage.ErrBucketNotFound,
// say, or walstorage.ErrAccessDenied. The driver can be used whatever Warm returns.
func (d *Driver) Warm(ctx context.Context) error {
	return httpstore.Warm(ctx, d.askBucket) // the token first, and by one request alone
}
