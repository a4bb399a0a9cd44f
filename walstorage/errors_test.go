package walstorage_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

var allKinds = []error{
	walstorage.ErrSegmentNotFound, walstorage.ErrSegmentExists, walstorage.ErrInvalidRange, walstorage.ErrInvalidArgument,
	walstorage.ErrTooLarge, walstorage.ErrCorrupt, walstorage.ErrAccessDenied, walstorage.ErrBucketNotFound,
	walstorage.ErrNoSpace, walstorage.ErrUnavailable, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded,
}

// I1, W7: each kind is seen by errors.Is and is no other kind.
func TestErrorIsItsKindAlone(t *testing.T) {
	for _, kind := range allKinds {
		err := error(&walstorage.Error{Op: walstorage.OpFetch, Kind: kind, Cause: errors.New("more")})
		for _, wrapped := range []error{err, fmt.Errorf("decorated: %w", err), errors.Join(errors.New("first"), err)} { // I12
			for _, other := range allKinds {
				assert.Equal(t, kind == other, errors.Is(wrapped, other), "%v is %v", kind, other)
			}
			assert.Equal(t, kind, walstorage.KindOf(wrapped))
		}
	}
	assert.NoError(t, walstorage.KindOf(nil))
	assert.NoError(t, walstorage.KindOf(errors.New("unclassified")))
	assert.NoError(t, walstorage.KindOf(&walstorage.Error{Cause: errors.New("unclassified")}))
}

// H8, W7: the deadline of one attempt in the cause is not the caller's; what the library returned is reached all the
// same (I5).
func TestErrorHidesTheContextErrorOfItsCause(t *testing.T) {
	library := &fs.PathError{Op: "read", Path: "p", Err: context.DeadlineExceeded}
	err := error(walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("attempt: %w", library)))

	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, walstorage.ErrUnavailable)
	var reached *fs.PathError
	require.ErrorAs(t, err, &reached)
	assert.Same(t, library, reached)
	var own *walstorage.Error
	require.ErrorAs(t, fmt.Errorf("decorated: %w", err), &own)
	assert.Same(t, err, own)
	var none *fs.PathError
	assert.False(t, errors.As(walstorage.NewError(walstorage.ErrUnavailable, nil), &none), "no cause")
}

func TestErrorText(t *testing.T) {
	id := newID(t, 1, 2, time.UnixMilli(1_700_000_000_000), 0)
	tests := map[string]struct {
		err  walstorage.Error
		want string
	}{
		"nothing":      {walstorage.Error{}, "unclassified error"},
		"a kind":       {walstorage.Error{Kind: walstorage.ErrNoSpace}, "no space left in the store"},
		"a cause":      {walstorage.Error{Cause: errors.New("odd")}, "odd"},
		"both":         {walstorage.Error{Kind: walstorage.ErrUnavailable, Cause: errors.New("503")}, "store unavailable: 503"},
		"an operation": {walstorage.Error{Op: walstorage.OpList, Kind: walstorage.ErrClosed}, "list: manager is closed"},
		"all (I6, I7)": {
			walstorage.Error{Op: walstorage.OpUpload, ID: id, Attempts: 3, Kind: walstorage.ErrUnavailable, Cause: errors.New("503")},
			"upload segment " + id.String() + ": store unavailable: 503 (after 3 attempts)",
		},
		"one attempt":       {walstorage.Error{Op: walstorage.OpFetch, Attempts: 1, Kind: walstorage.ErrCorrupt}, "fetch: corrupt data"},
		"no kind, no cause": {walstorage.Error{Op: walstorage.OpDelete, Attempts: 2}, "delete: unclassified error (after 2 attempts)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, test.err.Error())
		})
	}
}

// W9, I10: every failure of a delete is named and reached.
func TestDeleteErrorNamesAndReachesEveryFailure(t *testing.T) {
	first, second := newID(t, 1, 1, time.UnixMilli(1), 1), newID(t, 1, 1, time.UnixMilli(1), 2)
	library := &fs.PathError{Op: "unlink", Path: "p", Err: fs.ErrPermission}
	err := error(&walstorage.DeleteError{Failures: []walstorage.DeleteFailure{
		{ID: first, Err: walstorage.NewError(walstorage.ErrAccessDenied, library)},
		{ID: second, Err: &walstorage.Error{Op: walstorage.OpDelete, ID: second, Kind: context.Canceled}},
	}})

	assert.ErrorIs(t, err, walstorage.ErrAccessDenied)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, walstorage.ErrUnavailable)
	var path *fs.PathError
	assert.ErrorAs(t, err, &path)
	var named *walstorage.DeleteError
	require.ErrorAs(t, fmt.Errorf("sweep: %w", err), &named)
	assert.Len(t, named.Failures, 2)
	assert.ErrorContains(t, err, "2 segments")
	assert.ErrorContains(t, err, first.String())
	assert.Equal(t, "delete: no failures", (&walstorage.DeleteError{}).Error())
}
