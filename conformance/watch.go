package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/walhop/walhop/walstorage"
)

// watch keeps what a manager tells its hooks, and notes each end that has no start or comes twice.
type watch struct {
	mu         sync.Mutex
	operations []*toldOperation
	attempts   []*toldAttempt
	problems   []string
}

// toldOperation is one operation as the hooks saw it.
type toldOperation struct {
	walstorage.Operation
	result walstorage.OperationResult
	caller any // what the caller had put into the context, see callerKey
	ends   int
}

// toldAttempt is one attempt as the hooks saw it.
type toldAttempt struct {
	walstorage.Attempt
	result walstorage.AttemptResult
	parent *toldOperation // found through the context, nil if it is not
	ends   int
}

// The keys of what travels in contexts: a caller's own value, and the operation and the attempt that began there.
type (
	callerKey    struct{}
	operationKey struct{}
	attemptKey   struct{}
)

// hooks returns the hooks that fill w.
func (w *watch) hooks() walstorage.Hooks {
	return walstorage.Hooks{
		OperationStart: func(ctx context.Context, op walstorage.Operation) context.Context {
			w.mu.Lock()
			defer w.mu.Unlock()
			told := &toldOperation{Operation: op, caller: ctx.Value(callerKey{})}
			w.operations = append(w.operations, told)
			return context.WithValue(ctx, operationKey{}, told)
		},
		OperationDone: func(ctx context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			w.mu.Lock()
			defer w.mu.Unlock()
			told, _ := ctx.Value(operationKey{}).(*toldOperation)
			switch {
			case told == nil:
				w.problems = append(w.problems, fmt.Sprintf("the end of an operation %q comes without the context of its start", op.Op))
			case told.Operation != op:
				w.problems = append(w.problems, fmt.Sprintf("the end tells %+v of an operation whose start told %+v", op, told.Operation))
			default:
				told.ends++
				told.result = result
			}
		},
		AttemptStart: func(ctx context.Context, attempt walstorage.Attempt) context.Context {
			w.mu.Lock()
			defer w.mu.Unlock()
			told := &toldAttempt{Attempt: attempt}
			told.parent, _ = ctx.Value(operationKey{}).(*toldOperation)
			w.attempts = append(w.attempts, told)
			return context.WithValue(ctx, attemptKey{}, told)
		},
		AttemptDone: func(ctx context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
			w.mu.Lock()
			defer w.mu.Unlock()
			told, _ := ctx.Value(attemptKey{}).(*toldAttempt)
			switch {
			case told == nil:
				w.problems = append(w.problems, fmt.Sprintf("the end of attempt %d, %q, comes without the context of its start", attempt.Number, attempt.Call))
			case told.Attempt != attempt:
				w.problems = append(w.problems, fmt.Sprintf("the end tells %+v of an attempt whose start told %+v", attempt, told.Attempt))
			default:
				told.ends++
				told.result = result
			}
		},
	}
}

// taken is what the hooks were told from one look to the next.
type taken struct {
	operations []*toldOperation
	attempts   []*toldAttempt
	problems   []string
}

// take returns what was told since the last call of it.
func (w *watch) take() taken {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := taken{slices.Clone(w.operations), slices.Clone(w.attempts), slices.Clone(w.problems)}
	w.operations, w.attempts, w.problems = nil, nil, nil
	return t
}

// noHooks is why the cases of group O are skipped.
const noHooks = "the manager calls no hooks: Config.Open does not pass store.Hooks on"

// openWatched returns a handle on the case's place whose hooks fill w. Where the manager calls no hooks the case is
// skipped, with that reason.
func (c *T) openWatched(w *watch) *handle {
	c.storage.remember(c.storage.home)
	m := c.openWith(c.storage.home, w.hooks())
	_, _ = m.StatSegment(c.Context(), c.newID())
	if len(w.take().operations) == 0 {
		c.Skip(noHooks)
	}
	return m
}

// wantTold makes one call and checks that its hooks and those of its attempts are called once each (O1). It returns what was told, nil if that cannot be used.
func (c *T) wantTold(w *watch, situation string, op walstorage.Op, do func() error) (*toldOperation, []*toldAttempt) {
	w.take()
	var err error
	if !c.returns(situation, func() { err = do() }) {
		c.FailNow() // its handle is closed then, which ends the call
	}
	t := w.take()
	for _, problem := range t.problems {
		c.Errorf("%s: %s", situation, problem)
	}
	if len(t.operations) != 1 {
		c.Errorf("%s: OperationStart was called %d times, want once", situation, len(t.operations))
		return nil, nil
	}
	told := t.operations[0]
	if told.Op != op {
		c.Errorf("%s: told as an operation %q, want %q", situation, told.Op, op)
	}
	if told.ends != 1 {
		c.Errorf("%s: OperationDone was called %d times, want once", situation, told.ends)
		return nil, nil
	}
	if (err == nil) != (told.result.Err == nil) {
		c.Errorf("%s: OperationDone was told %v, the caller got %v", situation, told.result.Err, err)
	}
	for i, attempt := range t.attempts {
		switch {
		case attempt.ends != 1:
			c.Errorf("%s: AttemptDone was called %d times for attempt %d, want once", situation, attempt.ends, i+1)
		case attempt.parent != told:
			c.Errorf("%s: attempt %d does not have the context of its operation", situation, i+1)
		}
	}
	return told, t.attempts
}
