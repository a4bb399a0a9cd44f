package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
)

// Get implements objectstore.Driver (W6): one Get Blob, whose answer has to be 206 with exactly the range asked for.
// What the store sends is counted, since a body may end early and look complete.
func (d *Driver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	if len(dst) == 0 {
		return ctx.Err()
	}
	last, err := httpstore.Last(offset, len(dst))
	if err != nil {
		return err
	}
	return d.call(ctx, opGet, func(ctx context.Context, a *attempt) error {
		out, err := d.client.NewBlobClient(key).DownloadStream(ctx, &blob.DownloadStreamOptions{
			Range: blob.HTTPRange{Offset: offset, Count: int64(len(dst))},
		})
		if err != nil {
			return err
		}
		// Close gives up a connection whose answer has not been read to its end. The SDK's own reader would send a second
		// request where a body ends early.
		defer func() {
			if out.Body != nil { // newer SDKs give none with 304
				_ = out.Body.Close()
			}
		}()
		if err := checkRange(a.answer, offset, last); err != nil {
			return err
		}
		return a.watch.ReadFull(out.Body, dst)
	})
}

// checkRange compares the answer's head with the range asked for. The SDK lets 200 and 304 pass (report
// Azure/azure-sdk-for-go#24566). Where a range begins at the end of a blob Azurite answers 206 with "bytes 10-9/10" and
// nothing, which is walstorage.ErrInvalidRange like any other range that ends beyond it.
func checkRange(answer *http.Response, offset, last int64) error {
	switch {
	case answer == nil:
		return walstorage.NewError(nil, errors.New("azure: the client does not show its answers"))
	case answer.StatusCode >= 300:
		return walstorage.NewError(nil, fmt.Errorf("azure: the answer to a request for a range is %d", answer.StatusCode))
	case answer.Uncompressed:
		return walstorage.NewError(nil, errors.New("azure: the HTTP client has uncompressed the blob"))
	}
	return httpstore.CheckRange(answer.StatusCode, answer.Header.Get("Content-Range"), answer.ContentLength, offset, last)
}
