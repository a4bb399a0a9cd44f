package check_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// whole is a manager each of whose calls goes through before, which may refuse it.
func whole(right walstorage.WalStorageManager, before func(ctx context.Context, op walstorage.Op) error) *broken {
	type id = walstorage.SegmentID
	b := &broken{WalStorageManager: right}
	b.upload = func(ctx context.Context, id id, data []byte) error {
		if err := before(ctx, walstorage.OpUpload); err != nil {
			return err
		}
		return right.UploadSegment(ctx, id, data)
	}
	b.fetch = func(ctx context.Context, id id, offset int64, dst []byte) error {
		if err := before(ctx, walstorage.OpFetch); err != nil {
			return err
		}
		return right.FetchSegment(ctx, id, offset, dst)
	}
	b.stat = func(ctx context.Context, id id) (walstorage.SegmentInfo, error) {
		if err := before(ctx, walstorage.OpStat); err != nil {
			return walstorage.SegmentInfo{}, err
		}
		return right.StatSegment(ctx, id)
	}
	b.remove = func(ctx context.Context, ids ...id) error {
		if err := before(ctx, walstorage.OpDelete); err != nil {
			return err
		}
		return right.DeleteSegments(ctx, ids...)
	}
	b.list = func(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
		if err := before(ctx, walstorage.OpList); err != nil {
			return func(yield func(walstorage.SegmentInfo, error) bool) { yield(walstorage.SegmentInfo{}, err) }
		}
		return right.ListSegments(ctx, options)
	}
	return b
}

// A store that cannot be used is told in a few words, soon, and under A1 alone: W7 says how, and every permission that is
// missing is named at once, but for creates where nothing could be deleted: there nothing is stored, and nothing of it
// stays anywhere else.
func TestUnusableStore(t *testing.T) {
	refuses := func(ops ...walstorage.Op) func(context.Context, walstorage.Op) error {
		return func(_ context.Context, op walstorage.Op) error {
			if slices.Contains(ops, op) {
				return walstorage.NewError(walstorage.ErrAccessDenied, fmt.Errorf("no permission to %s", op))
			}
			return nil
		}
	}
	answers := func(kind error) func(context.Context, walstorage.Op) error {
		return func(context.Context, walstorage.Op) error { return walstorage.NewError(kind, nil) }
	}
	all := []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch, walstorage.OpStat, walstorage.OpDelete, walstorage.OpList}
	tests := map[string]struct {
		before func(context.Context, walstorage.Op) error
		kind   error
		n      int    // violations
		why    string // of the cases that are skipped
	}{
		"deletes are refused":           {refuses(walstorage.OpDelete), walstorage.ErrAccessDenied, 1, "refuses a delete"},
		"lists and reads are refused":   {refuses(walstorage.OpList, walstorage.OpFetch, walstorage.OpStat), walstorage.ErrAccessDenied, 5, "refuses a list through the manager and a fetch"},
		"uploads are refused":           {refuses(walstorage.OpUpload), walstorage.ErrAccessDenied, 1, "refuses an upload"},
		"deletes and reads are refused": {refuses(walstorage.OpDelete, walstorage.OpFetch), walstorage.ErrAccessDenied, 2, "and a delete"},
		"uploads and reads are refused": {refuses(walstorage.OpUpload, walstorage.OpFetch, walstorage.OpStat), walstorage.ErrAccessDenied, 3, "and an upload"},
		"everything is refused":         {refuses(all...), walstorage.ErrAccessDenied, 4, "refuses a list through the manager and a fetch"},
		"the bucket is missing":         {answers(walstorage.ErrBucketNotFound), walstorage.ErrBucketNotFound, 1, "the bucket is missing"},
		"the store is down":             {answers(walstorage.ErrUnavailable), walstorage.ErrUnavailable, 1, "the store does not answer"},
		"the manager is closed":         {answers(walstorage.ErrClosed), walstorage.ErrClosed, 1, "the manager is closed"},
		"the store hangs on each call":  {func(ctx context.Context, _ walstorage.Op) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded, 1, "the store does not answer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, before := inUse(t)
				right, _ := open(t, store)
				var ran []check.Result
				begun := time.Now()
				err := check.Check(t.Context(), whole(right, test.before), check.Options{Progress: func(r check.Result) { ran = append(ran, r) }})

				found := violations(t, err)
				if name == "lists and reads are refused" { // nobody can tell whether the one upload has been deleted
					require.Contains(t, found, check.CleanupCase)
					delete(found, check.CleanupCase)
				}
				assert.Equal(t, []string{"A1"}, slices.Sorted(maps.Keys(found)), "%v", err)
				assert.Len(t, found["A1"], test.n, "%v", err)
				assert.ErrorIs(t, err, test.kind)
				assert.Less(t, len(err.Error()), 2000)
				assert.LessOrEqual(t, time.Since(begun), 25*time.Second)
				assert.Equal(t, before, snapshot(store))
				for _, result := range ran[1:] {
					assert.True(t, result.Case == check.CleanupCase || strings.Contains(result.Skipped, test.why) || result.Case == "B4" || result.Case == "C3",
						"%s is skipped since: %q", result.Case, result.Skipped)
				}
			})
		})
	}
}

// W7: a store that answers 403 to a read of what is missing, as Amazon S3 does without s3:ListBucket, is told at once, on
// each handle. Its segments can be read, so that only those reads show it.
func TestMissingIsRefused(t *testing.T) {
	for _, first := range []bool{false, true} { // the handle that may not list
		store, before := inUse(t)
		right, _ := open(t, store)
		another, _ := open(t, store)
		deny := func(err error) error {
			if errors.Is(err, walstorage.ErrSegmentNotFound) {
				return walstorage.NewError(walstorage.ErrAccessDenied, errors.New("403"))
			}
			return err
		}
		limited := &broken{WalStorageManager: another}
		limited.fetch = func(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
			return deny(another.FetchSegment(ctx, id, offset, dst))
		}
		limited.stat = func(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
			info, err := another.StatSegment(ctx, id)
			return info, deny(err)
		}
		manager, other, name := walstorage.WalStorageManager(right), walstorage.WalStorageManager(limited), "the other handle"
		if first {
			manager, other, name = other, manager, "the manager"
		}
		err := check.Check(t.Context(), manager, check.Options{Other: other})
		found := violations(t, err)
		assert.Equal(t, []string{"A1"}, slices.Sorted(maps.Keys(found)), "%v", err)
		require.Len(t, found["A1"], 2, "%v", err)
		for i, what := range []string{"a fetch", "a stat"} {
			assert.ErrorContains(t, found["A1"][i], what+" of a segment that never was through "+name)
			assert.ErrorIs(t, found["A1"][i], walstorage.ErrAccessDenied)
		}
		assert.Equal(t, before, snapshot(store))
	}
}

// W1: an upload that the store has refused does not land later. It is not waited for, and nobody is told to look for it.
func TestRefusedUploadIsNotWaitedFor(t *testing.T) {
	for _, kind := range []error{
		walstorage.ErrAccessDenied, walstorage.ErrBucketNotFound, walstorage.ErrNoSpace, walstorage.ErrTooLarge,
		walstorage.ErrInvalidArgument, walstorage.ErrSegmentExists,
	} {
		t.Run(kind.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, before := inUse(t)
				right, _ := open(t, store)
				refuses := &broken{WalStorageManager: right}
				refuses.upload = func(context.Context, walstorage.SegmentID, []byte) error {
					return walstorage.NewError(kind, nil)
				}
				var log bytes.Buffer
				begun := time.Now()
				err := check.Check(t.Context(), refuses, check.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				require.ErrorIs(t, err, kind)
				assert.NotContains(t, log.String(), "level=WARN")
				assert.Zero(t, time.Since(begun))
				assert.NotContains(t, violations(t, err), check.CleanupCase)
				assert.Equal(t, before, snapshot(store))
			})
		})
	}
}

// W1: every other failed upload may land yet, and is told.
func TestUploadWithoutAWordMayLand(t *testing.T) {
	for _, kind := range []error{nil, walstorage.ErrUnavailable, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				right, _ := open(t, memory.NewStore())
				fails := &broken{WalStorageManager: right}
				var uploads atomic.Int32
				fails.upload = func(ctx context.Context, id walstorage.SegmentID, data []byte) error {
					if uploads.Add(1) == 2 { // the first of B1
						return walstorage.NewError(kind, errors.New("connection lost"))
					}
					return right.UploadSegment(ctx, id, data)
				}
				var log bytes.Buffer
				begun := time.Now()
				err := check.Check(t.Context(), fails, check.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				assert.Equal(t, []string{"B1"}, slices.Sorted(maps.Keys(violations(t, err))), "%v", err)
				assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
				assert.Equal(t, 5*time.Second, time.Since(begun))
			})
		})
	}
}

// A manager that does not repeat by itself, on a store that is busy for a moment, is not turned away.
func TestBusyForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, before := inUse(t)
		right, _ := open(t, store)
		var calls atomic.Int32
		busy := whole(right, func(context.Context, walstorage.Op) error {
			if calls.Add(1) == 2 {
				return walstorage.NewError(walstorage.ErrUnavailable, errors.New("slow down"))
			}
			return nil
		})
		assert.NoError(t, check.Check(t.Context(), busy, check.Options{}))
		assert.Equal(t, before, snapshot(store))
	})
}

// W8: where the store ceases to answer in the middle, the check does not wait a minute for each of its cases.
func TestStoreCeasesToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right, _ := open(t, memory.NewStore())
		var calls atomic.Int32
		skipped := 0
		hangs := whole(right, func(ctx context.Context, _ walstorage.Op) error {
			if calls.Add(1) < 40 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		begun := time.Now()
		err := check.Check(t.Context(), hangs, check.Options{Progress: func(r check.Result) {
			if strings.Contains(r.Skipped, "ceased to answer") {
				skipped++
			}
		}})
		assert.Greater(t, skipped, 10)
		assert.LessOrEqual(t, time.Since(begun), 3*time.Minute)
		require.Contains(t, violations(t, err), check.CleanupCase, "what may be left is said")
	})
}

// W1: an upload that is under way when the operator has had enough is let finish. Cut off, it would land when everything
// else has been deleted, and stay.
func TestUploadUnderWayIsLetFinish(t *testing.T) {
	for _, at := range []int32{1, 2, 7, 20} {
		synctest.Test(t, func(t *testing.T) {
			store, before := inUse(t)
			right, _ := open(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			slow := &broken{WalStorageManager: right}
			var uploads atomic.Int32
			slow.upload = func(ctx context.Context, id walstorage.SegmentID, data []byte) error {
				if uploads.Add(1) == at {
					time.AfterFunc(time.Second, cancel)
					select {
					case <-ctx.Done(): // the store has the request, and carries it out
						time.AfterFunc(20*time.Second, func() { _ = right.UploadSegment(context.WithoutCancel(ctx), id, data) })
						return ctx.Err()
					case <-time.After(2 * time.Second):
					}
				}
				return right.UploadSegment(ctx, id, data)
			}
			err := check.Check(ctx, slow, check.Options{})
			require.ErrorIs(t, err, context.Canceled)
			assert.Empty(t, violations(t, err))
			time.Sleep(time.Minute)
			assert.Equal(t, before, snapshot(store), "cancelled in upload %d", at)
		})
	}
}

// An upload that hangs is cut off in the end, also where the caller has gone.
func TestUploadThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right, _ := open(t, memory.NewStore())
		ctx, cancel := context.WithCancel(t.Context())
		hangs := &broken{WalStorageManager: right}
		hangs.upload = func(ctx context.Context, _ walstorage.SegmentID, _ []byte) error {
			time.AfterFunc(time.Second, cancel)
			<-ctx.Done()
			return ctx.Err()
		}
		begun := time.Now()
		err := check.Check(ctx, hangs, check.Options{})
		require.ErrorIs(t, err, context.Canceled)
		assert.LessOrEqual(t, time.Since(begun), 20*time.Second)
	})
}

// W1: an upload that has failed and lands some seconds later is waited for and deleted; that it came back after a delete
// which returned nil is no violation.
func TestUploadThatLandsLate(t *testing.T) {
	for _, lands := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store, before := inUse(t)
			right, _ := open(t, store)
			late := &broken{WalStorageManager: right}
			var uploads atomic.Int32
			var land func()
			late.upload = func(ctx context.Context, id walstorage.SegmentID, data []byte) error {
				if uploads.Add(1) == 5 {
					land = func() { _ = right.UploadSegment(context.WithoutCancel(ctx), id, data) }
					return walstorage.NewError(walstorage.ErrUnavailable, errors.New("timed out"))
				}
				return right.UploadSegment(ctx, id, data)
			}
			late.remove = func(ctx context.Context, ids ...walstorage.SegmentID) error {
				err := right.DeleteSegments(ctx, ids...)
				if len(ids) > 30 { // the cleanup
					if lands == 0 {
						land()
					} else {
						time.AfterFunc(lands, land)
					}
				}
				return err
			}
			err := check.Check(t.Context(), late, check.Options{})
			assert.NotContains(t, violations(t, err), check.CleanupCase)
			time.Sleep(time.Minute)
			assert.Equal(t, before, snapshot(store), "landed %v after the delete", lands)
		})
	}
}
