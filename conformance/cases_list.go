package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// skewAllowed is how far the store's own time of storing may lie from this machine's. Stores that sign requests refuse
// clocks that are farther off.
const skewAllowed = 15 * time.Minute

// Group E: lists are complete and hold nothing else. They are not ordered.
var listCases = []testCase{
	{
		id: "E1", priority: 1, rule: "W10",
		title: "the list of an empty place is empty and no error",
		run: func(c *T) {
			m := c.open()
			broker := int32(7)
			for name, options := range map[string]walstorage.ListOptions{
				"everything":               {},
				"a broker":                 {BrokerID: &broker},
				"an hour of a broker":      {BrokerID: &broker, CreatedAfter: time.Now().Add(-time.Hour), CreatedBefore: time.Now()},
				"bounds that hold nothing": {CreatedAfter: time.Now(), CreatedBefore: time.Now().Add(-time.Hour)},
			} {
				c.wantListed(m, options, nil, "an empty place, "+name)
			}
			c.uploadNew(m, []byte("data"))
			c.wantListed(m, walstorage.ListOptions{BrokerID: &broker}, nil, "a broker that has stored nothing, beside one that has")
		},
	},
	{
		id: "E3", priority: 1, rule: "W10",
		title: "brokers, epochs and hours whose names begin alike are kept apart",
		costs: "The sweeper of broker 1 deletes what broker 10 has stored.",
		run: func(c *T) {
			m := c.open()
			hour := time.Now().Truncate(time.Hour)
			byBroker := make(map[int32][]walstorage.SegmentID)
			for _, broker := range []int32{0, 1, 10, 11, 100, 111} {
				for _, epoch := range []int64{0, 1, 10, 11} {
					id := c.newIDAt(broker, epoch, hour.Add(time.Duration(epoch)*time.Minute))
					c.upload(m, id, []byte{byte(broker), byte(epoch)})
					byBroker[broker] = append(byBroker[broker], id)
				}
			}
			for broker, ids := range byBroker {
				c.wantListed(m, walstorage.ListOptions{BrokerID: &broker}, ids, fmt.Sprintf("broker %d", broker))
				c.wantListed(m, walstorage.ListOptions{BrokerID: &broker, CreatedAfter: hour, CreatedBefore: hour.Add(time.Hour)}, ids,
					fmt.Sprintf("broker %d with bounds", broker))
			}
		},
	},
	{
		id: "E6", priority: 1, rule: "W10",
		title: "sizes are right in lists, and the store's time, where it tells one, is the time of storing",
		costs: "The sweeper ages a segment by the store's time: one that is wrong deletes segments early or never.",
		run: func(c *T) {
			m := c.open()
			var ids []walstorage.SegmentID
			sizes := make(map[walstorage.SegmentID]int64)
			begin := time.Now()
			for _, size := range []int{0, 1, 1000, 70_000} {
				size = c.size(size)
				id := c.uploadNew(m, c.bytes(size))
				ids = append(ids, id)
				sizes[id] = int64(size)
			}
			end := time.Now()
			listed := c.wantListed(m, walstorage.ListOptions{}, ids, "four sizes")
			again := c.wantListed(c.open(), walstorage.ListOptions{}, ids, "four sizes, on another handle")
			for id, infos := range listed {
				stat, err := m.StatSegment(c.Context(), id)
				require.NoError(c, err)
				for _, info := range infos {
					require.True(c, info.Stored.Equal(again[id][0].Stored), "the time of storing is %v in one list and %v in the next", info.Stored, again[id][0].Stored)
					require.Equal(c, sizes[id], info.Size, "size told by the list")
					require.Equal(c, stat.Stored.IsZero(), info.Stored.IsZero(), "StatSegment tells %v, the list %v", stat.Stored, info.Stored)
					if !info.Stored.IsZero() {
						require.WithinDuration(c, stat.Stored, info.Stored, 2*time.Second, "time told by StatSegment and by the list")
						require.WithinRange(c, info.Stored, begin.Add(-skewAllowed), end.Add(skewAllowed), "time of storing")
					}
				}
			}
		},
	},
	{
		id: "E7", priority: 1, rule: "W10", // thanos-io/thanos#1331
		title: "a list sees every upload and delete that has returned before it, on any handle",
		run: func(c *T) {
			one, two := c.open(), c.open()
			var there []walstorage.SegmentID
			for round := range 10 {
				id := c.newID()
				c.upload(one, id, c.bytes(100))
				there = append(there, id)
				c.wantListed(one, walstorage.ListOptions{}, there, fmt.Sprintf("round %d, after an upload", round))
				c.wantListed(two, walstorage.ListOptions{}, there, fmt.Sprintf("round %d, after an upload on another handle", round))
				if round%3 == 2 {
					require.NoError(c, two.DeleteSegments(c.Context(), there[0]))
					there = there[1:]
					c.wantListed(one, walstorage.ListOptions{}, there, fmt.Sprintf("round %d, after a delete on another handle", round))
					c.wantListed(two, walstorage.ListOptions{}, there, fmt.Sprintf("round %d, after a delete", round))
				}
			}
		},
	},
	{
		id: "E8", priority: 1, rule: "W10", needs: needDriver,
		title: "pages of one, two and three segments, and empty pages, are all followed",
		run: func(c *T) {
			ids := c.storeMany(7)
			for _, size := range []int{1, 2, 3} {
				for _, empty := range []bool{false, true} {
					m := c.openFaulty(paged(size, empty))
					c.wantListed(m, walstorage.ListOptions{}, ids, fmt.Sprintf("pages of %d, empty ones between: %t", size, empty))
				}
			}
		},
	},
	{
		id: "E9", priority: 1, rule: "W10", needs: needDriver,
		title: "nothing is lost where the list ends exactly with a page, or one segment before or after",
		run: func(c *T) {
			const size = 5
			var ids []walstorage.SegmentID
			for n := 1; n <= 2*size+1; n++ {
				ids = append(ids, c.storeMany(1)...)
				c.wantListed(c.openFaulty(paged(size, false)), walstorage.ListOptions{}, ids, fmt.Sprintf("%d segments in pages of %d", n, size))
			}
		},
	},
	{
		id: "E10", priority: 1, rule: "W10",
		title: "a list of several pages of the store is complete, also where it ends with a page, or one segment before or after",
		run: func(c *T) {
			ids := c.storeMany(c.storage.cfg.ListLarge)
			m := c.open()
			broker := int32(1)
			for len(ids) > max(c.storage.cfg.ListLarge-3, 0) {
				c.wantListed(m, walstorage.ListOptions{}, ids, "a long list")
				c.wantListed(m, walstorage.ListOptions{BrokerID: &broker}, ids, "a long list of one broker")
				require.NoError(c, m.DeleteSegments(c.Context(), ids[0]))
				ids = ids[1:]
			}
		},
	},
	{
		id: "E11", priority: 2, rule: "W10",
		title: "segments stored and deleted during a list do not keep the others out of it",
		run: func(c *T) {
			m, other := c.open(), c.open()
			// More than a page stays. What goes are segments that the list has yielded already, so that its later pages hold
			// fewer before them, others that come before and behind, and new ones come.
			const some = 20
			all := c.storeMany(c.storage.cfg.ListLarge + 3*some)
			found, gone := make(map[walstorage.SegmentID]bool), make(map[walstorage.SegmentID]bool)
			n := 0
			for info, err := range m.ListSegments(c.Context(), walstorage.ListOptions{}) {
				require.NoError(c, err)
				found[info.ID] = true
				if n < 2*some && !gone[info.ID] {
					gone[info.ID] = true
					require.NoError(c, other.DeleteSegments(c.Context(), info.ID))
				}
				if n < some {
					gone[all[n]] = true
					require.NoError(c, other.DeleteSegments(c.Context(), all[n]))
					c.uploadNew(other, []byte("new"))
				}
				if n++; n > 10*len(all) {
					c.Fatal(errEndless)
				}
			}
			for _, id := range all {
				require.True(c, found[id] || gone[id], "segment %s was there all the time and is not in the list", id)
			}
		},
	},
	{
		id: "E13", priority: 1, rule: "W10", needs: needDriver,
		title: "a continuation token that comes again is an error and no endless loop",
		costs: "The sweeper never ends, and asks the store the same question as fast as it answers, which costs money.",
		run: func(c *T) {
			ids := c.storeMany(3)
			faults := &faultDriver{}
			faults.onList = func(n int, call listCall) ([]objectstore.Object, string, error) {
				call.token = ""
				page, _, err := call.driver.List(call.ctx, call.prefix, "")
				if n > 100 {
					return nil, "", errors.New("the list was not given up")
				}
				return page, "again", err
			}
			m := c.openFaulty(faults)
			_, err := c.list(m, walstorage.ListOptions{})
			require.Error(c, err, "a list whose token repeats, over %d segments", len(ids))
			require.NotErrorIs(c, err, errEndless)
			require.LessOrEqual(c, faults.calls("List"), 10, "pages asked for, though the token repeats")
		},
	},
	{
		id: "E14", priority: 1, rule: "W10", needs: needDriver,
		title: "a page that says \"more\" without a continuation token is an error, and not the end of the list",
		run: func(c *T) {
			c.storeMany(3)
			faults := &faultDriver{}
			faults.onList = func(_ int, call listCall) ([]objectstore.Object, string, error) {
				page, _, err := call.driver.List(call.ctx, call.prefix, "")
				if err != nil {
					return nil, "", err
				}
				next, err := objectstore.NextToken(true, "")
				return page, next, err
			}
			_, err := c.list(c.openFaulty(faults), walstorage.ListOptions{})
			require.Error(c, err, "a list of which the store says that there is more and not where")
		},
	},
	{
		id: "E15", priority: 1, rule: "W10", needs: needDriver,
		title: "a page that fails and is asked for again leaves no gap",
		run: func(c *T) {
			ids := c.storeMany(9)
			faults := paged(2, false)
			pages := faults.onList
			faults.onList = func(n int, call listCall) ([]objectstore.Object, string, error) {
				if n%2 == 1 {
					return nil, "", walstorage.NewError(walstorage.ErrUnavailable, errors.New("503 slow down"))
				}
				return pages(n, call)
			}
			c.wantListed(c.openFaulty(faults), walstorage.ListOptions{}, ids, "every page fails once")
		},
	},
	{
		id: "E16", priority: 1, rule: "W10",
		title: "lists hold segments only: no temporaries, no sidecars, no folders, no foreign objects, which also stay where they are",
		costs: "Something that is no segment is deleted by the sweeper, or read by a tool as one.",
		run: func(c *T) {
			m := c.open()
			ids := c.storeMany(5)
			want := slices.Clone(ids)
			ids = append(ids, c.newID())
			c.upload(m, ids[5], c.bytes(100))
			require.NoError(c, m.DeleteSegments(c.Context(), ids[5]))
			c.wantListed(m, walstorage.ListOptions{}, want, "after uploads and a delete")
			require.Empty(c, c.residue(), "left by uploads and a delete")
			if c.storage.cfg.Driver == nil {
				return
			}
			driver := c.driver()
			base := c.storage.home.prefix + "/" + c.storage.home.cluster + "/"
			right := c.key(ids[0])
			foreign := []string{
				base + "README.txt",
				base + "1/notes.wal",
				base + "one/2026010100/00/0-00000000-0000-7000-8000-000000000000.wal",
				right + ".tmp",
				right[:len(right)-len(".wal")] + ".log",
			}
			for _, key := range foreign {
				require.NoError(c, put(c.Context(), driver, key, []byte("foreign")), "storing a foreign object %s", key)
			}
			c.wantListed(m, walstorage.ListOptions{}, want, "beside foreign objects")
			require.NoError(c, m.DeleteSegments(c.Context(), ids...))
			c.wantListed(m, walstorage.ListOptions{}, nil, "beside foreign objects, all segments deleted")
			keys, err := rawKeys(c.Context(), driver, base)
			require.NoError(c, err)
			require.ElementsMatch(c, foreign, keys, "foreign objects after every segment was deleted")
			for _, key := range foreign { // one by one, since a driver may take no more at once
				require.NoError(c, driver.Delete(c.Context(), []string{key}))
			}
		},
	},
	{
		id: "E17", priority: 1, rule: "W8",
		title: "a list ends with the context error when it is cancelled before, during or at the end",
		run: func(c *T) {
			ids := c.storeMany(20)
			m := c.open()
			for _, at := range []int{0, 1, 10, 20} {
				ctx, cancel := context.WithCancel(c.Context())
				if at == 0 {
					cancel()
				}
				n, failed := 0, false
				for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
					require.False(c, failed, "the list goes on after its error")
					if err != nil {
						failed = true
						c.wantKind(err, context.Canceled, fmt.Sprintf("cancelled after %d segments", at))
						continue
					}
					if n++; n == at {
						cancel()
					}
					require.LessOrEqual(c, n, 4*len(ids), "segments listed")
				}
				cancel()
				if at == 0 {
					require.True(c, failed && n == 0, "a list whose context was cancelled before it began yielded %d segments and no error", n)
				}
			}
			if c.storage.cfg.Driver == nil {
				return
			}
			// Where a list has more than one page, the next is not asked for.
			faults := paged(1, false)
			m = c.openFaulty(faults)
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			var last error
			for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
				cancel()
				last = err
			}
			c.wantKind(last, context.Canceled, "cancelled at the first of twenty pages")
			require.Less(c, faults.calls("List"), 5, "pages asked for after the cancel")
		},
	},
	{
		id: "E18", priority: 1, rule: "W10",
		title: "a caller that stops early leaves nothing behind, and the next list is complete",
		run: func(c *T) {
			ids := c.storeMany(10)
			m := c.open()
			list := m.ListSegments(c.Context(), walstorage.ListOptions{})
			for range 50 {
				for _, err := range list {
					require.NoError(c, err)
					break
				}
			}
			n := make(map[walstorage.SegmentID]bool)
			for info, err := range list { // each range is a new list
				require.NoError(c, err)
				n[info.ID] = true
			}
			require.Len(c, n, len(ids), "segments of the same sequence, ranged over again after stopping early")
		},
	},
	{
		id: "E20", priority: 1, rule: "W10",
		title: "the extreme ids survive the way through a list and can be read",
		run: func(c *T) {
			m := c.open()
			var ids []walstorage.SegmentID
			contents := make(map[walstorage.SegmentID][]byte)
			for _, created := range []time.Time{
				time.UnixMilli(0), time.UnixMilli(1), time.Now(), time.UnixMilli(1<<48 - 1),
				time.Date(2027, 12, 31, 23, 59, 59, 999e6, time.UTC), time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC),
			} {
				for _, broker := range []int32{0, math.MaxInt32} {
					for _, epoch := range []int64{0, math.MaxInt64} {
						id := c.newIDAt(broker, epoch, created)
						contents[id] = c.bytes(20)
						c.upload(m, id, contents[id])
						ids = append(ids, id)
					}
				}
			}
			for id := range c.wantListed(m, walstorage.ListOptions{}, ids, "extreme ids") {
				c.wantWhole(m, id, contents[id], "an id as the list yields it")
			}
		},
	},
	{
		id: "E22", priority: 2, rule: "W12",
		title: "two lists at once on one handle do not disturb each other",
		run: func(c *T) {
			ids := c.storeMany(30)
			m := c.open()
			for range m.ListSegments(c.Context(), walstorage.ListOptions{}) {
				c.wantListed(m, walstorage.ListOptions{}, ids, "a list inside a list")
				break
			}
			problems := make([]error, 8)
			c.together(len(problems), func(i int) {
				found, err := c.list(m, walstorage.ListOptions{})
				if err == nil && len(found) != len(ids) {
					err = fmt.Errorf("%d segments instead of %d", len(found), len(ids))
				}
				problems[i] = err
			})
			for _, err := range problems {
				require.NoError(c, err, "one of eight lists at once")
			}
		},
	},
	{
		id: "E23", priority: 2, rule: "W10",
		title: "segments can be deleted while ranging over their own list",
		costs: "The sweeper does just that, and would skip every second segment.",
		run: func(c *T) {
			ids := c.storeMany(40)
			m := c.open()
			found := make(map[walstorage.SegmentID]bool)
			for info, err := range m.ListSegments(c.Context(), walstorage.ListOptions{}) {
				require.NoError(c, err)
				found[info.ID] = true
				require.NoError(c, m.DeleteSegments(c.Context(), info.ID))
				require.LessOrEqual(c, len(found), len(ids))
			}
			require.Len(c, found, len(ids), "segments listed while each was deleted")
			c.wantListed(m, walstorage.ListOptions{}, nil, "after all were deleted")
		},
	},
	{
		id: "E25", priority: 1, rule: "W10",
		title: "the options of a list select by broker and creation time exactly, across hours and days",
		costs: "The sweeper lists by these bounds: what falls between them is never deleted, or is deleted too early.",
		run: func(c *T) {
			m := c.open()
			base := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) // an hour, a day and a month begin here
			offsets := []time.Duration{
				-72 * time.Hour, -time.Hour, -time.Minute, -time.Millisecond, 0, time.Millisecond, time.Minute,
				time.Hour - time.Millisecond, time.Hour, 25 * time.Hour, 72 * time.Hour,
			}
			var all []walstorage.SegmentID
			for _, broker := range []int32{1, 12} {
				for _, offset := range offsets {
					id := c.newIDAt(broker, 3, base.Add(offset))
					all = append(all, id)
					c.upload(m, id, []byte{1})
				}
			}
			bounds := []time.Time{
				{},
				base.Add(-72 * time.Hour), base.Add(-time.Millisecond), base, base.Add(time.Hour), base.Add(80 * time.Hour),
				base.Add(time.Minute).In(time.FixedZone("east", 5*3600+1800)),
			}
			one, none := int32(1), int32(2)
			for _, broker := range []*int32{nil, &one, &none} {
				for _, after := range bounds {
					for _, before := range bounds {
						options := walstorage.ListOptions{BrokerID: broker, CreatedAfter: after, CreatedBefore: before}
						var want []walstorage.SegmentID
						for _, id := range all {
							if options.Match(id) {
								want = append(want, id)
							}
						}
						name := "every broker"
						if broker != nil {
							name = fmt.Sprintf("broker %d", *broker)
						}
						c.wantListed(m, options, want, fmt.Sprintf("%s, from %v to %v", name, after, before))
					}
				}
			}
		},
	},
}

// storeMany stores n small segments of broker 1, several at once, and returns their ids.
func (c *T) storeMany(n int) []walstorage.SegmentID {
	const workers = 16
	m := c.open()
	ids := c.newIDs(n)
	var errs recordedErrors
	c.together(min(workers, n), func(worker int) {
		for i := worker; i < n; i += workers {
			errs.add(m.UploadSegment(c.Context(), ids[i], []byte{byte(i), byte(i >> 8)}))
		}
	})
	require.Empty(c, errs.errs, "storing %d segments", n)
	return ids
}

// paged returns faults that cut the driver's lists into pages of the size given, with an empty page after each if
// empty is set.
func paged(size int, empty bool) *faultDriver {
	faults := &faultDriver{}
	faults.onList = func(_ int, call listCall) ([]objectstore.Object, string, error) {
		var all []objectstore.Object
		for token := ""; ; {
			page, next, err := call.driver.List(call.ctx, call.prefix, token)
			if err != nil {
				return nil, "", err
			}
			all = append(all, page...)
			if token = next; token == "" {
				break
			}
		}
		sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
		// The token is the last key given out, and a mark after an empty page.
		after, resumed := call.token, false
		if empty && after != "" && after[len(after)-1] == '!' {
			after, resumed = after[:len(after)-1], true
		}
		if empty && after != "" && !resumed {
			return nil, after + "!", nil
		}
		start := sort.Search(len(all), func(i int) bool { return all[i].Key > after })
		page := all[start:]
		if len(page) <= size {
			return page, "", nil
		}
		return page[:size], page[size-1].Key, nil
	}
	return faults
}
