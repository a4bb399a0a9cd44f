//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// memoryFS keeps a tree in memory and, beside it, what of it a power cut leaves for certain: the bytes of files as they
// were last synced, the names in directories as these were. It also shows that the store relies on nothing of a file
// system but what FS says.
type memoryFS struct {
	mu   sync.Mutex
	root *node
	tick time.Time
}

type node struct {
	dir          bool
	data, synced []byte
	names, kept  map[string]*node // as they are, and as last synced
	modified     time.Time
}

func newMemoryFS() *memoryFS {
	m := &memoryFS{tick: time.Unix(1_800_000_000, 0)}
	m.root = m.node(true)
	return m
}

func (m *memoryFS) node(dir bool) *node {
	m.tick = m.tick.Add(time.Millisecond)
	n := &node{dir: dir, modified: m.tick}
	if dir {
		n.names, n.kept = map[string]*node{}, map[string]*node{}
	}
	return n
}

func (m *memoryFS) find(name string) (*node, error) {
	n := m.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if n = n.names[part]; n == nil {
			return nil, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

// enter gives a node a name that must be free.
func (m *memoryFS) enter(name string, n *node) error {
	parent, err := m.find(path.Dir(name))
	if err != nil {
		return err
	}
	if parent.names[path.Base(name)] != nil {
		return &fs.PathError{Op: "enter", Path: name, Err: fs.ErrExist}
	}
	parent.names[path.Base(name)] = n
	m.tick = m.tick.Add(time.Millisecond)
	parent.modified = m.tick
	return nil
}

func (m *memoryFS) Mkdir(name string, _ fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enter(name, m.node(true))
}

func (m *memoryFS) Create(name string, _ fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.node(false)
	return &memoryFile{fs: m, node: n}, m.enter(name, n)
}

func (m *memoryFS) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	return &memoryFile{fs: m, node: n}, err
}

func (m *memoryFS) Link(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(oldname)
	if err != nil {
		return err
	}
	return m.enter(newname, n)
}

func (m *memoryFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 {
		return fs.ErrExist
	}
	parent, err := m.find(path.Dir(name))
	if err == nil {
		delete(parent.names, path.Base(name))
	}
	return err
}

func (m *memoryFS) Lstat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return nil, err
	}
	return nodeInfo{name: path.Base(name), size: int64(len(n.data)), node: n, modified: n.modified}, nil
}

func (m *memoryFS) ReadDir(name string, each func(fs.DirEntry) error) error {
	m.mu.Lock()
	n, err := m.find(name)
	var entries []fs.DirEntry
	if err == nil {
		for _, base := range slices.Sorted(maps.Keys(n.names)) {
			entries = append(entries, fs.FileInfoToDirEntry(nodeInfo{name: base, node: n.names[base]}))
		}
	}
	m.mu.Unlock()
	for _, entry := range entries {
		if err := each(entry); err != nil {
			return err
		}
	}
	return err
}

func (m *memoryFS) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil {
		n.kept = maps.Clone(n.names)
	}
	return err
}

// powerCut returns what is on the disk afterwards. What was not synced is kept or lost as keep says: each name, each
// removal, and each file's bytes for itself.
func (m *memoryFS) powerCut(keep func() bool) *memoryFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	copies := map[*node]*node{}
	var survive func(*node) *node
	survive = func(n *node) *node {
		if known := copies[n]; known != nil {
			return known // two names of one file
		}
		c := &node{dir: n.dir, modified: n.modified}
		copies[n] = c
		if !n.dir {
			c.data = n.synced
			if keep() {
				c.data = slices.Clone(n.data[:len(n.data)/2]) // half of it had reached the disk
				copy(c.data, n.synced)
				c.data = append(c.data, n.synced[min(len(c.data), len(n.synced)):]...)
			}
			c.synced = c.data
			return c
		}
		c.names = map[string]*node{}
		for _, name := range slices.Sorted(maps.Keys(n.kept)) {
			if n.names[name] == n.kept[name] || !keep() {
				c.names[name] = survive(n.kept[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			if n.names[name] != n.kept[name] && keep() {
				c.names[name] = survive(n.names[name])
			}
		}
		c.kept = maps.Clone(c.names)
		return c
	}
	return &memoryFS{root: survive(m.root), tick: m.tick}
}

type memoryFile struct {
	fs   *memoryFS
	node *node
}

func (f *memoryFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.data = append(f.node.data, p...)
	return len(p), nil
}

func (f *memoryFile) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := copy(p, f.node.data[min(offset, int64(len(f.node.data))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.synced = slices.Clone(f.node.data)
	return nil
}

func (f *memoryFile) Lock() error  { return errors.ErrUnsupported }
func (f *memoryFile) Close() error { return nil }

type nodeInfo struct {
	name     string
	size     int64
	node     *node
	modified time.Time
}

func (i nodeInfo) Name() string       { return i.name }
func (i nodeInfo) Size() int64        { return i.size }
func (i nodeInfo) ModTime() time.Time { return i.modified }
func (i nodeInfo) IsDir() bool        { return i.node.dir }
func (i nodeInfo) Sys() any           { return i.node }
func (i nodeInfo) Mode() fs.FileMode {
	if i.node.dir {
		return fs.ModeDir
	}
	return 0
}

// errCut ends a run at the call at which the power is cut.
var errCut = errors.New("power cut")

// N2, W1, W3, Jepsen on NATS 2.12.1: the power is cut after every single call of a story with two processes, directories
// new and known, a key that is taken and one that is deleted. What was acknowledged and not deleted is there, whole;
// all else is whole or absent; and life goes on.
func TestPowerCutAfterEachCall(t *testing.T) {
	const size = 999
	story := []struct {
		process int
		call    string
		key     string
		writer  byte
	}{
		{0, "put", "wal/c/1/2026010203/04/a.wal", 'a'},
		{0, "put", "wal/c/1/2026010203/04/b.wal", 'b'},
		{1, "put", "wal/c/1/2026010203/04/c.wal", 'c'},
		{1, "put", "wal/c/1/2026010203/05/d.wal", 'd'},
		{0, "put", "wal/c/1/2026010203/05/d.wal", 'x'},
		{0, "put", "wal/c/1/2026010204/00/e.wal", 'e'},
		{1, "delete", "wal/c/1/2026010203/04/a.wal", 0},
		{1, "put", "wal/c/1/2026010203/04/a.wal", 'f'},
		{0, "put", "wal/c/2/2026010204/00/g.wal", 'g'},
	}
	crashes := map[string]func(seed uint64) func() bool{
		"all lost": func(uint64) func() bool { return func() bool { return false } },
		"all kept": func(uint64) func() bool { return func() bool { return true } },
		"some kept": func(seed uint64) func() bool {
			random := rand.New(rand.NewPCG(seed, 1))
			return func() bool { return random.IntN(2) == 0 }
		},
	}
	cut := 1
	for ; ; cut++ {
		disk := newMemoryFS()
		calls := 0
		after := func(_ step, err error) error {
			calls++
			if calls > cut {
				return errCut
			}
			return err
		}
		stop := func(step) error {
			if calls >= cut {
				return errCut
			}
			return nil
		}
		processes := make([]*Driver, 2)
		for i := range processes {
			fsys := &stepFS{FS: disk}
			processes[i] = newDriver(t, Config{Root: "disk", FS: fsys})
			fsys.intercept(stop, after)
		}
		certain, unknown := map[string]byte{}, map[string][]byte{}
		for _, event := range story {
			var err error
			if event.call == "put" {
				// A context without an end keeps every sync on this goroutine.
				err = put(context.Background(), processes[event.process], event.key, content(event.writer, size))
			} else {
				err = processes[event.process].Delete(context.Background(), []string{event.key})
			}
			switch {
			case err == nil && event.call == "put":
				certain[event.key] = event.writer
			case errors.Is(err, walstorage.ErrSegmentExists):
				// As good as nil for the one who stored it.
			case event.call == "delete":
				// Deletes are not synced: the old bytes may be back.
				unknown[event.key] = append(unknown[event.key], certain[event.key])
				delete(certain, event.key)
			default:
				unknown[event.key] = append(unknown[event.key], event.writer)
			}
		}
		for name, mode := range crashes {
			for seed := range uint64(4) {
				requireAfterCut(t, fmt.Sprintf("cut after call %d, %s, seed %d", cut, name, seed), disk.powerCut(mode(seed)), certain, unknown, size)
			}
		}
		if calls < cut {
			break
		}
	}
	require.Greater(t, cut, 80, "the story has become short")
	t.Logf("power cut after each of %d calls", cut)
}

func requireAfterCut(t *testing.T, when string, disk *memoryFS, certain map[string]byte, unknown map[string][]byte, size int) {
	t.Helper()
	d := newDriver(t, Config{Root: "disk", FS: disk})
	for key, writer := range certain {
		text, err := get(t.Context(), d, key, size)
		require.NoError(t, err, "%s: %s was acknowledged", when, key)
		require.Equal(t, content(writer, size), text, "%s: %s", when, key)
	}
	for key, writers := range unknown {
		object, err := d.Stat(t.Context(), key)
		if errors.Is(err, walstorage.ErrSegmentNotFound) {
			continue
		}
		require.NoError(t, err, when)
		require.EqualValues(t, size, object.Size, "%s: %s is there in part", when, key)
		text, err := get(t.Context(), d, key, size)
		require.NoError(t, err, when)
		if certain[key] == 0 {
			require.Contains(t, writers, text[0], "%s: %s", when, key)
		}
		require.True(t, wholeContent(text, size), "%s: %s is a mixture", when, key)
	}
	for _, key := range listed(t, d, "") {
		require.True(t, certain[key] != 0 || len(unknown[key]) > 0, "%s: %s is listed", when, key)
	}
	require.NoError(t, put(t.Context(), d, "wal/c/1/2026010203/04/next.wal", "next"), when)
}
