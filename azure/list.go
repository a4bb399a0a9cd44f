package azure

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// List implements objectstore.Driver (W10): one page of List Blobs. Names that XML cannot hold come encoded, and the SDK
// decodes them.
func (d *Driver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	options := &container.ListBlobsFlatOptions{}
	if prefix != "" {
		options.Prefix = &prefix
	}
	if token != "" {
		options.Marker = &token
	}
	err = d.call(ctx, opList, func(ctx context.Context, _ *attempt) (err error) {
		page, next, err = d.page(ctx, options)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

func (d *Driver) page(ctx context.Context, options *container.ListBlobsFlatOptions) (page []objectstore.Object, next string, err error) {
	out, err := d.client.NewListBlobsFlatPager(options).NextPage(ctx)
	if err != nil {
		return nil, "", err
	}
	if out.Segment == nil || out.NextMarker == nil {
		// The service says always whether there is more. What does not is no list, such as an error document under status
		// 200, which would pass for an empty one.
		return nil, "", walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the answer is no list"))
	}
	page = make([]objectstore.Object, 0, len(out.Segment.BlobItems))
	for _, item := range out.Segment.BlobItems {
		if item == nil || item.Name == nil || item.Properties == nil || item.Properties.ContentLength == nil || *item.Properties.ContentLength < 0 {
			return nil, "", walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the list has a blob without name or size"))
		}
		if item.Properties.ResourceType != nil && *item.Properties.ResourceType == "directory" {
			continue // of a hierarchical namespace
		}
		object := objectstore.Object{Key: *item.Name, Size: *item.Properties.ContentLength}
		if item.Properties.LastModified != nil {
			object.Stored = *item.Properties.LastModified
		}
		page = append(page, object)
	}
	return page, *out.NextMarker, nil
}
