//go:build unix

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// E1: a store or a prefix in which there is nothing yet is an empty list, not an error.
func TestListEmpty(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir()})
	require.Empty(t, listed(t, d, ""))
	require.Empty(t, listed(t, d, "wal/c/7/"))
	require.NoError(t, put(t.Context(), d, "wal/c/1/one.wal", ""))
	require.Empty(t, listed(t, d, "wal/c/7/"))
	require.Empty(t, listed(t, d, "wal/c/1/one.wal/"), "a file is no directory")
}

// E6, E8 to E10, W10: every object, once, with its size and time, whatever the page size and wherever it cuts the tree.
func TestListPages(t *testing.T) {
	// given a tree with siblings that order differently as strings and as paths (E3), in more directories than a page
	root := t.TempDir()
	keys := []string{
		"c/1/a.wal", "c/1/a/b.wal", "c/1/a/b/c.wal", "c/1/a-b.wal", "c/1/a0/b.wal", "c/10/a.wal", "c/2/a.wal",
		"c.x/1.wal", "c0.wal", "z.wal",
	}
	for i := range 13 {
		keys = append(keys, fmt.Sprintf("c/3/%02d/%d.wal", i%3, i))
	}
	writer := newDriver(t, Config{Root: root})
	for _, key := range keys {
		require.NoError(t, put(t.Context(), writer, key, key))
	}
	slices.Sort(keys)

	for size := 1; size <= len(keys)+1; size++ {
		d := newDriver(t, Config{Root: root, ListPage: size})
		var found []string
		for token := ""; ; {
			page, next, err := d.List(t.Context(), "", token)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), size)
			for _, object := range page {
				found = append(found, object.Key)
				require.EqualValues(t, len(object.Key), object.Size)
				require.WithinDuration(t, time.Now(), object.Stored, time.Minute)
				require.False(t, object.HasCRC32C)
			}
			if next == "" {
				break
			}
			token = next
		}
		require.ElementsMatch(t, keys, found, "page size %d", size)
		require.Len(t, listed(t, d, "c/3/"), 13)
		require.Len(t, listed(t, d, "c/1/"), 5, "c/10 is another directory (E2 with prefixes that end in a slash)")
	}
}

// E11, E23: what comes and goes between two pages hides nothing else, even if it was the token, or the directory of it.
func TestListWhileChanging(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root, ListPage: 2})
	for _, key := range []string{"c/1/a.wal", "c/1/b.wal", "c/2/a.wal", "c/2/b.wal", "c/3/a.wal"} {
		require.NoError(t, put(t.Context(), d, key, key))
	}
	first, token, err := d.List(t.Context(), "c/", "")
	require.NoError(t, err)
	require.Len(t, first, 2)

	require.NoError(t, os.RemoveAll(filepath.Join(root, "c/1")))
	require.NoError(t, put(t.Context(), d, "c/0/a.wal", ""))
	require.NoError(t, put(t.Context(), d, "c/2/aa.wal", ""))
	second, token, err := d.List(t.Context(), "c/", token)
	require.NoError(t, err)
	require.Equal(t, []string{"c/2/a.wal", "c/2/aa.wal"}, []string{second[0].Key, second[1].Key})

	// a file takes the place of the token's directory
	require.NoError(t, os.RemoveAll(filepath.Join(root, "c/2")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "c/2"), nil, 0o644))
	third, token, err := d.List(t.Context(), "c/", token)
	require.NoError(t, err)
	require.Equal(t, []objectstore.Object{{Key: "c/3/a.wal", Size: 9, Stored: third[0].Stored}}, third)
	require.Empty(t, token)
}

// W10: a list that runs while others upload and delete yields each object that was there all the time.
func TestListBesideUploads(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir(), ListPage: 3})
	var steady []string
	for i := range 20 {
		key := fmt.Sprintf("c/%d/s%02d.wal", i%2, i)
		require.NoError(t, put(t.Context(), d, key, key))
		steady = append(steady, key)
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for worker := range 2 {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("c/%d/%c%02d.wal", i%2, "at"[worker], i%20)
				if put(t.Context(), d, key, key) == nil {
					_ = d.Delete(t.Context(), []string{key})
				}
			}
		})
	}
	for range 20 {
		require.Subset(t, listed(t, d, "c/"), steady)
	}
	close(stop)
	others.Wait()
}

// E16, bad input: what is not ours in the tree is left out by its type, its name is left to the Manager, and it stops
// no list.
func TestListForeign(t *testing.T) {
	root := t.TempDir()
	m, err := New(t.Context(), Config{Root: root, SweepInterval: -1, Store: objectstore.Config{Cluster: "c"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	id := benchID(t, time.Now())
	require.NoError(t, m.UploadSegment(t.Context(), id, []byte("text")))
	key := files(t, root)[0]
	dir := filepath.Join(root, filepath.Dir(key))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README: do not touch"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.wal"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".put~host~1~0123456789abcdef01234567"), nil, 0o644))
	require.NoError(t, os.Symlink(filepath.Base(key), filepath.Join(dir, "link.wal")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "loop")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.wal"), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "directory.wal"), 0o755))

	d := newDriver(t, Config{Root: root})
	require.ElementsMatch(t, []string{key, filepath.Dir(key) + "/README: do not touch", filepath.Dir(key) + "/a.wal"}, listed(t, d, ""))
	var segments []walstorage.SegmentID
	for info, err := range m.ListSegments(t.Context(), walstorage.ListOptions{}) {
		require.NoError(t, err)
		segments = append(segments, info.ID)
	}
	require.Equal(t, []walstorage.SegmentID{id}, segments)
}

// A token or a prefix that no List gave is refused.
func TestListArguments(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir()})
	for _, variant := range []struct{ prefix, token string }{
		{"c", ""}, {"/", ""}, {"/c/", ""}, {"../", ""}, {"c//", ""}, {"c/../", ""}, {"c/", "d/1.wal"},
	} {
		_, _, err := d.List(t.Context(), variant.prefix, variant.token)
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument, variant)
	}
}

// E24: the names of a directory larger than the page are not all held at once.
func TestListHoldsNoMoreThanTwoPages(t *testing.T) {
	root := t.TempDir()
	const count, page = 400, 10
	for i := range count {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%04d.wal", i*7919%count)), nil, 0o644))
	}
	d := newDriver(t, Config{Root: root, ListPage: page})
	l := listing{driver: d, ctx: t.Context()}

	names, more, err := l.names(".", "0199.wal", false)

	require.NoError(t, err)
	require.True(t, more)
	require.LessOrEqual(t, cap(names), 4*page)
	for i, name := range names {
		require.Equal(t, fmt.Sprintf("%04d.wal", 200+i), name.name)
	}
	require.Len(t, names, page)
	require.Len(t, listed(t, d, ""), count)
}
