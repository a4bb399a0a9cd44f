package conformance

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/local"
)

// write makes a file and returns it open.
func write(t *testing.T, f *CrashFS, name, text string) local.File {
	t.Helper()
	file, err := f.Create(name, 0o640)
	require.NoError(t, err)
	_, err = file.Write([]byte(text))
	require.NoError(t, err)
	return file
}

func contents(f *CrashFS) map[string]string {
	texts := make(map[string]string)
	for name, data := range f.Files() {
		texts[name] = string(data)
	}
	return texts
}

// What each kind of power cut leaves of files that were synced, partly synced and not synced.
func TestCrashFSLoses(t *testing.T) {
	// given a file that is on the disk and has grown since, one with its name alone, one with its bytes alone, one that
	// was removed, and one in a directory whose own name is not there
	f := NewCrashFS()
	grown := write(t, f, "grown", "synced")
	require.NoError(t, grown.Sync())
	write(t, f, "name", "12345")
	require.NoError(t, write(t, f, "removed", "old").Sync())
	require.NoError(t, f.SyncDir("."))
	require.NoError(t, f.Remove("removed"))
	require.NoError(t, write(t, f, "bytes", "whole").Sync())
	_, err := grown.Write([]byte(" and more"))
	require.NoError(t, err)
	require.NoError(t, f.Mkdir("dir", 0o750))
	require.NoError(t, write(t, f, "dir/file", "in it").Sync())
	require.NoError(t, f.SyncDir("dir"))
	now := contents(f)

	for loss, want := range map[Loss]map[string]string{
		LoseUnsynced: {"grown": "synced", "name": "", "removed": "old"},
		LoseNothing:  now,
		LoseNames:    {"grown": "synced and more", "name": "12345", "removed": "old"},
		LoseBytes: {
			"grown": "synced\x00\x00\x00\x00\x00\x00\x00\x00\x00", "name": "\x00\x00\x00\x00\x00", "bytes": "whole",
			"dir/file": "in it",
		},
	} {
		require.Equal(t, want, contents(f.Crash(loss, 0)), loss.String())
	}

	// and by chance: the same seed loses the same, seeds differ, and nothing is made up
	seen := make(map[string]bool)
	for seed := range uint64(50) {
		left := contents(f.Crash(LoseSome, seed))
		require.Equal(t, left, contents(f.Crash(LoseSome, seed)))
		require.Contains(t, left["grown"], "synced")
		for name, text := range left {
			whole := now[name]
			if name == "removed" {
				whole = "old"
			}
			require.Equal(t, whole[:len(text)], text, name)
			seen[name+text] = true
		}
	}
	require.Greater(t, len(seen), 10)

	// and the machine has gone on as if there had been no power cut; what a crash has left is on the disk for good
	require.Equal(t, now, contents(f))
	again := f.Crash(LoseNothing, 0)
	require.Equal(t, now, contents(again.Crash(LoseUnsynced, 0)))
}

// N5: a sync that fails loses what it was to write, though it can be read and the next sync succeeds.
func TestCrashFSSyncFailsForGood(t *testing.T) {
	f := NewCrashFS()
	file := write(t, f, "file", "lost")
	require.NoError(t, f.SyncDir("."))
	f.Fault(func(call CrashCall) CrashFault {
		if call.Op == "sync" {
			return CrashFault{Err: syscall.EIO}
		}
		return CrashFault{}
	})
	require.ErrorIs(t, file.Sync(), syscall.EIO)
	f.Fault(nil)
	_, err := file.Write([]byte(" and kept"))
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	require.Equal(t, "lost and kept", contents(f)["file"])
	require.Equal(t, "\x00\x00\x00\x00 and kept", contents(f.Crash(LoseUnsynced, 0))["file"])
}

// A name that another file has taken is never without a file after a power cut: it is the old one or the new one.
func TestCrashFSRename(t *testing.T) {
	f := NewCrashFS()
	require.NoError(t, write(t, f, "name", "old").Sync())
	require.NoError(t, f.SyncDir("."))
	require.NoError(t, write(t, f, "other", "new").Sync())
	require.NoError(t, f.Rename("other", "name"))
	require.Equal(t, map[string]string{"name": "new"}, contents(f))
	for seed := range uint64(20) {
		require.Contains(t, []string{"old", "new"}, contents(f.Crash(LoseSome, seed))["name"])
	}
	require.ErrorIs(t, f.Rename("none", "name"), fs.ErrNotExist)
}

// Faults: a call that fails has done nothing, but that a write has written the first half; an answer that is lost comes
// after the call; calls are recorded as they took effect.
func TestCrashFSFaults(t *testing.T) {
	f := NewCrashFS()
	faults := map[int]CrashFault{
		1: {Err: syscall.ENOSPC},
		2: {Err: syscall.EEXIST, Done: true},
		4: {Err: syscall.ENOSPC},
	}
	f.Fault(func(call CrashCall) CrashFault { return faults[call.Number] })
	_, err := f.Create("a", 0o640)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = f.Create("b", 0o640)
	require.ErrorIs(t, err, fs.ErrExist)
	file, err := f.Create("c", 0o640)
	require.NoError(t, err)
	n, err := file.Write([]byte("half"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 2, n)
	require.Equal(t, map[string]string{"b": "", "c": "ha"}, contents(f))

	var taken []string
	for _, call := range f.Calls() {
		taken = append(taken, call.String())
	}
	require.Equal(t, []string{"create a", "create b", "create c", "write c"}, taken)
	require.ErrorIs(t, f.Calls()[0].Err, syscall.ENOSPC)
	require.NoError(t, f.Calls()[2].Err)
}

// Two processes of one machine share files, and neither faults nor locks; a killed one does nothing more, and its locks
// are let go.
func TestCrashFSProcesses(t *testing.T) {
	one := NewCrashFS()
	two := one.Process()
	held := write(t, one, "file", "text")
	require.NoError(t, held.Lock())
	shared, err := two.Open("file")
	require.NoError(t, err)
	require.ErrorIs(t, shared.Lock(), syscall.EWOULDBLOCK)
	require.False(t, one.Killed())

	one.Kill()

	require.True(t, one.Killed())
	require.NoError(t, shared.Lock())
	require.ErrorIs(t, one.Mkdir("dir", 0o750), ErrCrashed)
	_, err = held.Write([]byte("more"))
	require.ErrorIs(t, err, ErrCrashed)
	require.NoError(t, two.Mkdir("dir", 0o750))
	require.Equal(t, map[string]string{"file": "text"}, contents(two))

	before, err := two.Lstat("file")
	require.NoError(t, err)
	two.Advance(time.Hour)
	_ = write(t, two, "later", "")
	after, err := two.Lstat("later")
	require.NoError(t, err)
	require.GreaterOrEqual(t, after.ModTime().Sub(before.ModTime()), time.Hour)
}

// What a file system says of names that are wrong, taken, missing or of the other kind.
func TestCrashFSAnswers(t *testing.T) {
	f := NewCrashFS()
	require.NoError(t, f.Mkdir("dir", 0o750))
	file := write(t, f, "dir/file", "0123456789")
	_, createErr := f.Create("dir/file", 0o640)
	_, openErr := f.Open("none")
	_, belowErr := f.Lstat("dir/file/below")
	for want, errs := range map[error][]error{
		fs.ErrExist:       {createErr, f.Mkdir("dir", 0o750), f.Link("dir/file", "dir/file")},
		fs.ErrNotExist:    {openErr, f.Mkdir("none/dir", 0o750), f.Link("none", "new"), f.Remove("none"), f.SyncDir("none")},
		syscall.ENOTDIR:   {belowErr, f.SyncDir("dir/file"), f.ReadDir("dir/file", nil), f.Mkdir("dir/file/dir", 0o750)},
		syscall.ENOTEMPTY: {f.Remove("dir")},
		syscall.EPERM:     {f.Link("dir", "other")},
		fs.ErrInvalid:     {f.Mkdir("../up", 0o750), f.Remove("/dir")},
	} {
		for i, err := range errs {
			require.ErrorIs(t, err, want, "number %d", i)
			var pathErr *fs.PathError
			require.ErrorAs(t, err, &pathErr)
		}
	}

	// a second name is the same file; a file that is open outlives its names
	require.NoError(t, f.Link("dir/file", "second"))
	a, err := f.Lstat("dir/file")
	require.NoError(t, err)
	b, err := f.Lstat("second")
	require.NoError(t, err)
	require.Equal(t, a.Sys(), b.Sys())
	require.True(t, a.Mode().IsRegular())
	require.Equal(t, fs.FileMode(0o640), a.Mode().Perm())
	reader, err := f.Open("second")
	require.NoError(t, err)
	require.NoError(t, errors.Join(f.Remove("second"), f.Remove("dir/file"), f.Remove("dir")))
	dst := make([]byte, 4)
	n, err := reader.ReadAt(dst, 8)
	require.Equal(t, io.EOF, err)
	require.Equal(t, "89", string(dst[:n]))
	require.NoError(t, file.Close())
	require.ErrorIs(t, file.Close(), fs.ErrClosed)
	_, err = reader.Write([]byte("no"))
	require.ErrorIs(t, err, syscall.EBADF)
}
