//go:build unix

package local

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Delete implements objectstore.Driver (W9). It removes files and nothing else: their directories stay, since an upload
// may be about to make a file there (case F9), until Sweep finds them empty and long out of use.
//
// A delete is not synced. After a power cut a deleted object may be back, and is deleted again by the next full list
// of the retention sweeper. An upload of the same key that follows the delete is durable nevertheless.
func (d *Driver) Delete(ctx context.Context, keys []string) error {
	if err := d.enterWriting(ctx); err != nil {
		return err
	}
	defer d.leave()
	var failures []objectstore.DeleteFailure
	absentSeen := false
	for _, key := range keys {
		err := ctx.Err()
		if err == nil {
			err = checkKey(key)
		}
		if err == nil {
			err = d.fs.Remove(key)
		}
		switch {
		case absent(err):
			if !absentSeen && d.rootMissing() {
				return d.failureOf(walstorage.ErrBucketNotFound, err)
			}
			absentSeen = true
		case isFullDirectory(err):
			// A directory is no object, so there is nothing to delete under this key.
		case err != nil:
			failures = append(failures, objectstore.DeleteFailure{Key: key, Err: d.failure(err)})
		}
	}
	if len(failures) > 0 {
		return &objectstore.DeleteError{Failures: failures}
	}
	return nil
}

// isFullDirectory tells whether Remove failed because the name is a directory with something in it, for which systems
// have three different errors.
func isFullDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EISDIR)
}
