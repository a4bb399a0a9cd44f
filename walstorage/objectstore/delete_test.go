package objectstore_test

import (
	"context"
	"errors"
	"slices"
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

// segments returns the ids from to to-1.
func segments(from, to int) []walstorage.SegmentID {
	var all []walstorage.SegmentID
	for n := from; n < to; n++ {
		all = append(all, segment(n))
	}
	return all
}

// failures returns the failures of a *walstorage.DeleteError by segment.
func failures(t *testing.T, err error) map[walstorage.SegmentID]error {
	t.Helper()
	var deleteError *walstorage.DeleteError
	require.ErrorAs(t, err, &deleteError)
	byID := make(map[walstorage.SegmentID]error)
	for _, failure := range deleteError.Failures {
		require.NotContains(t, byID, failure.ID, "named once")
		byID[failure.ID] = failure.Err
		e := asError(t, failure.Err)
		assert.Equal(t, failure.ID, e.ID)
		assert.Equal(t, walstorage.OpDelete, e.Op)
	}
	return byID
}

// W9, F5: any number of ids, in batches as large as the store takes; no ids, no request.
func TestDeleteInBatches(t *testing.T) {
	tests := map[string]struct {
		limit   int
		ids     []walstorage.SegmentID
		batches []int
	}{
		"none":                     {0, nil, nil},
		"one":                      {0, segments(0, 1), []int{1}},
		"1,000":                    {0, segments(0, 1000), []int{1000}},
		"1,001":                    {0, segments(0, 1001), []int{1000, 1}},
		"a store that takes three": {3, segments(0, 8), []int{3, 3, 2}},
		"a store that takes one":   {1, segments(0, 3), []int{1, 1, 1}},
		"one id three times":       {0, slices.Repeat(segments(0, 1), 3), []int{1}},
		"repeated in another batch": {
			2, append(segments(0, 3), segments(0, 3)...), []int{2, 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{KeysPerDelete: test.limit})
			fill(driver.Store(), 1500)
			var batches []int
			driver.Fault(func(call memory.Call) memory.Fault {
				batches = append(batches, len(call.Keys))
				return memory.Fault{}
			})

			require.NoError(t, manager.DeleteSegments(t.Context(), test.ids...))

			assert.Equal(t, test.batches, batches)
			distinct := map[walstorage.SegmentID]bool{}
			for _, id := range test.ids {
				distinct[id] = true
				assert.False(t, driver.Store().Remove(keyOf(id)), "F1: gone")
			}
			assert.Len(t, driver.Store().Keys(), 1500-len(distinct), "F4: and nothing else")
		})
	}

	t.Run("a driver that tells no limit", func(t *testing.T) {
		var batches []int
		manager := manage(t, &stub{del: func(_ context.Context, keys []string) error {
			batches = append(batches, len(keys))
			return nil
		}}, objectstore.Config{})
		require.NoError(t, manager.DeleteSegments(t.Context(), segments(0, 1001)...))
		require.Equal(t, []int{1000, 1}, batches)
	})
}

// yandex/ch-backup#69, apache/opendal#2941, minio/minio#9981, F2, F3: what is not there counts as deleted, also where the
// store or its driver minds; a missing bucket does not.
func TestDeleteIsIdempotent(t *testing.T) {
	missing := walstorage.NewError(walstorage.ErrSegmentNotFound, errors.New("404"))
	keyErr := func(err error) func(string) error {
		return func(key string) error {
			if key == keyOf(segment(1)) {
				return err
			}
			return nil
		}
	}
	tests := map[string]struct {
		fault memory.Fault
		ids   []walstorage.SegmentID
		want  error
	}{
		"present and missing":                        {memory.Fault{}, segments(0, 3), nil},
		"missing alone":                              {memory.Fault{}, segments(1, 2), nil},
		"the driver says not found of one key":       {memory.Fault{KeyErr: keyErr(missing)}, segments(0, 3), nil},
		"the driver says not found of its only one":  {memory.Fault{Err: missing}, segments(1, 2), nil},
		"F10: applied, and the answer lost":          {memory.Fault{ErrAfter: busy()}, segments(0, 3), nil},
		"the driver fails and names no key":          {memory.Fault{ErrAfter: &objectstore.DeleteError{}}, segments(0, 3), nil},
		"the bucket is missing":                      {memory.Fault{Err: walstorage.NewError(walstorage.ErrBucketNotFound, nil)}, segments(0, 3), walstorage.ErrBucketNotFound},
		"the driver says not found of a whole batch": {memory.Fault{Err: missing}, segments(0, 3), walstorage.ErrSegmentNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
				driver.Store().Put(keyOf(segment(0)), nil, epoch)
				driver.Fault(memory.Sequence("Delete", test.fault))

				err := manager.DeleteSegments(t.Context(), test.ids...)

				require.ErrorIs(t, err, test.want)
				if test.want != nil {
					require.Len(t, failures(t, err), len(test.ids))
					return
				}
				require.NoError(t, manager.DeleteSegments(t.Context(), test.ids...), "F3: twice")
			})
		})
	}

	t.Run("F3: twice at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
			fill(driver.Store(), 10)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { assert.NoError(t, manager.DeleteSegments(t.Context(), segments(0, 10)...)) })
			}
			all.Wait()
			require.Empty(t, driver.Store().Keys())
		})
	})
}

// Opndrive/opndrive#73, F6: a delete that answers 200 with errors for single keys. Those keys come back, each with its
// error; what may go better another time is tried again, alone; the others are done.
func TestDeleteWithErrorsPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		fill(driver.Store(), 5)
		var asked [][]string
		driver.Fault(func(call memory.Call) memory.Fault {
			asked = append(asked, call.Keys)
			return memory.Fault{KeyErr: func(key string) error {
				switch {
				case key == keyOf(segment(1)):
					return refused()
				case key == keyOf(segment(3)) && call.Number < 3:
					return busy()
				}
				return nil
			}}
		})

		err := manager.DeleteSegments(t.Context(), segments(0, 5)...)

		failed := failures(t, err)
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[segment(1)], walstorage.ErrAccessDenied)
		require.Equal(t, []string{keyOf(segment(1))}, driver.Store().Keys())
		require.Len(t, asked, 3)
		require.Len(t, asked[0], 5)
		require.Equal(t, []string{keyOf(segment(3))}, asked[1], "only what may go better")
		require.Equal(t, []string{keyOf(segment(3))}, asked[2])
		require.Equal(t, 1, asError(t, failed[segment(1)]).Attempts, "the requests sent for it")
	})
}

// A key that stays busy for ever ends its own batch within the limits, and not the batches after it.
func TestDeleteOfAStubbornKeyGoesOnWithTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{MaxAttempts: 3}, memory.Config{KeysPerDelete: 2})
		fill(driver.Store(), 4)
		driver.Fault(func(memory.Call) memory.Fault {
			return memory.Fault{KeyErr: func(key string) error {
				if key == keyOf(segment(0)) {
					return busy()
				}
				return nil
			}}
		})

		err := manager.DeleteSegments(t.Context(), segments(0, 4)...)

		failed := failures(t, err)
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[segment(0)], walstorage.ErrUnavailable)
		require.Equal(t, 3, asError(t, failed[segment(0)]).Attempts)
		require.Equal(t, []string{keyOf(segment(0))}, driver.Store().Keys())
	})
}

// W9: a store that refuses a batch as a whole is asked for the others all the same; one that does not answer is not,
// and everything not tried is named.
func TestDeleteWhenABatchFails(t *testing.T) {
	tests := map[string]struct {
		err      error
		kind     error
		failed   int
		requests int
	}{
		"refused":      {refused(), walstorage.ErrAccessDenied, 2, 3},
		"unclassified": {errors.New("odd"), nil, 2, 3},
		"busy":         {busy(), walstorage.ErrUnavailable, 6, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{MaxAttempts: 2}, memory.Config{KeysPerDelete: 2})
				fill(driver.Store(), 6)
				driver.Fault(func(call memory.Call) memory.Fault {
					if call.Keys[0] == keyOf(segment(0)) {
						return memory.Fault{Err: test.err}
					}
					return memory.Fault{}
				})

				err := manager.DeleteSegments(t.Context(), segments(0, 6)...)

				failed := failures(t, err)
				require.Len(t, failed, test.failed)
				require.Len(t, driver.Store().Keys(), test.failed)
				for _, failure := range failed {
					require.Equal(t, test.kind, walstorage.KindOf(failure))
				}
				require.Equal(t, test.requests, driver.Calls("Delete"))
			})
		})
	}
}

// F7, W9: a cancel in the middle. What was deleted is not named, everything else is, with the caller's own error.
func TestDeleteCancelledInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{KeysPerDelete: 2})
		fill(driver.Store(), 8)
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Delay: time.Second} })
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()

		err := manager.DeleteSegments(ctx, segments(0, 8)...)

		require.ErrorIs(t, err, context.DeadlineExceeded)
		failed := failures(t, err)
		require.Len(t, failed, 4)
		for _, id := range segments(4, 8) {
			require.ErrorIs(t, failed[id], context.DeadlineExceeded)
		}
		require.ErrorContains(t, failed[segment(7)], "not tried")
		require.Zero(t, asError(t, failed[segment(7)]).Attempts)
		require.Len(t, driver.Store().Keys(), 4)
	})
}

// F7: a driver that is cancelled in mid batch and tells what it had done by then is believed.
func TestDeleteCancelledInTheMiddleOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager := manage(t, &stub{del: func(ctx context.Context, keys []string) error {
			<-ctx.Done()
			return &objectstore.DeleteError{Failures: []objectstore.DeleteFailure{
				{Key: keys[1], Err: refused()}, {Key: keys[2], Err: ctx.Err()},
			}}
		}}, objectstore.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		failed := failures(t, manager.DeleteSegments(ctx, segments(0, 3)...))

		require.Len(t, failed, 2)
		require.ErrorIs(t, failed[segment(1)], walstorage.ErrAccessDenied)
		require.ErrorIs(t, failed[segment(2)], context.DeadlineExceeded)
	})
}

// F11: an id that is not valid is refused before any request.
func TestDeleteArguments(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
	fill(driver.Store(), 2)
	invalid := segment(9)
	invalid.BrokerID = -4

	err := manager.DeleteSegments(t.Context(), segment(0), invalid, segment(1))

	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	require.Equal(t, invalid, asError(t, err).ID)
	require.Zero(t, driver.Calls("Delete"))
	require.Len(t, driver.Store().Keys(), 2)
}

// I10: a driver's error per key names the first and reaches each.
func TestDriversDeleteError(t *testing.T) {
	err := error(&objectstore.DeleteError{Failures: []objectstore.DeleteFailure{{Key: "a", Err: refused()}, {Key: "b", Err: busy()}}})
	require.ErrorIs(t, err, walstorage.ErrAccessDenied)
	require.ErrorIs(t, err, walstorage.ErrUnavailable)
	require.ErrorContains(t, err, `2 keys not deleted, first "a"`)
	require.EqualError(t, &objectstore.DeleteError{}, "delete: no failures")
}
