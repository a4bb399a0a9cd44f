package sim

// Faults are the probabilities of what goes wrong, per operation. The zero value is a fine day.
type Faults struct {
	// RequestFails is a request to the store that gets a 503, RequestSlow one that takes up to a second more.
	RequestFails, RequestSlow float64
	// PutAnswerLost is an upload that succeeds and fails for its caller, PutLandsLate one that fails and lands later.
	PutAnswerLost, PutLandsLate float64
	// GetCorrupt, GetShort and GetMissing are downloads with a bit flipped, with an end cut off, and of an object that
	// the store denies to have.
	GetCorrupt, GetShort, GetMissing float64
	// PublishLost is an event that is not stored, PublishAnswerLost one that is, both with an unknown outcome.
	// PublishRejected is an event that is refused for certain.
	PublishLost, PublishAnswerLost float64
	// EventTwice, EventLate and EventGone are events that reach one subscriber twice, late, or as a gap.
	EventTwice, EventLate, EventGone float64
	// MessageLost and MessageSlow concern reports, fetches and their answers.
	MessageLost, MessageSlow float64
}

// StormyDay has a little of everything.
func StormyDay() Faults {
	return Faults{
		RequestFails: 0.02, RequestSlow: 0.02, PutAnswerLost: 0.01, PutLandsLate: 0.01,
		GetCorrupt: 0.005, GetShort: 0.005, GetMissing: 0.005,
		PublishLost: 0.01, PublishAnswerLost: 0.01,
		EventTwice: 0.02, EventLate: 0.02, EventGone: 0.01,
		MessageLost: 0.005, MessageSlow: 0.02,
	}
}
