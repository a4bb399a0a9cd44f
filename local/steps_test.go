//go:build unix

package local

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// step is one call of an FS or a File.
type step struct {
	call string // "create", "write", "sync", "link", "remove", "syncdir", ...
	name string // of the file or directory; for a link the new name
	from string // for a link the old name
	// When the call began and when it returned without an error, counted in calls begun and returned; 0 is never.
	began, done int
}

// String shows temporaries as "TEMP", so that a test can spell out the order of calls.
func (s step) String() string {
	short := func(name string) string {
		if at := strings.LastIndexByte(name, '/'); isTemporary(name[at+1:]) {
			return name[:at+1] + "TEMP"
		}
		return name
	}
	if s.from != "" {
		return fmt.Sprintf("%s %s -> %s", s.call, short(s.from), short(s.name))
	}
	return fmt.Sprintf("%s %s", s.call, short(s.name))
}

// stepFS records the calls of the FS below it and lets a test step in before and after each: an error from before takes
// the call's place, after may change its result. Both may block.
type stepFS struct {
	FS
	mu     sync.Mutex
	steps  []step
	clock  int
	before func(step) error
	after  func(step, error) error
}

func (f *stepFS) do(s step, call func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.clock++
	s.began = f.clock
	f.steps = append(f.steps, s)
	f.mu.Unlock()
	if before != nil {
		if err := before(s); err != nil {
			return err
		}
	}
	err := call()
	if after != nil {
		err = after(s, err)
	}
	if err == nil {
		f.mu.Lock()
		f.clock++
		for i := len(f.steps) - 1; i >= 0; i-- {
			if f.steps[i].began == s.began {
				f.steps[i].done = f.clock
				break
			}
		}
		f.mu.Unlock()
	}
	return err
}

// now returns the clock and the steps so far.
func (f *stepFS) now() (clock int, steps []step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock, slices.Clone(f.steps)
}

// intercept sets what happens from now on, and forgets the steps so far.
func (f *stepFS) intercept(before func(step) error, after func(step, error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps, f.before, f.after = nil, before, after
}

// taken returns the steps, without the calls that only look.
func (f *stepFS) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var taken []string
	for _, s := range f.steps {
		if !slices.Contains([]string{"lstat", "lock", "open", "readat", "readdir", "close"}, s.call) {
			taken = append(taken, s.String())
		}
	}
	return taken
}

func (f *stepFS) Mkdir(name string, perm fs.FileMode) error {
	return f.do(step{call: "mkdir", name: name}, func() error { return f.FS.Mkdir(name, perm) })
}

func (f *stepFS) Create(name string, perm fs.FileMode) (file File, err error) {
	err = f.do(step{call: "create", name: name}, func() (err error) {
		file, err = f.FS.Create(name, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stepFile{File: file, fs: f, name: name}, nil
}

func (f *stepFS) Open(name string) (file File, err error) {
	err = f.do(step{call: "open", name: name}, func() (err error) {
		file, err = f.FS.Open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stepFile{File: file, fs: f, name: name}, nil
}

func (f *stepFS) Link(oldname, newname string) error {
	return f.do(step{call: "link", name: newname, from: oldname}, func() error { return f.FS.Link(oldname, newname) })
}

func (f *stepFS) Remove(name string) error {
	return f.do(step{call: "remove", name: name}, func() error { return f.FS.Remove(name) })
}

func (f *stepFS) Lstat(name string) (info fs.FileInfo, err error) {
	err = f.do(step{call: "lstat", name: name}, func() (err error) {
		info, err = f.FS.Lstat(name)
		return err
	})
	return info, err
}

func (f *stepFS) ReadDir(name string, each func(fs.DirEntry) error) error {
	return f.do(step{call: "readdir", name: name}, func() error { return f.FS.ReadDir(name, each) })
}

func (f *stepFS) SyncDir(name string) error {
	return f.do(step{call: "syncdir", name: name}, func() error { return f.FS.SyncDir(name) })
}

// unsyncedFS is an FS whose syncs do nothing. Nothing in a test that runs to its end tells a sync from none, but for
// the time that it takes.
type unsyncedFS struct{ FS }

func (f unsyncedFS) SyncDir(name string) error { _, err := f.Lstat(name); return err }

func (f unsyncedFS) Create(name string, perm fs.FileMode) (File, error) {
	file, err := f.FS.Create(name, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{file}, nil
}

type unsyncedFile struct{ File }

func (unsyncedFile) Sync() error { return nil }

type stepFile struct {
	File
	fs   *stepFS
	name string
}

func (f *stepFile) Write(p []byte) (n int, err error) {
	err = f.fs.do(step{call: "write", name: f.name}, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *stepFile) ReadAt(p []byte, offset int64) (n int, err error) {
	err = f.fs.do(step{call: "readat", name: f.name}, func() (err error) {
		n, err = f.File.ReadAt(p, offset)
		return err
	})
	return n, err
}

func (f *stepFile) Sync() error { return f.fs.do(step{call: "sync", name: f.name}, f.File.Sync) }

func (f *stepFile) Lock() error { return f.fs.do(step{call: "lock", name: f.name}, f.File.Lock) }

func (f *stepFile) Close() error {
	return f.fs.do(step{call: "close", name: f.name}, f.File.Close)
}

// newUnsyncedFS returns the real file system of root, without its syncs.
func newUnsyncedFS(t *testing.T, root string) FS {
	t.Helper()
	real, err := NewFS(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, real.Close()) })
	return unsyncedFS{real}
}

// newStepFS returns the same, with a record of its calls.
func newStepFS(t *testing.T, root string) *stepFS {
	t.Helper()
	return &stepFS{FS: newUnsyncedFS(t, root)}
}

// newStepDriver returns a driver over a stepFS, without a sweeper, and with nothing recorded yet.
func newStepDriver(t *testing.T, root string) (*Driver, *stepFS) {
	t.Helper()
	steps := newStepFS(t, root)
	d := newDriver(t, Config{Root: root, FS: steps})
	steps.intercept(nil, nil)
	return d, steps
}

// newDriver returns a driver without syncs that sweeps only where the test asks for it.
func newDriver(t *testing.T, config Config) *Driver {
	t.Helper()
	if config.FS == nil {
		config.FS = newUnsyncedFS(t, config.Root)
	}
	if config.SweepInterval == 0 {
		config.SweepInterval = -1
	}
	d, err := NewDriver(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}
