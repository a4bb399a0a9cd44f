package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/internal/httpstore"
)

// Warm implements objectstore.Warmer: it asks for a token and opens connections, so that the first uploads need not wait
// for them. It lists one blob, and then does so some times at once. (A container's properties would say the same, but
// a SAS for a container may not ask for them.) The error is what the store has answered: walstorage.ErrBucketNotFound,
// say, or walstorage.ErrAccessDenied. The driver can be used whatever Warm returns.
func (d *Driver) Warm(ctx context.Context) error {
	return httpstore.Warm(ctx, d.listOne) // the token first, and by one request alone
}

func (d *Driver) listOne(ctx context.Context) error {
	one := int32(1)
	return d.call(ctx, opList, func(ctx context.Context, _ *attempt) error {
		_, _, err := d.page(ctx, &container.ListBlobsFlatOptions{MaxResults: &one})
		return err
	})
}
