package metadata

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Log is the metadata topic: it carries one event per segment from each leader to every follower. Implementations are
// memlog (the reference, in memory), filelog (files on a shared filesystem) and kafkalog (a topic on a Kafka cluster);
// package conformance proves any. No method will ever be added to this interface. A log that takes no event of
// [MaxEventBytes] tells its own limit by a method MaxEventBytes() int, which leader.New heeds (L8).
type Log interface {
	// Publish appends events in order and returns how many are durably stored: a prefix. err says why the rest is not:
	// [ErrFenced], [ErrInvalid] and [ErrClosed] mean that the event after the prefix is certainly not stored;
	// [ErrUnknownOutcome], an error of the context and any other error mean that some of the rest may be, or may
	// appear later. The caller settles that by publishing the same events again, unchanged; readers drop duplicates
	// (L5). Publish keeps no event and waits for no consumer (M1). One call at a time per broker.
	Publish(ctx context.Context, events ...*Event) (stored int, err error)
	// Subscribe returns once its position is fixed: every event whose Publish begins afterwards is delivered, the
	// events of each broker in the order of their publication.
	Subscribe(ctx context.Context, from Position) (Subscription, error)
	// Close ends every subscription and releases what the log holds. It may be called more than once; later calls of
	// the other methods give [ErrClosed].
	Close() error
}

// Subscription is one reader of a [Log]. Next is called by one goroutine at a time; Close may be called at any time
// and ends a Next under way with [ErrClosed]. No method will ever be added to this interface.
type Subscription interface {
	// Next waits for the next event or gap. The event is valid until the next call; [Event.Clone] keeps it. An error
	// of the context leaves the subscription usable. Any other error but [ErrClosed] is worth a retry of Next after a
	// pause; the log loses no event over it without a [Gap] (M3, M4).
	Next(ctx context.Context) (Item, error)
	// Close releases the subscription. It may be called more than once.
	Close() error
}

// Position tells where a subscription begins. It picks the place and filters nothing afterwards: events stamped
// earlier than Time by a skewed clock can follow.
type Position struct {
	// Time begins at the first event stored at or after this time, by the log's own reckoning, or somewhat earlier.
	// The zero time begins at the end.
	Time time.Time
}

// Item is what a subscription yields; exactly one field is set.
type Item struct {
	Event *Event
	Gap   *Gap
}

// Gap says that events of a broker are missing or unreadable (M3).
type Gap struct {
	// BrokerID is the broker whose events are missing.
	BrokerID int32
	// BrokerEpoch is the epoch of the missing events where it is known, otherwise -1.
	BrokerEpoch int64
	// From and To are the missing sequences, To not included. Both are -1 where they are not known.
	From, To int64
	// Reason says why.
	Reason GapReason
}

// GapReason says why events are missing.
type GapReason string

// The reasons.
const (
	// GapMissing says that the sequence numbers jump.
	GapMissing GapReason = "missing"
	// GapCorrupt says that an event was there and could not be read.
	GapCorrupt GapReason = "corrupt"
	// GapUnknownVersion says that an event was written in a version that this reader does not know.
	GapUnknownVersion GapReason = "unknown version"
)

// String describes the gap in a line.
func (g Gap) String() string {
	return fmt.Sprintf("gap of broker %d epoch %d, sequences [%d,%d): %s", g.BrokerID, g.BrokerEpoch, g.From, g.To, g.Reason)
}

// The errors of a [Log].
var (
	// ErrFenced says that a newer broker epoch of the same broker id has published; terminal for the writer (L6).
	ErrFenced = errors.New("metadata: a newer epoch of this broker has published")
	// ErrInvalid says that the event can never be stored as it is; nothing was stored of it.
	ErrInvalid = errors.New("metadata: invalid event")
	// ErrUnknownOutcome says that the events may be stored or not (M1).
	ErrUnknownOutcome = errors.New("metadata: outcome of the publication is unknown")
	// ErrCorrupt says that stored bytes are no event. It never ends a subscription (M4).
	ErrCorrupt = errors.New("metadata: corrupt event")
	// ErrUnknownVersion says that an event was written in a version that this reader does not know.
	ErrUnknownVersion = errors.New("metadata: unknown event version")
	// ErrClosed says that the log or the subscription has been closed.
	ErrClosed = errors.New("metadata: closed")
)
