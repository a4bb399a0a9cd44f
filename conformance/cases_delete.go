package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Group F: what is deleted is gone, what is not is named, and nothing else is touched.
var deleteCases = []testCase{
	{
		id: "F1", priority: 1, rule: "W9",
		title: "a deleted segment is gone for reads, ranges, stats and lists, on every handle",
		run: func(c *T) {
			one, two := c.open(), c.open()
			for range 5 {
				data := c.bytes(1000)
				id := c.uploadNew(one, data)
				c.wantWhole(two, id, data, "before the delete")
				require.NoError(c, one.DeleteSegments(c.Context(), id))
				for _, m := range []*handle{one, two} {
					c.wantMissing(m, id, "deleted")
					err := m.FetchSegment(c.Context(), id, 500, make([]byte, 10))
					c.wantKind(err, walstorage.ErrSegmentNotFound, "a range of a deleted segment")
					c.wantListed(m, walstorage.ListOptions{}, nil, "after the delete")
				}
			}
		},
	},
	{
		id: "F2", priority: 1, rule: "W9",
		title: "deleting a segment that does not exist is success (yandex/ch-backup#69)",
		run: func(c *T) {
			m := c.open()
			require.NoError(c, m.DeleteSegments(c.Context(), c.newID()), "in an empty place")
			id := c.uploadNew(m, c.bytes(10))
			missing := c.newID()
			require.NoError(c, m.DeleteSegments(c.Context(), missing, id), "one that is missing and one that is there")
			c.wantMissing(m, id, "deleted together with a missing one")
		},
	},
	{
		id: "F3", priority: 1, rule: "W9",
		title: "deleting twice, one after the other and at once, is success",
		run: func(c *T) {
			one, two := c.open(), c.open()
			id := c.uploadNew(one, c.bytes(100))
			require.NoError(c, one.DeleteSegments(c.Context(), id), "the first delete")
			require.NoError(c, one.DeleteSegments(c.Context(), id), "the second delete")
			for range 10 {
				id := c.uploadNew(one, c.bytes(100))
				errs := make([]error, 8)
				c.together(len(errs), func(i int) { errs[i] = []*handle{one, two}[i%2].DeleteSegments(c.Context(), id) })
				for _, err := range errs {
					require.NoError(c, err, "one of eight deletes of one segment at once")
				}
				c.wantMissing(two, id, "deleted eight times at once")
			}
		},
	},
	{
		id: "F4", priority: 1, rule: "W9",
		title: "a delete touches exactly the segments that it names",
		costs: "Segments that followers still need are gone; each costs a fallback to the leader across zones.",
		run: func(c *T) {
			m := c.open()
			created := time.Now()
			var ids []walstorage.SegmentID
			for _, broker := range []int32{1, 10, 11} {
				for _, epoch := range []int64{1, 10, 11} {
					id := c.newIDAt(broker, epoch, created) // all in one minute of their broker
					c.upload(m, id, []byte{byte(broker), byte(epoch)})
					ids = append(ids, id)
				}
			}
			// Two ids that differ in the epoch alone are two segments.
			twin := ids[0]
			twin.BrokerEpoch = 12
			c.storage.mu.Lock()
			c.storage.ids = append(c.storage.ids, twin)
			c.storage.mu.Unlock()
			c.upload(m, twin, []byte("twin"))
			for len(ids) > 0 {
				require.NoError(c, m.DeleteSegments(c.Context(), ids[0]))
				ids = ids[1:]
				c.wantListed(m, walstorage.ListOptions{}, append(slices.Clone(ids), twin), "after a delete")
			}
			c.wantWhole(m, twin, []byte("twin"), "after its twin of another epoch was deleted")
			if c.storage.cfg.Driver != nil {
				c.neighbours(m)
			}
		},
	},
	{
		id: "F5", priority: 1, rule: "W9",
		title: "no ids send no request; 1, 1,000 and 1,001 ids and repeated ids are all deleted",
		run: func(c *T) {
			m := c.open()
			stays := c.uploadNew(m, []byte("stays"))
			c.countsRequests(m)
			c.noRequest(m, "a delete of no segments", func() {
				require.NoError(c, m.DeleteSegments(c.Context()), "a delete of no segments")
			})
			for _, n := range []int{1, 1000, 1001} {
				// Most of the ids name nothing: they count as deleted, and cost no upload.
				ids := c.newIDs(n)
				for _, i := range []int{0, n / 2, n - 1} {
					c.upload(m, ids[i], []byte{1})
				}
				require.NoError(c, m.DeleteSegments(c.Context(), ids...), "a delete of %d ids", n)
				c.wantListed(m, walstorage.ListOptions{}, []walstorage.SegmentID{stays}, fmt.Sprintf("after a delete of %d ids", n))
			}
			id := c.uploadNew(m, []byte{1})
			require.NoError(c, m.DeleteSegments(c.Context(), id, id, id), "one id three times")
			c.wantMissing(m, id, "deleted three times in one call")
		},
	},
	{
		id: "F6", priority: 1, rule: "W9", needs: needUndeletable,
		title: "a segment that the store refuses to delete is named in a *DeleteError, and the others are gone",
		run: func(c *T) {
			setup := c.open()
			ids := []walstorage.SegmentID{c.uploadNew(setup, []byte{1}), c.uploadNew(setup, []byte{2}), c.uploadNew(setup, []byte{3})}
			m := c.wrap(c.storage.cfg.Undeletable(c, c.storage.home.config(), ids[1]))
			err := m.DeleteSegments(c.Context(), ids...)
			c.wantDeleteError(err, ids[1:2], "one of three cannot be deleted")
			c.wantListed(setup, walstorage.ListOptions{}, ids[1:2], "after a delete of three of which one was refused")
			switch {
			case errors.Is(err, walstorage.ErrSegmentNotFound):
				c.Errorf("a refused delete calls the segment missing: %v", err)
			case errors.Is(err, walstorage.ErrUnavailable):
				c.Errorf("a refused delete is told as a store that is down, and is tried again for nothing: %v", err)
			}
		},
	},
	{
		id: "F7", priority: 2, rule: "W9", needs: needDriver,
		title: "a bulk delete that is cancelled names every segment that it has not deleted, those not tried included",
		run: func(c *T) {
			ids := c.storeMany(30)
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			faults := &faultDriver{keysPerDelete: 10}
			faults.onDelete = func(n int, call deleteCall) error {
				err := call.next()
				if n == 1 {
					cancel()
				}
				return err
			}
			m := c.openFaulty(faults)
			err := m.DeleteSegments(ctx, ids...)
			c.wantKind(err, context.Canceled, "a bulk delete cancelled after its first request")
			found, listErr := c.list(c.open(), walstorage.ListOptions{})
			require.NoError(c, listErr)
			named := failedIDs(err)
			for id := range found {
				require.Contains(c, named, id, "a segment that is still there is not named")
			}
			require.NotEmpty(c, found, "segments that were not tried")
		},
	},
	{
		id: "F8", priority: 2, rule: "W6",
		title: "a delete beside a fetch: the fetch has the whole segment, or finds none",
		costs: "A follower that is late reads the segment while the sweeper takes it away, and takes what is left in its buffer for records.",
		run: func(c *T) {
			reader, deleter := c.open(), c.open()
			size := c.size(256 << 10)
			for round := range 20 {
				data := c.bytes(size)
				id, dst := c.uploadNew(deleter, data), make([]byte, size)
				reused(dst) // as if it had been filled before
				var fetchErr, deleteErr error
				c.together(2, func(i int) {
					if i == 0 {
						fetchErr = reader.FetchSegment(c.Context(), id, 0, dst)
						return
					}
					<-time.After(time.Duration(round) * 20 * time.Microsecond)
					deleteErr = deleter.DeleteSegments(c.Context(), id)
				})
				situation := fmt.Sprintf("round %d, a fetch beside a delete", round)
				require.NoError(c, deleteErr, situation)
				if fetchErr == nil {
					c.wantBytes(data, dst, situation)
				} else {
					c.wantKind(fetchErr, walstorage.ErrSegmentNotFound, situation)
				}
			}
		},
	},
	{
		id: "F9", priority: 1, rule: "W3",
		title: "an upload beside deletes in the same minute never fails, across processes where the configuration has a peer",
		costs: "A store that removes an empty folder while an upload is about to use it fails the upload, or loses it.",
		run: func(c *T) {
			uploader, deleter := c.open(), c.open()
			if c.storage.cfg.Peer != nil {
				deleter = c.peer()
			}
			created := time.Now()
			for round := range 40 {
				// The only other segment of its minute is deleted while the upload goes there.
				at := created.Add(time.Duration(round) * time.Minute)
				gone, data := c.newIDAt(1, 0, at), c.bytes(200)
				id := c.newIDAt(1, 0, at)
				c.upload(uploader, gone, []byte("gone"))
				var uploadErr, deleteErr error
				c.together(2, func(i int) {
					if (i+round)%2 == 0 { // of two goroutines that are let go at once one tends to be the first
						uploadErr = uploader.UploadSegment(c.Context(), id, data)
					} else {
						deleteErr = deleter.DeleteSegments(c.Context(), gone)
					}
				})
				require.NoError(c, uploadErr, "round %d: an upload beside a delete in the same minute", round)
				require.NoError(c, deleteErr, "round %d: a delete beside an upload in the same minute", round)
				c.wantWhole(deleter, id, data, fmt.Sprintf("round %d: uploaded beside a delete", round))
				c.wantMissing(uploader, gone, fmt.Sprintf("round %d: deleted beside an upload", round))
			}
		},
	},
	{
		id: "F10", priority: 1, rule: "W9", needs: needDriver,
		title: "the answer to a delete is lost: the delete is repeated and ends in success",
		run: func(c *T) {
			ids := c.storeMany(5)
			faults := &faultDriver{}
			faults.onDelete = func(n int, call deleteCall) error {
				err := call.next()
				if n == 1 && err == nil {
					return walstorage.NewError(walstorage.ErrUnavailable, errLostAnswer)
				}
				return err
			}
			m := c.openFaulty(faults)
			require.NoError(c, m.DeleteSegments(c.Context(), ids...), "a delete whose first answer is lost")
			batches := 1
			if limit := faults.Limits().KeysPerDelete; limit > 0 {
				batches = (len(ids) + limit - 1) / limit
			}
			require.Equal(c, batches+1, faults.calls("Delete"), "deletes sent")
			c.wantListed(m, walstorage.ListOptions{}, nil, "after the delete")
		},
	},
	{
		id: "F11", priority: 2, rule: "W9",
		title: "an id that names no segment is an argument error that says so",
		run: func(c *T) {
			m := c.open()
			for name, wrong := range wrongIDs(c.newID()) {
				c.wantKind(m.DeleteSegments(c.Context(), wrong), walstorage.ErrInvalidArgument, "DeleteSegments with "+name)
			}
		},
	},
	{
		id: "F12", priority: 1, rule: "W9", needs: needDriver,
		title: "a driver's failures per key come back per segment, each with its own cause; the rest of all batches is gone",
		run: func(c *T) {
			ids := c.storeMany(30)
			refused := []walstorage.SegmentID{ids[3], ids[17], ids[29]}
			refusedKeys := make(map[string]bool)
			for _, id := range refused {
				refusedKeys[c.key(id)] = true
			}
			faults := &faultDriver{keysPerDelete: 10}
			faults.onDelete = func(_ int, call deleteCall) error {
				var rest []string
				var failed objectstore.DeleteError
				for _, key := range call.keys {
					if refusedKeys[key] {
						cause := markedError{fmt.Errorf("locked: %s", key)}
						failed.Failures = append(failed.Failures, objectstore.DeleteFailure{Key: key, Err: walstorage.NewError(walstorage.ErrAccessDenied, cause)})
					} else {
						rest = append(rest, key)
					}
				}
				if len(rest) > 0 {
					if err := call.driver.Delete(call.ctx, rest); err != nil {
						return err
					}
				}
				if len(failed.Failures) > 0 {
					return &failed
				}
				return nil
			}
			m := c.openFaulty(faults)
			err := m.DeleteSegments(c.Context(), ids...)
			c.wantDeleteError(err, refused, "three of thirty are refused")
			c.wantKind(err, walstorage.ErrAccessDenied, "three of thirty are refused")
			var marked markedError
			require.True(c, err == nil || errors.As(err, &marked), "the driver's own error cannot be found behind %v", err)
			c.wantListed(m, walstorage.ListOptions{}, refused, "after a delete of thirty of which three were refused")
		},
	},
}

// neighbours is F4 for an object whose name begins with that of a segment: neither may pass for the other.
func (c *T) neighbours(m *handle) {
	driver := c.driver()
	data, beside := c.bytes(500), c.bytes(600)
	id := c.newID()
	key := c.key(id)
	neighbour := key + "0"
	require.NoError(c, put(c.Context(), driver, neighbour, beside), "storing an object whose name begins with that of a segment")
	c.wantMissing(m, id, "beside an object whose name begins with its own")
	require.NoError(c, m.DeleteSegments(c.Context(), id), "deleting a missing segment, beside an object whose name begins with its own")
	c.upload(m, id, data)
	c.wantWhole(m, id, data, "beside an object whose name begins with its own")
	require.NoError(c, m.DeleteSegments(c.Context(), id))
	c.wantMissing(m, id, "deleted, beside an object whose name begins with its own")
	dst := make([]byte, len(beside))
	require.NoError(c, driver.Get(c.Context(), neighbour, 0, dst), "an object whose name begins with that of a deleted segment")
	c.wantBytes(beside, dst, "an object whose name begins with that of a deleted segment")
	require.NoError(c, driver.Delete(c.Context(), []string{neighbour}))
}

// wantDeleteError checks that err is a *DeleteError that names exactly the ids given, each with a cause.
func (c *T) wantDeleteError(err error, ids []walstorage.SegmentID, situation string) {
	var failed *walstorage.DeleteError
	if !errors.As(err, &failed) {
		c.Fatalf("%s: got %v, want a *walstorage.DeleteError", situation, err)
	}
	var named []walstorage.SegmentID
	for _, failure := range failed.Failures {
		require.Error(c, failure.Err, "%s: segment %s is named without an error", situation, failure.ID)
		named = append(named, failure.ID)
	}
	require.ElementsMatch(c, ids, named, "%s: the segments named", situation)
}

// failedIDs returns the ids that a delete's error names.
func failedIDs(err error) []walstorage.SegmentID {
	var failed *walstorage.DeleteError
	if !errors.As(err, &failed) {
		return nil
	}
	var ids []walstorage.SegmentID
	for _, failure := range failed.Failures {
		ids = append(ids, failure.ID)
	}
	return ids
}
