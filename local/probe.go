//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/walhop/walhop/walstorage"
)

// probe checks by doing it what the store needs of the file system, under temporary names that it removes again (A7).
// A process that dies in it leaves temporaries, which a sweep removes.
func (d *Driver) probe(ctx context.Context) error {
	first, second, linked := d.names.hold("."), d.names.hold("."), d.names.hold(".")
	var files []File
	defer func() {
		for _, name := range []string{linked, second, first} {
			_ = d.fs.Remove(name)
			d.names.release(name)
		}
		for _, file := range files {
			_ = file.Close()
		}
	}()
	for _, name := range []string{first, second} {
		if err := ctx.Err(); err != nil {
			return err
		}
		file, err := d.fs.Create(name, d.fileMode)
		if err != nil {
			return d.unfit("is not writable", err)
		}
		files = append(files, file)
		if _, err := file.Write([]byte(name)); err != nil {
			return d.unfit("is not writable", err)
		}
	}
	if _, err := d.detached(ctx, files[0].Sync, func() {}); err != nil {
		return d.unfit("is on a file system that can't sync a file", err)
	}
	if err := d.fs.Link(first, linked); err != nil {
		return d.unfit("is on a file system without hard links", err)
	}
	switch err := d.fs.Link(second, linked); {
	case err == nil:
		return d.unfit("is on a file system whose link replaces a file that exists", errUnsafe)
	case !errors.Is(err, fs.ErrExist):
		return d.unfit("is on a file system that does not say that a name exists", err)
	}
	for _, pair := range []struct {
		name string
		same bool
	}{{first, true}, {second, false}} {
		a, err := d.fs.Lstat(pair.name)
		if err != nil {
			return d.unfit("can't be read", err)
		}
		b, err := d.fs.Lstat(linked)
		if err != nil {
			return d.unfit("can't be read", err)
		}
		if sameFile(a, b) != pair.same {
			return d.unfit("is on a file system that can't tell which names are of one file", errUnsafe)
		}
	}
	if _, err := d.detached(ctx, func() error { return d.fs.SyncDir(".") }, func() {}); err != nil {
		return d.unfit("is on a file system that can't sync a directory", err)
	}
	return nil
}

var errUnsafe = errors.New("uploads would overwrite each other")

// unfit says what the start-up check found.
func (d *Driver) unfit(what string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := kindOf(err)
	if kind == nil || kind == walstorage.ErrAccessDenied && !strings.Contains(what, "writable") {
		kind = walstorage.ErrInvalidArgument
	}
	return walstorage.NewError(kind, fmt.Errorf("local: Root %q %s: %w", d.name, what, err))
}
