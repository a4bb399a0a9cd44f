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
			case err != nil && d.wantsMore(x, token, info): // the page was empty and not the last
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

// wantsMore tells whether an iterator has its page and wanted the next. A client of the caller's may want to follow a redirect
// instead, and then has no page, and no token of one.
func (d *Driver) wantsMore(x *exchange, token string, info *iterator.PageInfo) bool {
	x.enough = x.again.Load() && (d.seesAnswers || info.Token != token)
	return x.enough
}
