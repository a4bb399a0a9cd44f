package s3

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
)

// Get implements objectstore.Driver (W6): one GetObject, whose answer has to be 206 with exactly the range asked for.
// What the store sends is counted, since a body may end early and look complete (report aws/aws-sdk-go#4510).
func (d *Driver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	if len(dst) == 0 {
		return ctx.Err()
	}
	last, err := httpstore.Last(offset, len(dst))
	if err != nil {
		return err
	}
	return d.call(ctx, opGet, func(ctx context.Context, w *stall.Watch) error {
		out, err := d.client.GetObject(ctx, &sdk.GetObjectInput{
			Bucket: &d.bucket,
			Key:    &key,
			Range:  aws.String(fmt.Sprintf("bytes=%d-%d", offset, last)),
		})
		if err != nil {
			return err
		}
		// Close gives up a connection whose answer has not been read to its end.
		defer func() { _ = out.Body.Close() }()
		if err := checkRange(out, offset, last); err != nil {
			return err
		}
		return w.ReadFull(out.Body, dst)
	})
}

// checkRange compares the answer's head with the range asked for.
func checkRange(out *sdk.GetObjectOutput, offset, last int64) error {
	status := 0
	if raw, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		status = raw.StatusCode
	}
	length := int64(-1)
	if out.ContentLength != nil {
		length = *out.ContentLength
	}
	return httpstore.CheckRange(status, aws.ToString(out.ContentRange), length, offset, last)
}
