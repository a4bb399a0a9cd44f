package unifiedlog_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/walhop/walhop/unifiedlog"
)

// errKilled is what every call returns once the process has been killed.
var errKilled = errors.New("the process has been killed")

// loss is what a power cut takes of that which has not been synced.
type loss int

const (
	loseNothing loss = iota // the process was killed, the system goes on
	loseUnsynced
	loseSome // of each file some pages, of each name the change, or not
)

func (l loss) String() string { return [...]string{"nothing", "unsynced", "some"}[l] }

// crashFS is the directory of a partition in memory. It keeps apart what a process sees and what is on the disk, and can be
// told to fail at a call, or to be killed before it.
type crashFS struct {
	mu          sync.Mutex
	names, kept map[string]*inode
	calls       int
	log         []string
	// fault is asked before each call, counted from 1.
	fault  func(call int, what string) error
	killed bool
	// hang is called before each call, with no lock held.
	hang func(what string)
}

// inode is a file: its bytes as they are, and as they are on the disk.
type inode struct{ data, synced []byte }

func newCrashFS() *crashFS {
	return &crashFS{names: map[string]*inode{}, kept: map[string]*inode{}}
}

// crash returns what is left after a power cut at this moment.
func (c *crashFS) crash(l loss, seed uint64) *crashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	random := rand.New(rand.NewPCG(seed, 7))
	left := newCrashFS()
	all := maps.Clone(c.kept)
	maps.Copy(all, c.names)
	copies := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		node := c.kept[name]
		if l == loseNothing || l == loseSome && random.IntN(2) == 0 {
			node = c.names[name]
		}
		if node == nil {
			continue
		}
		if copies[node] == nil {
			b := surviving(node, l, random)
			copies[node] = &inode{data: b, synced: slices.Clone(b)}
		}
		left.names[name] = copies[node]
	}
	left.kept = maps.Clone(left.names)
	return left
}

// surviving returns the bytes of a file that a power cut leaves.
func surviving(n *inode, l loss, random *rand.Rand) []byte {
	switch l {
	case loseNothing:
		return slices.Clone(n.data)
	case loseUnsynced:
		return slices.Clone(n.synced)
	}
	const page = 64
	low, high := min(len(n.data), len(n.synced)), max(len(n.data), len(n.synced))
	b := make([]byte, []int{len(n.data), len(n.synced), low + random.IntN(high-low+1)}[random.IntN(3)])
	for at := 0; at < len(b); at += page {
		end := min(at+page, len(b))
		from := n.data
		if random.IntN(2) == 0 {
			from = n.synced
		}
		if at < len(from) {
			copy(b[at:end], from[at:])
		}
		if l := min(low, end); l > at && slices.Equal(n.data[at:l], n.synced[at:l]) {
			copy(b[at:l], n.data[at:l]) // what was not changed is there
		}
	}
	return b
}

// do makes a call.
func (c *crashFS) do(what string, act func() error) error {
	if c.hang != nil {
		c.hang(what)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errKilled
	}
	c.calls++
	c.log = append(c.log, what)
	if c.fault != nil {
		if err := c.fault(c.calls, what); err != nil {
			if errors.Is(err, errKilled) {
				c.killed = true
			}
			return err
		}
	}
	return act()
}

func (c *crashFS) List() (names []string, err error) {
	err = c.do("list", func() error { names = slices.Sorted(maps.Keys(c.names)); return nil })
	return names, err
}

func (c *crashFS) Open(name string) (unifiedlog.File, error) {
	var f *crashFile
	err := c.do("open "+name, func() error {
		node := c.names[name]
		if node == nil {
			return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		f = &crashFile{c, name, node, false}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c *crashFS) Create(name string) (unifiedlog.File, error) {
	var f *crashFile
	err := c.do("create "+name, func() error {
		node := c.names[name]
		if node == nil {
			node = &inode{}
			c.names[name] = node
		}
		node.data = nil
		f = &crashFile{c, name, node, false}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c *crashFS) Rename(from, to string) error {
	return c.do("rename "+to, func() error {
		node := c.names[from]
		if node == nil {
			return fs.ErrNotExist
		}
		delete(c.names, from)
		c.names[to] = node
		return nil
	})
}

func (c *crashFS) Remove(name string) error {
	return c.do("remove "+name, func() error {
		if name != "." && c.names[name] == nil {
			return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
		}
		delete(c.names, name)
		return nil
	})
}

func (c *crashFS) SyncDir() error {
	return c.do("syncdir", func() error { c.kept = maps.Clone(c.names); return nil })
}

type crashFile struct {
	fs     *crashFS
	name   string
	node   *inode
	closed bool
}

func (f *crashFile) do(what string, act func() error) error {
	return f.fs.do(what+" "+f.name, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return act()
	})
}

func (f *crashFile) ReadAt(p []byte, offset int64) (n int, err error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.fs.killed:
		return 0, errKilled
	case f.closed:
		return 0, fs.ErrClosed
	}
	if n = copy(p, f.node.data[min(offset, int64(len(f.node.data))):]); n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes the first half if it is made to fail, as a disk does that is full.
func (f *crashFile) WriteAt(p []byte, offset int64) (int, error) {
	write := func(p []byte) {
		if missing := int(offset) + len(p) - len(f.node.data); missing > 0 {
			f.node.data = append(f.node.data, make([]byte, missing)...)
		}
		copy(f.node.data[offset:], p)
	}
	err := f.do("write", func() error { write(p); return nil })
	if err != nil {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		if !f.closed && !errors.Is(err, errKilled) {
			write(p[:len(p)/2])
		}
		return len(p) / 2, err
	}
	return len(p), nil
}

func (f *crashFile) Truncate(size int64) error {
	return f.do("truncate", func() error {
		if size > int64(len(f.node.data)) {
			return fmt.Errorf("%s is made longer", f.name)
		}
		f.node.data = slices.Clone(f.node.data[:size])
		return nil
	})
}

func (f *crashFile) Size() (n int64, err error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.killed {
		return 0, errKilled
	}
	return int64(len(f.node.data)), nil
}

func (f *crashFile) Sync() error {
	return f.do("sync", func() error { f.node.synced = slices.Clone(f.node.data); return nil })
}

func (f *crashFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}

// bytesOf returns the files as the process sees them.
func (c *crashFS) bytesOf() map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := map[string][]byte{}
	for name, node := range c.names {
		files[name] = slices.Clone(node.data)
	}
	return files
}

// fromFiles returns a disk that holds the files.
func fromFiles(files map[string][]byte) *crashFS {
	c := newCrashFS()
	for name, b := range files {
		c.names[name] = &inode{data: slices.Clone(b), synced: slices.Clone(b)}
	}
	c.kept = maps.Clone(c.names)
	return c
}
