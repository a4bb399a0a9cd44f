package objectstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// Manager makes a [walstorage.WalStorageManager] of a [Driver]. It holds what is hard and equal for all stores:
// argument checks, the object keys, a deadline for each attempt, retry behind a gate, the lost answer to a create,
// errors without secrets, hooks, and closing.
//
// All methods may be called concurrently (W12). A call works on its caller's goroutine and returns only when its
// attempt has returned, so the buffer is free then (W5); the attempts of one call never overlap. The Manager itself
// starts no goroutine. It follows that a driver that ignores its context holds the call up: W5 outranks W8, since a
// buffer that is filled or sent after its owner has put it to other use is worse than a call that is late.
type Manager struct {
	driver Driver
	cfg    Config
	keys   walstorage.Keys
	limits Limits

	// One gate for each kind of call, so that throttled uploads hold up no fetch, and the sweeper's deletes neither.
	putGate, readGate, bulkGate *gate

	foreign foreign

	mu       sync.Mutex
	closed   bool
	underway map[uint64]context.CancelCauseFunc
	number   uint64
	returned sync.WaitGroup

	closing  chan struct{} // closed when Close has done its work
	closeErr error
}

var _ walstorage.WalStorageManager = (*Manager)(nil)

// New returns a manager on top of the driver, which belongs to it from then on: Close closes the driver. No request is
// sent. The error is of kind walstorage.ErrInvalidArgument and names the field of cfg that is wrong.
func New(driver Driver, cfg Config) (*Manager, error) {
	if driver == nil {
		return nil, walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("objectstore.New: the driver is nil"))
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	keys, err := walstorage.NewKeys(cfg.Prefix, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		driver: driver, cfg: cfg, keys: keys, limits: driver.Limits(),
		putGate:  newGate("put", cfg),
		readGate: newGate("get and stat", cfg),
		bulkGate: newGate("delete and list", cfg),
		underway: make(map[uint64]context.CancelCauseFunc),
		closing:  make(chan struct{}),
	}
	if m.limits.KeysPerDelete <= 0 {
		m.limits.KeysPerDelete = defaultKeysPerDelete
	}
	return m, nil
}

// defaultKeysPerDelete is the number of keys that S3 takes in one request.
const defaultKeysPerDelete = 1000

// errClosing is the cause of the cancellation of a call that Close ends.
var errClosing = errors.New("the manager was closed during the call")

// Close cancels the calls under way, which get walstorage.ErrClosed unless they end well all the same, waits until they
// have returned, and closes the driver (W12). It may be called more than once and concurrently; each call returns when
// the first has done its work, with what the driver returned. It must not be called from a hook. A loop over
// ListSegments is not waited for while its body runs, only while it asks for a page.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		<-m.closing
		return m.closeErr
	}
	m.closed = true
	numbers := make([]uint64, 0, len(m.underway))
	for number := range m.underway {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers) // no map order is seen (D2)
	cancels := make([]context.CancelCauseFunc, len(numbers))
	for i, number := range numbers {
		cancels[i] = m.underway[number]
	}
	m.mu.Unlock()

	for _, cancel := range cancels {
		cancel(errClosing)
	}
	m.returned.Wait()
	if err := contain(m.driver.Close); err != nil {
		m.closeErr = &walstorage.Error{Kind: walstorage.KindOf(err), Cause: redact(err)}
	}
	close(m.closing)
	return m.closeErr
}

// enter registers a call with Close: the context returned ends with ctx or when Close is called. leave must be called
// when the last attempt has returned. ok is false if the manager is closed.
func (m *Manager) enter(ctx context.Context) (entered context.Context, leave func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, false
	}
	entered, cancel := context.WithCancelCause(ctx)
	m.number++
	number := m.number
	m.underway[number] = cancel
	m.returned.Add(1)
	return entered, func() {
		m.mu.Lock()
		delete(m.underway, number)
		m.mu.Unlock()
		cancel(nil)
		m.returned.Done()
	}, true
}

// operation is one call of a method, from OperationStart to OperationDone.
type operation struct {
	m        *Manager
	op       walstorage.Operation
	ctx      context.Context // the caller's, as OperationStart returned it
	attempts int
	segments int
}

// operate runs one call between its two hooks, which are called exactly once on every path out of it, a panic in the
// caller's loop included (O1).
func (m *Manager) operate(ctx context.Context, op walstorage.Operation, run func(o *operation) error) (err error) {
	nilContext := ctx == nil
	if nilContext {
		ctx = context.Background()
	}
	o := &operation{m: m, op: op, segments: op.Segments}
	start := time.Now()
	o.ctx = m.cfg.Hooks.StartOperation(ctx, op)
	finished := false
	defer func() {
		result := walstorage.OperationResult{Duration: time.Since(start), Attempts: o.attempts, Segments: o.segments, Err: err}
		if !finished {
			result.Err = o.fail(nil, errUnfinished)
		}
		m.cfg.Hooks.EndOperation(o.ctx, op, result)
	}()
	if nilContext {
		err = o.fail(walstorage.ErrInvalidArgument, errors.New("the context is nil"))
	} else {
		err = run(o)
	}
	finished = true
	return err
}

// errUnfinished is told to the hooks of a call or an attempt that a panic or runtime.Goexit has ended.
var errUnfinished = errors.New("did not return")

// fail makes the error of the operation before any request was sent for it.
func (o *operation) fail(kind, cause error) error {
	return &walstorage.Error{Op: o.op.Op, ID: o.op.ID, Attempts: o.attempts, Kind: kind, Cause: cause}
}

// one runs a call about one segment: closed, arguments and context are checked in this order, and only then is there a
// request.
func (m *Manager) one(ctx context.Context, op walstorage.Operation, check func() error, run func(r *request) error) error {
	return m.operate(ctx, op, func(o *operation) error {
		entered, leave, ok := m.enter(o.ctx)
		if !ok {
			return o.fail(walstorage.ErrClosed, nil)
		}
		defer leave()
		err := op.ID.Validate()
		if err == nil && check != nil {
			err = check()
		}
		if err != nil {
			var argument *walstorage.Error
			if errors.As(err, &argument) {
				return o.fail(argument.Kind, argument.Cause)
			}
			return o.fail(walstorage.ErrInvalidArgument, err)
		}
		r := o.request(entered, op.ID)
		if entered.Err() != nil {
			return r.ended(nil)
		}
		return run(r)
	})
}

// PanicError is the cause of the error of a call whose driver panicked. The panic is contained: it ends one attempt
// and nothing else. Such an attempt is repeated at most twice in one call; then the call fails with an error of no
// kind, since a driver that panics is broken and not busy.
type PanicError struct {
	// Value is what the driver panicked with.
	Value any
	// Stack is the stack of the goroutine at that time.
	Stack []byte
}

// Error names the value.
func (e *PanicError) Error() string { return fmt.Sprintf("the driver panicked: %v", e.Value) }
