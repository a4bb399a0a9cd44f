//go:build unix

package local

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const (
	// A temporary of a process that has died on another host.
	strayName = ".put~other-host~4711~0123456789abcdef01234567"
	minuteDir = "wal/c/1/2026010203/04"
	hourDir   = "wal/c/1/2026010203"
)

// stray leaves a temporary in a directory below root, of the age given.
func stray(t *testing.T, root, dir string, age time.Duration) (name string) {
	t.Helper()
	name = filepath.Join(root, dir, strayName)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte("half a segm"), 0o644))
	makeOld(t, name, age)
	return name
}

// N7: temporaries of the age configured go, wherever in the tree; younger ones and what only looks like one stay.
func TestSweepByAge(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root, TemporaryAge: time.Hour})
	require.NoError(t, put(t.Context(), d, minuteDir+"/old.wal", "old"))
	makeOld(t, filepath.Join(root, minuteDir, "old.wal"), 1000*time.Hour)
	old := []string{stray(t, root, ".", 61*time.Minute), stray(t, root, minuteDir, 2*time.Hour), stray(t, root, "wal/c/2/2026010203/05", 1000*time.Hour)}
	young := stray(t, root, "wal/c/3/2026010203/04", 59*time.Minute)
	foreign := filepath.Join(root, minuteDir, ".put~notes")
	require.NoError(t, os.WriteFile(foreign, nil, 0o644))
	makeOld(t, foreign, 1000*time.Hour)
	require.NoError(t, os.Mkdir(filepath.Join(root, minuteDir, strings.Replace(strayName, "4711", "4712", 1)), 0o755))

	swept, err := d.Sweep(t.Context())

	require.NoError(t, err)
	require.Equal(t, Swept{Temporaries: 3}, swept)
	for _, name := range old {
		require.NoFileExists(t, name)
	}
	require.FileExists(t, young)
	require.FileExists(t, foreign)
	requireStored(t, d, minuteDir+"/old.wal", "old")
	swept, err = d.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept, "nothing is left to do")
}

// With a cluster configured the sweep keeps to its tree and to the root directory itself.
func TestSweepKeepsToItsCluster(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root, Store: objectstore.Config{Prefix: "wal", Cluster: "c"}})
	swept, err := d.Sweep(t.Context())
	require.NoError(t, err, "nothing has been stored yet")
	require.Zero(t, swept)
	ours := []string{stray(t, root, ".", 5*time.Hour), stray(t, root, minuteDir, 5*time.Hour)}
	theirs := []string{
		stray(t, root, "wal/c2/1/2026010203/04", 5*time.Hour), stray(t, root, "wal", 5*time.Hour),
		stray(t, root, minuteDir+"/deeper", 5*time.Hour),
	}

	swept, err = d.Sweep(t.Context())

	require.NoError(t, err)
	require.Equal(t, Swept{Temporaries: 2}, swept)
	for _, name := range ours {
		require.NoFileExists(t, name)
	}
	for _, name := range theirs {
		require.FileExists(t, name)
	}
}

// N8: a temporary that an upload holds is not touched, however old it looks: neither this driver's own, nor that of
// another driver, which the lock tells.
func TestSweepSparesRunningUploads(t *testing.T) {
	root := t.TempDir()
	own, fsys := newStepDriver(t, root)
	other := newDriver(t, Config{Root: root})
	var sweeps []Swept
	fsys.intercept(func(s step) error {
		if s.call != "link" {
			return nil
		}
		makeOld(t, filepath.Join(root, s.from), 1000*time.Hour)
		for _, d := range []*Driver{other, own} {
			swept, err := d.Sweep(t.Context())
			require.NoError(t, err)
			sweeps = append(sweeps, swept)
		}
		return nil
	}, nil)

	require.NoError(t, put(t.Context(), own, faultNew, "new"))

	require.Equal(t, []Swept{{}, {}}, sweeps)
	requireStored(t, own, faultNew, "new")
}

// N8 where the file system has no locks, or none that reach other hosts: the age alone tells, and an upload older than
// that begins again. Its driver's own sweep still knows it.
func TestSweepWithoutLocks(t *testing.T) {
	root := t.TempDir()
	noLocks := func() (*Driver, *stepFS) {
		fsys := newStepFS(t, root)
		fsys.intercept(func(s step) error {
			if s.call == "lock" {
				return syscall.ENOTSUP
			}
			return nil
		}, nil)
		return newDriver(t, Config{Root: root, FS: fsys}), fsys
	}
	own, fsys := noLocks()
	other, _ := noLocks()
	age := time.Minute
	before := fsys.before
	fsys.intercept(func(s step) error {
		if s.call == "link" {
			makeOld(t, filepath.Join(root, s.from), age)
			swept, err := own.Sweep(t.Context())
			require.NoError(t, err)
			require.Zero(t, swept)
			_, err = other.Sweep(t.Context())
			require.NoError(t, err)
		}
		return before(s)
	}, nil)

	require.NoError(t, put(t.Context(), own, faultNew, "new"), "young")

	age = 1000 * time.Hour
	key := minuteDir + "/slow.wal"
	require.ErrorIs(t, put(t.Context(), own, key, "slow"), walstorage.ErrUnavailable)
	requireNothingStored(t, own, key)
	require.Empty(t, temporaries(t, root))
}

// N4 for the sweep: a place that can't be read or changed does not keep it from the rest.
func TestSweepGoesOn(t *testing.T) {
	for _, variant := range []struct {
		call  string
		errno syscall.Errno
		want  error
	}{
		{"lstat", syscall.ENOENT, nil}, // another sweep was faster
		{"remove", syscall.ENOENT, nil},
		{"open", syscall.EACCES, nil},
		{"remove", syscall.EACCES, nil},
		{"readdir", syscall.EACCES, nil},
		{"readdir", syscall.EIO, walstorage.ErrUnavailable},
	} {
		t.Run(variant.call+" "+variant.errno.Error(), func(t *testing.T) {
			root := t.TempDir()
			d, fsys := newStepDriver(t, root)
			stray(t, root, "wal/c/1/2026010203/04", 5*time.Hour)
			rest := stray(t, root, "wal/c/2/2026010203/04", 5*time.Hour)
			fsys.intercept(func(s step) error {
				if s.call == variant.call && strings.HasPrefix(s.name, minuteDir) {
					return variant.errno
				}
				return nil
			}, nil)

			swept, err := d.Sweep(t.Context())

			if variant.want != nil {
				require.ErrorIs(t, err, variant.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, swept.Temporaries)
			require.NoFileExists(t, rest)
		})
	}
}

// F9: a sweep removes the empty hour and minute directories that have long been out of use, and no other directory. A
// delete removes none.
func TestPrune(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root, TemporaryAge: time.Hour})
	key := "wal/c/1/2026010203/05/full.wal"
	require.NoError(t, put(t.Context(), d, key, "full"))
	require.NoError(t, put(t.Context(), d, minuteDir+"/gone.wal", "gone"))
	require.NoError(t, d.Delete(t.Context(), []string{minuteDir + "/gone.wal"}))
	require.DirExists(t, filepath.Join(root, minuteDir))
	foreign := []string{"lost+found", "wal/c/7", "wal/c/1/2026010203/x", "wal/c/1/20260102", "wal/99", "12"}
	for _, dir := range append(foreign, "wal/c/1/2026010204/59", "wal/c/1/2026010205") {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	age := func(age time.Duration) {
		for _, dir := range append(foreign, minuteDir, filepath.Dir(key), hourDir, "wal/c/1/2026010204/59", "wal/c/1/2026010204", "wal/c/1/2026010205") {
			if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
				makeOld(t, filepath.Join(root, dir), age)
			}
		}
	}

	// when they have not been touched for less than twice the age
	age(119 * time.Minute)
	swept, err := d.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept)

	// and for more: an hour goes one sweep after its last minute, which touched it
	age(121 * time.Minute)
	swept, err = d.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, Swept{Directories: 3}, swept)
	age(121 * time.Minute)
	swept, err = d.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, Swept{Directories: 1}, swept)

	for _, dir := range foreign {
		require.DirExists(t, filepath.Join(root, dir))
	}
	for _, dir := range []string{minuteDir, "wal/c/1/2026010204", "wal/c/1/2026010205"} {
		require.NoDirExists(t, filepath.Join(root, dir))
	}
	requireStored(t, d, key, "full")
}

// F9, first order: the directory is pruned after the upload has found it and before it has made its file there. The
// upload makes it again, and what it makes is durable.
func TestPruneJustBeforeTheFile(t *testing.T) {
	for _, known := range []bool{false, true} {
		root := t.TempDir()
		d, fsys := newStepDriver(t, root)
		sweeper := newDriver(t, Config{Root: root})
		if known { // this process has synced the directory before, and remembers that
			require.NoError(t, put(t.Context(), d, minuteDir+"/first.wal", "first"))
			require.NoError(t, d.Delete(t.Context(), []string{minuteDir + "/first.wal"}))
		}
		pruned := 0
		fsys.intercept(func(s step) error {
			if s.call == "create" && pruned == 0 {
				for _, dir := range []string{minuteDir, hourDir} {
					makeOld(t, filepath.Join(root, dir), 1000*time.Hour)
					swept, err := sweeper.Sweep(t.Context())
					require.NoError(t, err)
					pruned += swept.Directories
				}
			}
			return nil
		}, nil)

		require.NoError(t, put(t.Context(), d, minuteDir+"/new.wal", "new"))

		require.Equal(t, 2, pruned)
		requireStored(t, d, minuteDir+"/new.wal", "new")
		now, calls := fsys.now()
		requireDurable(t, calls, minuteDir+"/new.wal", now)
		require.Contains(t, fsys.taken(), "syncdir "+hourDir)
		require.Contains(t, fsys.taken(), "syncdir wal/c/1")
	}
}

// F9, second order: the file is there just before the directory would have gone. The directory stays.
func TestPruneJustAfterTheFile(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root})
	require.NoError(t, os.MkdirAll(filepath.Join(root, minuteDir), 0o755))
	makeOld(t, filepath.Join(root, minuteDir), 1000*time.Hour)
	sweeper, fsys := newStepDriver(t, root)
	fsys.intercept(func(s step) error {
		if s.call == "remove" && s.name == minuteDir {
			return put(t.Context(), d, minuteDir+"/new.wal", "new")
		}
		return nil
	}, nil)

	swept, err := sweeper.Sweep(t.Context())

	require.NoError(t, err)
	require.Zero(t, swept)
	require.Contains(t, fsys.taken(), "remove "+minuteDir, "the sweep had decided to remove it")
	requireStored(t, d, minuteDir+"/new.wal", "new")
}

// A directory that goes each time that an upload has made it, which no sweep of ours does, ends in an error that is
// worth a retry, not in an endless loop.
func TestDirectoryAlwaysGone(t *testing.T) {
	root := t.TempDir()
	d, fsys := newStepDriver(t, root)
	creates := 0
	fsys.intercept(func(s step) error {
		if s.call == "create" {
			creates++
			require.NoError(t, os.RemoveAll(filepath.Join(root, "wal")))
		}
		return nil
	}, nil)
	require.ErrorIs(t, put(t.Context(), d, faultNew, "new"), walstorage.ErrUnavailable)
	require.Equal(t, maxCreateTries, creates)
}

// F9: an upload whose segment is deleted, and its directory removed, before it could sync that directory, does not say
// that the segment is stored.
func TestDirectoryGoneBeforeItsSync(t *testing.T) {
	root := t.TempDir()
	d, fsys := newStepDriver(t, root)
	fsys.intercept(func(s step) error {
		if s.call == "syncdir" && s.name == minuteDir {
			require.NoError(t, os.RemoveAll(filepath.Join(root, minuteDir)))
		}
		return nil
	}, nil)
	require.ErrorIs(t, put(t.Context(), d, minuteDir+"/new.wal", "new"), walstorage.ErrUnavailable)

	fsys.intercept(nil, nil)
	require.NoError(t, put(t.Context(), d, minuteDir+"/new.wal", "new"))
	requireStored(t, d, minuteDir+"/new.wal", "new")
	require.Contains(t, fsys.taken(), "syncdir "+hourDir, "the directory is a new one")
}

// N3: what this process knows of a directory's durability is forgotten before a sweep could have removed the directory
// and another process made it anew: after half of TemporaryAge, a quarter of the age at which directories are pruned.
func TestDurableDirectoriesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newStepFS(t, t.TempDir())
		d := newDriver(t, Config{Root: "root", FS: fsys, TemporaryAge: time.Hour})
		syncs := func(key string) (n int) {
			fsys.intercept(nil, nil)
			require.NoError(t, put(t.Context(), d, key, key))
			for _, taken := range fsys.taken() {
				if strings.HasPrefix(taken, "syncdir") {
					n++
				}
			}
			return n
		}
		require.Equal(t, 6, syncs(minuteDir+"/1.wal"))
		require.Equal(t, 1, syncs(minuteDir+"/2.wal"))
		require.Equal(t, 2, syncs(hourDir+"/05/3.wal"))
		time.Sleep(30*time.Minute - time.Second)
		require.Equal(t, 1, syncs(minuteDir+"/4.wal"))
		time.Sleep(time.Second)
		require.Equal(t, 6, syncs(minuteDir+"/5.wal"))
	})
}

// The memory of directories stays small over years of minutes.
func TestDurableDirectoriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDurableDirs(30 * time.Minute)
		for minute := range 10_000 {
			s.add([]string{time.Unix(int64(minute)*60, 0).UTC().Format("2006010215/04")}, time.Now())
			time.Sleep(time.Minute)
			require.LessOrEqual(t, len(s.synced), maxDurableDirs+1)
		}
	})
}

// The sweeper begins at once, goes on at its interval, says when it fails and when it works again, once each, and ends
// with Close. The clock of this host (in the bubble: the year 2000) decides nothing.
func TestSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		old, young := stray(t, root, minuteDir, 0), ""
		require.NoError(t, os.Chtimes(old, time.Unix(1, 0), time.Unix(1, 0)))
		fsys := newStepFS(t, root)
		var log bytes.Buffer
		d := newDriver(t, Config{
			Root: root, FS: fsys, SweepInterval: time.Hour,
			Store: objectstore.Config{Cluster: "c", Prefix: "wal", Logger: slog.New(slog.NewTextHandler(&log, nil))},
		})
		lines := func() (n int) { return strings.Count(log.String(), "\n") }

		synctest.Wait()
		require.NoFileExists(t, old)
		require.Equal(t, 1, lines())
		require.Contains(t, log.String(), "temporaries=1")

		young = filepath.Join(root, minuteDir, strayName)
		require.NoError(t, os.WriteFile(young, nil, 0o644))
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.FileExists(t, young)
		require.Equal(t, 1, lines())

		fsys.intercept(func(s step) error {
			if s.call == "create" {
				return syscall.EROFS
			}
			return nil
		}, nil)
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.Equal(t, 2, lines())
		require.Contains(t, log.String(), "sweep fails")
		fsys.intercept(nil, nil)
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.Equal(t, 3, lines())
		require.Contains(t, log.String(), "works again")

		require.NoError(t, d.Close())
		fsys.intercept(nil, nil)
		time.Sleep(10 * time.Hour)
		require.Empty(t, fsys.steps)
	})
}
