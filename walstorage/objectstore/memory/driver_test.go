package memory_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

func put(ctx context.Context, driver *memory.Driver, key, content string) error {
	return driver.Put(ctx, key, objectstore.NewBody([]byte(content)), crc32.Checksum([]byte(content), checksums))
}

func get(ctx context.Context, driver *memory.Driver, key string, offset int64, n int) (string, error) {
	dst := make([]byte, n)
	err := driver.Get(ctx, key, offset, dst)
	return string(dst), err
}

// list follows the pages to the end, and returns the keys page by page.
func list(t *testing.T, driver *memory.Driver, prefix string) (pages [][]string) {
	t.Helper()
	token := ""
	for {
		page, next, err := driver.List(t.Context(), prefix, token)
		require.NoError(t, err)
		var keys []string
		for _, object := range page {
			keys = append(keys, object.Key)
		}
		pages = append(pages, keys)
		if next == "" {
			return pages
		}
		token = next
	}
}

// What a driver promises, without faults.
func TestDriver(t *testing.T) {
	now := time.Date(2026, 7, 4, 12, 0, 0, 0, time.UTC)
	driver := memory.New(memory.Config{Now: func() time.Time { return now }, ObjectBytes: 10, KeysPerDelete: 2})
	ctx := t.Context()

	require.NoError(t, put(ctx, driver, "a/b", "0123456789"))
	require.ErrorIs(t, put(ctx, driver, "a/b", "0123456789"), walstorage.ErrSegmentExists, "whatever the bytes")
	require.ErrorIs(t, put(ctx, driver, "a/c", "0123456789X"), walstorage.ErrTooLarge)
	require.ErrorIs(t, driver.Put(ctx, "a/d", objectstore.NewBody([]byte("x")), 1), walstorage.ErrCorrupt)

	got, err := get(ctx, driver, "a/b", 3, 4)
	require.NoError(t, err)
	require.Equal(t, "3456", got)
	for _, r := range [][2]int{{0, 11}, {9, 2}, {10, 1}, {11, 1}} {
		_, err = get(ctx, driver, "a/b", int64(r[0]), r[1])
		require.ErrorIs(t, err, walstorage.ErrInvalidRange, r)
	}
	_, err = get(ctx, driver, "a", 0, 1)
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)

	object, err := driver.Stat(ctx, "a/b")
	require.NoError(t, err)
	require.Equal(t, objectstore.Object{Key: "a/b", Size: 10, Stored: now, CRC32C: crc32.Checksum([]byte("0123456789"), checksums), HasCRC32C: true}, object)
	_, err = driver.Stat(ctx, "a/c")
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)

	require.NoError(t, driver.Delete(ctx, []string{"a/b", "a/missing"}))
	require.NoError(t, driver.Delete(ctx, nil))
	require.ErrorIs(t, driver.Delete(ctx, []string{"1", "2", "3"}), walstorage.ErrInvalidArgument)
	require.Empty(t, driver.Store().Keys())
	require.Equal(t, objectstore.Limits{KeysPerDelete: 2, ObjectBytes: 10}, driver.Limits())

	require.NoError(t, driver.Close())
	require.NoError(t, driver.Close())
	require.ErrorIs(t, put(ctx, driver, "a/b", "x"), walstorage.ErrClosed)
	require.Equal(t, 4, driver.Calls("Put"), "a call after Close is none")
}

// What is stored shares no memory with what was given or is read.
func TestStoredBytesAreCopies(t *testing.T) {
	driver := memory.New(memory.Config{})
	data := []byte("bytes")
	require.NoError(t, driver.Put(t.Context(), "k", objectstore.NewBody(data), crc32.Checksum(data, checksums)))
	copy(data, "XXXXX")
	driver.Store().Put("l", data, time.Now())
	copy(data, "YYYYY")
	read, ok := driver.Store().Object("k")
	require.True(t, ok)
	copy(read, "ZZZZZ")

	for key, want := range map[string]string{"k": "bytes", "l": "XXXXX"} {
		got, err := get(t.Context(), driver, key, 0, 5)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.True(t, driver.Store().Remove("k"))
	require.False(t, driver.Store().Remove("k"))
	_, ok = driver.Store().Object("k")
	require.False(t, ok)
}

// Pages: of any size, in any order, overlapping; complete, and stable while others store and delete.
func TestPages(t *testing.T) {
	keys := func(store *memory.Store, n int) (all []string) {
		for i := range n {
			key := fmt.Sprintf("p/%02d", i)
			store.Put(key, nil, time.Now())
			all = append(all, key)
		}
		store.Put("q", nil, time.Now())
		return all
	}

	t.Run("in order", func(t *testing.T) {
		driver := memory.New(memory.Config{PageSize: 3})
		all := keys(driver.Store(), 7)
		require.Equal(t, [][]string{all[:3], all[3:6], all[6:]}, list(t, driver, "p/"))
		require.Equal(t, [][]string{nil}, list(t, driver, "nothing/"))
		require.Len(t, list(t, driver, ""), 3)
	})
	t.Run("overlapping", func(t *testing.T) {
		driver := memory.New(memory.Config{PageSize: 3, Overlap: true})
		all := keys(driver.Store(), 7)
		require.Equal(t, [][]string{all[:3], all[2:6], all[5:]}, list(t, driver, "p/"))
	})
	t.Run("shuffled, and equally so each time", func(t *testing.T) {
		driver := memory.New(memory.Config{PageSize: 3, Shuffle: 1})
		all := keys(driver.Store(), 7)
		pages := list(t, driver, "p/")
		require.Equal(t, pages, list(t, driver, "p/"))
		var flat []string
		for _, page := range pages {
			flat = append(flat, page...)
		}
		require.ElementsMatch(t, all, flat)
		require.NotEqual(t, all, flat)
	})
	t.Run("while others store and delete", func(t *testing.T) {
		driver := memory.New(memory.Config{PageSize: 2})
		keys(driver.Store(), 6)
		_, next, err := driver.List(t.Context(), "p/", "")
		require.NoError(t, err)
		driver.Store().Remove("p/00")
		driver.Store().Remove("p/01") // the one that the token names
		driver.Store().Put("p/000", nil, time.Now())
		page, _, err := driver.List(t.Context(), "p/", next)
		require.NoError(t, err)
		require.Equal(t, "p/02", page[0].Key)
	})
	t.Run("with a token of another store", func(t *testing.T) {
		_, _, err := memory.New(memory.Config{}).List(t.Context(), "p/", "1234")
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	})
}

// Every fault, one by one: what the caller gets, when, and what the store holds then.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	ctxEnd := 10 * time.Second
	type result struct {
		err    error
		took   time.Duration
		stored string // "-" for nothing
	}
	tests := map[string]struct {
		fault memory.Fault
		want  result
	}{
		"none":                               {memory.Fault{}, result{nil, 0, "content"}},
		"Err":                                {memory.Fault{Err: boom}, result{boom, 0, "-"}},
		"ErrAfter: succeeds, reports failed": {memory.Fault{ErrAfter: boom}, result{boom, 0, "content"}},
		"Delay":                              {memory.Fault{Delay: time.Second}, result{nil, time.Second, "content"}},
		"Delay beyond the context":           {memory.Fault{Delay: time.Minute}, result{context.DeadlineExceeded, ctxEnd, "-"}},
		"Delay and Err":                      {memory.Fault{Delay: time.Second, Err: boom}, result{boom, time.Second, "-"}},
		"AnswerDelay":                        {memory.Fault{AnswerDelay: time.Second}, result{nil, time.Second, "content"}},
		"AnswerDelay beyond the context":     {memory.Fault{AnswerDelay: time.Minute}, result{context.DeadlineExceeded, ctxEnd, "content"}},
		"Wait: a gate that stays shut":       {memory.Fault{Wait: make(chan struct{})}, result{context.DeadlineExceeded, ctxEnd, "-"}},
		"Wait: a gate that is open":          {memory.Fault{Wait: closed()}, result{nil, 0, "content"}},
		"Hang":                               {memory.Fault{Hang: true}, result{context.DeadlineExceeded, time.Hour, "-"}},
		"Truncate":                           {memory.Fault{Truncate: 3}, result{walstorage.ErrCorrupt, 0, "-"}},
		"Truncate all":                       {memory.Fault{Truncate: 300}, result{walstorage.ErrCorrupt, 0, "-"}},
		"FlipBit":                            {memory.Fault{FlipBit: 9}, result{walstorage.ErrCorrupt, 0, "-"}},
		"FlipBit beyond the end":             {memory.Fault{FlipBit: 1000}, result{nil, 0, "content"}},
		"LandLate":                           {memory.Fault{LandLate: time.Minute}, result{walstorage.ErrUnavailable, 0, "-"}},
		"LandLate with an error of its own":  {memory.Fault{LandLate: time.Minute, ErrAfter: boom}, result{boom, 0, "-"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := memory.New(memory.Config{})
				fault := test.fault
				if fault.Wait != nil {
					wait := make(chan struct{}) // one of the bubble
					if name == "Wait: a gate that is open" {
						close(wait)
					}
					fault.Wait = wait
				}
				driver.Fault(func(memory.Call) memory.Fault { return fault })
				ctx, cancel := context.WithTimeout(t.Context(), ctxEnd)
				defer cancel()
				time.AfterFunc(time.Hour, driver.Release)
				start := time.Now()

				err := put(ctx, driver, "k", "content")

				require.ErrorIs(t, err, test.want.err)
				require.Equal(t, test.want.took, time.Since(start))
				stored, ok := driver.Store().Object("k")
				require.Equal(t, test.want.stored != "-", ok)
				if ok {
					require.Equal(t, test.want.stored, string(stored))
				}
			})
		})
	}

	t.Run("Panic", func(t *testing.T) {
		driver := memory.New(memory.Config{})
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Panic: boom} })
		require.PanicsWithValue(t, boom, func() { _ = put(t.Context(), driver, "k", "") })
		require.Equal(t, 1, driver.Calls("Put"))
	})
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// LandLate: the object appears when it is due to whoever looks, by any method and any handle, and not before; it
// overwrites nothing; several land in the order in which they are due. No goroutine waits for it.
func TestLandLate(t *testing.T) {
	look := map[string]func(t *testing.T, driver *memory.Driver) bool{
		"Stat":   func(t *testing.T, d *memory.Driver) bool { _, err := d.Stat(t.Context(), "k"); return err == nil },
		"Get":    func(t *testing.T, d *memory.Driver) bool { _, err := get(t.Context(), d, "k", 0, 1); return err == nil },
		"List":   func(t *testing.T, d *memory.Driver) bool { return list(t, d, "")[0] != nil },
		"Put":    func(t *testing.T, d *memory.Driver) bool { return put(t.Context(), d, "k", "x") != nil },
		"Keys":   func(_ *testing.T, d *memory.Driver) bool { return len(d.Store().Keys()) > 0 },
		"Object": func(_ *testing.T, d *memory.Driver) bool { _, ok := d.Store().Object("k"); return ok },
		"Remove": func(_ *testing.T, d *memory.Driver) bool { return d.Store().Remove("k") },
		"Damage": func(_ *testing.T, d *memory.Driver) bool {
			return d.Store().Damage("k", func(data []byte) []byte { return data }) == nil
		},
	}
	for name, visible := range look {
		for _, due := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " when due is ", due), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewStore()
					writer, reader := memory.New(memory.Config{Store: store}), memory.New(memory.Config{Store: store})
					writer.Fault(memory.Sequence("Put", memory.Fault{LandLate: time.Minute}))
					require.Error(t, put(t.Context(), writer, "k", "late"))
					time.Sleep(time.Minute - 1)
					if due {
						time.Sleep(time.Nanosecond)
					}
					require.Equal(t, due, visible(t, reader))
				})
			})
		}
	}

	t.Run("in order, and without overwriting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			driver := memory.New(memory.Config{})
			driver.Fault(memory.Sequence("Put",
				memory.Fault{LandLate: 3 * time.Second}, memory.Fault{LandLate: time.Second}, memory.Fault{LandLate: time.Second}))
			for _, content := range []string{"third", "first", "second"} {
				require.Error(t, put(t.Context(), driver, "k", content))
			}
			time.Sleep(time.Hour)
			stored, _ := driver.Store().Object("k")
			require.Equal(t, "first", string(stored))
			object, err := driver.Stat(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, time.Hour-time.Second, time.Since(object.Stored), "the store's time is that of the landing")
		})
	})
}

// Faults of reads: bytes that were cut or changed on their way.
func TestFaultsOfGet(t *testing.T) {
	driver := memory.New(memory.Config{})
	require.NoError(t, put(t.Context(), driver, "k", "abcdef"))
	driver.Fault(memory.Sequence("Get", memory.Fault{FlipBit: 6}, memory.Fault{Truncate: 4}, memory.Fault{Truncate: 100}))

	got, err := get(t.Context(), driver, "k", 0, 3)
	require.NoError(t, err, "nobody on the way has noticed")
	require.Equal(t, "Abc", got)
	got, err = get(t.Context(), driver, "k", 0, 6)
	require.ErrorIs(t, err, walstorage.ErrUnavailable)
	require.Equal(t, "ab\x00\x00\x00\x00", got)
	_, err = get(t.Context(), driver, "k", 0, 6)
	require.ErrorIs(t, err, walstorage.ErrUnavailable)
	got, err = get(t.Context(), driver, "k", 0, 6)
	require.NoError(t, err)
	require.Equal(t, "abcdef", got, "the object itself is whole")
}

// An object that is damaged at rest: the checksum that the store tells is still that of the upload.
func TestDamageAtRest(t *testing.T) {
	driver := memory.New(memory.Config{})
	require.NoError(t, put(t.Context(), driver, "k", "abc"))
	before, err := driver.Stat(t.Context(), "k")
	require.NoError(t, err)

	require.NoError(t, driver.Store().Damage("k", func(data []byte) []byte { data[1]++; return data[:2] }))

	got, err := get(t.Context(), driver, "k", 0, 2)
	require.NoError(t, err)
	require.Equal(t, "ac", got)
	after, err := driver.Stat(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, int64(2), after.Size)
	require.Equal(t, before.CRC32C, after.CRC32C)
	require.Error(t, driver.Store().Damage("absent", func(data []byte) []byte { return data }))
}

// What the function that decides is told.
func TestCallsTellWhatTheyAre(t *testing.T) {
	driver := memory.New(memory.Config{})
	manager, err := objectstore.New(driver, objectstore.Config{Cluster: "c", Prefix: "a/b"})
	require.NoError(t, err)
	defer manager.Close()
	id, err := walstorage.NewSegmentID(3, 4, time.UnixMilli(1_700_000_000_000), strings.NewReader("0123456789"))
	require.NoError(t, err)
	keys, err := walstorage.NewKeys("a/b", "c")
	require.NoError(t, err)
	key := keys.Key(id)
	var calls []memory.Call
	driver.Fault(func(call memory.Call) memory.Fault { calls = append(calls, call); return memory.Fault{} })

	require.NoError(t, manager.UploadSegment(t.Context(), id, make([]byte, 9)))
	require.NoError(t, manager.FetchSegment(t.Context(), id, 2, make([]byte, 3)))
	require.NoError(t, manager.FetchSegment(t.Context(), id, 3, make([]byte, 4)))
	_, err = manager.StatSegment(t.Context(), id)
	require.NoError(t, err)
	for range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
		continue
	}
	require.NoError(t, manager.DeleteSegments(t.Context(), id))
	_, _, err = driver.List(t.Context(), "", "after:x")
	require.NoError(t, err)
	_, err = driver.Stat(t.Context(), "foreign")
	require.Error(t, err)

	require.Equal(t, []memory.Call{
		{Method: "Put", Number: 1, Key: key, Segment: id, Size: 9},
		{Method: "Get", Number: 1, Key: key, Segment: id, Offset: 2, Size: 3},
		{Method: "Get", Number: 2, Key: key, Segment: id, Offset: 3, Size: 4},
		{Method: "Stat", Number: 1, Key: key, Segment: id},
		{Method: "List", Number: 1, Key: "a/b/c/"},
		{Method: "Delete", Number: 1, Key: key, Segment: id, Keys: []string{key}},
		{Method: "List", Number: 2, Token: "after:x"},
		{Method: "Stat", Number: 2, Key: "foreign"},
	}, calls)
	for method, n := range map[string]int{"Put": 1, "Get": 2, "Stat": 2, "List": 2, "Delete": 1, "None": 0} {
		require.Equal(t, n, driver.Calls(method), method)
	}
}

// A fault of one handle is none of another's; both work on one store.
func TestHandlesShareAStore(t *testing.T) {
	store := memory.NewStore()
	broken, sound := memory.New(memory.Config{Store: store, NoCRC32C: true, NoStored: true}), memory.New(memory.Config{Store: store})
	broken.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: errors.New("this handle only")} })
	require.Error(t, put(t.Context(), broken, "k", "a"))
	require.NoError(t, put(t.Context(), sound, "k", "a"))
	require.NoError(t, sound.Close())
	broken.Fault(nil)

	object, err := broken.Stat(t.Context(), "k")

	require.NoError(t, err)
	require.Equal(t, objectstore.Object{Key: "k", Size: 1}, object, "a store that tells no checksum and no time")
}

func TestSequence(t *testing.T) {
	decide := memory.Sequence("Get", memory.Fault{Truncate: 1}, memory.Fault{}, memory.Fault{Truncate: 3})
	var got []int
	for range 5 {
		assert.Zero(t, decide(memory.Call{Method: "Put"}).Truncate)
		got = append(got, decide(memory.Call{Method: "Get"}).Truncate)
	}
	assert.Equal(t, []int{1, 0, 3, 0, 0}, got)
}

// Everything at once, under -race.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := memory.New(memory.Config{PageSize: 2})
		driver.Fault(func(call memory.Call) memory.Fault {
			return memory.Fault{LandLate: time.Duration(call.Number%3) * time.Millisecond}
		})
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for round := range 50 {
					key := fmt.Sprint("k/", (worker+round)%10)
					_ = put(t.Context(), driver, key, "content")
					_, _ = get(t.Context(), driver, key, 0, 3)
					_, _ = driver.Stat(t.Context(), key)
					_ = list(t, driver, "k/")
					_ = driver.Delete(t.Context(), []string{key})
					driver.Fault(nil)
					driver.Release()
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
	})
}
