package conformance

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/walhop/walhop/local"
)

// ErrCrashed is what every call of a [CrashFS] returns once its process has been killed. It has no kind, so a manager
// does not try again.
var ErrCrashed = errors.New("the process has crashed")

// CrashFS is a file system in memory, as one process sees it, that keeps apart what a process can read and what is on
// the disk: a power cut, [CrashFS.Crash], takes away what has not been synced. Any call can be made to fail, and a
// process can be killed between any two calls. It is what [RunCrash] hands to a file-based store, and it is of use
// by itself in a store's own tests.
//
// On the disk are the bytes of a file as they were at its last successful File.Sync, and the names in a directory as they
// were at the last successful SyncDir of that very directory; [local.FS] describes the calls. A File.Sync that fails
// loses what it was to write, as Linux does: the bytes can still be read, the next Sync succeeds, and they are not on
// the disk. A write that fails has written the first half. A SyncDir that fails has done nothing, and the next may do
// it. Locks are those of flock: they belong to the open file and end with its Close and with the process.
//
// Its clock begins at a fixed time and goes on by a millisecond with each change, and by [CrashFS.Advance]. All methods may
// be called from many goroutines.
type CrashFS struct {
	machine *crashMachine

	// guarded by machine.mu
	begun  int
	done   []CrashCall
	fault  func(CrashCall) CrashFault
	killed bool
	open   map[*crashFile]struct{}
}

var _ local.FS = (*CrashFS)(nil)

// CrashCall is one call of a [CrashFS] or of a file of it.
type CrashCall struct {
	// Number counts the calls of the process, from 1.
	Number int
	// Op is one of mkdir, create, open, link, rename, remove, lstat, readdir, syncdir, and for files write, read, sync,
	// lock, close.
	Op string
	// Name is the name that the call is about: for a link or a rename the new one, for a file that under which it was
	// opened.
	Name string
	// From is the old name of a link or a rename.
	From string
	// Err is what the call returned, nil while it is under way.
	Err error
}

func (c CrashCall) String() string {
	if c.From != "" {
		return c.Op + " " + c.From + " to " + c.Name
	}
	return c.Op + " " + c.Name
}

// CrashFault is what becomes of a call. The zero value lets it be.
type CrashFault struct {
	// Err is what the call returns, wrapped in an *fs.PathError; usually a syscall.Errno.
	Err error
	// Done says that the call is carried out nevertheless: its answer was lost.
	Done bool
}

// Loss is what a power cut takes of that which has not been synced.
type Loss int

const (
	// LoseUnsynced takes all of it.
	LoseUnsynced Loss = iota
	// LoseNothing takes nothing, as when a process is killed and the system goes on.
	LoseNothing
	// LoseNames takes the names that directories do not have for certain; the bytes of files are there.
	LoseNames
	// LoseBytes takes the bytes: the names are there, and files are as long as they were, with zeros for what was not
	// synced.
	LoseBytes
	// LoseSome takes each name, each removal and the end of each file or not, as the seed says.
	LoseSome
)

func (l Loss) String() string {
	names := []string{
		"all that was not synced is lost", "nothing is lost", "names that were not synced are lost",
		"bytes that were not synced are lost", "some of what was not synced is lost",
	}
	if l < 0 || int(l) >= len(names) {
		return "unknown loss"
	}
	return names[l]
}

// crashMachine is what the processes of one machine share.
type crashMachine struct {
	mu   sync.Mutex
	root *crashNode
	now  time.Time
}

// crashNode is a file or a directory.
type crashNode struct {
	dir      bool
	perm     fs.FileMode
	modified time.Time

	// Of a directory: the names as they are, and as they are on the disk.
	names, kept map[string]*crashNode

	// Of a file: the bytes as they are, and as they are on the disk. The kernel takes those below clean for written.
	data, synced []byte
	clean        int
	locks        map[*crashFile]bool // true: exclusive
}

// NewCrashFS returns the first process on a machine whose disk is empty.
func NewCrashFS() *CrashFS {
	m := &crashMachine{now: time.Unix(1_800_000_000, 0).UTC()}
	m.root = m.node(true, 0o750)
	return m.process()
}

func (m *crashMachine) process() *CrashFS {
	return &CrashFS{machine: m, open: make(map[*crashFile]struct{})}
}

func (m *crashMachine) tick() time.Time {
	m.now = m.now.Add(time.Millisecond)
	return m.now
}

func (m *crashMachine) node(dir bool, perm fs.FileMode) *crashNode {
	n := &crashNode{dir: dir, perm: perm, modified: m.tick()}
	if dir {
		n.names, n.kept = make(map[string]*crashNode), make(map[string]*crashNode)
	}
	return n
}

// Process returns another process on the same machine: it sees the same files, and has faults, calls and locks of its
// own.
func (f *CrashFS) Process() *CrashFS { return f.machine.process() }

// Kill ends the process: its locks are let go, and each of its calls that has not taken effect, and all later ones,
// return [ErrCrashed]. What it has done stays, for the other processes of the machine.
func (f *CrashFS) Kill() {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	f.killed = true
	for file := range f.open {
		file.close()
	}
}

// Killed tells whether [CrashFS.Kill] was called.
func (f *CrashFS) Killed() bool {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	return f.killed
}

// Fault has decide called before each call of the process, on the goroutine that makes it and with no lock held, so that
// it may block, or use the file system, or kill the process. nil is no more faults. Calls count from 1 again.
func (f *CrashFS) Fault(decide func(CrashCall) CrashFault) {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	f.fault, f.begun, f.done = decide, 0, nil
}

// Calls returns the calls since the last [CrashFS.Fault], in the order in which they took effect.
func (f *CrashFS) Calls() []CrashCall {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	return slices.Clone(f.done)
}

// Advance moves the clock of the file system on.
func (f *CrashFS) Advance(d time.Duration) {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	f.machine.now = f.machine.now.Add(d)
}

// Files returns the bytes of all files by name, as a process sees them. It is no call, and works after Kill.
func (f *CrashFS) Files() map[string][]byte {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	files := make(map[string][]byte)
	var visit func(dir string, n *crashNode)
	visit = func(dir string, n *crashNode) {
		for name, child := range n.names {
			if at := path.Join(dir, name); child.dir {
				visit(at, child)
			} else {
				files[at] = bytes.Clone(child.data)
			}
		}
	}
	visit("", f.machine.root)
	return files
}

// Crash returns the first process on a machine that is started anew from what a power cut at this moment leaves on the
// disk. This machine goes on as if there had been none. seed is for [LoseSome].
func (f *CrashFS) Crash(loss Loss, seed uint64) *CrashFS {
	f.machine.mu.Lock()
	defer f.machine.mu.Unlock()
	random := rand.New(rand.NewPCG(seed, 1))
	c := crash{
		copies: make(map[*crashNode]*crashNode),
		name: func() bool {
			return loss == LoseNothing || loss == LoseBytes || loss == LoseSome && random.IntN(2) == 0
		},
		bytes: func(n *crashNode) []byte {
			switch loss {
			case LoseNothing, LoseNames:
				return bytes.Clone(n.data)
			case LoseBytes:
				return append(bytes.Clone(n.synced), make([]byte, max(0, len(n.data)-len(n.synced)))...)
			case LoseSome:
				end := len(n.synced) + random.IntN(max(0, len(n.data)-len(n.synced))+1)
				return append(bytes.Clone(n.synced), n.data[min(len(n.synced), len(n.data)):min(end, len(n.data))]...)
			}
			return bytes.Clone(n.synced)
		},
	}
	return (&crashMachine{root: c.survive(f.machine.root), now: f.machine.now}).process()
}

// crash is one power cut.
type crash struct {
	copies map[*crashNode]*crashNode
	name   func() bool // whether a change of a name that was not synced is on the disk
	bytes  func(*crashNode) []byte
}

// survive returns what is left of a node.
func (c *crash) survive(n *crashNode) *crashNode {
	if known := c.copies[n]; known != nil {
		return known // two names of one file
	}
	left := &crashNode{dir: n.dir, perm: n.perm, modified: n.modified}
	c.copies[n] = left
	if !n.dir {
		left.synced = c.bytes(n)
		left.data, left.clean = bytes.Clone(left.synced), len(left.synced)
		return left
	}
	left.names = make(map[string]*crashNode)
	all := maps.Clone(n.kept)
	maps.Copy(all, n.names)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		there := n.kept[name]
		if there != n.names[name] && c.name() {
			there = n.names[name]
		}
		if there != nil {
			left.names[name] = c.survive(there)
		}
	}
	left.kept = maps.Clone(left.names)
	return left
}

// do makes a call. act carries it out; with fail set, as far as one gets that fails.
func (f *CrashFS) do(call CrashCall, act func(fail bool) error) error {
	m := f.machine
	m.mu.Lock()
	f.begun++
	call.Number = f.begun
	decide := f.fault
	if f.killed {
		decide = nil
	}
	m.mu.Unlock()
	var fault CrashFault
	if decide != nil {
		fault = decide(call)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case f.killed:
		call.Err = &fs.PathError{Op: call.Op, Path: call.Name, Err: ErrCrashed}
	case fault.Err != nil:
		_ = act(!fault.Done)
		call.Err = &fs.PathError{Op: call.Op, Path: call.Name, Err: fault.Err}
	default:
		if err := act(false); errors.Is(err, io.EOF) {
			call.Err = err
		} else if err != nil {
			call.Err = &fs.PathError{Op: call.Op, Path: call.Name, Err: err}
		}
	}
	f.done = append(f.done, call)
	return call.Err
}

// change is do for calls of which nothing is done if they fail.
func (f *CrashFS) change(call CrashCall, act func() error) error {
	return f.do(call, func(fail bool) error {
		if fail {
			return nil
		}
		return act()
	})
}

// find returns the node of a name.
func (m *crashMachine) find(name string) (*crashNode, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	n := m.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[part]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// parent returns the directory that a name stands in, or would.
func (m *crashMachine) parent(name string) (*crashNode, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, fs.ErrInvalid
	}
	n, err := m.find(path.Dir(name))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	return n, err
}

// enter gives a node a name that is free.
func (m *crashMachine) enter(name string, n *crashNode) error {
	parent, err := m.parent(name)
	if err != nil {
		return err
	}
	if parent.names[path.Base(name)] != nil {
		return syscall.EEXIST
	}
	parent.names[path.Base(name)] = n
	parent.modified = m.tick()
	return nil
}

// leave takes a name away.
func (m *crashMachine) leave(name string) error {
	n, err := m.find(name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 {
		return syscall.ENOTEMPTY
	}
	parent, err := m.parent(name)
	if err == nil {
		delete(parent.names, path.Base(name))
		parent.modified = m.tick()
	}
	return err
}

// Mkdir implements [local.FS].
func (f *CrashFS) Mkdir(name string, perm fs.FileMode) error {
	return f.change(CrashCall{Op: "mkdir", Name: name}, func() error {
		return f.machine.enter(name, f.machine.node(true, perm))
	})
}

// Create implements [local.FS].
func (f *CrashFS) Create(name string, perm fs.FileMode) (local.File, error) {
	var file *crashFile
	err := f.change(CrashCall{Op: "create", Name: name}, func() error {
		n := f.machine.node(false, perm)
		err := f.machine.enter(name, n)
		if err == nil {
			file = f.opened(name, n, true)
		}
		return err
	})
	return result(file, err)
}

// Open implements [local.FS].
func (f *CrashFS) Open(name string) (local.File, error) {
	var file *crashFile
	err := f.change(CrashCall{Op: "open", Name: name}, func() error {
		n, err := f.machine.find(name)
		if err == nil {
			file = f.opened(name, n, false)
		}
		return err
	})
	return result(file, err)
}

func (f *CrashFS) opened(name string, n *crashNode, created bool) *crashFile {
	file := &crashFile{fs: f, node: n, name: name, created: created}
	f.open[file] = struct{}{}
	return file
}

// result lets go of a file whose opening was said to have failed: nobody will close it.
func result(file *crashFile, err error) (local.File, error) {
	if err == nil {
		return file, nil
	}
	if file != nil {
		file.fs.machine.mu.Lock()
		defer file.fs.machine.mu.Unlock()
		file.close()
	}
	return nil, err
}

// Link implements [local.FS].
func (f *CrashFS) Link(oldname, newname string) error {
	return f.change(CrashCall{Op: "link", Name: newname, From: oldname}, func() error {
		n, err := f.machine.find(oldname)
		if err == nil && n.dir {
			err = syscall.EPERM
		}
		if err == nil {
			err = f.machine.enter(newname, n)
		}
		return err
	})
}

// Rename gives a file another name, and takes that name from a file that has it. [local.FS] has no such call; it is here
// for stores that do it that way.
func (f *CrashFS) Rename(oldname, newname string) error {
	return f.change(CrashCall{Op: "rename", Name: newname, From: oldname}, func() error {
		n, err := f.machine.find(oldname)
		if err != nil {
			return err
		}
		into, err := f.machine.parent(newname)
		if err != nil {
			return err
		}
		there := into.names[path.Base(newname)]
		switch {
		case n.dir || there != nil && there.dir:
			return syscall.EISDIR
		case there == n:
			return nil
		}
		if err := f.machine.leave(oldname); err != nil {
			return err
		}
		into.names[path.Base(newname)] = n
		into.modified = f.machine.tick()
		return nil
	})
}

// Remove implements [local.FS].
func (f *CrashFS) Remove(name string) error {
	return f.change(CrashCall{Op: "remove", Name: name}, func() error { return f.machine.leave(name) })
}

// Lstat implements [local.FS].
func (f *CrashFS) Lstat(name string) (fs.FileInfo, error) {
	var info crashInfo
	err := f.change(CrashCall{Op: "lstat", Name: name}, func() error {
		n, err := f.machine.find(name)
		if err == nil {
			info = n.info(name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ReadDir implements [local.FS]. The entries are those at the beginning of the call, in the order of their names.
func (f *CrashFS) ReadDir(name string, each func(fs.DirEntry) error) error {
	var entries []fs.DirEntry
	err := f.change(CrashCall{Op: "readdir", Name: name}, func() error {
		n, err := f.machine.find(name)
		if err == nil && !n.dir {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
		for _, base := range slices.Sorted(maps.Keys(n.names)) {
			entries = append(entries, fs.FileInfoToDirEntry(n.names[base].info(base)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := each(entry); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir implements [local.FS].
func (f *CrashFS) SyncDir(name string) error {
	return f.change(CrashCall{Op: "syncdir", Name: name}, func() error {
		n, err := f.machine.find(name)
		if err == nil && !n.dir {
			err = syscall.ENOTDIR
		}
		if err == nil {
			n.kept = maps.Clone(n.names)
		}
		return err
	})
}

// crashFile is an open file.
type crashFile struct {
	fs      *CrashFS
	node    *crashNode
	name    string
	created bool
	closed  bool
}

// change is CrashFS.do for an open file.
func (f *crashFile) do(op string, act func(fail bool) error) error {
	return f.fs.do(CrashCall{Op: op, Name: f.name}, func(fail bool) error {
		switch {
		case f.closed:
			return fs.ErrClosed
		case f.node.dir && op != "close":
			return syscall.EISDIR
		}
		return act(fail)
	})
}

func (f *crashFile) Write(p []byte) (n int, err error) {
	err = f.do("write", func(fail bool) error {
		if !f.created {
			return syscall.EBADF
		}
		n = len(p)
		if fail {
			n /= 2
		}
		f.node.data = append(f.node.data, p[:n]...)
		f.node.modified = f.fs.machine.tick()
		return nil
	})
	return n, err
}

func (f *crashFile) ReadAt(p []byte, offset int64) (n int, err error) {
	err = f.do("read", func(fail bool) error {
		if fail {
			return nil
		}
		if offset < 0 {
			return syscall.EINVAL
		}
		if n = copy(p, f.node.data[min(offset, int64(len(f.node.data))):]); n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (f *crashFile) Sync() error {
	return f.do("sync", func(fail bool) error {
		n := f.node
		if !fail {
			// What a failed sync was to write is taken for written: the disk has zeros there.
			n.synced = append(n.synced, make([]byte, n.clean-len(n.synced))...)
			n.synced = append(n.synced, n.data[n.clean:]...)
		}
		n.clean = len(n.data)
		return nil
	})
}

func (f *crashFile) Lock() error {
	return f.do("lock", func(fail bool) error {
		if fail {
			return nil
		}
		for other, exclusive := range f.node.locks {
			if other != f && (exclusive || f.created) {
				return syscall.EWOULDBLOCK
			}
		}
		if f.node.locks == nil {
			f.node.locks = make(map[*crashFile]bool)
		}
		f.node.locks[f] = f.created
		return nil
	})
}

// Close closes the file even where it is said to have failed, as the system does.
func (f *crashFile) Close() error {
	return f.do("close", func(bool) error {
		f.close()
		return nil
	})
}

func (f *crashFile) close() {
	f.closed = true
	delete(f.node.locks, f)
	delete(f.fs.open, f)
}

// crashInfo describes a node.
type crashInfo struct {
	name     string
	node     *crashNode
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (n *crashNode) info(name string) crashInfo {
	mode := n.perm
	if n.dir {
		mode |= fs.ModeDir
	}
	return crashInfo{name: path.Base(name), node: n, size: int64(len(n.data)), mode: mode, modified: n.modified}
}

func (i crashInfo) Name() string       { return i.name }
func (i crashInfo) Size() int64        { return i.size }
func (i crashInfo) Mode() fs.FileMode  { return i.mode }
func (i crashInfo) ModTime() time.Time { return i.modified }
func (i crashInfo) IsDir() bool        { return i.mode.IsDir() }
func (i crashInfo) Sys() any           { return i.node }
