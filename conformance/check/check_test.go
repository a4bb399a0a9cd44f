package check_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a right manager on the store, and its driver.
func open(t *testing.T, store *memory.Store) (*objectstore.Manager, *memory.Driver) {
	t.Helper()
	driver := memory.New(memory.Config{Store: store})
	manager, err := objectstore.New(driver, objectstore.Config{Cluster: "production"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, manager.Close()) })
	return manager, driver
}

// inUse returns a store that holds segments of brokers, one of them of the check's own id, and an object of a stranger.
func inUse(t *testing.T) (store *memory.Store, contents map[string]string) {
	t.Helper()
	store = memory.NewStore()
	manager, _ := open(t, store)
	for _, broker := range []int32{0, 1, check.DefaultBrokerID} {
		id, err := walstorage.NewSegmentID(broker, 5, time.Now(), strings.NewReader("other bits"))
		require.NoError(t, err)
		require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("of a broker")))
	}
	store.Put("production/README.txt", []byte("of a stranger"), time.Now())
	return store, snapshot(store)
}

func snapshot(store *memory.Store) map[string]string {
	contents := make(map[string]string)
	for _, key := range store.Keys() {
		data, _ := store.Object(key)
		contents[key] = string(data)
	}
	return contents
}

// violations returns the cases that err reports.
func violations(t *testing.T, err error) map[string][]*check.Violation {
	t.Helper()
	found := make(map[string][]*check.Violation)
	if err == nil {
		return found
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%T: %v", err, err)
	for _, one := range joined.Unwrap() {
		var violation *check.Violation
		if errors.As(one, &violation) {
			found[violation.Case] = append(found[violation.Case], violation)
		}
	}
	return found
}

// A right store in use passes, with one handle and with two, and holds afterwards what it held before. The bounds on
// requests are those of the package's documentation.
func TestRightStorePasses(t *testing.T) {
	for name, two := range map[string]bool{"one handle": false, "two handles": true} {
		t.Run(name, func(t *testing.T) {
			store, before := inUse(t)
			manager, driver := open(t, store)
			other, otherDriver := open(t, store)
			var results []check.Result
			options := check.Options{Progress: func(r check.Result) { results = append(results, r) }}
			if two {
				options.Other = other
			}
			require.NoError(t, check.Check(t.Context(), manager, options))

			assert.Equal(t, before, snapshot(store))
			for method, most := range map[string]int{"Put": 70, "Get": 65, "Stat": 65, "Delete": 20, "List": 90} {
				n := driver.Calls(method) + otherDriver.Calls(method)
				assert.LessOrEqual(t, n, most, method)
				assert.Positive(t, n, method)
				t.Log(method, n)
			}
			var skipped []string
			for _, result := range results {
				assert.Zero(t, result.Violations, result.Case)
				if result.Skipped != "" {
					skipped = append(skipped, result.Case)
				}
			}
			if two {
				assert.Empty(t, skipped)
			} else {
				assert.Equal(t, []string{"B4", "C3"}, skipped)
			}
			assert.Equal(t, check.CleanupCase, results[len(results)-1].Case)
		})
	}
}

// The ids and rules are those of package conformance, whose table is read here as text.
func TestCasesAreThoseOfTheSuite(t *testing.T) {
	table, err := os.ReadFile("../doc_table.go")
	require.NoError(t, err)
	rules := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^//\s+([A-Z]\d+)\s+P?\d\s+(W\d+)\s+`).FindAllStringSubmatch(string(table), -1) {
		rules[row[1]] = row[2]
	}
	rules["K6"] = rules["B2"] // B2 has many contents, K6 the compressed ones alone
	rules[check.CleanupCase] = "W9"
	require.Greater(t, len(rules), 50)
	store := memory.NewStore()
	manager, _ := open(t, store)
	require.NoError(t, check.Check(t.Context(), manager, check.Options{Progress: func(r check.Result) {
		assert.Equal(t, rules[r.Case], r.Rule, r.Case)
	}}))
}

// broken is a manager that is wrong where a test makes it so.
type broken struct {
	walstorage.WalStorageManager
	upload func(ctx context.Context, id walstorage.SegmentID, data []byte) error
	fetch  func(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error
	stat   func(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error)
	remove func(ctx context.Context, ids ...walstorage.SegmentID) error
	list   func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error]
}

func (b *broken) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	if b.upload != nil {
		return b.upload(ctx, id, data)
	}
	return b.WalStorageManager.UploadSegment(ctx, id, data)
}

func (b *broken) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	if b.fetch != nil {
		return b.fetch(ctx, id, offset, dst)
	}
	return b.WalStorageManager.FetchSegment(ctx, id, offset, dst)
}

func (b *broken) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	if b.stat != nil {
		return b.stat(ctx, id)
	}
	return b.WalStorageManager.StatSegment(ctx, id)
}

func (b *broken) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	if b.remove != nil {
		return b.remove(ctx, ids...)
	}
	return b.WalStorageManager.DeleteSegments(ctx, ids...)
}

func (b *broken) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	if b.list != nil {
		return b.list(ctx, options)
	}
	return b.WalStorageManager.ListSegments(ctx, options)
}

// filtered lists what keep says.
func filtered(list iter.Seq2[walstorage.SegmentInfo, error], keep func(*walstorage.SegmentInfo) bool) iter.Seq2[walstorage.SegmentInfo, error] {
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		for info, err := range list {
			if (err != nil || keep(&info)) && !yield(info, err) {
				return
			}
		}
	}
}

// Each wrong manager is reported under the case named for it and under no case outside its set; every case runs all the
// same, and everything is deleted.
func TestBrokenManagersAreReported(t *testing.T) {
	type id = walstorage.SegmentID
	tests := map[string]struct {
		spoil func(b *broken, right walstorage.WalStorageManager)
		want  []string // exactly these
		may   []string // and perhaps these
	}{
		"an upload replaces what is there": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					err := right.UploadSegment(ctx, id, data)
					for errors.Is(err, walstorage.ErrSegmentExists) {
						if err = right.DeleteSegments(ctx, id); err == nil {
							err = right.UploadSegment(ctx, id, data)
						}
					}
					return err
				}
			},
			[]string{"B13", "C1", "C2", "C3"},
			nil,
		},
		"an existing segment counts as stored by size alone": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					err := right.UploadSegment(ctx, id, data)
					if info, statErr := right.StatSegment(ctx, id); err != nil && statErr == nil && info.Size == int64(len(data)) {
						return nil
					}
					return err
				}
			},
			[]string{"B13", "C2", "C3"},
			nil,
		},
		"the same upload again is refused": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					if _, err := right.StatSegment(ctx, id); err == nil {
						return walstorage.NewError(walstorage.ErrSegmentExists, nil)
					}
					return right.UploadSegment(ctx, id, data)
				}
			},
			[]string{"B13"},
			nil,
		},
		"an upload keeps 64 KiB": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					return right.UploadSegment(ctx, id, data[:min(len(data), 64<<10)])
				}
			},
			[]string{"B1"},
			nil,
		},
		"an upload changes the caller's data": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					err := right.UploadSegment(ctx, id, data)
					if len(data) == 4097 {
						data[7]++
					}
					return err
				}
			},
			[]string{"B1", "B8"},
			nil,
		},
		"an upload of something compressed is unpacked": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
						data = []byte("unpacked")
					}
					return right.UploadSegment(ctx, id, data)
				}
			},
			[]string{"K6"},
			nil,
		},
		"a read is cut short at the end": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.fetch = func(ctx context.Context, id id, offset int64, dst []byte) error {
					if info, err := right.StatSegment(ctx, id); err == nil && offset >= 0 && offset < info.Size && offset+int64(len(dst)) > info.Size {
						dst = dst[:info.Size-offset]
					}
					return right.FetchSegment(ctx, id, offset, dst)
				}
			},
			[]string{"D3"},
			nil,
		},
		"a range beyond the end is called missing": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.fetch = func(ctx context.Context, id id, offset int64, dst []byte) error {
					err := right.FetchSegment(ctx, id, offset, dst)
					if errors.Is(err, walstorage.ErrInvalidRange) {
						return walstorage.NewError(walstorage.ErrSegmentNotFound, err)
					}
					return err
				}
			},
			[]string{"D3", "D4", "D5", "D9"},
			nil,
		},
		"an offset is one off": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.fetch = func(ctx context.Context, id id, offset int64, dst []byte) error {
					if offset == 3 || offset == 511 {
						offset++
					}
					return right.FetchSegment(ctx, id, offset, dst)
				}
			},
			[]string{"D1", "D2"},
			nil,
		},
		"an empty read of a missing segment fails": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.fetch = func(ctx context.Context, id id, offset int64, dst []byte) error {
					if _, err := right.StatSegment(ctx, id); err != nil && ctx.Err() == nil {
						return err
					}
					return right.FetchSegment(ctx, id, offset, dst)
				}
			},
			[]string{"D6"},
			nil,
		},
		"a negative offset counts from the start": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.fetch = func(ctx context.Context, id id, offset int64, dst []byte) error {
					return right.FetchSegment(ctx, id, max(0, offset), dst)
				}
			},
			[]string{"D7"},
			nil,
		},
		"a stat of a missing segment has no kind": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.stat = func(ctx context.Context, id id) (walstorage.SegmentInfo, error) {
					info, err := right.StatSegment(ctx, id)
					if errors.Is(err, walstorage.ErrSegmentNotFound) {
						err = walstorage.NewError(nil, errors.New("404"))
					}
					return info, err
				}
			},
			[]string{"F1", "F2", "F3", "F5", "H1", "I2"},
			nil,
		},
		"a list tells no sizes": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
					return filtered(right.ListSegments(ctx, options), func(info *walstorage.SegmentInfo) bool { info.Size = 0; return true })
				}
			},
			[]string{"E6"},
			nil,
		},
		"a list leaves one out": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
					var newest id
					for info := range right.ListSegments(ctx, options) {
						if bytes.Compare(info.ID.UUID[:], newest.UUID[:]) > 0 {
							newest = info.ID
						}
					}
					return filtered(right.ListSegments(ctx, options), func(info *walstorage.SegmentInfo) bool { return info.ID != newest })
				}
			},
			[]string{"E25"},
			[]string{"B4", "E7"}, // by chance of the ids
		},
		"a list remembers what it has shown": {
			func(b *broken, right walstorage.WalStorageManager) {
				shown := make(map[id]walstorage.SegmentInfo)
				b.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
					return func(yield func(walstorage.SegmentInfo, error) bool) {
						for info, err := range right.ListSegments(ctx, options) {
							if err != nil {
								yield(info, err)
								return
							}
							shown[info.ID] = info
						}
						for _, info := range shown {
							if options.Match(info.ID) && !yield(info, nil) {
								return
							}
						}
					}
				}
			},
			[]string{"E7", check.CleanupCase},
			nil,
		},
		"a list ignores its upper bound": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
					options.CreatedBefore = time.Time{}
					return right.ListSegments(ctx, options)
				}
			},
			[]string{"E25"},
			nil,
		},
		"a list shows the segments of other brokers": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
					options.BrokerID = nil
					return right.ListSegments(ctx, options)
				}
			},
			[]string{"E25"},
			nil,
		},
		"a delete of a missing segment fails": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.remove = func(ctx context.Context, ids ...id) error {
					for _, id := range ids {
						if _, err := right.StatSegment(ctx, id); err != nil {
							return &walstorage.DeleteError{Failures: []walstorage.DeleteFailure{{ID: id, Err: err}}}
						}
						if err := right.DeleteSegments(ctx, id); err != nil {
							return err
						}
					}
					return nil
				}
			},
			[]string{"F2", "F3", "F5"},
			nil,
		},
		"a delete of many forgets the last": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.remove = func(ctx context.Context, ids ...id) error {
					if len(ids) > 10 {
						ids = ids[:len(ids)-1]
					}
					return right.DeleteSegments(ctx, ids...)
				}
			},
			[]string{"F5", check.CleanupCase},
			nil,
		},
		"a cancelled context is ignored": {
			func(b *broken, right walstorage.WalStorageManager) {
				b.upload = func(ctx context.Context, id id, data []byte) error {
					return right.UploadSegment(context.WithoutCancel(ctx), id, data)
				}
			},
			[]string{"H1"},
			nil,
		},
		"a stat panics": {
			func(b *broken, _ walstorage.WalStorageManager) {
				b.stat = func(context.Context, id) (walstorage.SegmentInfo, error) { panic("not written yet") }
			},
			[]string{"A1", "B1", "B13", "C1", "C2", "C3", "D7", "F1", "F2", "F3", "F5", "H1", "I2", "K6"},
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, before := inUse(t)
			right, _ := open(t, store)
			other, _ := open(t, store)
			wrong := &broken{WalStorageManager: right}
			test.spoil(wrong, right)
			var ran []string
			err := check.Check(t.Context(), wrong, check.Options{Other: other, Progress: func(r check.Result) { ran = append(ran, r.Case) }})

			found := violations(t, err)
			for _, id := range test.may {
				if !slices.Contains(test.want, id) {
					delete(found, id)
				}
			}
			assert.Equal(t, test.want, slices.Sorted(maps.Keys(found)), "%v", err)
			assert.Len(t, ran, 27, "cases that ran, and the cleanup")
			assert.Equal(t, before, snapshot(store))
		})
	}
}

// B4, E7: a second handle that answers from memory is reported, though the first is right.
func TestStaleOtherHandleIsReported(t *testing.T) {
	store, before := inUse(t)
	right, _ := open(t, store)
	another, _ := open(t, store)
	stale := &broken{WalStorageManager: another}
	var mu sync.Mutex
	missing := make(map[walstorage.SegmentID]error)
	stale.fetch = func(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if err := missing[id]; err != nil {
			return err
		}
		err := another.FetchSegment(ctx, id, offset, dst)
		if errors.Is(err, walstorage.ErrSegmentNotFound) {
			missing[id] = err
		}
		return err
	}
	stale.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
		return func(func(walstorage.SegmentInfo, error) bool) {}
	}
	err := check.Check(t.Context(), right, check.Options{Other: stale})
	assert.Equal(t, []string{"B4", "E7"}, slices.Sorted(maps.Keys(violations(t, err))), "%v", err)
	assert.Equal(t, before, snapshot(store))
	assert.ErrorIs(t, err, walstorage.ErrSegmentNotFound, "what the manager returned is reached")
}

// When half of all calls fail, most cases do, and everything is deleted all the same.
func TestDeletedWhenManyChecksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, before := inUse(t)
		right, _ := open(t, store)
		wrong := &broken{WalStorageManager: right}
		n := 0
		var mu sync.Mutex
		fails := func() bool {
			mu.Lock()
			defer mu.Unlock()
			n++
			return n%2 == 0
		}
		odd := errors.New("odd")
		wrong.upload = func(ctx context.Context, id walstorage.SegmentID, data []byte) error {
			err := right.UploadSegment(ctx, id, data)
			if fails() {
				return odd // though it is stored
			}
			return err
		}
		wrong.fetch = func(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
			if fails() {
				return odd
			}
			return right.FetchSegment(ctx, id, offset, dst)
		}
		wrong.remove = func(ctx context.Context, ids ...walstorage.SegmentID) error {
			if fails() {
				return odd
			}
			return right.DeleteSegments(ctx, ids...)
		}
		err := check.Check(t.Context(), wrong, check.Options{})
		found := violations(t, err)
		assert.Greater(t, len(found), 12, "%v", err)
		assert.NotContains(t, found, check.CleanupCase)
		assert.ErrorIs(t, err, odd)
		assert.Equal(t, before, snapshot(store))
	})
}

// A context that ends midway, at any call, ends the check; nothing is left, and the end is no violation of the store's.
func TestDeletedWhenCancelledMidway(t *testing.T) {
	cause := errors.New("the operator has had enough")
	for _, at := range []int{1, 2, 3, 10, 25, 40, 50} {
		synctest.Test(t, func(t *testing.T) {
			store, before := inUse(t)
			right, _ := open(t, store)
			ctx, cancel := context.WithCancelCause(t.Context())
			wrong := &broken{WalStorageManager: right}
			var mu sync.Mutex
			n := 0
			wrong.upload = func(ctx context.Context, id walstorage.SegmentID, data []byte) error {
				err := right.UploadSegment(ctx, id, data)
				mu.Lock()
				defer mu.Unlock()
				if n++; n == at {
					cancel(cause)
					return walstorage.NewError(context.Canceled, nil) // though it is stored
				}
				return err
			}
			err := check.Check(ctx, wrong, check.Options{})
			require.ErrorIs(t, err, cause, "cancelled at upload %d", at)
			assert.Empty(t, violations(t, err), "cancelled at upload %d", at)
			assert.Equal(t, before, snapshot(store), "cancelled at upload %d", at)
		})
	}
}

// A panic of the caller's own function goes on, after everything is deleted.
func TestDeletedWhenTheCallerPanics(t *testing.T) {
	store, before := inUse(t)
	right, _ := open(t, store)
	assert.Panics(t, func() {
		_ = check.Check(t.Context(), right, check.Options{Progress: func(r check.Result) {
			if r.Case == "C1" {
				panic("the caller's")
			}
		}})
	})
	assert.Equal(t, before, snapshot(store))
}

// W9: what cannot be deleted is named by its key, each segment of it, and the reason once.
func TestWhatIsLeftIsNamed(t *testing.T) {
	store := memory.NewStore()
	right, _ := open(t, store)
	wrong := &broken{WalStorageManager: right}
	locked := func(ctx context.Context, ids ...walstorage.SegmentID) error {
		failed := &walstorage.DeleteError{}
		for _, id := range ids {
			if _, err := right.StatSegment(ctx, id); err == nil { // a bucket with a lock refuses what is there
				failed.Failures = append(failed.Failures, walstorage.DeleteFailure{ID: id, Err: errors.New("locked for ever")})
			}
		}
		if len(failed.Failures) > 0 {
			return failed
		}
		return nil
	}
	wrong.remove = locked
	err := check.Check(t.Context(), wrong, check.Options{BrokerID: 77})
	found := violations(t, err)
	require.Len(t, found[check.CleanupCase], 1, "%v", err)
	var failed *walstorage.DeleteError
	assert.ErrorAs(t, found[check.CleanupCase][0], &failed)
	text := found[check.CleanupCase][0].Error()
	assert.Equal(t, 1, strings.Count(text, "locked for ever"), text)
	require.Greater(t, len(store.Keys()), 20)
	for _, key := range store.Keys() {
		relative, ok := strings.CutPrefix(key, "production/")
		require.True(t, ok, key)
		assert.True(t, strings.HasPrefix(relative, "77/"), key)
		assert.Contains(t, text, relative)
	}
	// A delete that says what it has not done says so once, and is not also accused of what is still there.
	for id, reported := range found {
		assert.LessOrEqual(t, len(reported), 2, id) // F3 deletes one after another, and at once
	}
}

// An upload that may still land is told to the logger, by its id and its key.
func TestUnclearUploadIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right, _ := open(t, memory.NewStore())
		wrong := &broken{WalStorageManager: right}
		var lost walstorage.SegmentID
		var uploads atomic.Int32
		wrong.upload = func(ctx context.Context, id walstorage.SegmentID, data []byte) error {
			if uploads.Add(1) == 2 { // the first of B1
				lost = id
				return walstorage.NewError(walstorage.ErrUnavailable, errors.New("timed out"))
			}
			return right.UploadSegment(ctx, id, data)
		}
		var log bytes.Buffer
		err := check.Check(t.Context(), wrong, check.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		assert.Equal(t, []string{"B1"}, slices.Sorted(maps.Keys(violations(t, err))))
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
		assert.Contains(t, log.String(), lost.String())
		assert.Contains(t, log.String(), "<prefix>/<cluster>/2147483647/")
	})
}

// Two checks at once on one place do not disturb each other.
func TestChecksAtOnce(t *testing.T) {
	store, before := inUse(t)
	right, _ := open(t, store)
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = check.Check(t.Context(), right, check.Options{}) })
	}
	all.Wait()
	assert.NoError(t, errors.Join(errs...))
	assert.Equal(t, before, snapshot(store))
}

// A wrong option is named, and nothing is sent.
func TestWrongOptions(t *testing.T) {
	right, driver := open(t, memory.NewStore())
	for want, options := range map[string]check.Options{
		"BrokerID": {BrokerID: -1},
		"Size":     {Size: 100},
		"Now":      {Now: func() time.Time { return time.UnixMilli(5) }},
	} {
		err := check.Check(t.Context(), right, options)
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, "Options."+want)
	}
	assert.ErrorIs(t, check.Check(t.Context(), nil, check.Options{}), walstorage.ErrInvalidArgument)
	err := check.Check(t.Context(), right, check.Options{Random: strings.NewReader("short")})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.ErrorContains(t, err, "Options.Random")
	for _, method := range []string{"Put", "Get", "Stat", "Delete", "List"} {
		assert.Zero(t, driver.Calls(method), method)
	}
}
