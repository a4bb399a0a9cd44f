package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// collect returns what a list yields, and the error that ends it.
func collect(ctx context.Context, m walstorage.WalStorageManager, options walstorage.ListOptions) (infos []walstorage.SegmentInfo, err error) {
	for info, err := range m.ListSegments(ctx, options) {
		if err != nil {
			return infos, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// ids returns the sorted ids of infos without repetitions.
func ids(infos []walstorage.SegmentInfo) []string {
	var all []string
	for _, info := range infos {
		all = append(all, info.ID.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fill stores n segments of 1 to n bytes and returns their ids, sorted.
func fill(store *memory.Store, n int) []string {
	var infos []walstorage.SegmentInfo
	for i := range n {
		id := segment(i)
		store.Put(keyOf(id), make([]byte, i+1), epoch)
		infos = append(infos, walstorage.SegmentInfo{ID: id})
	}
	return ids(infos)
}

// W10, E8, E9, E10, lance-format/lance#3771: whatever the pages look like, every segment is yielded.
func TestListIsCompleteWhateverThePages(t *testing.T) {
	tests := map[string]struct {
		driver   memory.Config
		segments int
		pages    int
	}{
		"nothing (E1)":                                   {memory.Config{}, 0, 1},
		"one page":                                       {memory.Config{}, 10, 1},
		"an exact page (E9)":                             {memory.Config{PageSize: 10}, 10, 1},
		"an exact page and one (E9)":                     {memory.Config{PageSize: 10}, 11, 2},
		"an exact page less one (E9)":                    {memory.Config{PageSize: 10}, 9, 1},
		"pages of one (E8)":                              {memory.Config{PageSize: 1}, 4, 4},
		"pages of two (E8)":                              {memory.Config{PageSize: 2}, 5, 3},
		"1,001 keys (E10)":                               {memory.Config{}, 1001, 2},
		"2,500 keys (E10)":                               {memory.Config{}, 2500, 3},
		"lance-format/lance#3771: shuffled":              {memory.Config{PageSize: 3, Shuffle: 11}, 10, 4},
		"lance-format/lance#3771: shuffled, overlapping": {memory.Config{PageSize: 3, Shuffle: 12, Overlap: true}, 10, 4},
		"overlapping":                                    {memory.Config{PageSize: 3, Overlap: true}, 10, 4},
		"the store tells no time":                        {memory.Config{NoStored: true}, 3, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, test.driver)
			want := fill(driver.Store(), test.segments)

			infos, err := collect(t.Context(), manager, walstorage.ListOptions{})

			require.NoError(t, err)
			assert.Equal(t, want, ids(infos))
			assert.Equal(t, test.pages, driver.Calls("List"))
			for _, info := range infos { // E6
				object, _ := driver.Store().Object(keyOf(info.ID))
				assert.Equal(t, int64(len(object)), info.Size)
				assert.Equal(t, test.driver.NoStored, info.Stored.IsZero())
			}
		})
	}
}

// lance-format/lance#3771: the order really is another one, or the case above shows nothing.
func TestShuffledListIsNotSorted(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{Shuffle: 11})
	fill(driver.Store(), 10)
	infos, err := collect(t.Context(), manager, walstorage.ListOptions{})
	require.NoError(t, err)
	assert.False(t, slices.IsSortedFunc(infos, func(a, b walstorage.SegmentInfo) int {
		return strings.Compare(a.ID.String(), b.ID.String())
	}))
}

// E15: a failure in the middle of a list gives neither a gap nor an end.
func TestListRetriesThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
		want := fill(driver.Store(), 9)
		driver.Fault(func(call memory.Call) memory.Fault {
			if call.Number%2 == 1 {
				return memory.Fault{Err: busy()}
			}
			return memory.Fault{}
		})

		infos, err := collect(t.Context(), manager, walstorage.ListOptions{})

		require.NoError(t, err)
		require.Equal(t, want, ids(infos))
		require.Len(t, infos, 9, "no segment twice")
		require.Equal(t, 10, driver.Calls("List"))
	})
}

// E13, E14, W10: a continuation that makes no sense is an error and neither an endless loop nor a silent end.
func TestListWithABrokenContinuation(t *testing.T) {
	t.Run("E13: the same page for ever", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
		fill(driver.Store(), 9)
		driver.Fault(func(call memory.Call) memory.Fault { return memory.Fault{RepeatPage: call.Number >= 3} })

		infos, err := collect(t.Context(), manager, walstorage.ListOptions{})

		require.Error(t, err)
		assert.NoError(t, walstorage.KindOf(err), "of no kind: not retried, reported")
		assert.ErrorContains(t, err, "token")
		assert.Equal(t, 3, driver.Calls("List"))
		assert.Len(t, infos, 6)
	})

	t.Run("E13: the first page for ever", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
		fill(driver.Store(), 9)
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{RepeatPage: true} })

		_, err := collect(t.Context(), manager, walstorage.ListOptions{})

		require.ErrorContains(t, err, "token")
		assert.LessOrEqual(t, driver.Calls("List"), 2)
	})

	t.Run("E13: in a circle", func(t *testing.T) {
		circle := map[string]string{"": "a", "a": "b", "b": "c", "c": "a"}
		requests := 0
		manager := manage(t, &stub{list: func(_ context.Context, _, token string) ([]objectstore.Object, string, error) {
			requests++
			return nil, circle[token], nil
		}}, objectstore.Config{})

		_, err := collect(t.Context(), manager, walstorage.ListOptions{})

		require.ErrorContains(t, err, "token")
		assert.Equal(t, 4, requests)
	})

	t.Run("E13: once, by a page that was repeated for another reason, is complete all the same", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
		want := fill(driver.Store(), 5)
		driver.Fault(memory.Sequence("List", memory.Fault{RepeatPage: true}))

		infos, err := collect(t.Context(), manager, walstorage.ListOptions{})

		require.NoError(t, err, "the first page has no token of its own that could be told again")
		assert.Equal(t, want, ids(infos))
	})

	t.Run("E14: more, and no token", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
		fill(driver.Store(), 9)
		driver.Fault(memory.Sequence("List", memory.Fault{}, memory.Fault{NoToken: true}))

		_, err := collect(t.Context(), manager, walstorage.ListOptions{})

		require.ErrorContains(t, err, "no continuation token")
		assert.Equal(t, 2, driver.Calls("List"))
	})
}

// W10, E2, E16, A5: what is no segment of this cluster is passed over, whatever it is called, and reported once by its
// name where it lies in the cluster's place.
func TestListSkipsForeignObjects(t *testing.T) {
	store := memory.NewStore()
	var foreign []string
	var lines bytes.Buffer
	manager, _ := newManager(t, objectstore.Config{
		Prefix: "wal", Logger: slog.New(slog.NewTextHandler(&lines, nil)),
		Hooks: walstorage.Hooks{ForeignObject: func(key string) { foreign = append(foreign, key) }},
	}, memory.Config{Store: store})
	other, _ := newManager(t, objectstore.Config{Prefix: "wal", Cluster: "test2"}, memory.Config{Store: store})
	nested, _ := newManager(t, objectstore.Config{Prefix: "wal/test", Cluster: "test"}, memory.Config{Store: store})
	require.NoError(t, manager.UploadSegment(t.Context(), segment(1), []byte("a")))
	require.NoError(t, other.UploadSegment(t.Context(), segment(2), []byte("b")))
	require.NoError(t, nested.UploadSegment(t.Context(), segment(3), []byte("c")))
	for _, key := range []string{"wal/test/README", "wal/test/1/2026070412/30/x.wal", "wal/test/1/2026070412/30/", "wal/testing", "zzz"} {
		store.Put(key, []byte("foreign"), epoch)
	}

	infos, err := collect(t.Context(), manager, walstorage.ListOptions{})

	require.NoError(t, err)
	require.Equal(t, []walstorage.SegmentInfo{{ID: segment(1), Size: 1, Stored: infos[0].Stored}}, infos)
	_, err = collect(t.Context(), manager, walstorage.ListOptions{})
	require.NoError(t, err)
	inside := func(key string) bool { return !strings.HasSuffix(key, "wal/testing") && key != "zzz" }
	require.Len(t, foreign, 4, "three of the test's own, and the nested cluster's segment; each once")
	for _, key := range foreign {
		require.True(t, inside(key), key)
		require.Equal(t, 1, strings.Count(lines.String(), "key="+key+"\n"), lines.String())
	}
}

// A list with bounds asks for the hours between them, and yields what the bounds select.
func TestListOptions(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	for hour := range 5 {
		for broker := range int32(2) {
			id := segmentOf(broker, hour, epoch.Add(time.Duration(hour)*time.Hour))
			require.NoError(t, manager.UploadSegment(t.Context(), id, nil))
		}
	}
	var asked []string
	driver.Fault(func(call memory.Call) memory.Fault { asked = append(asked, call.Key); return memory.Fault{} })
	broker := int32(1)

	infos, err := collect(t.Context(), manager, walstorage.ListOptions{
		BrokerID: &broker, CreatedAfter: epoch.Add(time.Hour), CreatedBefore: epoch.Add(3 * time.Hour),
	})

	require.NoError(t, err)
	assert.Len(t, infos, 2)
	for _, info := range infos {
		assert.Equal(t, broker, info.ID.BrokerID)
	}
	assert.Equal(t, []string{"test/1/2026070413/", "test/1/2026070414/", "test/1/2026070415/"}, asked)

	t.Run("a broker id that cannot be", func(t *testing.T) {
		negative := int32(-1)
		_, err := collect(t.Context(), manager, walstorage.ListOptions{BrokerID: &negative})
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	})
	t.Run("bounds with nothing between them cost no request", func(t *testing.T) {
		before := driver.Calls("List")
		infos, err := collect(t.Context(), manager, walstorage.ListOptions{BrokerID: &broker, CreatedAfter: epoch, CreatedBefore: epoch})
		require.NoError(t, err)
		require.Empty(t, infos)
		require.Equal(t, before, driver.Calls("List"))
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = collect(cancelled, manager, walstorage.ListOptions{BrokerID: &broker, CreatedAfter: epoch, CreatedBefore: epoch})
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("the broker is the one at the call", func(t *testing.T) {
		broker := int32(1)
		seq := manager.ListSegments(t.Context(), walstorage.ListOptions{BrokerID: &broker})
		broker = 0
		for info, err := range seq {
			require.NoError(t, err)
			require.Equal(t, int32(1), info.ID.BrokerID)
		}
	})
}

// E11, E23: what is stored and deleted while a list runs, by its own loop too, disturbs nothing else.
func TestListWhileTheStoreChanges(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 3})
	want := fill(driver.Store(), 20)
	var seen []walstorage.SegmentInfo
	for info, err := range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
		require.NoError(t, err)
		seen = append(seen, info)
		require.NoError(t, manager.DeleteSegments(t.Context(), info.ID))
		require.NoError(t, manager.UploadSegment(t.Context(), segment(100+len(seen)), nil))
		if len(seen) > 40 {
			break
		}
	}
	for _, id := range want {
		assert.Contains(t, ids(seen), id)
	}
}

// E17, E18, E22, W10: each range is a list of its own, several at once do not mix, and a loop that is left early asks
// for nothing more.
func TestRangesAreIndependent(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{PageSize: 2})
	want := fill(driver.Store(), 7)
	seq := manager.ListSegments(t.Context(), walstorage.ListOptions{})
	require.Zero(t, driver.Calls("List"), "nothing happens before the range")

	for range seq {
		break
	}
	require.Equal(t, 1, driver.Calls("List"))

	results := make([][]walstorage.SegmentInfo, 8)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			for info, err := range seq {
				if assert.NoError(t, err) {
					results[i] = append(results[i], info)
				}
			}
		})
	}
	all.Wait()
	for _, infos := range results {
		require.Equal(t, want, ids(infos))
		require.Len(t, infos, 7)
	}

	t.Run("E17: cancelled in the middle", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		n := 0
		for _, err := range manager.ListSegments(ctx, walstorage.ListOptions{}) {
			if last = err; err == nil {
				n++
				cancel()
			}
		}
		require.ErrorIs(t, last, context.Canceled)
		require.Equal(t, 2, n, "the page that was there is yielded whole")
	})
	t.Run("E19: a panic of the loop comes through unchanged", func(t *testing.T) {
		why := errors.New("the caller's")
		require.PanicsWithValue(t, why, func() {
			for range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
				panic(why)
			}
		})
	})
}

func TestNextToken(t *testing.T) {
	for _, test := range []struct {
		more        bool
		token, want string
		fails       bool
	}{
		{false, "", "", false},
		{false, "ignored", "", false},
		{true, "t", "t", false},
		{true, "", "", true},
	} {
		t.Run(fmt.Sprint(test.more, test.token), func(t *testing.T) {
			next, err := objectstore.NextToken(test.more, test.token)
			assert.Equal(t, test.want, next)
			assert.Equal(t, test.fails, err != nil)
		})
	}
}
