//go:build unix

package local

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A2: each field that is wrong is named, and nothing is written.
func TestConfigNamesTheWrongField(t *testing.T) {
	configtest.Run(t, configtest.Table[Config]{
		Valid: Config{Root: t.TempDir(), SweepInterval: -1, Store: objectstore.Config{Cluster: "c"}},
		Open: func(tb testing.TB, c Config) error {
			manager, err := New(tb.Context(), c)
			if err == nil {
				return manager.Close()
			}
			require.Nil(tb, manager)
			if c.Root != "" {
				require.Empty(tb, files(t, c.Root))
			}
			return err
		},
		Wrong: map[string][]func(*Config){
			"Root": {func(c *Config) { c.Root = "" }},
			"FileMode": {
				func(c *Config) { c.FileMode = 0o400 },
				func(c *Config) { c.FileMode = 0o444 },
				func(c *Config) { c.FileMode = 0o600 | fs.ModeSetuid },
			},
			"DirMode": {func(c *Config) { c.DirMode = 0o600 }, func(c *Config) { c.DirMode = 0o1777 }},
			"TemporaryAge": {
				func(c *Config) { c.TemporaryAge = time.Second },
				func(c *Config) { c.TemporaryAge = -time.Hour },
			},
			"SweepInterval": {func(c *Config) { c.SweepInterval = time.Millisecond }},
			"ListPage":      {func(c *Config) { c.ListPage = -1 }, func(c *Config) { c.ListPage = maxListPage + 1 }},
			"Store.Cluster": {func(c *Config) { c.Store.Cluster = "" }, func(c *Config) { c.Store.Cluster = "a/b" }},
			"Store.Prefix":  {func(c *Config) { c.Store.Prefix = "a//b" }},
			"Store.MaxAttempts": {
				func(c *Config) { c.Store.MaxAttempts = -1 },
			},
		},
		Any: map[string]string{
			"ReadOnly": "a store can be opened either way",
			"FS":       "nil is the real file system",
		},
	})
}

// A1, A7, A8: a store that has just been opened works, has left nothing behind, and does not look at its Config again.
func TestNewLeavesNothingBehind(t *testing.T) {
	root := t.TempDir()
	config := Config{Root: root, Store: objectstore.Config{Cluster: "c"}}
	m, err := New(t.Context(), config)
	require.NoError(t, err)
	require.Empty(t, files(t, root))
	config.Root, config.Store.Cluster = "elsewhere", "other"

	id := benchID(t, time.Now())
	require.NoError(t, m.UploadSegment(t.Context(), id, []byte("text")))
	keys, err := walstorage.NewKeys("", "c")
	require.NoError(t, err)
	require.Equal(t, []string{keys.Key(id)}, files(t, root))
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "Close is idempotent (M1)")
	require.ErrorIs(t, m.UploadSegment(t.Context(), id, nil), walstorage.ErrClosed)
}

// A relative Root is that of the call, whatever becomes of the working directory.
func TestRelativeRoot(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(parent, "store"), 0o755))
	t.Chdir(parent)
	d := newDriver(t, Config{Root: "store"})
	t.Chdir(t.TempDir())

	require.NoError(t, put(t.Context(), d, "c/old.wal", "old"))
	_, err := d.Stat(t.Context(), "c/none.wal")
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)

	require.Equal(t, []string{"c/old.wal"}, files(t, filepath.Join(parent, "store")))
}

// A3, N14 to N16: what is wrong with the directory or its file system is said at the start, in one error.
func TestStartSaysWhatIsWrong(t *testing.T) {
	fail := func(call string, errno syscall.Errno, nth int) func(step) error {
		return func(s step) error {
			if s.call != call {
				return nil
			}
			if nth--; nth >= 0 {
				return nil
			}
			return &fs.PathError{Op: call, Path: s.name, Err: errno}
		}
	}
	for _, variant := range []struct {
		name   string
		before func(step) error
		after  func(step, error) error
		kind   error
		says   string
	}{
		{name: "denied", before: fail("create", syscall.EACCES, 0), kind: walstorage.ErrAccessDenied, says: "not writable"},
		{name: "read-only mount", before: fail("create", syscall.EROFS, 0), kind: walstorage.ErrAccessDenied, says: "not writable"},
		{name: "full", before: fail("write", syscall.ENOSPC, 0), kind: walstorage.ErrNoSpace, says: "not writable"},
		{name: "no file sync", before: fail("sync", syscall.EINVAL, 0), kind: walstorage.ErrInvalidArgument, says: "can't sync a file"},
		{name: "no directory sync", before: fail("syncdir", syscall.ENOTSUP, 0), kind: walstorage.ErrInvalidArgument, says: "can't sync a directory"},
		{name: "no links, FAT", before: fail("link", syscall.EPERM, 0), kind: walstorage.ErrInvalidArgument, says: "without hard links"},
		{name: "no links, FUSE", before: fail("link", syscall.ENOSYS, 0), kind: walstorage.ErrInvalidArgument, says: "without hard links"},
		{name: "link answers nonsense", before: fail("link", syscall.EINVAL, 1), kind: walstorage.ErrInvalidArgument, says: "does not say that a name exists"},
		{name: "link replaces", after: func(s step, err error) error {
			if s.call == "link" {
				return nil
			}
			return err
		}, kind: walstorage.ErrInvalidArgument, says: "link replaces a file"},
		{name: "server away", before: fail("create", syscall.ESTALE, 0), kind: walstorage.ErrUnavailable, says: "stale"},
	} {
		t.Run(variant.name, func(t *testing.T) {
			root := t.TempDir()
			fsys := newStepFS(t, root)
			fsys.intercept(variant.before, variant.after)

			d, err := NewDriver(t.Context(), Config{Root: root, FS: fsys})

			require.Nil(t, d)
			require.ErrorIs(t, err, variant.kind)
			require.Contains(t, err.Error(), variant.says)
			require.Contains(t, err.Error(), "Root "+`"`+root)
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, files(t, root))
		})
	}
}

func TestStartWithoutDirectory(t *testing.T) {
	parent := t.TempDir()
	plain := filepath.Join(parent, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	pipe := filepath.Join(parent, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o644))
	for _, variant := range []struct {
		root string
		kind error
		says string
	}{
		{filepath.Join(parent, "missing"), walstorage.ErrBucketNotFound, "does not exist"},
		{plain, walstorage.ErrInvalidArgument, "is not a directory"},
		{pipe, walstorage.ErrInvalidArgument, "is not a directory"},
		{filepath.Join(plain, "below"), walstorage.ErrInvalidArgument, "is not a directory"},
	} {
		for _, readOnly := range []bool{false, true} {
			_, err := New(t.Context(), Config{Root: variant.root, ReadOnly: readOnly, Store: objectstore.Config{Cluster: "c"}})
			require.ErrorIs(t, err, variant.kind)
			require.Contains(t, err.Error(), "Root")
			require.Contains(t, err.Error(), variant.root)
			require.Contains(t, err.Error(), variant.says)
		}
	}
}

// N14: as the system itself answers, where the tests do not run as root, whom it refuses nothing.
func TestStartWithoutPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("runs as root, to whom every directory is writable; TestStartSaysWhatIsWrong has the answer injected")
	}
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o500))
	_, err := NewDriver(t.Context(), Config{Root: root})
	require.ErrorIs(t, err, walstorage.ErrAccessDenied)
	require.Contains(t, err.Error(), "not writable")
}

// N17: a reader on a read-only mount gets and lists, and nothing that it does writes.
func TestReadOnly(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, put(t.Context(), newDriver(t, Config{Root: root}), "c/old.wal", "old"))
	fsys := newStepFS(t, root)
	fsys.intercept(func(s step) error {
		switch s.call {
		case "open", "readat", "lstat", "readdir", "close":
			return nil
		}
		return syscall.EROFS
	}, nil)
	d := newDriver(t, Config{Root: root, FS: fsys, ReadOnly: true, SweepInterval: time.Second})

	requireStored(t, d, "c/old.wal", "old")
	require.Equal(t, []string{"c/old.wal"}, listed(t, d, ""))
	require.ErrorIs(t, put(t.Context(), d, "c/new.wal", "new"), walstorage.ErrAccessDenied)
	require.ErrorIs(t, d.Delete(t.Context(), []string{"c/old.wal"}), walstorage.ErrAccessDenied)
	_, err := d.Sweep(t.Context())
	require.ErrorIs(t, err, walstorage.ErrAccessDenied)
	require.Empty(t, fsys.taken())
}

// N14: the permissions are those configured less the umask, and those of the defaults shut others out.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	for _, variant := range []struct {
		config    Config
		file, dir fs.FileMode
	}{
		{Config{}, 0o640, 0o750},
		{Config{FileMode: 0o666, DirMode: 0o777}, 0o640, 0o750},
		{Config{FileMode: 0o600, DirMode: 0o700}, 0o600, 0o700},
	} {
		variant.config.Root = t.TempDir()
		d := newDriver(t, variant.config)
		require.NoError(t, put(t.Context(), d, "c/1/new.wal", "new"))
		for name, mode := range map[string]fs.FileMode{"c": variant.dir, "c/1": variant.dir, "c/1/new.wal": variant.file} {
			info, err := os.Stat(filepath.Join(variant.config.Root, name))
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), name)
		}
	}
}

// H1, H2 for the start itself.
func TestStartCancelled(t *testing.T) {
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New(ctx, Config{Root: root, Store: objectstore.Config{Cluster: "c"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, files(t, root))
}

// Config.Store's prefix may end in a slash or not, and two prefixes of which one begins the other are apart (A5, A6).
func TestPrefixes(t *testing.T) {
	root := t.TempDir()
	open := func(prefix string) *WalStorageManager {
		m, err := New(t.Context(), Config{Root: root, SweepInterval: -1, Store: objectstore.Config{Cluster: "c", Prefix: prefix}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	}
	id := benchID(t, time.Now())
	require.NoError(t, open("wal").UploadSegment(t.Context(), id, []byte("text")))
	count := func(m *WalStorageManager) (n int) {
		for _, err := range m.ListSegments(t.Context(), walstorage.ListOptions{}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Equal(t, 1, count(open("wal/")))
	require.Zero(t, count(open("wal2")))
	require.Zero(t, count(open("wa")))
	require.True(t, strings.HasPrefix(files(t, root)[0], "wal/c/1/"))
}
