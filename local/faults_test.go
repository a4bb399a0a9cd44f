//go:build unix

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// The column "local" of the error mapping (W7), and the rest of what a file system says.
var errnoKinds = []struct {
	errno syscall.Errno
	kind  error // nil: unclassified
}{
	{syscall.EACCES, walstorage.ErrAccessDenied},
	{syscall.EPERM, walstorage.ErrAccessDenied},
	{syscall.EROFS, walstorage.ErrAccessDenied},
	{syscall.ENOSPC, walstorage.ErrNoSpace},
	{syscall.EDQUOT, walstorage.ErrNoSpace},
	{syscall.EFBIG, walstorage.ErrTooLarge},
	{syscall.EIO, walstorage.ErrUnavailable},
	{syscall.EMFILE, walstorage.ErrUnavailable},
	{syscall.ENFILE, walstorage.ErrUnavailable},
	{syscall.EINTR, walstorage.ErrUnavailable},
	{syscall.EAGAIN, walstorage.ErrUnavailable},
	{syscall.ESTALE, walstorage.ErrUnavailable},
	{syscall.ETIMEDOUT, walstorage.ErrUnavailable},
	{syscall.ENOTSUP, nil},
	{syscall.ENXIO, nil},
}

const (
	faultRoot = "wal/c"
	faultOld  = "wal/c/1/2026010203/04/old.wal"
	faultNew  = "wal/c/1/2026010203/05/new.wal"
)

// N4, N5, C7, I5, loonfs/loonfs#377: whatever fails at whatever step of an upload, the error has the right kind and
// holds the system's own, what was there is untouched, no temporary is left, the segment is there whole or not at all,
// and the same upload again succeeds.
func TestUploadFailsAtEachStep(t *testing.T) {
	steps := []struct {
		call, name string
		nth        int  // which of several such calls fails
		lands      bool // the segment may be there after the failure
	}{
		{call: "mkdir", name: "wal/c/1/2026010203/05"},
		{call: "create", name: "wal/c/1/2026010203/05/TEMP"},
		{call: "syncdir", name: "wal/c/1/2026010203"},
		{call: "write", name: "wal/c/1/2026010203/05/TEMP"},
		{call: "write", name: "wal/c/1/2026010203/05/TEMP", nth: 1},
		{call: "sync", name: "wal/c/1/2026010203/05/TEMP"},
		{call: "link", name: "wal/c/1/2026010203/05/new.wal"},
		{call: "syncdir", name: "wal/c/1/2026010203/05", lands: true},
	}
	text := content('n', writeBytes+100)
	for _, at := range steps {
		t.Run(at.call+" "+strings.ReplaceAll(at.name, "/", "_"), func(t *testing.T) {
			for _, fault := range errnoKinds {
				t.Run(fault.errno.Error(), func(t *testing.T) {
					// given a store with a segment in it
					root := t.TempDir()
					d, fsys := newStepDriver(t, root)
					require.NoError(t, put(t.Context(), d, faultOld, "old"))

					// when a step of an upload fails
					hits := 0
					fsys.intercept(func(s step) error {
						short := step{call: s.call, name: s.name}.String()
						if short != at.call+" "+at.name {
							return nil
						}
						hits++
						if hits != at.nth+1 {
							return nil
						}
						return &fs.PathError{Op: s.call, Path: s.name, Err: fault.errno}
					}, nil)
					err := put(t.Context(), d, faultNew, text)

					// then the error tells what it was
					require.Error(t, err)
					require.Equal(t, at.nth+1, hits, "the fault was never injected, or the step went on")
					require.Equal(t, fault.kind, walstorage.KindOf(err))
					var errno syscall.Errno
					require.ErrorAs(t, err, &errno)
					require.Equal(t, fault.errno, errno)
					var pathErr *fs.PathError
					require.ErrorAs(t, err, &pathErr)
					require.Contains(t, err.Error(), root)

					// and nothing is left but whole segments
					requireStored(t, d, faultOld, "old")
					require.Empty(t, temporaries(t, root))
					if at.lands {
						requireStored(t, d, faultNew, text)
						require.Equal(t, []string{faultOld, faultNew}, listed(t, d, faultRoot+"/"))
					} else {
						require.Equal(t, []string{faultOld}, files(t, root))
						_, err := d.Stat(t.Context(), faultNew)
						require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)
					}

					// and the next try uses nothing of the failed one
					fsys.intercept(nil, nil)
					err = put(t.Context(), d, faultNew, text)
					if at.lands {
						require.ErrorIs(t, err, walstorage.ErrSegmentExists)
					} else {
						require.NoError(t, err)
					}
					requireStored(t, d, faultNew, text)
					if at.call == "syncdir" {
						require.Contains(t, fsys.taken(), "syncdir "+at.name, "a sync that failed has not made anything durable")
					}
				})
			}
		})
	}
}

// loonfs/loonfs#377, google/go-cloud#645, W2: an upload under a key that is taken leaves the old content at every step
// that fails.
func TestUploadToTakenKeyFailsAtEachStep(t *testing.T) {
	for _, call := range []string{"create", "write", "sync", "link", "remove", "syncdir", "close", "lock"} {
		t.Run(call, func(t *testing.T) {
			root := t.TempDir()
			d, fsys := newStepDriver(t, root)
			require.NoError(t, put(t.Context(), d, faultOld, "old"))
			fsys.intercept(func(s step) error {
				if s.call == call {
					return syscall.EIO
				}
				return nil
			}, nil)

			require.Error(t, put(t.Context(), d, faultOld, "other bytes"))

			fsys.intercept(nil, nil)
			requireStored(t, d, faultOld, "old")
			require.Equal(t, []string{faultOld}, listed(t, d, faultRoot+"/"))
		})
	}
}

// What an upload does not depend on can fail without harm: the lock and the close, and the removal of the temporary
// name, which is left to the sweep.
func TestUploadToleratesFailures(t *testing.T) {
	for _, call := range []string{"lock", "remove", "close"} {
		t.Run(call, func(t *testing.T) {
			root := t.TempDir()
			d, fsys := newStepDriver(t, root)
			fsys.intercept(func(s step) error {
				if s.call == call {
					return syscall.EIO
				}
				return nil
			}, nil)

			require.NoError(t, put(t.Context(), d, faultNew, "new"))

			fsys.intercept(nil, nil)
			requireStored(t, d, faultNew, "new")
			require.Equal(t, []string{faultNew}, listed(t, d, ""))
			if call == "remove" {
				require.Len(t, temporaries(t, root), 1)
			} else {
				require.Empty(t, temporaries(t, root))
			}
		})
	}
}

// N12: a network file system that loses the answer to a link and repeats it says "exists" of our own file. That the
// identity tells it from the file of another is the second half.
func TestLinkReplyLost(t *testing.T) {
	for _, variant := range []struct {
		name  string
		taken bool
	}{{"ours", false}, {"another's", true}} {
		t.Run(variant.name, func(t *testing.T) {
			d, fsys := newStepDriver(t, t.TempDir())
			if variant.taken {
				require.NoError(t, put(t.Context(), d, faultNew, "theirs"))
			}
			fsys.intercept(nil, func(s step, err error) error {
				if s.call == "link" {
					return &os.LinkError{Op: "link", Old: s.from, New: s.name, Err: syscall.EEXIST}
				}
				return err
			})

			err := put(t.Context(), d, faultNew, "ours")

			if variant.taken {
				require.ErrorIs(t, err, walstorage.ErrSegmentExists)
				requireStored(t, d, faultNew, "theirs")
				return
			}
			require.NoError(t, err)
			requireStored(t, d, faultNew, "ours")
		})
	}
}

// N12 for the temporary: an exclusive create whose answer was lost says "exists" of a name that nobody else can have.
func TestCreateReplyLost(t *testing.T) {
	d, fsys := newStepDriver(t, t.TempDir())
	lost := 0
	fsys.intercept(nil, func(s step, err error) error {
		if s.call == "create" && lost == 0 {
			lost++
			return &fs.PathError{Op: "open", Path: s.name, Err: syscall.EEXIST}
		}
		return err
	})

	require.NoError(t, put(t.Context(), d, faultNew, "new"))

	require.Equal(t, 1, lost)
	requireStored(t, d, faultNew, "new")
}

// A temporary that is gone when it is to be linked (a sweep without locks, or an operator) costs a retry.
func TestTemporaryGoneBeforeLink(t *testing.T) {
	root := t.TempDir()
	d, fsys := newStepDriver(t, root)
	fsys.intercept(func(s step) error {
		if s.call == "link" {
			require.NoError(t, os.Remove(filepath.Join(root, s.from)))
		}
		return nil
	}, nil)
	require.ErrorIs(t, put(t.Context(), d, faultNew, "new"), walstorage.ErrUnavailable)
	require.Empty(t, files(t, root))

	fsys.intercept(nil, nil)
	require.NoError(t, put(t.Context(), d, faultNew, "new"))
}

// W7, N11, git-lfs/git-lfs#5676 for the calls that read and delete.
func TestReadsAndDeletesFail(t *testing.T) {
	for _, call := range []struct {
		name string
		at   string
		do   func(t *testing.T, d *Driver) error
	}{
		{"get open", "open", func(t *testing.T, d *Driver) error { _, err := get(t.Context(), d, faultOld, 3); return err }},
		{"get read", "readat", func(t *testing.T, d *Driver) error { _, err := get(t.Context(), d, faultOld, 3); return err }},
		{"stat", "lstat", func(t *testing.T, d *Driver) error { _, err := d.Stat(t.Context(), faultOld); return err }},
		{"list directory", "readdir", func(t *testing.T, d *Driver) error {
			_, _, err := d.List(t.Context(), faultRoot+"/", "")
			return err
		}},
		{"list file", "lstat", func(t *testing.T, d *Driver) error { _, _, err := d.List(t.Context(), faultRoot+"/", ""); return err }},
		{"delete", "remove", func(t *testing.T, d *Driver) error {
			err := d.Delete(t.Context(), []string{faultOld})
			var deleteErr *objectstore.DeleteError
			require.ErrorAs(t, err, &deleteErr)
			require.Len(t, deleteErr.Failures, 1)
			require.Equal(t, faultOld, deleteErr.Failures[0].Key)
			return deleteErr.Failures[0].Err
		}},
	} {
		t.Run(call.name, func(t *testing.T) {
			for _, fault := range errnoKinds {
				d, fsys := newStepDriver(t, t.TempDir())
				require.NoError(t, put(t.Context(), d, faultOld, "old"))
				fsys.intercept(func(s step) error {
					if s.call == call.at {
						return &fs.PathError{Op: s.call, Path: s.name, Err: fault.errno}
					}
					return nil
				}, nil)

				err := call.do(t, d)

				require.Error(t, err)
				require.Equal(t, fault.kind, walstorage.KindOf(err), fault.errno)
				var errno syscall.Errno
				require.ErrorAs(t, err, &errno)
				require.Equal(t, fault.errno, errno)
				fsys.intercept(nil, nil)
				requireStored(t, d, faultOld, "old")
			}
		})
	}
}

// W7: a root that has gone is not a missing segment, for any call.
func TestRootGone(t *testing.T) {
	for _, variant := range []struct {
		name string
		take func(root string) error
	}{
		{"removed", os.RemoveAll},
		{"replaced", func(root string) error { return errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o755)) }},
	} {
		t.Run(variant.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "store")
			require.NoError(t, os.Mkdir(root, 0o755))
			d := newDriver(t, Config{Root: root})
			require.NoError(t, put(t.Context(), d, faultOld, "old"))
			require.NoError(t, variant.take(root))

			_, getErr := get(t.Context(), d, faultOld, 3)
			_, statErr := d.Stat(t.Context(), faultOld)
			_, _, listErr := d.List(t.Context(), faultRoot+"/", "")
			_, sweepErr := d.Sweep(t.Context())
			for call, err := range map[string]error{
				"get": getErr, "stat": statErr, "list": listErr, "sweep": sweepErr,
				"put again": put(t.Context(), d, faultOld, "old"),
				"put":       put(t.Context(), d, faultNew, "new"),
				"delete":    d.Delete(t.Context(), []string{faultOld}),
			} {
				require.ErrorIs(t, err, walstorage.ErrBucketNotFound, call)
				require.NotErrorIs(t, err, walstorage.ErrSegmentNotFound, call)
			}
		})
	}
}
