package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Delete implements objectstore.Driver (W9): one DeleteObjects, and no look beforehand. The answer is asked to name the
// keys that were deleted, too: one that names nothing, as an error document under status 200 does, deleted nothing as
// far as we know.
func (d *Driver) Delete(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	return d.call(ctx, opDelete, func(ctx context.Context, _ *stall.Watch) error {
		objects := make([]types.ObjectIdentifier, len(keys))
		for i := range keys {
			objects[i].Key = &keys[i]
		}
		in := &sdk.DeleteObjectsInput{Bucket: &d.bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(false)}}
		if !d.noChecksum {
			in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32c
		}
		out, err := d.client.DeleteObjects(ctx, in)
		if err != nil {
			return err
		}
		return d.deleteError(keys, out)
	})
}

// deleteError makes the error of those keys that the answer does not call deleted.
func (d *Driver) deleteError(keys []string, out *sdk.DeleteObjectsOutput) error {
	deleted := make(map[string]bool, len(out.Deleted))
	for _, object := range out.Deleted {
		deleted[aws.ToString(object.Key)] = true
	}
	refused := make(map[string]types.Error, len(out.Errors))
	for _, e := range out.Errors {
		refused[aws.ToString(e.Key)] = e
	}
	var failures []objectstore.DeleteFailure
	for _, key := range keys {
		if e, found := refused[key]; found {
			code := aws.ToString(e.Code)
			kind := d.codes[code]
			switch kind {
			case walstorage.ErrSegmentNotFound: // deleted already
				continue
			case walstorage.ErrSegmentExists: // no answer to a delete
				kind = nil
			case walstorage.ErrBucketNotFound:
				return walstorage.NewError(kind, fmt.Errorf("s3: %s: %s", code, aws.ToString(e.Message)))
			}
			failures = append(failures, objectstore.DeleteFailure{
				Key: key,
				Err: walstorage.NewError(kind, fmt.Errorf("s3: %s: %s", code, aws.ToString(e.Message))),
			})
		} else if !deleted[key] {
			failures = append(failures, objectstore.DeleteFailure{
				Key: key,
				Err: walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: the answer does not name the key")),
			})
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return &objectstore.DeleteError{Failures: failures}
}
