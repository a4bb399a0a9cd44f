package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// cleanUpLimit is how long cleaning up may take.
const cleanUpLimit = time.Minute

// cleanUp deletes every segment of the store's cluster, which is this run's alone. It looks again until a list is empty,
// since a request that was given up may have landed meanwhile (W1), some times at the most.
func cleanUp(ctx context.Context, store walstorage.WalStorageManager) (deleted int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
	defer cancel()
	const looks = 4
	for range looks {
		var ids []walstorage.SegmentID
		for info, err := range store.ListSegments(ctx, walstorage.ListOptions{}) {
			if err != nil {
				return deleted, err
			}
			ids = append(ids, info.ID)
		}
		if len(ids) == 0 {
			return deleted, nil
		}
		err = store.DeleteSegments(ctx, ids...)
		var some *walstorage.DeleteError
		switch {
		case err == nil:
			deleted += len(ids)
		case errors.As(err, &some):
			deleted += len(ids) - len(some.Failures)
		default:
			return deleted, err
		}
	}
	if err == nil {
		err = fmt.Errorf("there were still some after %d deletes of all", looks)
	}
	return deleted, err
}
