package walstorage

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
)

// SegmentID names one immutable segment: the broker that made it, the epoch under which that broker ran, and a
// version 7 UUID whose time is the creation time of the segment. It is comparable and can be a map key.
type SegmentID struct {
	// BrokerID is the id of the broker that uploads the segment, 0 or greater.
	BrokerID int32
	// BrokerEpoch is the epoch of that broker when the segment was sealed, 0 or greater.
	BrokerEpoch int64
	// UUID is of version 7 (RFC 9562, section 5.7) and of the RFC variant.
	UUID uuid.UUID
}

// maxUUIDMillis is the largest creation time that the 48 bits of a version 7 UUID can hold, in Unix milliseconds.
const maxUUIDMillis = 1<<48 - 1

// NewSegmentID makes the id of a segment that broker creates at the time created, in the epoch given. The 74 random
// bits are read from random, which is crypto/rand.Reader outside of tests; it must be safe for concurrent use if
// NewSegmentID is called concurrently. The time is cut to whole milliseconds.
//
// The time comes from the caller and from nowhere else, so that a broker whose clock is set back, and a test under
// virtual time, get ids that tell their own time. The error is [ErrInvalidArgument] for a negative broker or epoch or
// a time outside the years 1970 to 10889, or what random returned.
func NewSegmentID(broker int32, epoch int64, created time.Time, random io.Reader) (SegmentID, error) {
	id := SegmentID{BrokerID: broker, BrokerEpoch: epoch}
	millis := created.UnixMilli()
	if millis < 0 || millis > maxUUIDMillis {
		return SegmentID{}, NewError(ErrInvalidArgument, fmt.Errorf("segment id: creation time %s does not fit a version 7 UUID", created.UTC().Format(time.RFC3339)))
	}
	if _, err := io.ReadFull(random, id.UUID[6:]); err != nil {
		return SegmentID{}, fmt.Errorf("segment id: reading random bits: %w", err)
	}
	for i := range 6 {
		id.UUID[i] = byte(millis >> (40 - 8*i))
	}
	id.UUID[6] = id.UUID[6]&0x0f | 0x70
	id.UUID[8] = id.UUID[8]&0x3f | 0x80
	if err := id.Validate(); err != nil {
		return SegmentID{}, err
	}
	return id, nil
}

// Created returns the creation time held by the UUID, in UTC, in whole milliseconds.
func (id SegmentID) Created() time.Time {
	var millis int64
	for _, b := range id.UUID[:6] {
		millis = millis<<8 | int64(b)
	}
	return time.UnixMilli(millis).UTC()
}

// Validate returns nil if the id can name a segment, and otherwise an error of kind [ErrInvalidArgument] that names the
// wrong part.
func (id SegmentID) Validate() error {
	switch {
	case id.BrokerID < 0:
		return NewError(ErrInvalidArgument, fmt.Errorf("segment id: broker id %d is negative", id.BrokerID))
	case id.BrokerEpoch < 0:
		return NewError(ErrInvalidArgument, fmt.Errorf("segment id: broker epoch %d is negative", id.BrokerEpoch))
	case id.UUID == uuid.Nil:
		return NewError(ErrInvalidArgument, errors.New("segment id: the UUID is zero"))
	case id.UUID.Version() != 7 || id.UUID.Variant() != uuid.RFC4122:
		return NewError(ErrInvalidArgument, fmt.Errorf("segment id: UUID %s is not of version 7", id.UUID))
	}
	return nil
}

// String returns "broker/epoch-uuid", for logs and error texts. It is not the object key, see [Keys].
func (id SegmentID) String() string {
	return fmt.Sprintf("%d/%d-%s", id.BrokerID, id.BrokerEpoch, id.UUID)
}
