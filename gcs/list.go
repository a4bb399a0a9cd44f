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

// pageSize is as many objects as the service puts into a page, and asked for since emulators put all of them into one.
const pageSize = 1000

// List implements objectstore.Driver (W10): one page. Only what is needed of each object is asked for.
func (d *Driver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	x := &exchange{op: opList}
	err = d.call(ctx, x, func(ctx context.Context, _ *stall.Watch) error {
		query := &storage.Query{Prefix: prefix, Projection: storage.ProjectionNoACL}
		if err := query.SetAttrSelection([]string{"Name", "Size", "Created"}); err != nil {
			return walstorage.NewError(nil, err)
		}
		objects := d.bucket.Objects(ctx, query)
		info := objects.PageInfo()
		info.Token, info.MaxSize = token, pageSize
		for more := true; more; more = info.Remaining() > 0 {
			attrs, err := objects.Next()
			switch {
			case errors.Is(err, iterator.Done):
			case err != nil && x.again.Load(): // the page was empty and not the last, and the iterator wanted the next
			case err != nil:
				return err
			case attrs == nil || attrs.Name == "" || attrs.Size < 0:
				// Something that is no object, a prefix say, which stands for objects that are not told: the list is not whole.
				return odd("a list holds something that is no object")
			default:
				page = append(page, objectstore.Object{Key: attrs.Name, Size: attrs.Size, Stored: attrs.Created})
			}
		}
		next = info.Token
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}
