//go:build unix

package local

import (
	"fmt"
	"path"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// W3, N1, Jepsen on NATS 2.12.1, nats-io/nats-server#7564, loonfs/loonfs#377: acknowledged is only what was written,
// synced, linked, and its directory synced, in this order, and nothing is renamed or removed on the way but the
// temporary.
func TestOrderOfCalls(t *testing.T) {
	// given a directory that an earlier upload has made
	d, steps := newStepDriver(t, t.TempDir())
	require.NoError(t, put(t.Context(), d, "wal/c/1/2026010203/04/first.wal", "first"))

	// when another segment is stored there
	steps.intercept(nil, nil)
	require.NoError(t, put(t.Context(), d, "wal/c/1/2026010203/04/second.wal", "second"))

	// then
	require.Equal(t, []string{
		"create wal/c/1/2026010203/04/TEMP",
		"write wal/c/1/2026010203/04/TEMP",
		"sync wal/c/1/2026010203/04/TEMP",
		"link wal/c/1/2026010203/04/TEMP -> wal/c/1/2026010203/04/second.wal",
		"remove wal/c/1/2026010203/04/TEMP",
		"syncdir wal/c/1/2026010203/04",
	}, steps.taken())
}

// N3: the name of every new directory is synced, in its parent, up to the root.
func TestOrderOfCallsWithNewDirectories(t *testing.T) {
	d, steps := newStepDriver(t, t.TempDir())

	require.NoError(t, put(t.Context(), d, "wal/c/1/first.wal", "first"))

	require.Equal(t, []string{
		"mkdir wal",
		"mkdir wal/c",
		"mkdir wal/c/1",
		"create wal/c/1/TEMP",
		"syncdir .",
		"syncdir wal",
		"syncdir wal/c",
		"write wal/c/1/TEMP",
		"sync wal/c/1/TEMP",
		"link wal/c/1/TEMP -> wal/c/1/first.wal",
		"remove wal/c/1/TEMP",
		"syncdir wal/c/1",
	}, steps.taken())
}

// N3: a directory that another process has made may not be on disk yet. That it exists says nothing.
func TestDirectoriesOfOthersAreSynced(t *testing.T) {
	// given directories that another process has just made and not synced
	root := t.TempDir()
	other := newStepFS(t, root)
	for _, dir := range []string{"wal", "wal/c", "wal/c/1"} {
		require.NoError(t, other.Mkdir(dir, defaultDirMode))
	}

	// when this process stores a segment in them
	d, steps := newStepDriver(t, root)
	require.NoError(t, put(t.Context(), d, "wal/c/1/first.wal", "first"))

	// then it has synced them all before it returned
	for _, dir := range []string{".", "wal", "wal/c", "wal/c/1"} {
		require.Contains(t, steps.taken(), "syncdir "+dir)
	}
}

// W2, W3: "exists" may end in nil, when the Manager finds the same bytes, so it must be as durable as a nil. The process
// that linked the segment may have died before it synced its name.
func TestExistsIsDurableToo(t *testing.T) {
	// given a segment linked by another process that did not come to sync its directories
	root := t.TempDir()
	other, otherSteps := newStepDriver(t, root)
	otherSteps.intercept(func(s step) error {
		if s.call == "syncdir" && s.name == "wal/c/1" {
			return syscall.EIO
		}
		return nil
	}, nil)
	require.ErrorIs(t, put(t.Context(), other, "wal/c/1/first.wal", "first"), walstorage.ErrUnavailable)

	// when this process stores it
	d, steps := newStepDriver(t, root)
	err := put(t.Context(), d, "wal/c/1/first.wal", "first")

	// then
	require.ErrorIs(t, err, walstorage.ErrSegmentExists)
	taken := steps.taken()
	linked := slices.Index(taken, "link wal/c/1/TEMP -> wal/c/1/first.wal")
	require.NotEqual(t, -1, linked)
	require.Equal(t, []string{"remove wal/c/1/TEMP", "syncdir wal/c/1"}, taken[linked+1:])
	for _, dir := range []string{".", "wal", "wal/c"} {
		require.Contains(t, taken, "syncdir "+dir)
	}

	// and when that sync fails it is not said that the segment exists
	steps.intercept(func(s step) error {
		if s.call == "syncdir" {
			return syscall.EIO
		}
		return nil
	}, nil)
	require.ErrorIs(t, put(t.Context(), d, "wal/c/1/first.wal", "first"), walstorage.ErrUnavailable)
}

// N1, N3 for many uploads at once, in directories that they make at the same moment: each is judged by the record of
// calls alone, as a disk would keep it.
func TestOrderOfConcurrentUploads(t *testing.T) {
	d, steps := newStepDriver(t, t.TempDir())
	const uploads = 64
	acknowledged := make([]int, uploads) // when
	key := func(i int) string { return fmt.Sprintf("wal/c/%d/2026010203/%02d/%d.wal", i%3, i%5, i) }

	var uploaders sync.WaitGroup
	for i := range uploads {
		uploaders.Go(func() {
			if put(t.Context(), d, key(i), "text") == nil {
				acknowledged[i], _ = steps.now()
			}
		})
	}
	uploaders.Wait()

	_, calls := steps.now()
	for i := range uploads {
		require.NotZero(t, acknowledged[i], "upload %d failed", i)
		requireDurable(t, calls, key(i), acknowledged[i])
	}
}

// requireDurable checks that the calls that were done at a time have put the key on disk: its bytes, its name, and the
// names of its directories.
func requireDurable(t *testing.T, calls []step, key string, at int) {
	t.Helper()
	// last returns the last call of the kind that was done.
	last := func(call, name string) step {
		for _, s := range slices.Backward(calls) {
			if s.call == call && s.name == name && s.done != 0 && s.done <= at {
				return s
			}
		}
		return step{}
	}
	// synced tells whether a directory was synced since: by a sync that began after the name was there.
	synced := func(dir string, since int) bool {
		return slices.ContainsFunc(calls, func(s step) bool {
			return s.call == "syncdir" && s.name == dir && s.began > since && s.done != 0 && s.done <= at
		})
	}
	linked := last("link", key)
	require.NotZero(t, linked.done, "%s is not linked", key)
	bytes := last("sync", linked.from)
	require.Greater(t, bytes.began, last("write", linked.from).done, "%s: the last write is not synced", key)
	require.Greater(t, linked.began, bytes.done, "%s: linked before it was synced", key)
	require.True(t, synced(path.Dir(key), linked.done), "%s: its name is not synced", key)
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		// The one who made it may be told so later than another who found it there and synced it.
		require.True(t, synced(path.Dir(dir), last("mkdir", dir).began), "%s: the name of %s is not synced", key, dir)
	}
}
