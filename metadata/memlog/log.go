package memlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// Options configures a [Log].
type Options struct {
	// Broker is the id of the broker whose handle it is, 0 or greater.
	Broker int32
	// BrokerEpoch is the broker's epoch, 0 or greater: the events that it publishes must carry it.
	BrokerEpoch int64
	// EventVersion is the version of the events that it publishes (M4). Default [metadata.LatestVersion].
	EventVersion metadata.Version
	// Faults script what goes wrong for it. [Log.SetFaults] changes them.
	Faults Faults
	// Hooks observe it.
	Hooks metadata.Hooks
}

// Validate names the field that is wrong, in an error of kind walstorage.ErrInvalidArgument.
func (o Options) Validate() error {
	if o.Broker < 0 {
		return invalid("Broker is %d, want 0 or greater", o.Broker)
	}
	if o.BrokerEpoch < 0 {
		return invalid("BrokerEpoch is %d, want 0 or greater", o.BrokerEpoch)
	}
	if o.EventVersion != 0 {
		if err := o.EventVersion.Validate(); err != nil {
			return fmt.Errorf("%w: memlog: Options.EventVersion: %w", walstorage.ErrInvalidArgument, err)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("memlog: Options."+format, args...))
}

// Log is one broker's handle on a [Topic]. It implements [metadata.Log] and is safe for concurrent use.
type Log struct {
	topic   *Topic
	options Options

	mu         sync.Mutex
	faults     Faults
	publishes  int
	subscribes int
	isClosed   bool
	closed     chan struct{} // closed once isClosed is set; it ends the subscriptions too
}

var _ metadata.Log = (*Log)(nil)

// Open returns a handle. Several of one broker, of the same epoch or of different ones, may be open at once. The error
// names the option that is wrong.
func (t *Topic) Open(options Options) (*Log, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if options.EventVersion == 0 {
		options.EventVersion = metadata.LatestVersion
	}
	return &Log{topic: t, options: options, faults: options.Faults, closed: make(chan struct{})}, nil
}

// SetFaults replaces the script, for calls and deliveries that begin afterwards.
func (l *Log) SetFaults(faults Faults) {
	l.mu.Lock()
	l.faults = faults
	l.mu.Unlock()
	l.topic.Recheck()
}

// Publish appends the events, see [metadata.Log].
func (l *Log) Publish(ctx context.Context, events ...*metadata.Event) (stored int, err error) {
	begun := time.Now()
	records, err := l.encode(events)
	if len(records) > 0 || err == nil {
		var failed error
		if stored, failed = l.publish(ctx, records); failed != nil {
			err = failed // it came before what is wrong with an event
		}
	}
	if hook := l.options.Hooks.Published; hook != nil {
		var bytes int64
		for _, r := range records[:stored] {
			bytes += int64(len(r.data))
		}
		hook(metadata.Publication{Events: len(events), Stored: stored, Bytes: bytes, Duration: time.Since(begun), Err: err})
	}
	return stored, err
}

// encode returns the records of the events before the first that is not valid, and what is wrong with that one.
func (l *Log) encode(events []*metadata.Event) ([]record, error) {
	records := make([]record, 0, len(events))
	for _, e := range events {
		if err := metadata.CheckWriter(e, l.options.Broker, l.options.BrokerEpoch); err != nil {
			return records, err
		}
		data, err := e.AppendVersion(nil, l.options.EventVersion)
		if err != nil {
			return records, err
		}
		records = append(records, record{id: e.Segment.ID, sequence: e.Sequence, data: data})
	}
	return records, nil
}

func (l *Log) publish(ctx context.Context, records []record) (stored int, err error) {
	l.mu.Lock()
	closed, ask, number := l.isClosed, l.faults.Publish, l.publishes
	l.publishes++
	l.mu.Unlock()
	if closed {
		return 0, metadata.ErrClosed
	}
	var fault PublishFault
	if ask != nil && len(records) > 0 {
		fault = ask(PublishCall{Number: number, Events: len(records), Sequence: records[0].sequence, Segment: records[0].id})
	}
	if err := l.wait(ctx, fault.Wait, fault.Delay); err != nil {
		return 0, err
	}
	if fault.Err != nil {
		return l.fail(fault, records)
	}
	kept := records
	if fault.Lose {
		kept = nil
	}
	if err := l.store(kept, true); err != nil {
		return 0, err
	}
	for range fault.Repeat {
		_ = l.store(kept, false)
	}
	if err := l.wait(ctx, nil, fault.AckDelay); err != nil {
		return 0, err // stored, and the caller can't know
	}
	return len(records), nil
}

// fail stores what the script says is stored in spite of the error.
func (l *Log) fail(fault PublishFault, records []record) (stored int, err error) {
	kept := max(0, min(fault.Stored, len(records)))
	told := max(0, min(fault.Told, kept))
	if err := l.store(records[:told], true); err != nil {
		return 0, err
	}
	rest := records[told:kept]
	if fault.Late > 0 {
		time.AfterFunc(fault.Late, func() { _ = l.store(rest, false) })
	} else {
		_ = l.store(rest, false)
	}
	return told, fault.Err
}

func (l *Log) store(records []record, fence bool) error {
	return l.topic.store(l.options.Broker, l.options.BrokerEpoch, records, fence)
}

// wait waits for the gate and then for the delay.
func (l *Log) wait(ctx context.Context, gate <-chan struct{}, delay time.Duration) error {
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		case <-l.closed:
		}
	}
	if delay > 0 && l.ended(ctx) == nil {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-l.closed:
		}
	}
	return l.ended(ctx)
}

// ended tells in a fixed order why a call must not go on (D2).
func (l *Log) ended(ctx context.Context) error {
	select {
	case <-l.closed:
		return metadata.ErrClosed
	default:
		return ctx.Err()
	}
}

// Subscribe begins to read, see [metadata.Log].
func (l *Log) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	l.mu.Lock()
	ask, number := l.faults.Subscribe, l.subscribes
	l.subscribes++
	l.mu.Unlock()
	var fault SubscribeFault
	if ask != nil {
		fault = ask(SubscribeCall{Number: number})
	}
	if err := l.wait(ctx, fault.Wait, fault.Delay); err != nil {
		return nil, err
	}
	if fault.Err != nil {
		return nil, fault.Err
	}
	return newSubscription(l, number, from), nil
}

func (l *Log) deliverFault() func(Delivery) DeliveryFault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults.Deliver
}

// Close ends the calls and subscriptions of this handle. The topic and what is in it stay.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return nil
	}
	l.isClosed = true
	close(l.closed)
	return nil
}
