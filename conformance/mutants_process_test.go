package conformance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// processMutants are right within a process and wrong between two.
var processMutants = []mutant{
	{name: "creates take turns in their own process alone", caught: "C4", make: func(t *testing.T) (Config, func()) {
		root := t.TempDir()
		turns := &sync.Mutex{} // of this process
		return Config{
			Open: func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
				m, err := openTurns(root, turns, store)
				require.NoError(tb, err)
				return m
			},
			Peer: func(tb testing.TB) *exec.Cmd {
				cmd := Reexecute(tb, "TestMutantPeer")
				cmd.Env = append(cmd.Env, turnsVariable+"="+root)
				return cmd
			},
			ListLarge: 60,
		}, func() {}
	}},
}

// turnsVariable tells a peer process the directory.
const turnsVariable = "WALHOP_MUTANT_ROOT"

// TestMutantPeer is the other process of a mutant. In this one it does nothing.
func TestMutantPeer(*testing.T) {
	turns := &sync.Mutex{}
	PeerMain(func(store objectstore.Config) (walstorage.WalStorageManager, error) {
		return openTurns(os.Getenv(turnsVariable), turns, store)
	})
}

// openTurns returns a store of files whose creates keep each other out by a lock in memory: it looks whether the name is
// taken and then takes it, whoever has taken it meanwhile.
func openTurns(root string, turns *sync.Mutex, store objectstore.Config) (walstorage.WalStorageManager, error) {
	osfs, err := local.NewFS(root)
	if err != nil {
		return nil, err
	}
	m, err := local.New(context.Background(), local.Config{Root: root, FS: &turnsFS{OSFS: osfs, turns: turns}, SweepInterval: -1, Store: store})
	if err != nil {
		return nil, errors.Join(err, osfs.Close())
	}
	return &turnsManager{m, osfs}, nil
}

// turnsManager closes its file system too.
type turnsManager struct {
	walstorage.WalStorageManager
	fs *local.OSFS
}

func (m *turnsManager) Close() error {
	return errors.Join(m.WalStorageManager.Close(), m.fs.Close())
}

// turnsFS is a file system whose Link replaces what another process has made. It syncs nothing, for the time that it takes.
type turnsFS struct {
	*local.OSFS
	turns *sync.Mutex
}

func (f *turnsFS) Link(oldname, newname string) error {
	f.turns.Lock()
	defer f.turns.Unlock()
	if _, err := f.Lstat(newname); err == nil {
		return fs.ErrExist
	}
	<-time.After(200 * time.Microsecond) // as long as a slow disk
	err := f.OSFS.Link(oldname, newname)
	if errors.Is(err, fs.ErrExist) {
		if err = f.Remove(newname); err == nil {
			err = f.OSFS.Link(oldname, newname)
		}
	}
	return err
}

func (f *turnsFS) SyncDir(string) error { return nil }

func (f *turnsFS) Create(name string, perm fs.FileMode) (local.File, error) {
	file, err := f.OSFS.Create(name, perm)
	if err != nil {
		return nil, err
	}
	return unsynced{file}, nil
}

type unsynced struct{ local.File }

func (unsynced) Sync() error { return nil }
