package walstorage_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// fake is a WalStorageManager of which each test says what it does.
type fake struct {
	run    func(ctx context.Context) error
	listed []walstorage.SegmentInfo
	err    error // after the listed
	closed bool
}

func (f *fake) UploadSegment(ctx context.Context, _ walstorage.SegmentID, _ []byte) error {
	return f.run(ctx)
}

func (f *fake) FetchSegment(ctx context.Context, _ walstorage.SegmentID, _ int64, _ []byte) error {
	return f.run(ctx)
}

func (f *fake) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	return walstorage.SegmentInfo{ID: id, Size: 5}, f.run(ctx)
}

func (f *fake) DeleteSegments(ctx context.Context, _ ...walstorage.SegmentID) error {
	return f.run(ctx)
}

func (f *fake) ListSegments(ctx context.Context, _ walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		_ = f.run(ctx)
		for _, info := range f.listed {
			if !yield(info, nil) {
				return
			}
		}
		if f.err != nil {
			yield(walstorage.SegmentInfo{}, f.err)
		}
	}
}
func (f *fake) Close() error { f.closed = true; return nil }

type contextKey struct{}

// recorder keeps what the hooks are told, one line each.
type recorder struct {
	lines  []string
	result walstorage.OperationResult
}

func (r *recorder) hooks() walstorage.Hooks {
	return walstorage.Hooks{
		OperationStart: func(ctx context.Context, op walstorage.Operation) context.Context {
			r.lines = append(r.lines, fmt.Sprintf("start %s segments=%d bytes=%d named=%v", op.Op, op.Segments, op.Bytes, op.ID != walstorage.SegmentID{}))
			return context.WithValue(ctx, contextKey{}, "span")
		},
		OperationDone: func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			r.lines = append(r.lines, fmt.Sprintf("done %s in %v attempts=%d segments=%d err=%v parent=%v", op.Op, result.Duration, result.Attempts, result.Segments, result.Err, ctx.Value(contextKey{})))
			r.result = result
		},
	}
}

// O1, O2, H10: one start and one end for each call, with what happened between them.
func TestObserve(t *testing.T) {
	failure := walstorage.NewError(walstorage.ErrUnavailable, nil)
	calls := map[string]struct {
		call func(ctx context.Context, m walstorage.WalStorageManager, ids []walstorage.SegmentID) error
		want []string
	}{
		"upload": {
			func(ctx context.Context, m walstorage.WalStorageManager, ids []walstorage.SegmentID) error {
				return m.UploadSegment(ctx, ids[0], make([]byte, 9))
			},
			[]string{"start upload segments=1 bytes=9 named=true", "done upload in 1s attempts=1 segments=1 err=%v parent=span"},
		},
		"fetch": {
			func(ctx context.Context, m walstorage.WalStorageManager, ids []walstorage.SegmentID) error {
				return m.FetchSegment(ctx, ids[0], 3, make([]byte, 4))
			},
			[]string{"start fetch segments=1 bytes=4 named=true", "done fetch in 1s attempts=1 segments=1 err=%v parent=span"},
		},
		"stat": {
			func(ctx context.Context, m walstorage.WalStorageManager, ids []walstorage.SegmentID) error {
				_, err := m.StatSegment(ctx, ids[0])
				return err
			},
			[]string{"start stat segments=1 bytes=0 named=true", "done stat in 1s attempts=1 segments=1 err=%v parent=span"},
		},
		"delete of one": {
			func(ctx context.Context, m walstorage.WalStorageManager, ids []walstorage.SegmentID) error {
				return m.DeleteSegments(ctx, ids[0])
			},
			[]string{"start delete segments=1 bytes=0 named=true", "done delete in 1s attempts=1 segments=1 err=%v parent=span"},
		},
		"delete of two": {
			func(ctx context.Context, m walstorage.WalStorageManager, ids []walstorage.SegmentID) error {
				return m.DeleteSegments(ctx, ids...)
			},
			[]string{"start delete segments=2 bytes=0 named=false", "done delete in 1s attempts=1 segments=2 err=%v parent=span"},
		},
	}
	for name, test := range calls {
		for outcome, want := range map[string]error{"succeeds": nil, "fails": failure} {
			t.Run(name+" that "+outcome, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ids := []walstorage.SegmentID{newID(t, 1, 1, time.UnixMilli(1), 1), newID(t, 1, 1, time.UnixMilli(1), 2)}
					var record recorder
					observed := walstorage.Observe(&fake{run: func(ctx context.Context) error {
						time.Sleep(time.Second)
						assert.Equal(t, "span", ctx.Value(contextKey{}), "the work goes on under the hook's context")
						return want
					}}, record.hooks())

					err := test.call(t.Context(), observed, ids)

					assert.Equal(t, want, err, "the manager's own error comes through")
					assert.Equal(t, []string{test.want[0], fmt.Sprintf(test.want[1], want)}, record.lines)
				})
			})
		}
	}
}

func TestObserveList(t *testing.T) {
	infos := []walstorage.SegmentInfo{{Size: 1}, {Size: 2}, {Size: 3}}
	failure := errors.New("page 2")
	type walk func(seq iter.Seq2[walstorage.SegmentInfo, error])
	tests := map[string]struct {
		err      error
		walk     walk
		segments int
		failed   bool
	}{
		"to its end": {nil, func(seq iter.Seq2[walstorage.SegmentInfo, error]) {
			for range seq {
				continue
			}
		}, 3, false},
		"to an error": {failure, func(seq iter.Seq2[walstorage.SegmentInfo, error]) {
			for range seq {
				continue
			}
		}, 3, true},
		"left early": {failure, func(seq iter.Seq2[walstorage.SegmentInfo, error]) {
			for range seq {
				break
			}
		}, 1, false},
		"ended by a panic of the loop": {nil, func(seq iter.Seq2[walstorage.SegmentInfo, error]) {
			defer func() { _ = recover() }()
			for range seq {
				panic("the caller's")
			}
		}, 1, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var record recorder
			observed := walstorage.Observe(&fake{run: func(context.Context) error { return nil }, listed: infos, err: test.err}, record.hooks())

			test.walk(observed.ListSegments(t.Context(), walstorage.ListOptions{}))

			require.Len(t, record.lines, 2, "one start and one end (O1)")
			assert.Equal(t, test.segments, record.result.Segments)
			assert.Equal(t, test.failed, record.result.Err != nil)
		})
	}

	t.Run("not ranged over", func(t *testing.T) {
		var record recorder
		_ = walstorage.Observe(&fake{}, record.hooks()).ListSegments(t.Context(), walstorage.ListOptions{})
		assert.Empty(t, record.lines, "no list, no operation")
	})

	t.Run("ranged over twice", func(t *testing.T) {
		var record recorder
		seq := walstorage.Observe(&fake{run: func(context.Context) error { return nil }}, record.hooks()).ListSegments(t.Context(), walstorage.ListOptions{})
		for range seq {
			continue
		}
		for range seq {
			continue
		}
		assert.Len(t, record.lines, 4, "each range is a new list (W10)")
	})
}

func TestObservePanicEndsTheOperation(t *testing.T) {
	var record recorder
	observed := walstorage.Observe(&fake{run: func(context.Context) error { panic("backend") }}, record.hooks())

	assert.PanicsWithValue(t, "backend", func() { _ = observed.UploadSegment(t.Context(), walstorage.SegmentID{}, nil) })

	require.Len(t, record.lines, 2)
	assert.Error(t, record.result.Err)
}

// Hooks of which none, or only some, are set cost nothing and break nothing.
func TestHooksMayBeNil(t *testing.T) {
	inner := &fake{run: func(context.Context) error { return nil }}
	observed := walstorage.Observe(inner, walstorage.Hooks{})

	require.NoError(t, observed.UploadSegment(t.Context(), walstorage.SegmentID{}, nil))
	for range observed.ListSegments(t.Context(), walstorage.ListOptions{}) {
		continue
	}
	require.NoError(t, observed.Close())
	assert.True(t, inner.closed)

	nilContext := walstorage.Hooks{
		OperationStart: func(context.Context, walstorage.Operation) context.Context { return nil },
		AttemptStart:   func(context.Context, walstorage.Attempt) context.Context { return nil },
	}
	ctx := context.WithValue(t.Context(), contextKey{}, 1)
	assert.Equal(t, ctx, nilContext.StartOperation(ctx, walstorage.Operation{}), "a nil context counts as the one given")
	assert.Equal(t, ctx, nilContext.StartAttempt(ctx, walstorage.Attempt{}))
	own := context.WithValue(ctx, contextKey{}, 2)
	attempts := walstorage.Hooks{
		AttemptStart: func(context.Context, walstorage.Attempt) context.Context { return own },
		AttemptDone: func(ctx context.Context, attempt walstorage.Attempt, _ walstorage.AttemptResult) {
			assert.Equal(t, own, ctx)
			assert.Equal(t, 3, attempt.Number)
		},
	}
	assert.Equal(t, own, attempts.StartAttempt(ctx, walstorage.Attempt{}))
	attempts.EndAttempt(own, walstorage.Attempt{Number: 3}, walstorage.AttemptResult{})
	walstorage.Hooks{}.EndAttempt(ctx, walstorage.Attempt{}, walstorage.AttemptResult{})
	assert.Equal(t, ctx, walstorage.Hooks{}.StartAttempt(ctx, walstorage.Attempt{}))
}
