package main

import (
	"errors"
	"sync/atomic"

	"github.com/walhop/walhop/unifiedlog"
)

// A real broker that is killed takes its process with it. Here three brokers share one, so a killed one has to be kept from
// its files: from the kill on, nothing that it does reaches them. A broker author leaves this file out.

var errKilled = errors.New("the broker has been killed")

// life is whether a broker has been killed.
type life struct{ killed atomic.Bool }

// ifAlive makes one step that changes a file.
func (l *life) ifAlive(step func() error) error {
	if l.killed.Load() {
		return errKilled
	}
	return step()
}

// openDir opens a partition's directory, for as long as the broker lives.
func (l *life) openDir(path string) (unifiedlog.FS, error) {
	dir, err := unifiedlog.OpenDir(path)
	return mortalDir{dir, l}, err
}

type mortalDir struct {
	unifiedlog.FS
	*life
}

func (d mortalDir) Open(name string) (unifiedlog.File, error) {
	file, err := d.FS.Open(name)
	return mortalFile{file, d.life}, err
}

func (d mortalDir) Create(name string) (file unifiedlog.File, err error) {
	err = d.ifAlive(func() error {
		file, err = d.FS.Create(name)
		return err
	})
	return mortalFile{file, d.life}, err
}

func (d mortalDir) Rename(from, to string) error {
	return d.ifAlive(func() error { return d.FS.Rename(from, to) })
}

func (d mortalDir) Remove(name string) error {
	return d.ifAlive(func() error { return d.FS.Remove(name) })
}
func (d mortalDir) SyncDir() error { return d.ifAlive(d.FS.SyncDir) }

type mortalFile struct {
	unifiedlog.File
	*life
}

func (f mortalFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.ifAlive(func() error {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, err
}

func (f mortalFile) Truncate(size int64) error {
	return f.ifAlive(func() error { return f.File.Truncate(size) })
}

func (f mortalFile) Sync() error { return f.ifAlive(f.File.Sync) }
