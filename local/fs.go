package local

import "io/fs"

// FS is the file system below Config.Root, as far as the store uses it: eight calls, each of which is one step that
// can fail, or after which the machine can stop. The default is the real one, NewFS; tests hand in one that records
// the calls, or fails at a step, or, as conformance.CrashFS, forgets on a simulated power cut what had not been synced.
//
// Names are slash-separated paths relative to the root, in the form that io/fs demands; "." is the root itself. All
// methods may be called from many goroutines at once. Errors wrap a syscall.Errno or one of the errors of io/fs
// (fs.ErrNotExist, fs.ErrExist, fs.ErrPermission), by which the store classifies them; nothing else is read from them.
//
// What survives a power cut, and so what an implementation that simulates one has to keep: the bytes of a file after a
// successful File.Sync, and the names in a directory (files, links and directories made in it, and removals) after a
// successful SyncDir of that very directory. Everything else may be lost, in any part and in any order.
type FS interface {
	// Mkdir makes one directory. fs.ErrExist says that the name is taken, fs.ErrNotExist that the parent is missing.
	Mkdir(name string, perm fs.FileMode) error
	// Create makes a new file and opens it for writing. It never opens one that exists: that is fs.ErrExist.
	Create(name string, perm fs.FileMode) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Link gives the file oldname the second name newname, atomically. It never replaces: a newname that exists is
	// fs.ErrExist and stays what it is.
	Link(oldname, newname string) error
	// Remove removes a file or an empty directory. A directory with something in it stays, and the call fails.
	Remove(name string) error
	// Lstat describes a name without following it if it is a symbolic link. Two infos of one file are the same by
	// os.SameFile, or their Sys values are equal. For "." the error is fs.ErrNotExist once the root has been removed or
	// another directory has taken its place.
	Lstat(name string) (fs.FileInfo, error)
	// ReadDir calls each for every entry of a directory, in any order, without reading the whole directory into memory
	// first, until each returns an error, which it returns.
	ReadDir(name string, each func(fs.DirEntry) error) error
	// SyncDir makes durable which names the directory holds.
	SyncDir(name string) error
}

// File is an open file of an [FS]. Only ReadAt is called from more than one goroutine at once.
type File interface {
	// Write appends, as io.Writer.
	Write(p []byte) (int, error)
	// ReadAt reads, as io.ReaderAt.
	ReadAt(p []byte, offset int64) (int, error)
	// Sync makes the file's bytes and length durable.
	Sync() error
	// Lock takes an advisory lock without waiting: an exclusive one on a file from Create, a shared one on a file from
	// Open, in conflict with an exclusive one of another open file in any process. It is let go by Close and by the
	// death of the process. syscall.EWOULDBLOCK says that another has it; errors.ErrUnsupported that there is none.
	Lock() error
	Close() error
}
