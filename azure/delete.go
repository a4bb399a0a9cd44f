package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Delete implements objectstore.Driver (W9): one Blob Batch, and no look beforehand. Keys of which its answer says nothing
// that can be read are deleted one by one, in the same call: the service leaves the number out of some parts. So are all
// of them, from then on, where a store does not know batches.
func (d *Driver) Delete(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	if len(keys) == 1 {
		return d.deleteOne(ctx, keys[0])
	}
	results := make(map[string]error, len(keys)) // a key that is not in it has had no answer
	if !d.single.Load() {
		if err := d.deleteBatch(ctx, keys, results); err != nil {
			return err
		}
	}
	var down error // why the rest is not tried
	for _, key := range keys {
		err, told := results[key]
		if !told && down == nil {
			err = d.deleteOne(ctx, key)
			if errors.Is(err, walstorage.ErrUnavailable) || errors.Is(err, walstorage.ErrClosed) || ctx.Err() != nil {
				down = err
			}
			results[key] = err
		} else if !told {
			results[key] = down
		}
		if errors.Is(err, walstorage.ErrBucketNotFound) {
			return err
		}
	}
	var failures []objectstore.DeleteFailure
	for _, key := range keys {
		if err := results[key]; err != nil {
			failures = append(failures, objectstore.DeleteFailure{Key: key, Err: err})
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return &objectstore.DeleteError{Failures: failures}
}

// deleteOne is a Delete Blob. A blob that is missing is deleted.
func (d *Driver) deleteOne(ctx context.Context, key string) error {
	err := d.call(ctx, opDelete, func(ctx context.Context, a *attempt) error {
		if _, err := d.client.NewBlobClient(key).Delete(ctx, nil); err != nil {
			return err
		}
		return a.saysNothing()
	})
	if errors.Is(err, walstorage.ErrSegmentNotFound) {
		return nil
	}
	return err
}

// deleteBatch sends one Blob Batch and notes what its answer says of each key. The error is that of a batch which was not
// carried out, as far as we know.
func (d *Driver) deleteBatch(ctx context.Context, keys []string, results map[string]error) error {
	err := d.call(ctx, opDelete, func(ctx context.Context, a *attempt) error {
		items, err := d.submit(ctx, a, keys)
		if a.answer != nil {
			// The SDK leaves the body as far as it has read it. Closed at its end it gives the connection back.
			_, _ = io.CopyN(io.Discard, a.answer.Body, 1<<10)
			_ = a.answer.Body.Close()
		}
		if err != nil {
			if a.answer != nil && a.answer.StatusCode == http.StatusAccepted && !cut(ctx, err) {
				return nil // the batch was carried out, and its answer says something that the SDK cannot read
			}
			return err
		}
		twice := map[string]bool{}
		for _, item := range items {
			if item == nil || item.ContentID == nil || *item.ContentID < 0 || *item.ContentID >= len(keys) {
				continue
			}
			key := keys[*item.ContentID]
			_, told := results[key]
			twice[key] = twice[key] || told
			results[key] = d.deleted(a, item.Error)
		}
		for key, again := range twice {
			if again { // one of the two answers is another blob's, and nobody knows which
				delete(results, key)
			}
		}
		return nil
	})
	var refusal *azcore.ResponseError
	if err != nil && walstorage.KindOf(err) == nil && errors.As(err, &refusal) {
		d.single.Store(true)
		return nil
	}
	return err
}

// cut tells whether an answer was not read to its end.
func cut(ctx context.Context, err error) bool {
	var network net.Error
	return ctx.Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// deleted is the result of one key.
func (d *Driver) deleted(a *attempt, err error) error {
	var refusal *azcore.ResponseError
	if !errors.As(err, &refusal) {
		return err // nil
	}
	classified := d.answered(a.generation, opDelete, refusal.StatusCode, refusal.ErrorCode, refusal.RawResponse, err)
	if errors.Is(classified, walstorage.ErrSegmentNotFound) {
		return nil
	}
	return classified
}

// submit sends the batch. The SDK panics where a part of the answer that is an error has no number, or one that no part
// of the request has. A panic before there is an answer is somebody else's.
func (d *Driver) submit(ctx context.Context, a *attempt, keys []string) (items []*container.BatchResponseItem, err error) {
	defer func() {
		if a.answer == nil {
			return
		}
		if value := recover(); value != nil {
			items, err = nil, fmt.Errorf("the answer to a batch cannot be read: %v", value)
		}
	}()
	batch, err := d.client.NewBatchBuilder()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := batch.Delete(key, nil); err != nil {
			return nil, err
		}
	}
	out, err := d.client.SubmitBatch(ctx, batch, nil)
	return out.Responses, err
}
