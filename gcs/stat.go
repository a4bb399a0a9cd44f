package gcs

import (
	"context"
	"errors"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Stat implements objectstore.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object := objectstore.Object{Key: key}
	err := d.call(ctx, &exchange{op: opStat}, func(ctx context.Context, _ *stall.Watch) error {
		attrs, err := d.bucket.Object(key).Attrs(ctx)
		if err != nil {
			return err
		}
		if attrs.Name != key || attrs.Size < 0 {
			return odd("the answer does not describe the object")
		}
		object.Size, object.Stored, object.CRC32C = attrs.Size, attrs.Created, attrs.CRC32C
		// Every object has a checksum. The SDK tells one that is missing as 0, which hardly any object but the empty one
		// has: then the Manager compares bytes.
		object.HasCRC32C = attrs.CRC32C != 0 || attrs.Size == 0
		return nil
	})
	if err = d.missing(ctx, err); err != nil {
		return objectstore.Object{}, err
	}
	return object, nil
}

// bucketExists returns nil if the bucket exists, or if the service does not want to tell.
func (d *Driver) bucketExists(ctx context.Context) error {
	err := d.askBucket(ctx)
	if errors.Is(err, walstorage.ErrAccessDenied) {
		return nil
	}
	return err
}

// askBucket asks whether the bucket exists by the one request that needs no permission beyond those for segments.
func (d *Driver) askBucket(ctx context.Context) error {
	x := &exchange{op: opBucket}
	return d.call(ctx, x, func(ctx context.Context, _ *stall.Watch) error {
		query := &storage.Query{Projection: storage.ProjectionNoACL}
		if err := query.SetAttrSelection([]string{"Name"}); err != nil {
			return walstorage.NewError(nil, err)
		}
		objects := d.bucket.Objects(ctx, query)
		info := objects.PageInfo()
		info.MaxSize = 1
		if _, err := objects.Next(); err != nil && !errors.Is(err, iterator.Done) && !d.wantsMore(x, "", info) {
			return err
		}
		return nil
	})
}
