package s3

import (
	"context"

	"github.com/walhop/walhop/internal/httpstore"
)

// Warm implements objectstore.Warmer: it opens connections, and the session of a directory bucket, so that the first
// uploads need not wait for them. It asks once, and then some times at once, whether the bucket exists. The error is what
// the store has answered: walstorage.ErrBucketNotFound, say, or walstorage.ErrAccessDenied. The driver can be used
// whatever Warm returns.
func (d *Driver) Warm(ctx context.Context) error {
	return httpstore.Warm(ctx, d.headBucket) // the session first, and by one request alone
}
