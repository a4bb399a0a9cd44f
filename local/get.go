//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// readBytes is how much is read between two looks at the context.
const readBytes = 1 << 20

// Get implements objectstore.Driver (W6). It opens, reads and closes the file, and asks for its size only where the
// read came up short.
func (d *Driver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	if err := checkKey(key); err != nil {
		return err
	}
	if offset < 0 || offset > math.MaxInt64-int64(len(dst)) {
		return walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("local store %s: offset %d", d.name, offset))
	}
	file, err := d.fs.Open(key)
	if absent(err) {
		return d.missing(err)
	}
	if err != nil {
		return d.failure(err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	for done := 0; done < len(dst); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := file.ReadAt(dst[done:min(done+readBytes, len(dst))], offset+int64(done))
		done += n
		switch {
		case done == len(dst):
		case errors.Is(err, io.EOF):
			return d.tooShort(key, offset, len(dst), done)
		case errors.Is(err, syscall.EISDIR):
			return d.missing(err)
		case err != nil:
			return d.failure(err)
		}
	}
	return nil
}

// tooShort tells a range that ends beyond the object from a file that ended early.
func (d *Driver) tooShort(key string, offset int64, want, got int) error {
	object, err := d.stat(key)
	if err != nil {
		return err
	}
	text := fmt.Errorf("local store %s: %s: %d bytes from offset %d asked for, %d read, the file has %d", d.name, key, want, offset, got, object.Size)
	if object.Size < offset+int64(want) {
		return walstorage.NewError(walstorage.ErrInvalidRange, text)
	}
	return walstorage.NewError(walstorage.ErrUnavailable, text)
}

// Stat implements objectstore.Driver. Stored is the file's modification time, by the clock of the file system. There
// is no checksum.
func (d *Driver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	if err := d.enter(ctx); err != nil {
		return objectstore.Object{}, err
	}
	defer d.leave()
	if err := checkKey(key); err != nil {
		return objectstore.Object{}, err
	}
	return d.stat(key)
}

func (d *Driver) stat(key string) (objectstore.Object, error) {
	info, err := d.fs.Lstat(key)
	if absent(err) {
		return objectstore.Object{}, d.missing(err)
	}
	if err != nil {
		return objectstore.Object{}, d.failure(err)
	}
	if !info.Mode().IsRegular() {
		return objectstore.Object{}, walstorage.NewError(walstorage.ErrSegmentNotFound, fmt.Errorf("local store %s: %s is no regular file", d.name, key))
	}
	return objectstore.Object{Key: key, Size: info.Size(), Stored: info.ModTime()}, nil
}
