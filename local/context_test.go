//go:build unix

package local

import (
	"context"
	"errors"
	"path"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// H1, H2: a context that has ended before the call changes nothing, and its own error comes back.
func TestContextEndedBefore(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, variant := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {expired, context.DeadlineExceeded}} {
		d, fsys := newStepDriver(t, t.TempDir())
		_, getErr := get(variant.ctx, d, faultOld, 1)
		_, statErr := d.Stat(variant.ctx, faultOld)
		_, _, listErr := d.List(variant.ctx, "", "")
		_, sweepErr := d.Sweep(variant.ctx)
		for call, err := range map[string]error{
			"put": put(variant.ctx, d, faultOld, "text"), "get": getErr, "stat": statErr, "list": listErr,
			"delete": d.Delete(variant.ctx, []string{faultOld}), "sweep": sweepErr,
		} {
			require.ErrorIs(t, err, variant.want, call)
		}
		require.Empty(t, fsys.steps)
	}
}

// W8: the context is looked at between the system calls of an upload: a cancel during any of them ends it at the next,
// with no temporary left, and the segment whole or absent (H4).
func TestCancelAtEachStep(t *testing.T) {
	text := content('x', writeBytes+1)
	for _, call := range []string{"mkdir", "create", "write", "sync", "link", "remove", "syncdir"} {
		t.Run(call, func(t *testing.T) {
			root := t.TempDir()
			d, fsys := newStepDriver(t, root)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			fsys.intercept(nil, func(s step, err error) error {
				if s.call == call {
					cancel()
				}
				return err
			})

			err := put(ctx, d, faultNew, text)

			fsys.intercept(nil, nil)
			require.NoError(t, d.Close(), "waits for the syncs that go on")
			stored := files(t, root)
			switch {
			case err == nil:
				require.Contains(t, []string{"remove", "syncdir", "link"}, call, "the cancel came too late to matter")
				require.Equal(t, []string{faultNew}, stored)
			default:
				require.ErrorIs(t, err, context.Canceled)
				require.Subset(t, []string{faultNew}, stored)
			}
			if len(stored) == 1 {
				requireStored(t, newDriver(t, Config{Root: root}), faultNew, text)
			}
		})
	}
}

// N18, W8: a disk that does not answer an fsync holds up neither the cancel nor the deadline of an upload. The file is
// not linked after that, its temporary goes when the fsync returns, and Close waits for it.
func TestStalledSync(t *testing.T) {
	for _, variant := range []struct {
		name    string
		giveUp  func(ctx context.Context) (context.Context, context.CancelFunc)
		after   time.Duration
		failure error
	}{
		{"cancel", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, time.Second, context.Canceled},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}, 2 * time.Second, context.DeadlineExceeded},
	} {
		for _, call := range []string{"sync", "syncdir"} {
			t.Run(variant.name+" "+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// given a disk that stalls
					root := t.TempDir()
					d, fsys := newStepDriver(t, root)
					release := make(chan struct{})
					fsys.intercept(func(s step) error {
						if s.call == call {
							<-release
						}
						return nil
					}, nil)

					// when the caller gives up
					ctx, cancel := variant.giveUp(t.Context())
					defer cancel()
					began := time.Now()
					err := put(ctx, d, faultNew, "new")

					// then the upload returns at once, while the disk still stalls
					require.ErrorIs(t, err, variant.failure)
					require.Equal(t, variant.after, time.Since(began))
					require.Len(t, temporaries(t, root), 1)

					// and Close waits for the disk
					closed := make(chan error, 1)
					go func() { closed <- d.Close() }()
					synctest.Wait()
					require.Empty(t, closed)
					close(release)
					require.NoError(t, <-closed)
					require.Empty(t, files(t, root))
				})
			})
		}
	}
}

// N18 for the start: New gives up with its context.
func TestStartOnStalledDisk(t *testing.T) {
	for _, call := range []string{"sync", "syncdir"} {
		synctest.Test(t, func(t *testing.T) {
			root := t.TempDir()
			fsys := newStepFS(t, root)
			release := make(chan struct{})
			fsys.intercept(func(s step) error {
				if s.call == call {
					<-release
				}
				return nil
			}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()

			_, err := NewDriver(ctx, Config{Root: root, FS: fsys})

			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, files(t, root))
			close(release)
			synctest.Wait()
		})
	}
}

// W8: a directory's sync that stalls after the link leaves the segment whole, visible, and not acknowledged; the same
// upload again settles it.
func TestStalledSyncAfterLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fsys := newStepDriver(t, t.TempDir())
		require.NoError(t, put(t.Context(), d, faultOld, "old"))
		release := make(chan struct{})
		fsys.intercept(func(s step) error {
			if s.call == "syncdir" {
				<-release
			}
			return nil
		}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		key := path.Join(path.Dir(faultOld), "second.wal")

		require.ErrorIs(t, put(ctx, d, key, "second"), context.DeadlineExceeded)
		requireStored(t, d, key, "second")
		again, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, put(again, d, key, "second"), context.DeadlineExceeded, "not durable yet, so not said to exist")

		close(release)
		require.ErrorIs(t, put(t.Context(), d, key, "second"), walstorage.ErrSegmentExists)
	})
}

// W8: syncs that never return do not pile up without end: beyond 64 uploads are refused, until some return.
func TestStalledSyncsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fsys := newStepDriver(t, t.TempDir())
		release := make(chan struct{})
		fsys.intercept(func(s step) error {
			if s.call == "sync" {
				<-release
			}
			return nil
		}, nil)
		for range maxStalled {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, put(ctx, d, faultNew, "new"), context.DeadlineExceeded)
			cancel()
		}

		err := put(t.Context(), d, faultNew, "new")
		require.ErrorIs(t, err, walstorage.ErrUnavailable)
		require.Contains(t, err.Error(), "64 syncs")
		requireNothingStored(t, d, faultNew)

		close(release)
		synctest.Wait()
		require.NoError(t, put(t.Context(), d, faultNew, "new"))
	})
}

func requireNothingStored(t *testing.T, d *Driver, key string) {
	t.Helper()
	_, err := d.Stat(t.Context(), key)
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)
}

// A result that is there counts, whatever the context has come to.
func TestDetachedPrefersTheResult(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir()})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		abandoned, err := d.detached(ctx, func() error {
			cancel()
			close(ended)
			return syscall.EIO
		}, func() {})
		<-ended
		if abandoned {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.ErrorIs(t, err, syscall.EIO)
		}
	}
}

// W5: an upload whose body has been taken back stops, and says why.
func TestBodyRevoked(t *testing.T) {
	root := t.TempDir()
	d, fsys := newStepDriver(t, root)
	body := objectstore.NewBody([]byte(content('x', 2*writeBytes)))
	fsys.intercept(func(s step) error {
		if s.call == "write" {
			body.Revoke()
		}
		return nil
	}, nil)

	err := d.Put(t.Context(), faultNew, body, 0)

	require.Error(t, err)
	require.NoError(t, walstorage.KindOf(err))
	require.Empty(t, files(t, root))
}

// F7, W9: a delete that is cancelled half way names what it has not tried.
func TestDeleteCancelled(t *testing.T) {
	d, fsys := newStepDriver(t, t.TempDir())
	keys := []string{"c/1.wal", "c/2.wal", "c/3.wal"}
	for _, key := range keys {
		require.NoError(t, put(t.Context(), d, key, key))
	}
	ctx, cancel := context.WithCancel(t.Context())
	fsys.intercept(func(s step) error {
		if s.name == "c/2.wal" {
			cancel()
		}
		return nil
	}, nil)

	err := d.Delete(ctx, keys)

	var deleteErr *objectstore.DeleteError
	require.ErrorAs(t, err, &deleteErr)
	require.Equal(t, []objectstore.DeleteFailure{{Key: "c/3.wal", Err: context.Canceled}}, deleteErr.Failures)
	require.Equal(t, []string{"c/3.wal"}, listed(t, d, ""))
}

// E17: a list ends between two entries.
func TestListCancelled(t *testing.T) {
	d, fsys := newStepDriver(t, t.TempDir())
	for _, key := range []string{"c/1.wal", "c/2.wal", "c/3.wal"} {
		require.NoError(t, put(t.Context(), d, key, key))
	}
	for _, call := range []string{"readdir", "lstat"} {
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		fsys.intercept(func(s step) error {
			if s.call == call {
				looks++
				cancel()
			}
			return nil
		}, nil)
		page, next, err := d.List(ctx, "c/", "")
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, page)
		require.Empty(t, next)
		require.Equal(t, 1, looks)
	}
}

// M3, M4: after Close every call says so.
func TestClosed(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir()})
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, getErr := get(t.Context(), d, faultOld, 1)
	_, statErr := d.Stat(t.Context(), faultOld)
	_, _, listErr := d.List(t.Context(), "", "")
	_, sweepErr := d.Sweep(t.Context())
	for _, err := range []error{put(t.Context(), d, faultOld, ""), getErr, statErr, listErr, d.Delete(t.Context(), []string{faultOld}), sweepErr} {
		require.ErrorIs(t, err, walstorage.ErrClosed)
		require.False(t, errors.Is(err, walstorage.ErrUnavailable))
	}
}
