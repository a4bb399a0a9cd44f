package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// hookMutants are wrong in what they tell their hooks, or in what hooks do to them.
var hookMutants = []mutant{
	hooksMutant("the end of an operation that fails is not told", "O1", "O2 O3", func(hooks *walstorage.Hooks) {
		done := hooks.OperationDone
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			if result.Err == nil {
				done(ctx, op, result)
			}
		}
	}),
	hooksMutant("the end of an operation that is refused is told twice", "O1", "O2", func(hooks *walstorage.Hooks) {
		done := hooks.OperationDone
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			done(ctx, op, result)
			if walstorage.KindOf(result.Err) == walstorage.ErrInvalidArgument {
				done(ctx, op, result)
			}
		}
	}),
	hooksMutant("the end of an attempt that fails is not told", "O1", "O2 O3", func(hooks *walstorage.Hooks) {
		done := hooks.AttemptDone
		hooks.AttemptDone = func(ctx context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
			if result.Err == nil {
				done(ctx, attempt, result)
			}
		}
	}),
	memoryMutant("the end of a list whose loop panics is not told", "O1", "O2", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			hooks := store.Hooks
			store.Hooks.OperationStart, store.Hooks.OperationDone = nil, nil
			m, err := newManager(d, store)
			observed := walstorage.Observe(m, walstorage.Hooks{OperationStart: hooks.OperationStart, OperationDone: hooks.OperationDone})
			return &unendedLists{WalStorageManager: observed, inner: m, hooks: hooks}, err
		}),
	hooksMutant("each attempt begins an operation", "O1", "O2 O3 O7", func(hooks *walstorage.Hooks) {
		start, done := hooks.AttemptStart, hooks.AttemptDone
		hooks.AttemptStart = func(ctx context.Context, attempt walstorage.Attempt) context.Context {
			if hooks.OperationStart != nil {
				hooks.OperationStart(ctx, attempt.Operation)
			}
			return start(ctx, attempt)
		}
		hooks.AttemptDone = done
	}),
	hooksMutant("bytes are not told", "O2", "", func(hooks *walstorage.Hooks) {
		start, done := hooks.OperationStart, hooks.OperationDone
		hooks.OperationStart = func(ctx context.Context, op walstorage.Operation) context.Context {
			op.Bytes = 0
			return start(ctx, op)
		}
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			op.Bytes = 0
			done(ctx, op, result)
		}
	}),
	hooksMutant("durations are told in milliseconds", "O2", "", func(hooks *walstorage.Hooks) {
		done := hooks.OperationDone
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			result.Duration /= time.Millisecond
			done(ctx, op, result)
		}
	}),
	hooksMutant("only the first attempt is counted", "O2", "", func(hooks *walstorage.Hooks) {
		done := hooks.OperationDone
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			result.Attempts = min(result.Attempts, 1)
			done(ctx, op, result)
		}
	}),
	hooksMutant("a list does not tell how many segments it had", "O2", "", func(hooks *walstorage.Hooks) {
		done := hooks.OperationDone
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			result.Segments = op.Segments
			done(ctx, op, result)
		}
	}),
	hooksMutant("a cancel is told as a failure of the store", "O3", "O2", func(hooks *walstorage.Hooks) {
		done := hooks.OperationDone
		hooks.OperationDone = func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			if errors.Is(result.Err, context.Canceled) {
				result.Err = &walstorage.Error{Op: op.Op, ID: op.ID, Kind: walstorage.ErrUnavailable}
			}
			done(ctx, op, result)
		}
	}),
	hooksMutant("an attempt that finds no segment is told as a failure of the store", "O3", "", func(hooks *walstorage.Hooks) {
		done := hooks.AttemptDone
		hooks.AttemptDone = func(ctx context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
			if errors.Is(result.Err, walstorage.ErrSegmentNotFound) {
				result.Err = &walstorage.Error{Op: attempt.Op, ID: attempt.ID, Kind: walstorage.ErrUnavailable}
			}
			done(ctx, attempt, result)
		}
	}),
	memoryMutant("a hook that panics leaves a lock behind", "O4", leaked, memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			held := make(chan struct{}, 1)
			start := store.Hooks.OperationStart
			store.Hooks.OperationStart = func(ctx context.Context, op walstorage.Operation) context.Context {
				select {
				case held <- struct{}{}:
				case <-ctx.Done():
				}
				if start != nil {
					ctx = start(ctx, op)
				}
				select {
				case <-held:
				default:
				}
				return ctx
			}
			return newManager(d, store)
		}),
	hooksMutant("the call of an attempt is named with its segment", "O5", "O7", func(hooks *walstorage.Hooks) {
		start, done := hooks.AttemptStart, hooks.AttemptDone
		hooks.AttemptStart = func(ctx context.Context, attempt walstorage.Attempt) context.Context {
			attempt.Call += " " + attempt.ID.String()
			return start(ctx, attempt)
		}
		hooks.AttemptDone = func(ctx context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
			attempt.Call += " " + attempt.ID.String()
			done(ctx, attempt, result)
		}
	}),
	memoryMutant("the caller's context is replaced by the manager's own", "O7", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &withoutValues{m}, err
		}),
	memoryMutant("the driver does not get the context of its attempt", "O7", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newManager(blindDriver{d}, store)
		}),
	memoryMutant("what the store said is logged as it came", "O9", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newTeller(d, store, func(err, raw error) error {
				if store.Logger != nil {
					store.Logger.Warn("an upload has failed", "error", fmt.Sprint(raw))
				}
				return err
			})
		}),
}

// hooksMutant is a mutant whose hooks are changed before they are called. Those that are not set stay so.
func hooksMutant(name, caught, also string, change func(hooks *walstorage.Hooks)) mutant {
	return memoryMutant(name, caught, also, memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			if store.Hooks.OperationStart != nil && store.Hooks.AttemptDone != nil {
				change(&store.Hooks)
			}
			return newManager(d, store)
		})
}

// unendedLists is a manager whose lists tell their end only where the loop has not gone away.
type unendedLists struct {
	walstorage.WalStorageManager
	inner walstorage.WalStorageManager
	hooks walstorage.Hooks
}

func (m *unendedLists) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		op := walstorage.Operation{Op: walstorage.OpList}
		ctx := m.hooks.StartOperation(ctx, op)
		start := time.Now()
		result := walstorage.OperationResult{Attempts: 1}
		for info, err := range m.inner.ListSegments(ctx, options) {
			if result.Err = err; err == nil {
				result.Segments++
			}
			if !yield(info, err) {
				break
			}
		}
		result.Duration = time.Since(start)
		m.hooks.EndOperation(ctx, op, result)
	}
}

// ctxWithoutValues ends with another context and has no values.
type ctxWithoutValues struct{ context.Context }

func (ctxWithoutValues) Value(any) any { return nil }

// withoutValues is a manager that hands on when a context ends and not what it holds.
type withoutValues struct{ walstorage.WalStorageManager }

func (m *withoutValues) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	return m.WalStorageManager.StatSegment(ctxWithoutValues{ctx}, id)
}

// blindDriver is a driver whose calls cannot see what their contexts hold.
type blindDriver struct{ objectstore.Driver }

func (d blindDriver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	return d.Driver.Stat(ctxWithoutValues{ctx}, key)
}
