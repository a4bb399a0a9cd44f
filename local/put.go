//go:build unix

package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// maxCreateTries is how often Put makes the directories of a key, if others prune them before a file is in them. A
// directory just made is too young to be pruned again, so the second try succeeds; more are needed only where several
// hosts prune the same tree at that very moment.
const maxCreateTries = 8

// writeBytes is the length of one write.
const writeBytes = 256 << 10

var writeBuffers = sync.Pool{New: func() any { return new([writeBytes]byte) }}

// Put implements objectstore.Driver. The steps and their order are what makes it atomic (W1), create only (W2) and
// durable (W3):
//
//  1. make the directories, and in the last a temporary file under a name of its own;
//  2. sync the directories that the new names stand in, up to the root;
//  3. write, and sync the file;
//  4. link it under its key, which fails if the key exists, and remove the temporary name;
//  5. sync the directory;
//  6. return.
//
// A crash leaves no more than a temporary name, which no list shows and a sweep removes. The file stands in its
// directory from step 1 on, so that nobody can prune that directory (case F9). What failed is not used again: the next try
// writes another file (N5).
//
// The file system verifies no checksum (W4), so crc32c is not used.
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, _ uint32) error {
	if err := d.enterWriting(ctx); err != nil {
		return err
	}
	defer d.leave()
	if err := checkKey(key); err != nil {
		return err
	}
	if err := d.checkStalled(); err != nil {
		return err
	}
	u := upload{driver: d, key: key, dir: path.Dir(key)}
	err := u.create(ctx)
	if err == nil {
		err = u.write(ctx, body)
	}
	if err == nil {
		err = u.link(ctx)
	}
	u.discard()
	if err == nil {
		_, err = d.detached(ctx, func() error { return d.fs.SyncDir(u.dir) }, func() {})
	}
	if err == nil && u.exists {
		err = d.failureOf(walstorage.ErrSegmentExists, &fs.PathError{Op: "link", Path: key, Err: syscall.EEXIST})
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.durable.forget(u.dir)
		return d.vanished(err)
	}
	return d.failure(err)
}

// vanished makes the error of an upload that lost what it stands on: the root; or, to a sweep without locks, its
// temporary; or its directory, to others. Nothing is known to be stored, and the next try makes it all again.
func (d *Driver) vanished(err error) error {
	if d.rootMissing() {
		return d.failureOf(walstorage.ErrBucketNotFound, err)
	}
	return d.failureOf(walstorage.ErrUnavailable, err)
}

// upload is one Put under way.
type upload struct {
	driver    *Driver
	key, dir  string
	temporary string
	file      File
	// exists says that the key is taken by another file.
	exists bool
}

// create does steps 1 and 2.
func (u *upload) create(ctx context.Context) error {
	d := u.driver
	var made []string
	for try := 1; ; try++ {
		made = d.undurable(u.dir)
		err := d.makeDirs(ctx, made)
		if err == nil {
			err = u.createTemporary(ctx)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.durable.forget(u.dir)
		if try == maxCreateTries || d.rootMissing() {
			return err
		}
	}
	if len(made) == 0 {
		return nil
	}
	return u.sync(ctx, func() error { return d.syncNames(made) })
}

func (u *upload) createTemporary(ctx context.Context) error {
	d := u.driver
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := d.names.hold(u.dir)
		file, err := d.fs.Create(name, d.fileMode)
		if err == nil {
			u.temporary, u.file = name, file
			break
		}
		d.names.release(name)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A network file system lost the answer to the create and repeated it: the file may be ours, but only its age
		// will tell. Take another name.
	}
	// The lock tells sweepers that the file is in use, whatever its age. Where the file system has none the age alone
	// protects it, and a sweep of a file in use costs this upload a retry and nothing else.
	if err := u.file.Lock(); errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	return nil
}

// write does step 3.
func (u *upload) write(ctx context.Context, body *objectstore.Body) error {
	buffer := writeBuffers.Get().(*[writeBytes]byte)
	defer writeBuffers.Put(buffer)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := body.Read(buffer[:])
		if n > 0 {
			if _, err := u.file.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
	}
	return u.sync(ctx, u.file.Sync)
}

// link does step 4.
func (u *upload) link(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := u.driver
	err := d.fs.Link(u.temporary, u.key)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	// A network file system that lost the answer to a link and repeated it says "exists" of our own file (N12).
	mine, err := d.fs.Lstat(u.temporary)
	if err != nil {
		return err
	}
	stored, err := d.fs.Lstat(u.key)
	if err != nil && !absent(err) {
		return err
	}
	// Whoever linked the other file has synced its bytes before, but maybe not its name yet, nor those of its
	// directories. Manager may compare the bytes and report the segment as stored, so Put syncs before it says
	// "exists" as it does before it says nil (W3).
	u.exists = err != nil || !sameFile(mine, stored)
	return nil
}

// sameFile tells whether two infos are of one file, as FS.Lstat describes.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) || a.Sys() != nil && a.Sys() == b.Sys()
}

// discard removes the temporary name and closes the file, in this order: it is locked until its name is gone. A name
// that can't be removed is left to the sweep. The file's bytes are synced, or not used, so its close has nothing to
// say about them.
func (u *upload) discard() {
	if u.file == nil {
		return
	}
	_ = u.driver.fs.Remove(u.temporary)
	_ = u.file.Close()
	u.driver.names.release(u.temporary)
	u.file = nil
}

// sync runs a sync that the context can abandon. Then the temporary belongs to that sync, which discards it when it has
// returned.
func (u *upload) sync(ctx context.Context, call func() error) error {
	left := *u
	abandoned, err := u.driver.detached(ctx, call, left.discard)
	if abandoned {
		u.file = nil
	}
	return err
}
