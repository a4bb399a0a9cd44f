package batchtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/walhop/walhop/internal/batch"
)

// Time is the timestamp of the first record of every batch that [Make] makes, in Unix milliseconds; each further
// record is a millisecond later.
const Time = 1_700_000_000_000

// Spec says what stands in a batch of format 2. [Spec.Bytes] writes every field as it is given, sensible or not, and
// computes length and checksum.
type Spec struct {
	BaseOffset      int64
	LeaderEpoch     int32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	// Records is the record count of the header.
	Records int32
	// Payload is what follows the header.
	Payload []byte
}

// NewSpec returns the spec of a batch of one record for each value, without a producer id, timestamps from [Time] on.
func NewSpec(base int64, epoch int32, values ...string) Spec {
	s := Spec{
		BaseOffset: base, LeaderEpoch: epoch, BaseTimestamp: Time, MaxTimestamp: Time,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Records: int32(len(values)),
	}
	if len(values) > 0 {
		s.LastOffsetDelta = int32(len(values) - 1)
		s.MaxTimestamp += int64(len(values) - 1)
	}
	for i, value := range values {
		s.Payload = AppendRecord(s.Payload, int64(i), int32(i), nil, []byte(value))
	}
	return s
}

// Make returns a valid batch that begins at base, of one record for each value.
func Make(base int64, epoch int32, values ...string) []byte {
	return NewSpec(base, epoch, values...).Bytes()
}

// Sized returns a valid batch of one record that is size bytes in all, at least 70, its value filled with fill.
func Sized(base int64, epoch int32, size int, fill byte) []byte {
	s := NewSpec(base, epoch)
	s.Records = 1
	for overhead := 7; overhead < 20; overhead++ {
		n := max(0, size-batch.HeaderLength-overhead)
		record := AppendRecord(nil, 0, 0, []byte{fill}, bytes.Repeat([]byte{fill}, n))
		switch size - batch.HeaderLength - len(record) {
		case 0:
			s.Payload = record
			return s.Bytes()
		case 1:
			// The record's length is a varint that takes a byte more from 64 on, so some sizes have no record; a
			// varint may be longer than it need be, though.
			_, k := binary.Varint(record)
			s.Payload = slices.Concat(record[:k-1], []byte{record[k-1] | 0x80, 0}, record[k:])
			return s.Bytes()
		}
	}
	panic(fmt.Sprintf("batchtest: no batch of one record has %d bytes", size))
}

// Bytes returns the batch.
func (s Spec) Bytes() []byte {
	b := make([]byte, batch.HeaderLength, batch.HeaderLength+len(s.Payload))
	binary.BigEndian.PutUint64(b, uint64(s.BaseOffset))
	binary.BigEndian.PutUint32(b[8:], uint32(batch.HeaderLength-12+len(s.Payload)))
	binary.BigEndian.PutUint32(b[12:], uint32(s.LeaderEpoch))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(s.Attributes))
	binary.BigEndian.PutUint32(b[23:], uint32(s.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[27:], uint64(s.BaseTimestamp))
	binary.BigEndian.PutUint64(b[35:], uint64(s.MaxTimestamp))
	binary.BigEndian.PutUint64(b[43:], uint64(s.ProducerID))
	binary.BigEndian.PutUint16(b[51:], uint16(s.ProducerEpoch))
	binary.BigEndian.PutUint32(b[53:], uint32(s.BaseSequence))
	binary.BigEndian.PutUint32(b[57:], uint32(s.Records))
	b = append(b, s.Payload...)
	batch.SetCRC(b)
	return b
}

// AppendRecord appends one record of format 2 without headers to dst. A nil key or value is null.
func AppendRecord(dst []byte, timestampDelta int64, offsetDelta int32, key, value []byte) []byte {
	var body []byte
	body = append(body, 0) // attributes
	body = binary.AppendVarint(body, timestampDelta)
	body = binary.AppendVarint(body, int64(offsetDelta))
	for _, field := range [2][]byte{key, value} {
		if field == nil {
			body = binary.AppendVarint(body, -1)
			continue
		}
		body = binary.AppendVarint(body, int64(len(field)))
		body = append(body, field...)
	}
	body = binary.AppendVarint(body, 0) // headers
	dst = binary.AppendVarint(dst, int64(len(body)))
	return append(dst, body...)
}
