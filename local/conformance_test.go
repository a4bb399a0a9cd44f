//go:build unix

package local_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// rootVariable tells a peer process the directory.
const rootVariable = "WALHOP_LOCAL_CONFORMANCE_ROOT"

// Segments as files keep every rule that the suite checks, W1 to W12, within one process and between several: creates
// race (C4) and deletes run beside uploads in one directory (F9, N10) across processes.
func TestConformance(t *testing.T) {
	root := t.TempDir()
	const listPage = 100 // so that long lists do not take a thousand uploads, each of which waits for the disk
	open := func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
		manager, err := local.New(tb.Context(), local.Config{Root: root, ListPage: listPage, Store: store})
		require.NoError(tb, err)
		return manager
	}
	conformance.Run(t, conformance.Config{
		Report: caseresults.Record(t, "local"),
		Open:   open,
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := local.NewDriver(tb.Context(), local.Config{Root: root, ListPage: listPage, Store: objectstore.Config{Cluster: "conformance"}})
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestConformancePeer")
			cmd.Env = append(cmd.Env, rootVariable+"="+root)
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			manager, err := local.New(tb.Context(), local.Config{Root: filepath.Join(root, "none"), Store: objectstore.Config{Cluster: "c"}})
			if err != nil {
				return nil, err
			}
			return manager, nil
		},
		Denied: func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
			return openRefusing(tb, root, store, func(string, string) bool { return true })
		},
		Undeletable: func(tb testing.TB, store objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			return openRefusing(tb, root, store, func(call, name string) bool {
				return call == "remove" && strings.Contains(name, id.UUID.String())
			})
		},
		Residue:   func(tb testing.TB, prefix string) []string { return residue(tb, filepath.Join(root, prefix)) },
		ListLarge: 2*listPage + 1,
		Invalid: map[string]func() error{
			"Root":          invalid(local.Config{Store: objectstore.Config{Cluster: "c"}}),
			"FileMode":      invalid(local.Config{Root: root, FileMode: 0o444, Store: objectstore.Config{Cluster: "c"}}),
			"DirMode":       invalid(local.Config{Root: root, DirMode: 0o555, Store: objectstore.Config{Cluster: "c"}}),
			"TemporaryAge":  invalid(local.Config{Root: root, TemporaryAge: 1, Store: objectstore.Config{Cluster: "c"}}),
			"SweepInterval": invalid(local.Config{Root: root, SweepInterval: 1, Store: objectstore.Config{Cluster: "c"}}),
			"ListPage":      invalid(local.Config{Root: root, ListPage: -1, Store: objectstore.Config{Cluster: "c"}}),
			"Cluster":       invalid(local.Config{Root: root}),
			"Prefix":        invalid(local.Config{Root: root, Store: objectstore.Config{Cluster: "c", Prefix: "../up"}}),
		},
	})
	// What the suite has used is empty directories by now: nothing else was made anywhere below the root.
	require.Empty(t, residue(t, root))
}

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) {
	conformance.PeerMain(func(store objectstore.Config) (walstorage.WalStorageManager, error) {
		manager, err := local.New(context.Background(), local.Config{Root: os.Getenv(rootVariable), Store: store})
		if err != nil {
			return nil, err
		}
		return manager, nil
	})
}

func invalid(config local.Config) func() error {
	return func() error {
		manager, err := local.New(context.Background(), config)
		if err == nil {
			return errors.Join(manager.Close())
		}
		return err
	}
}

// residue returns the files below dir that are no segments: temporaries above all.
func residue(tb testing.TB, dir string) (names []string) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".wal") {
			names = append(names, path)
		}
		return err
	})
	require.NoError(tb, err)
	return names
}

// refusingFS answers some calls as a system does that denies the permission. The rest reach the real file system.
type refusingFS struct {
	*local.OSFS
	on     atomic.Bool // the start-up checks are let through
	refuse func(call, name string) bool
}

func openRefusing(tb testing.TB, root string, store objectstore.Config, refuse func(call, name string) bool) walstorage.WalStorageManager {
	osfs, err := local.NewFS(root)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, osfs.Close()) })
	fsys := &refusingFS{OSFS: osfs, refuse: refuse}
	manager, err := local.New(tb.Context(), local.Config{Root: root, FS: fsys, SweepInterval: -1, Store: store})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
	fsys.on.Store(true)
	return manager
}

func (f *refusingFS) refused(call, name string) error {
	// The root itself stays visible: the store is there, only its contents are not for us.
	if f.on.Load() && name != "." && f.refuse(call, name) {
		return &fs.PathError{Op: call, Path: name, Err: syscall.EACCES}
	}
	return nil
}

func (f *refusingFS) Mkdir(name string, perm fs.FileMode) error {
	if err := f.refused("mkdir", name); err != nil {
		return err
	}
	return f.OSFS.Mkdir(name, perm)
}

func (f *refusingFS) Create(name string, perm fs.FileMode) (local.File, error) {
	if err := f.refused("create", name); err != nil {
		return nil, err
	}
	return f.OSFS.Create(name, perm)
}

func (f *refusingFS) Open(name string) (local.File, error) {
	if err := f.refused("open", name); err != nil {
		return nil, err
	}
	return f.OSFS.Open(name)
}

func (f *refusingFS) Link(oldname, newname string) error {
	if err := f.refused("link", newname); err != nil {
		return err
	}
	return f.OSFS.Link(oldname, newname)
}

func (f *refusingFS) Remove(name string) error {
	if err := f.refused("remove", name); err != nil {
		return err
	}
	return f.OSFS.Remove(name)
}

func (f *refusingFS) Lstat(name string) (fs.FileInfo, error) {
	if err := f.refused("lstat", name); err != nil {
		return nil, err
	}
	return f.OSFS.Lstat(name)
}

func (f *refusingFS) ReadDir(name string, each func(fs.DirEntry) error) error {
	if err := f.refused("readdir", name); err != nil {
		return err
	}
	return f.OSFS.ReadDir(name, each)
}
