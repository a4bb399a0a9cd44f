//go:build unix

package local

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// B1, B3, B4: every size comes back, on this handle and on another.
func TestSizes(t *testing.T) {
	root := t.TempDir()
	d, other := newDriver(t, Config{Root: root}), newDriver(t, Config{Root: root, ReadOnly: true})
	for _, size := range []int{0, 1, 4095, 4096, 4097, writeBytes - 1, writeBytes, writeBytes + 1, readBytes + 1, 2*readBytes + 5} {
		key, text := fmt.Sprintf("c/%d.wal", size), content('s', size)
		require.NoError(t, put(t.Context(), d, key, text))
		requireStored(t, d, key, text)
		requireStored(t, other, key, text)
	}
}

// D1 to D11, W6: a range is read exactly or is an error, against a model.
func TestRanges(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir()})
	text := content('r', 3000)
	require.NoError(t, put(t.Context(), d, "c/r.wal", text))
	require.NoError(t, put(t.Context(), d, "c/empty.wal", ""))
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		offset, size := random.IntN(3100), 1+random.IntN(3100)
		dst := make([]byte, size)
		err := d.Get(t.Context(), "c/r.wal", int64(offset), dst)
		if offset+size <= len(text) {
			require.NoError(t, err)
			require.Equal(t, text[offset:offset+size], string(dst))
		} else {
			require.ErrorIs(t, err, walstorage.ErrInvalidRange, "%d bytes at %d", size, offset)
		}
	}
	for _, variant := range []struct {
		key    string
		offset int64
		size   int
		want   error
	}{
		{"c/r.wal", 3000, 1, walstorage.ErrInvalidRange},
		{"c/r.wal", 2999, 2, walstorage.ErrInvalidRange},
		{"c/r.wal", math.MaxInt64, 1, walstorage.ErrInvalidRange},
		{"c/r.wal", math.MaxInt64 - 1, 1, walstorage.ErrInvalidRange},
		{"c/r.wal", -1, 1, walstorage.ErrInvalidRange},
		{"c/empty.wal", 0, 1, walstorage.ErrInvalidRange},
		{"c/none.wal", 0, 1, walstorage.ErrSegmentNotFound},
		{"c/none.wal", 1 << 40, 1, walstorage.ErrSegmentNotFound},
		{"none/none/none.wal", 0, 1, walstorage.ErrSegmentNotFound},
		{"c/r.wal/below.wal", 0, 1, walstorage.ErrSegmentNotFound},
		{"c", 0, 1, walstorage.ErrSegmentNotFound},
	} {
		err := d.Get(t.Context(), variant.key, variant.offset, make([]byte, variant.size))
		require.ErrorIs(t, err, variant.want, variant)
	}
}

// D12: a file that ends before its size says so is no segment that ended there.
func TestShortRead(t *testing.T) {
	root := t.TempDir()
	d, fsys := newStepDriver(t, root)
	require.NoError(t, put(t.Context(), d, "c/r.wal", content('r', 100)))
	fsys.intercept(func(s step) error {
		if s.call == "readat" { // the file is cut when it is read, and whole again when it is looked at
			return os.Truncate(filepath.Join(root, s.name), 50)
		}
		if s.call == "lstat" {
			return os.Truncate(filepath.Join(root, s.name), 100)
		}
		return nil
	}, nil)
	require.ErrorIs(t, d.Get(t.Context(), "c/r.wal", 0, make([]byte, 100)), walstorage.ErrUnavailable)
}

// B5, W1, loonfs/loonfs#377, delta-io/delta-rs#360: readers that never stop see nothing or the whole.
func TestReadersSeeNothingOrTheWhole(t *testing.T) {
	root := t.TempDir()
	d, reader := newDriver(t, Config{Root: root}), newDriver(t, Config{Root: root, ReadOnly: true})
	const rounds, size = 60, writeBytes + 7
	text := content('w', size)
	key := func(n int) string { return fmt.Sprintf("c/%d.wal", n) }
	current := make(chan int, 1)
	var deleted, seen atomic.Int64 // up to which number, and how often the whole
	deleted.Store(-1)
	var readers sync.WaitGroup
	var wrong sync.Map
	for range 2 {
		readers.Go(func() {
			dst := make([]byte, size)
			for n := range current {
				for int64(n) > deleted.Load() { // a reader that the system holds up may come too late
					clear(dst)
					err := reader.Get(t.Context(), key(n), 0, dst)
					if err == nil {
						if string(dst) != text {
							wrong.Store(key(n), "a part")
						}
						seen.Add(1)
						break
					}
					if walstorage.KindOf(err) != walstorage.ErrSegmentNotFound {
						wrong.Store(key(n), err.Error())
						break
					}
				}
			}
		})
	}
	for i := range rounds {
		current <- i
		require.NoError(t, put(t.Context(), d, key(i), text))
		deleted.Store(int64(i - 8))
		require.NoError(t, d.Delete(t.Context(), []string{key(i - 8)}))
	}
	close(current)
	readers.Wait()
	require.Positive(t, seen.Load())
	wrong.Range(func(key, what any) bool {
		t.Errorf("%s: a reader saw %s", key, what)
		return true
	})
}

// C1, C17, W2: the first content stays, its time too, until it is deleted.
func TestCreateOnly(t *testing.T) {
	d := newDriver(t, Config{Root: t.TempDir()})
	require.NoError(t, put(t.Context(), d, faultOld, "first"))
	before, err := d.Stat(t.Context(), faultOld)
	require.NoError(t, err)
	require.ErrorIs(t, put(t.Context(), d, faultOld, "second"), walstorage.ErrSegmentExists)
	require.ErrorIs(t, put(t.Context(), d, faultOld, "first"), walstorage.ErrSegmentExists)
	after, err := d.Stat(t.Context(), faultOld)
	require.NoError(t, err)
	require.Equal(t, before, after)
	requireStored(t, d, faultOld, "first")

	require.NoError(t, d.Delete(t.Context(), []string{faultOld}))
	require.NoError(t, put(t.Context(), d, faultOld, "second"))
	requireStored(t, d, faultOld, "second")
}

// C2, C3, C7, N9: of many creators on several handles one wins, its bytes are stored, and no temporary is left.
func TestCreateRace(t *testing.T) {
	root := t.TempDir()
	handles := []*Driver{newDriver(t, Config{Root: root}), newDriver(t, Config{Root: root}), newDriver(t, Config{Root: root})}
	const rounds, creators, size = 30, 12, 5000
	for round := range rounds {
		key := fmt.Sprintf("c/%d/race.wal", round)
		errs := make([]error, creators)
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range creators {
			all.Go(func() {
				<-start
				errs[i] = put(t.Context(), handles[i%len(handles)], key, content(byte('a'+i), size))
			})
		}
		close(start)
		all.Wait()
		won := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, won, "two winners")
				won = i
			} else {
				require.ErrorIs(t, err, walstorage.ErrSegmentExists)
			}
		}
		require.NotEqual(t, -1, won, "no winner")
		requireStored(t, handles[0], key, content(byte('a'+won), size))
	}
	require.Empty(t, temporaries(t, root))
}

// C5: creates and deletes of one key from many sides: whoever reads sees one creator's whole content or nothing.
func TestCreateAgainstDelete(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root})
	const size = 3000
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for range 50 {
				err := put(t.Context(), d, "c/one.wal", content(byte('a'+w), size))
				if err != nil && walstorage.KindOf(err) != walstorage.ErrSegmentExists {
					t.Error(err)
				}
				text, err := get(t.Context(), d, "c/one.wal", size)
				if err == nil && !wholeContent(text, size) {
					t.Error("a mixture was read")
				}
				if err := d.Delete(t.Context(), []string{"c/one.wal"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	require.NoError(t, d.Delete(t.Context(), []string{"c/one.wal"}))
	require.Empty(t, files(t, root))
}

// F1 to F4: a delete removes that key, again and again without an error, and nothing that looks like it.
func TestDelete(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root})
	keys := []string{"c/a", "c/ab", "c/d/a", "c/d/b.wal"}
	for _, key := range keys {
		require.NoError(t, put(t.Context(), d, key, key))
	}
	for range 2 {
		require.NoError(t, d.Delete(t.Context(), []string{"c/a", "c/a", "c/none", "none/none", "c/ab/below", "c/d"}))
		require.Equal(t, []string{"c/ab", "c/d/a", "c/d/b.wal"}, listed(t, d, ""))
	}
	var many []string
	for i := range 999 {
		many = append(many, fmt.Sprintf("c/%d", i))
	}
	require.NoError(t, d.Delete(t.Context(), append(many, keys...)))
	require.Empty(t, listed(t, d, ""))
	require.Equal(t, 1000, d.Limits().KeysPerDelete)
}

// F6, W9: each key that could not be deleted is named, and the others are gone.
func TestDeletePartly(t *testing.T) {
	d, fsys := newStepDriver(t, t.TempDir())
	for _, key := range []string{"c/1", "c/2", "c/3"} {
		require.NoError(t, put(t.Context(), d, key, key))
	}
	fsys.intercept(func(s step) error {
		if s.call == "remove" && s.name == "c/2" {
			return syscall.EACCES
		}
		return nil
	}, nil)
	err := d.Delete(t.Context(), []string{"c/1", "c/2", "../x", "c/3"})
	var deleteErr *objectstore.DeleteError
	require.ErrorAs(t, err, &deleteErr)
	require.Len(t, deleteErr.Failures, 2)
	require.Equal(t, "c/2", deleteErr.Failures[0].Key)
	require.ErrorIs(t, deleteErr.Failures[0].Err, walstorage.ErrAccessDenied)
	require.Equal(t, "../x", deleteErr.Failures[1].Key)
	require.ErrorIs(t, deleteErr.Failures[1].Err, walstorage.ErrInvalidArgument)
	require.Equal(t, []string{"c/2"}, listed(t, d, ""))
}

// F8: a read that is open while its segment is deleted ends whole.
func TestDeleteUnderRead(t *testing.T) {
	d, fsys := newStepDriver(t, t.TempDir())
	text := content('x', 2*readBytes)
	require.NoError(t, put(t.Context(), d, faultOld, text))
	fsys.intercept(func(s step) error {
		if s.call == "readat" {
			_ = fsys.FS.Remove(s.name)
		}
		return nil
	}, nil)
	got, err := get(t.Context(), d, faultOld, len(text))
	require.NoError(t, err)
	require.Equal(t, text, got)
}

// G1, G3, G4, G5, G9: any key of the alphabet is a file of that name; names like those of temporaries elsewhere are
// nothing special; what leads out of the root, or can't be a name, is refused and touches nothing.
func TestKeys(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "store")
	require.NoError(t, os.Mkdir(root, 0o755))
	d := newDriver(t, Config{Root: root})
	for _, key := range []string{
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ/abcdefghijklmnopqrstuvwxyz0123456789._-.wal",
		"c/x.tmp", "c/.tmp", "c/x.attrs", "c/x.lock", "c/.put-host-1-00", "c/...", "c/-", "c/x.wal.tmp", "c/.hidden",
		"c/" + strings.Repeat("n", 255), strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 99)+"/", 9), "/"),
	} {
		require.NoError(t, put(t.Context(), d, key, key), key)
		requireStored(t, d, key, key)
		require.Contains(t, listed(t, d, ""), key)
		require.FileExists(t, filepath.Join(root, key))
	}
	before := files(t, parent)
	for _, key := range []string{
		"", ".", "..", "/", "/c", "c/", "c//x", "./c", "c/./x", "../x", "c/../x", "c/..", "c/x\x00y", "c/\xff\xfe",
		"c/.put~host~1~0123456789abcdef01234567", "c/a~b", "c/" + strings.Repeat("n", 256),
	} {
		_, getErr := get(t.Context(), d, key, 1)
		_, statErr := d.Stat(t.Context(), key)
		for call, err := range map[string]error{
			"put": put(t.Context(), d, key, "x"), "get": getErr, "stat": statErr, "delete": d.Delete(t.Context(), []string{key}),
		} {
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument, "%s %q", call, key)
		}
	}
	require.Equal(t, before, files(t, parent))
}

// G10: no symbolic link in the tree leads a call out of the root.
func TestSymlinksDoNotLeadOut(t *testing.T) {
	parent := t.TempDir()
	root, outside := filepath.Join(parent, "store"), filepath.Join(parent, "outside")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "c"), 0o755))
	require.NoError(t, os.MkdirAll(outside, 0o755))
	secret := filepath.Join(outside, "secret.wal")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "absolute")))
	require.NoError(t, os.Symlink("../outside", filepath.Join(root, "relative")))
	require.NoError(t, os.Symlink("../../outside", filepath.Join(root, "c/deep")))
	require.NoError(t, os.Symlink(secret, filepath.Join(root, "c/file.wal")))
	require.NoError(t, os.Symlink("loop", filepath.Join(root, "loop")))
	d := newDriver(t, Config{Root: root})

	for _, dir := range []string{"absolute", "relative", "c/deep", "loop"} {
		_, getErr := get(t.Context(), d, dir+"/secret.wal", 6)
		_, statErr := d.Stat(t.Context(), dir+"/secret.wal")
		deleteErr := d.Delete(t.Context(), []string{dir + "/secret.wal"})
		_, _, listErr := d.List(t.Context(), dir+"/", "")
		for call, err := range map[string]error{
			"put": put(t.Context(), d, dir+"/new.wal", "x"), "get": getErr, "stat": statErr, "delete": deleteErr, "list": listErr,
		} {
			require.ErrorIs(t, err, walstorage.ErrAccessDenied, "%s in %s", call, dir)
		}
	}
	_, err := get(t.Context(), d, "c/file.wal", 6)
	require.ErrorIs(t, err, walstorage.ErrAccessDenied)
	require.ErrorIs(t, put(t.Context(), d, "c/file.wal", "x"), walstorage.ErrSegmentExists)
	require.Empty(t, listed(t, d, ""), "links are not listed")
	_, err = d.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"outside/secret.wal"}, files(t, parent)[:1])
	text, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))
}

// A directory or a file of others in the place of ours is reported with its name, and what is beside it goes on.
func TestForeignInTheWay(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root})
	require.NoError(t, os.MkdirAll(filepath.Join(root, "c/1/x.wal/inside"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "c/2"), nil, 0o644))

	require.ErrorIs(t, put(t.Context(), d, "c/1/x.wal", "x"), walstorage.ErrSegmentExists)
	requireNothingStored(t, d, "c/1/x.wal")
	require.NoError(t, d.Delete(t.Context(), []string{"c/1/x.wal"}))
	require.DirExists(t, filepath.Join(root, "c/1/x.wal/inside"))

	err := put(t.Context(), d, "c/2/y.wal", "y")
	require.Error(t, err)
	require.Contains(t, err.Error(), "c/2")
	require.Empty(t, temporaries(t, root))
	require.NoError(t, put(t.Context(), d, "c/3/z.wal", "z"))
	require.Contains(t, listed(t, d, ""), "c/3/z.wal")
}

// N9: names of temporaries are told from keys, and from what only looks like them.
func TestTemporaryNames(t *testing.T) {
	names := newTemporaryNames()
	seen := make(map[string]bool)
	for range 1000 {
		name := names.hold("dir")
		require.False(t, seen[name])
		require.True(t, isTemporary(filepath.Base(name)))
		require.True(t, names.holds(name))
		require.Error(t, checkKey(name), "no key is the name of a temporary")
		names.release(name)
		require.False(t, names.holds(name))
		seen[name] = true
	}
	for _, foreign := range []string{
		"", ".put", ".put~", ".put~host~1~", ".put~host~1~0123", ".put~host~0~0123456789abcdef01234567",
		".put~host~x~0123456789abcdef01234567", ".put~~1~0123456789abcdef01234567", "put~host~1~0123456789abcdef01234567",
		".put~host~1~0123456789abcdef01234567~", ".put~host~1~0123456789abcdef0123456g", ".put~a~b~1~0123456789abcdef01234567",
	} {
		require.False(t, isTemporary(foreign), foreign)
	}
	require.True(t, isTemporary(".put~other.host-1_x~4711~0123456789abcdef01234567"))
}
