package metadata

import "fmt"

// CheckWriter returns an error around [ErrInvalid] unless the event may be published by the writer of the broker and
// broker epoch given. It is for implementations of [Log], which encode the event besides and so check the rest.
func CheckWriter(e *Event, brokerID int32, brokerEpoch int64) error {
	if e == nil {
		return fmt.Errorf("%w: the event is nil", ErrInvalid)
	}
	if id := e.Segment.ID; id.BrokerID != brokerID || id.BrokerEpoch != brokerEpoch {
		return fmt.Errorf("%w: segment %s is not of broker %d, epoch %d", ErrInvalid, id, brokerID, brokerEpoch)
	}
	return nil
}
