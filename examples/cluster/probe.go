package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// probeLimit is how long the first requests may take together. It is shown to the user.
const probeLimit = 20 * time.Second

// probe lists, deletes what is not there, makes one segment, reads it, lists it and deletes it: what a broker has to be
// allowed to, and in an order that leaves nothing in a bucket where deletes are refused. The error says which of these
// failed and what may be the reason. cluster is that of the store.
func probe(ctx context.Context, store walstorage.WalStorageManager, cluster string) error {
	keys, err := walstorage.NewKeys("", cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	id, err := walstorage.NewSegmentID(0, 0, time.Now(), rand.Reader)
	if err != nil {
		return err
	}
	content := []byte("a first look at the store")
	listed := func() (found bool, err error) {
		for info, err := range store.ListSegments(ctx, walstorage.ListOptions{}) {
			if err != nil {
				return false, err
			}
			found = found || info.ID == id
		}
		return found, nil
	}
	made := false // or perhaps made
	for _, step := range []struct {
		does string
		run  func() error
	}{
		{"list what is in it", func() error { _, err := listed(); return err }},
		{"delete an object", func() error { return store.DeleteSegments(ctx, id) }},
		{"create an object", func() error {
			err := store.UploadSegment(ctx, id, content)
			made = !errors.Is(err, walstorage.ErrAccessDenied) && !errors.Is(err, walstorage.ErrBucketNotFound)
			return err
		}},
		{"read it", func() error {
			got := make([]byte, len(content))
			if err := store.FetchSegment(ctx, id, 0, got); err != nil {
				return err
			}
			if !bytes.Equal(got, content) {
				return errors.New("it has other bytes in it")
			}
			return nil
		}},
		{"list it", func() error {
			found, err := listed()
			if err == nil && !found {
				return errors.New("the list does not have it")
			}
			return err
		}},
		{"delete it", func() error { return store.DeleteSegments(ctx, id) }},
	} {
		if err := step.run(); err != nil {
			err = fmt.Errorf("cannot %s: %w%s", step.does, err, advice(err))
			if !made {
				return err
			}
			// The object may be there, whatever the error says. That it cannot be deleted either is no news then.
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeLimit)
			defer cancel()
			if left := store.DeleteSegments(after, id); left != nil {
				err = fmt.Errorf("%w\nAn object of %d bytes may be left, below the prefix: %s", err, len(content), keys.Key(id))
			}
			return err
		}
	}
	return nil
}

// advice is what a user can do about the first error.
func advice(err error) string {
	switch {
	case errors.Is(err, walstorage.ErrBucketNotFound):
		return "\nIt has to exist, nothing here makes it. Is the name right, and the region or the endpoint?"
	case errors.Is(err, walstorage.ErrAccessDenied):
		return "\nThe environment's credentials are missing or wrong, or may not do this. Needed are create, read, list and delete."
	case errors.Is(err, walstorage.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("\nThere was no good answer within %s. Is the endpoint right, and can it be reached from here?", probeLimit)
	}
	return ""
}
