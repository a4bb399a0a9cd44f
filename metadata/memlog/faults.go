package memlog

import (
	"time"

	"github.com/walhop/walhop/walstorage"
)

// Faults script what goes wrong for one [Log]. Every function may be nil. They are called by the goroutines that call
// the log, with no lock held; where several may run at once they must be safe for concurrent use.
type Faults struct {
	// Publish is asked once for each call of Publish whose events are valid.
	Publish func(call PublishCall) PublishFault
	// Subscribe is asked once for each call of Subscribe.
	Subscribe func(call SubscribeCall) SubscribeFault
	// Deliver is asked when an event is the next of its broker for a subscription: once, or, while the answer is Hold,
	// again at each [Topic.Recheck] and whenever something is published.
	Deliver func(d Delivery) DeliveryFault
}

// PublishCall describes a call of Publish.
type PublishCall struct {
	// Number counts the calls of this log from 0.
	Number int
	// Events is the number of events in the call, Sequence that of the first, Segment its segment.
	Events   int
	Sequence int64
	Segment  walstorage.SegmentID
}

// PublishFault says how a call of Publish goes. The zero value is a call without faults. What happens happens in the
// order of the fields.
type PublishFault struct {
	// Wait holds up the call until the channel is closed.
	Wait <-chan struct{}
	// Delay is how long the call takes before anything is stored.
	Delay time.Duration
	// Err, if not nil, is what the call returns: [metadata.ErrUnknownOutcome], [metadata.ErrFenced] or any other.
	Err error
	// Stored is, with Err, how many of the events are stored nevertheless, and Told how many of those the call returns
	// as stored.
	Stored, Told int
	// Late, with Err, is how much later the events appear that are stored and not told.
	Late time.Duration
	// Lose, without Err, makes the topic lose the events that the call returns as stored.
	Lose bool
	// Repeat is how many times more the events are stored, each time after the others: duplicates for every reader.
	Repeat int
	// AckDelay is how long the call takes after the events are stored.
	AckDelay time.Duration
}

// SubscribeCall describes a call of Subscribe.
type SubscribeCall struct {
	// Number counts the calls of this log from 0.
	Number int
}

// SubscribeFault says how a call of Subscribe goes.
type SubscribeFault struct {
	// Wait holds up the call until the channel is closed, Delay for a time.
	Wait  <-chan struct{}
	Delay time.Duration
	// Err, if not nil, is what the call returns.
	Err error
}

// Delivery describes an event about to be delivered to a subscription.
type Delivery struct {
	// Subscription is the number of the subscription of this log, from 0.
	Subscription int
	// Number counts the events of this broker that this subscription has come to, from 0, this one not included.
	Number int
	// Sequence and Segment say which event it is.
	Sequence int64
	Segment  walstorage.SegmentID
}

// DeliveryFault says how a delivery goes. The zero value is a delivery without faults. The events of one broker always
// stay in their order: one that is late holds up those behind it, and none of another broker.
type DeliveryFault struct {
	// Delay is how long after it was stored the event is delivered.
	Delay time.Duration
	// Hold keeps the event back until a later answer does not.
	Hold bool
	// Lose makes the subscription miss the event.
	Lose bool
	// Repeat is how many times more the subscription meets the event, at once.
	Repeat int
	// Corrupt and UnknownVersion make the event unreadable.
	Corrupt, UnknownVersion bool
}
