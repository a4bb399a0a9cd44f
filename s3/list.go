package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// List implements objectstore.Driver (W10): one page of ListObjectsV2. Nothing depends on its order, which directory
// buckets have not (report lance-format/lance#3771). Keys are asked for in URL encoding, since a foreign key may hold
// what XML cannot; stores that do not know the encoding send them as they are.
func (d *Driver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	err = d.call(ctx, opList, func(ctx context.Context, _ *stall.Watch) error {
		in := &sdk.ListObjectsV2Input{Bucket: &d.bucket, EncodingType: types.EncodingTypeUrl}
		if prefix != "" {
			in.Prefix = &prefix
		}
		if token != "" {
			in.ContinuationToken = &token
		}
		out, err := d.client.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		if out.IsTruncated == nil {
			// Every store says whether there is more. What does not is no list, such as an error document under
			// status 200, which would pass for an empty one.
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: the answer is no list"))
		}
		page = make([]objectstore.Object, 0, len(out.Contents))
		for _, item := range out.Contents {
			if aws.ToString(item.Key) == "" || item.Size == nil || *item.Size < 0 {
				return walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: an entry of the list has no key or no size"))
			}
			key := *item.Key
			if out.EncodingType == types.EncodingTypeUrl {
				if key, err = url.QueryUnescape(key); err != nil {
					return walstorage.NewError(nil, fmt.Errorf("s3: a key in the list: %w", err))
				}
			}
			page = append(page, objectstore.Object{Key: key, Size: *item.Size, Stored: aws.ToTime(item.LastModified)})
		}
		next, err = objectstore.NextToken(*out.IsTruncated, aws.ToString(out.NextContinuationToken))
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}
