//go:build unix

package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OSFS is the real file system below one directory. Everything goes through os.Root: a name, or a symbolic link on its
// way, that would leave the directory is refused with an error that wraps fs.ErrPermission.
type OSFS struct {
	path string // absolute
	root *os.Root
	info fs.FileInfo
}

var _ FS = (*OSFS)(nil)

// NewFS opens the directory root, which must exist, as the file system that [Config.Root] stands for. It is for those
// who wrap it and hand the result in as [Config.FS]; they close it after the store.
func NewFS(root string) (*OSFS, error) {
	path, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	// The type is looked at before the open, which would wait for ever on a named pipe.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	opened, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat(".")
	if err != nil {
		_ = opened.Close()
		return nil, err
	}
	return &OSFS{path: path, root: opened, info: info}, nil
}

// Close closes the directory. Files that are open stay open.
func (f *OSFS) Close() error { return f.root.Close() }

// errLeavesRoot takes the place of os.Root's own error for an escape, which can be told by its text alone.
var errLeavesRoot = fmt.Errorf("the path leaves the root: %w", fs.ErrPermission)

// confined marks an escape. All other errors of os.Root come from the system and hold an Errno.
func confined(err error) error {
	if err == nil || errors.Is(err, fs.ErrClosed) || errors.Is(err, fs.ErrInvalid) {
		return err
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return err
	}
	if linkErr := (*os.LinkError)(nil); errors.As(err, &linkErr) {
		return &os.LinkError{Op: linkErr.Op, Old: linkErr.Old, New: linkErr.New, Err: errLeavesRoot}
	}
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return &fs.PathError{Op: pathErr.Op, Path: pathErr.Path, Err: errLeavesRoot}
	}
	return err
}

// Mkdir implements [FS]. The umask applies to perm.
func (f *OSFS) Mkdir(name string, perm fs.FileMode) error {
	return confined(f.root.Mkdir(name, perm))
}

// Create implements [FS]. The umask applies to perm.
func (f *OSFS) Create(name string, perm fs.FileMode) (File, error) {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, confined(err)
	}
	return &osFile{File: file, created: true}, nil
}

// Open implements [FS].
func (f *OSFS) Open(name string) (File, error) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, confined(err)
	}
	return &osFile{File: file}, nil
}

// Link implements [FS].
func (f *OSFS) Link(oldname, newname string) error {
	return confined(f.root.Link(oldname, newname))
}

// Remove implements [FS].
func (f *OSFS) Remove(name string) error { return confined(f.root.Remove(name)) }

// Lstat implements [FS].
func (f *OSFS) Lstat(name string) (fs.FileInfo, error) {
	if name != "." {
		info, err := f.root.Lstat(name)
		return info, confined(err)
	}
	// The open directory outlives its name, so it can't tell that it has been removed; its path can.
	info, err := os.Stat(f.path)
	if err == nil && !os.SameFile(info, f.info) {
		err = &fs.PathError{Op: "stat", Path: f.path, Err: syscall.ENOENT}
	}
	if err != nil {
		return nil, err
	}
	return info, nil
}

// readDirEntries is how many entries are held in memory at a time.
const readDirEntries = 256

// ReadDir implements [FS].
func (f *OSFS) ReadDir(name string, each func(fs.DirEntry) error) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return confined(err)
	}
	defer func() { _ = dir.Close() }()
	for {
		entries, err := dir.ReadDir(readDirEntries)
		for _, entry := range entries {
			if err := each(entry); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// SyncDir implements [FS].
func (f *OSFS) SyncDir(name string) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return confined(err)
	}
	err = dir.Sync()
	if closeErr := dir.Close(); err == nil {
		err = closeErr
	}
	return err
}

type osFile struct {
	*os.File
	created bool
}

// Lock implements [File].
func (f *osFile) Lock() error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	if err := conn.Control(func(fd uintptr) { lockErr = lock(int(fd), f.created) }); err != nil {
		return err
	}
	if lockErr != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: lockErr}
	}
	return nil
}
