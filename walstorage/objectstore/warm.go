package objectstore

import (
	"context"
	"errors"

	"github.com/walhop/walhop/walstorage"
)

// Warmer is an optional interface of a [Driver], for stores where the first request costs more than the others.
type Warmer interface {
	// Warm opens what the first requests would otherwise wait for: connections, a session, credentials. It stores
	// nothing. It is one attempt and classifies its errors like every method of a Driver. The driver works whatever
	// Warm returns, and it may be called again, and at the same time as every other method.
	Warm(ctx context.Context) error
}

// opWarm stands in the errors of Warm.
const opWarm walstorage.Op = "warm"

// Warm opens the driver's connections before the first upload has to wait for them; where the driver is no [Warmer] it
// does nothing. Call it once after New, before the broker leads its first partition. That is all it is good for: no
// other method needs it, and the manager works whatever it returns.
//
// It makes one attempt, with Config.BulkAttemptTimeout as its deadline, since a connection, a TLS handshake and a
// session take longer than one request. It does not repeat it, and neither waits at the gates nor tells them of it: who
// starts a broker wants to see the first answer of the store. The errors are those of every other method, with Op "warm"
// (W7, W8): [walstorage.ErrBucketNotFound] or [walstorage.ErrAccessDenied] say that the configuration is wrong,
// [walstorage.ErrUnavailable] that the store is slow or down and that the call may be repeated,
// [walstorage.ErrClosed] that Close was called, which ends Warm and waits for it (W12).
//
// No hook is called: hooks count the methods of [walstorage.WalStorageManager], of which this is none.
func (m *Manager) Warm(ctx context.Context) error {
	o := &operation{m: m, op: walstorage.Operation{Op: opWarm}, ctx: ctx}
	if ctx == nil {
		return o.fail(walstorage.ErrInvalidArgument, errors.New("the context is nil"))
	}
	entered, leave, ok := m.enter(ctx)
	if !ok {
		return o.fail(walstorage.ErrClosed, nil)
	}
	defer leave()
	r := o.request(entered, walstorage.SegmentID{})
	if entered.Err() != nil {
		return r.ended(nil)
	}
	warmer, ok := m.driver.(Warmer)
	if !ok {
		return nil
	}
	o.attempts = 1
	timeout := m.cfg.BulkAttemptTimeout
	attempt, cancel := context.WithTimeout(entered, timeout)
	defer cancel()
	if raw := contain(func() error { return warmer.Warm(attempt) }); raw != nil {
		return r.classify(raw, attempt, timeout)
	}
	return nil
}
