package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Stat implements objectstore.Driver. The answer to a HEAD has no body that could tell a missing object from a missing
// bucket, so a second request asks for the bucket where the object is missing (W7).
func (d *Driver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object := objectstore.Object{Key: key}
	err := d.call(ctx, opStat, func(ctx context.Context, _ *stall.Watch) error {
		in := &sdk.HeadObjectInput{Bucket: &d.bucket, Key: &key}
		if !d.noChecksum {
			in.ChecksumMode = types.ChecksumModeEnabled
		}
		out, err := d.client.HeadObject(ctx, in)
		if err != nil {
			return err
		}
		if out.ContentLength == nil || *out.ContentLength < 0 {
			return walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: the answer does not tell the object's size"))
		}
		object.Size, object.Stored = *out.ContentLength, aws.ToTime(out.LastModified)
		if out.ChecksumType != types.ChecksumTypeComposite {
			object.CRC32C, object.HasCRC32C = decodeCRC32C(aws.ToString(out.ChecksumCRC32C))
		}
		return nil
	})
	if errors.Is(err, walstorage.ErrSegmentNotFound) {
		if bucketErr := d.bucketExists(ctx); bucketErr != nil {
			err = bucketErr
		}
	}
	if err != nil {
		return objectstore.Object{}, err
	}
	return object, nil
}

// bucketExists returns nil if the bucket exists, or if the store does not want to tell.
func (d *Driver) bucketExists(ctx context.Context) error {
	err := d.headBucket(ctx)
	if errors.Is(err, walstorage.ErrAccessDenied) {
		return nil
	}
	return err
}

func (d *Driver) headBucket(ctx context.Context) error {
	return d.call(ctx, opBucket, func(ctx context.Context, _ *stall.Watch) error {
		_, err := d.client.HeadBucket(ctx, &sdk.HeadBucketInput{Bucket: &d.bucket})
		return err
	})
}
