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
	// PublishLate is one that is stored later, PublishTwice one that is stored twice, PublishRefused one that is refused
	// for certain.
	PublishLost, PublishAnswerLost, PublishLate, PublishTwice, PublishRefused float64
	// EventTwice, EventLate and EventGone are events that reach one subscriber twice, late, or as a gap; EventCorrupt and
	// EventUnknown such that it cannot read.
	EventTwice, EventLate, EventGone, EventCorrupt, EventUnknown float64
	// DeleteFails is a delete of some of the segments asked for, DeleteAnswerLost one that succeeds and fails for its
	// caller.
	DeleteFails, DeleteAnswerLost float64
	// MessageLost and MessageSlow concern reports, fetches and their answers.
	MessageLost, MessageSlow float64
}

// all returns every probability.
func (f *Faults) all() []*float64 {
	return []*float64{
		&f.RequestFails, &f.RequestSlow, &f.PutAnswerLost, &f.PutLandsLate, &f.GetCorrupt, &f.GetShort, &f.GetMissing,
		&f.PublishLost, &f.PublishAnswerLost, &f.PublishLate, &f.PublishTwice, &f.PublishRefused,
		&f.EventTwice, &f.EventLate, &f.EventGone, &f.EventCorrupt, &f.EventUnknown, &f.DeleteFails, &f.DeleteAnswerLost,
		&f.MessageLost, &f.MessageSlow,
	}
}

// StormyDay has a little of everything.
func StormyDay() Faults {
	return Faults{
		RequestFails: 0.02, RequestSlow: 0.02, PutAnswerLost: 0.01, PutLandsLate: 0.01,
		GetCorrupt: 0.005, GetShort: 0.005, GetMissing: 0.005,
		PublishLost: 0.01, PublishAnswerLost: 0.01, PublishLate: 0.005, PublishTwice: 0.01, PublishRefused: 0.002,
		EventTwice: 0.02, EventLate: 0.02, EventGone: 0.01, EventCorrupt: 0.002, EventUnknown: 0.002,
		DeleteFails: 0.05, DeleteAnswerLost: 0.05,
		MessageLost: 0.005, MessageSlow: 0.02,
	}
}
