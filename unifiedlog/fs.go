package unifiedlog

import (
	"io"
	"os"
	"path/filepath"
)

// FS is the directory of one partition, as far as the log uses it: each call is one step that can fail, or after which
// the machine can stop. The default is the real one, [OpenDir]; tests hand in one that fails at a step, or forgets on a
// simulated power cut what had not been synced. It is not the FS of package local: a log opens its files again, extends
// and cuts them, and replaces a checkpoint by rename, none of which a store of segments may do.
//
// Names have no slash; "." is the directory itself, for Remove alone. All methods may be called from many goroutines.
// Errors wrap those of io/fs (fs.ErrNotExist).
//
// What survives a power cut, and so what an implementation that simulates one has to keep: the bytes and the length of a
// file as of its last successful File.Sync, and the names in the directory as of the last successful SyncDir. Of
// everything later any part may be lost.
type FS interface {
	// List returns the names of the files in the directory, in any order.
	List() ([]string, error)
	// Open opens a file for reading and writing. fs.ErrNotExist says that there is none.
	Open(name string) (File, error)
	// Create makes an empty file, in the place of one of this name if there is one, and opens it.
	Create(name string) (File, error)
	// Rename gives a file another name, atomically in the place of a file that has it.
	Rename(from, to string) error
	// Remove removes a file, or, as ".", the empty directory.
	Remove(name string) error
	// SyncDir makes durable which names the directory holds.
	SyncDir() error
}

// File is an open file of an [FS]. All methods may be called from many goroutines at once; a Close that overtakes another
// call makes that one fail and does no other harm.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Truncate sets the length.
	Truncate(size int64) error
	// Size returns the length in bytes.
	Size() (int64, error)
	// Sync makes bytes and length durable.
	Sync() error
	Close() error
}

// Dir is a directory of the real file system.
type Dir struct{ path string }

var _ FS = Dir{}

// OpenDir returns the directory at path, which it makes if it is missing, its parents too.
func OpenDir(path string) (Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return Dir{}, err
	}
	return Dir{path: path}, nil
}

// List implements [FS].
func (d Dir) List() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Open implements [FS].
func (d Dir) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

// Create implements [FS]. The umask applies to the permissions.
func (d Dir) Create(name string) (File, error) { return d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }

func (d Dir) open(name string, flag int) (File, error) {
	file, err := os.OpenFile(filepath.Join(d.path, name), flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

// Rename implements [FS].
func (d Dir) Rename(from, to string) error {
	return os.Rename(filepath.Join(d.path, from), filepath.Join(d.path, to))
}

// Remove implements [FS].
func (d Dir) Remove(name string) error { return os.Remove(filepath.Join(d.path, name)) }

// SyncDir implements [FS].
func (d Dir) SyncDir() error {
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if closeErr := dir.Close(); err == nil {
		err = closeErr
	}
	return err
}

type osFile struct{ *os.File }

// Size implements [File].
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// readAll returns the content of a file, at most limit bytes of it.
func readAll(fsys FS, name string, limit int64) ([]byte, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, limit))
	if err := readFull(file, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// readFull fills b from offset on. A file that ends before is io.ErrUnexpectedEOF.
func readFull(file io.ReaderAt, b []byte, offset int64) error {
	n, err := file.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// replace writes a small file so that a crash leaves the old content or the new one, and nothing in between: temporary,
// sync, rename, sync of the directory.
func replace(fsys FS, name string, b []byte) error {
	temporary := name + temporarySuffix
	file, err := fsys.Create(temporary)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(b, 0)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = fsys.Rename(temporary, name)
	}
	if err == nil {
		err = fsys.SyncDir()
	}
	return err
}
