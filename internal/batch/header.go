package batch

import (
	"encoding/binary"
	"math"
)

const (
	// HeaderLength is the number of bytes before the records of a batch, the least that a batch has.
	HeaderLength = 61
	// lengthEnd is where the length field ends; the field counts the bytes after it.
	lengthEnd = 12
	// magicEnd is where the magic byte ends.
	magicEnd = 17
	// crcStart is where the CRC field begins, crcEnd where the bytes begin that it covers.
	crcStart, crcEnd = 17, 21
	// minLegacyLength is the least value of the length field in the formats 0 and 1: a CRC, a magic, attributes and two
	// null fields. What is shorter is no batch of any format; 61 zero bytes are none either.
	minLegacyLength = 14
)

// The bits of [Header.Attributes].
const (
	// CodecMask holds the compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. It is never interpreted on the
	// copy path.
	CodecMask = 0x07
	// LogAppendTime says that max timestamp was set by the broker.
	LogAppendTime = 0x08
	// Transactional says that the batch belongs to a transaction.
	Transactional = 0x10
	// Control says that the batch is a transaction marker.
	Control = 0x20
	// DeleteHorizon says that base timestamp holds the time after which the cleaner may drop tombstones.
	DeleteHorizon = 0x40
)

// Header is the header of a record batch of format version 2.
type Header struct {
	// BaseOffset is the offset of the first record that was written, 0 or greater.
	BaseOffset int64
	// Length is the size of the whole batch in bytes, header included, at least [HeaderLength].
	Length int
	// LeaderEpoch is the leader epoch under which the batch was appended, -1 if it is not known.
	LeaderEpoch int32
	// Magic is the format version, 2.
	Magic int8
	// CRC is the CRC-32C of everything from the attributes on. It does not cover base offset, length, epoch and magic.
	CRC uint32
	// Attributes are the bits above.
	Attributes int16
	// LastOffsetDelta is the last offset less the base offset, 0 or greater.
	LastOffsetDelta int32
	// BaseTimestamp is the timestamp of the first record in Unix milliseconds, or the delete horizon.
	BaseTimestamp int64
	// MaxTimestamp is the largest timestamp in Unix milliseconds, -1 if there is none.
	MaxTimestamp int64
	// ProducerID, ProducerEpoch and BaseSequence are those of an idempotent producer, -1 without one.
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	// Records is the record count as it stands in the header: any value, not to be relied on.
	Records int32
}

// LastOffset returns the offset of the batch's last record as written, which compaction may have removed.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset returns the offset after the batch.
func (h *Header) NextOffset() int64 { return h.LastOffset() + 1 }

// ParseHeader reads the header of the batch at the beginning of b. The bytes after the header are not looked at.
//
// The error is [ErrPartial] if b ends before the batch does. The header returned with it has Length set if b holds the
// length field (12 bytes), otherwise 0, and all other fields if b holds the whole header. It is a [*CorruptError] if no
// writer of batches makes such a header and a [*UnsupportedMagicError] for the formats 0 and 1; both say position 0.
// What is wrong is told as soon as the bytes there show it, also in a batch that is cut off.
func ParseHeader(b []byte) (Header, error) {
	var h Header
	length, found := check(b)
	switch found {
	case whole, partial:
		if h.Length = length; len(b) >= HeaderLength {
			h.fill(b)
		}
		if found == partial {
			return h, ErrPartial
		}
		return h, nil
	case oldFormat:
		return h, &UnsupportedMagicError{Magic: int8(b[magicEnd-1])}
	default:
		return h, &CorruptError{Reason: found.reason()}
	}
}

// fill sets everything but Length from a whole header.
func (h *Header) fill(b []byte) {
	_ = b[HeaderLength-1]
	h.BaseOffset = int64(binary.BigEndian.Uint64(b))
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[12:]))
	h.Magic = int8(b[16])
	h.CRC = binary.BigEndian.Uint32(b[17:])
	h.Attributes = int16(binary.BigEndian.Uint16(b[21:]))
	h.LastOffsetDelta = int32(binary.BigEndian.Uint32(b[23:]))
	h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[27:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[35:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[43:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.BaseSequence = int32(binary.BigEndian.Uint32(b[53:]))
	h.Records = int32(binary.BigEndian.Uint32(b[57:]))
}

// verdict is what check found.
type verdict uint8

const (
	whole verdict = iota
	partial
	oldFormat
	// From here on the bytes are corrupt.
	negativeBase
	negativeLength
	shortLength
	unknownMagic
	lengthBelowHeader
	negativeSpan
	offsetOverflow
)

// reason says in words why the bytes are corrupt.
func (v verdict) reason() string {
	switch v {
	case negativeBase:
		return "base offset is negative"
	case negativeLength:
		return "length is negative"
	case shortLength:
		return "length is too small for a batch"
	case unknownMagic:
		return "magic is unknown"
	case lengthBelowHeader:
		return "length is smaller than the header"
	case negativeSpan:
		return "last offset delta is negative"
	case offsetOverflow:
		return "last offset is beyond the largest offset"
	}
	return ""
}

// check judges the batch at the beginning of b by its header and returns its length, 0 where b is too short to tell. It
// is what every byte on the hot paths passes, and allocates nothing.
func check(b []byte) (length int, found verdict) {
	if len(b) < HeaderLength {
		return checkCut(b)
	}
	base := int64(binary.BigEndian.Uint64(b))
	field := int32(binary.BigEndian.Uint32(b[8:]))
	delta := int32(binary.BigEndian.Uint32(b[23:]))
	if base < 0 || field < HeaderLength-lengthEnd || b[magicEnd-1] != 2 {
		return checkCut(b)
	}
	if delta < 0 {
		return 0, negativeSpan
	}
	if base > math.MaxInt64-1-int64(delta) {
		return 0, offsetOverflow
	}
	length = lengthEnd + int(field)
	if length > len(b) {
		return length, partial
	}
	return length, whole
}

// checkCut judges the beginning of a header, field by field as far as it goes; b is cut off in the header, or wrong in
// its first 17 bytes.
func checkCut(b []byte) (length int, found verdict) {
	if len(b) < 8 {
		return 0, partial
	}
	if int8(b[0]) < 0 {
		return 0, negativeBase
	}
	if len(b) < lengthEnd {
		return 0, partial
	}
	field := int32(binary.BigEndian.Uint32(b[8:]))
	if field < 0 {
		return 0, negativeLength
	}
	if field < minLegacyLength {
		return 0, shortLength
	}
	if len(b) >= magicEnd {
		switch b[magicEnd-1] {
		case 0, 1:
			return 0, oldFormat
		case 2:
		default:
			return 0, unknownMagic
		}
		if field < HeaderLength-lengthEnd {
			return 0, lengthBelowHeader
		}
	}
	return lengthEnd + int(field), partial
}
