package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const (
	lockTimeout  = time.Second          // how long opening waits for a file that another process has
	batchDelay   = 2 * time.Millisecond // how long a write waits for others to share its transaction
	headerLength = 4 + 8                // before the object's bytes: their CRC-32C, the time of storing in ns since 1970
	objectBytes  = 32 << 20             // the largest object
	pageSize     = 500                  // the largest number of objects on a page of a list
)

// Driver is an objectstore.Driver over a bbolt bucket that holds nothing else. Its methods may be called concurrently.
type Driver struct {
	db     *bbolt.DB
	bucket []byte
	writes sync.WaitGroup // the writes under way, also those whose callers have left
}

// Open opens the file at path, or makes it with the bucket in it.
func Open(path, bucket string) (*Driver, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, classify(err)
	}
	defer dir.Close()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, classify(fmt.Errorf("opening %q: %w", path, err))
	}
	db.MaxBatchDelay = batchDelay
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte(bucket))
		return err
	})
	if err = errors.Join(err, dir.Sync()); err != nil { // bbolt syncs the file, and not its entry in the directory (W3)
		return nil, classify(errors.Join(err, db.Close()))
	}
	return &Driver{db: db, bucket: []byte(bucket)}, nil
}

// Put stores the object in one transaction, create only (W2), and returns when it is synced (W3).
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	value := make([]byte, headerLength+body.Len()) // a copy, since the write may outlive the call (W5)
	if _, err := io.ReadFull(body, value[headerLength:]); err != nil {
		return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("reading the body: %w", err))
	}
	if crc32.Checksum(value[headerLength:], crc32.MakeTable(crc32.Castagnoli)) != crc32c { // (W4)
		return walstorage.NewError(walstorage.ErrCorrupt, errors.New("the body does not match its CRC-32C"))
	}
	binary.BigEndian.PutUint32(value, crc32c)
	binary.BigEndian.PutUint64(value[4:], uint64(time.Now().UnixNano()))
	return d.write(ctx, func(bucket *bbolt.Bucket) error {
		if bucket.Get([]byte(key)) != nil {
			return walstorage.NewError(walstorage.ErrSegmentExists, nil)
		}
		return bucket.Put([]byte(key), value)
	})
}

// write runs change, perhaps more than once, in a transaction that may be shared. If ctx ends first it returns at once
// (W8) and the transaction may go on, so change must touch nothing that the caller may use again.
func (d *Driver) write(ctx context.Context, change func(*bbolt.Bucket) error) error {
	done := make(chan error, 2) // whatever comes first
	defer context.AfterFunc(ctx, func() { done <- ctx.Err() })()
	d.writes.Go(func() { done <- classify(d.db.Batch(d.in(ctx, change))) })
	return <-done
}

// in runs do on the bucket, unless the caller has left while the transaction waited for its turn.
func (d *Driver) in(ctx context.Context, do func(*bbolt.Bucket) error) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(d.bucket)
		if err := ctx.Err(); err != nil || bucket == nil {
			return cmp.Or(err, bbolterrors.ErrBucketNotFound)
		}
		return do(bucket)
	}
}

// describe reads what stands before an object's bytes. A nil value is a missing object.
func describe(key string, value []byte) (objectstore.Object, error) {
	switch {
	case value == nil:
		return objectstore.Object{}, walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	case len(value) < headerLength:
		return objectstore.Object{}, walstorage.NewError(walstorage.ErrCorrupt, fmt.Errorf("%q is no object of ours", key))
	}
	return objectstore.Object{
		Key: key, Size: int64(len(value) - headerLength), Stored: time.Unix(0, int64(binary.BigEndian.Uint64(value[4:]))),
		CRC32C: binary.BigEndian.Uint32(value), HasCRC32C: true,
	}, nil
}

// Get fills dst whole or fails (W6). The value is a memory map, and not valid after the transaction.
func (d *Driver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	return classify(d.db.View(d.in(ctx, func(bucket *bbolt.Bucket) error {
		value := bucket.Get([]byte(key))
		object, err := describe(key, value)
		if err == nil && (offset > object.Size || int64(len(dst)) > object.Size-offset) {
			err = walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("%d bytes from %d on, the object has %d", len(dst), offset, object.Size))
		}
		if err == nil {
			copy(dst, value[headerLength+offset:])
		}
		return err
	})))
}

// Stat describes the object, with the checksum that it was stored with.
func (d *Driver) Stat(ctx context.Context, key string) (object objectstore.Object, err error) {
	err = classify(d.db.View(d.in(ctx, func(bucket *bbolt.Bucket) (err error) {
		object, err = describe(key, bucket.Get([]byte(key)))
		return err
	})))
	return object, err
}

// Delete deletes all keys or, if it fails, none (W9). To bbolt a missing key is no error.
func (d *Driver) Delete(ctx context.Context, keys []string) error {
	keys = slices.Clone(keys) // the write may outlive the call
	return d.write(ctx, func(bucket *bbolt.Bucket) (err error) {
		for _, key := range keys {
			err = cmp.Or(err, bucket.Delete([]byte(key)))
		}
		return err
	})
}

// List returns a page, in a transaction of its own. The token is the key that the page begins at (W10).
func (d *Driver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	err = classify(d.db.View(d.in(ctx, func(bucket *bbolt.Bucket) error {
		cursor := bucket.Cursor()
		key, value := cursor.Seek([]byte(max(prefix, token)))
		for ; strings.HasPrefix(string(key), prefix) && key != nil; key, value = cursor.Next() {
			if len(page) == pageSize {
				next = string(key)
				break
			}
			object, err := describe(string(key), value)
			if err != nil {
				return err
			}
			page = append(page, object)
		}
		return nil
	})))
	return page, next, err
}

// Limits returns the largest object; 1,000 keys, the default, may go into one Delete.
func (d *Driver) Limits() objectstore.Limits { return objectstore.Limits{ObjectBytes: objectBytes} }

// Close waits for the writes whose callers have left, and closes the file.
func (d *Driver) Close() error {
	d.writes.Wait()
	return classify(d.db.Close())
}

// kinds tells what errors of bbolt and of the file system are to walhop (W7): a kind, and what is of it.
var kinds = [][]error{
	{walstorage.ErrBucketNotFound, bbolterrors.ErrBucketNotFound, syscall.ENOENT},
	{walstorage.ErrClosed, bbolterrors.ErrDatabaseNotOpen},
	{walstorage.ErrUnavailable, bbolterrors.ErrTimeout}, // another process has the file
	{walstorage.ErrAccessDenied, bbolterrors.ErrDatabaseReadOnly, syscall.EACCES, syscall.EPERM, syscall.EROFS},
	{walstorage.ErrNoSpace, syscall.ENOSPC, syscall.EDQUOT},
	{walstorage.ErrCorrupt, bbolterrors.ErrInvalid, bbolterrors.ErrChecksum, bbolterrors.ErrVersionMismatch},
}

// classify leaves nil, an error that has a kind, and one that nobody knows as they are.
func classify(err error) error {
	for _, known := range kinds {
		if slices.ContainsFunc(known[1:], func(cause error) bool { return errors.Is(err, cause) }) {
			return walstorage.NewError(known[0], err)
		}
	}
	return err
}
