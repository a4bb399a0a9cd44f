package metadata

import "time"

// Hooks are the points where metrics, logs and traces attach to a [Log]. Every field may be nil. The functions run on
// the goroutine of the call or on the log's own, must be safe for concurrent use, must not block, and must not panic.
// New fields may be added, so name the fields when you fill one in.
type Hooks struct {
	// Published is called once for each call of Publish, on every path out of it.
	Published func(p Publication)
	// Delivered is called for each event that a subscription yields. The event is valid during the call alone.
	Delivered func(e *Event)
	// Duplicate is called for each event that a subscription drops because it has yielded it before. The event is
	// valid during the call alone.
	Duplicate func(e *Event)
	// Gap is called for each gap that a subscription yields (M3).
	Gap func(g Gap)
	// Damage is called when something in the log cannot be used: once for each place, not once for each reader (M4).
	Damage func(d Damage)
}

// Publication describes one call of Publish.
type Publication struct {
	// Events is the number of events given, Stored the number that the call says are stored.
	Events, Stored int
	// Bytes is the size of what was written for the stored events.
	Bytes int64
	// Duration is the time that the call took.
	Duration time.Duration
	// Err is what the caller gets.
	Err error
}

// Damage describes something in a log's storage that cannot be used. Everything else goes on.
type Damage struct {
	// Kind says what it is.
	Kind DamageKind
	// Name is the place: a file, or a partition of a topic.
	Name string
	// Offset is the place in it, in bytes or in records as the log counts, or -1.
	Offset int64
	// BrokerID is the broker whose events are concerned, or -1.
	BrokerID int32
	// Err says more. It is never nil.
	Err error
}

// DamageKind is a kind of [Damage], fit for a metric label.
type DamageKind string

// The kinds.
const (
	// DamageCorrupt is an event, or a file's header, that does not match its checksum or its format.
	DamageCorrupt DamageKind = "corrupt"
	// DamageUnknownVersion is an event or a file in a version that this reader does not know.
	DamageUnknownVersion DamageKind = "unknown version"
	// DamageTorn is an event that its writer began and did not finish. It was never acknowledged, so nothing is missing.
	DamageTorn DamageKind = "torn"
	// DamageForeign is something that does not belong to the log. It is left alone.
	DamageForeign DamageKind = "foreign"
	// DamageUnreadable is a file or directory that the operating system does not let us read or list for now.
	DamageUnreadable DamageKind = "unreadable"
)
