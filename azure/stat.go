package azure

import (
	"context"
	"errors"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Stat implements objectstore.Driver. The answer to a HEAD has its error code in a header, so that a missing blob is
// told from a missing container (W7).
func (d *Driver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object := objectstore.Object{Key: key}
	err := d.call(ctx, opStat, func(ctx context.Context, _ *attempt) error {
		out, err := d.client.NewBlobClient(key).GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		if out.ContentLength == nil || *out.ContentLength < 0 || out.BlobType == nil {
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the answer describes no blob"))
		}
		object.Size = *out.ContentLength
		if out.LastModified != nil {
			object.Stored = *out.LastModified
		}
		object.CRC32C, object.HasCRC32C = crc32cOf(out.Metadata)
		return nil
	})
	if err != nil {
		return objectstore.Object{}, err
	}
	return object, nil
}
