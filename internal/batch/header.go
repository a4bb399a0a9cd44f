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
	reason, err := h.parse(b)
	if reason != "" {
		return Header{}, &CorruptError{Reason: reason}
	}
	if err == ErrUnsupportedMagic {
		return Header{}, &UnsupportedMagicError{Magic: h.Magic}
	}
	return h, err
}

// parse fills h. It returns a reason if the bytes are corrupt, and otherwise nil or one of the two sentinels; it
// allocates nothing, so that a scan of broken bytes costs nothing before somebody asks for the error.
func (h *Header) parse(b []byte) (reason string, err error) {
	*h = Header{}
	if len(b) < 8 {
		return "", ErrPartial
	}
	base := int64(binary.BigEndian.Uint64(b))
	if base < 0 {
		return "base offset is negative", nil
	}
	if len(b) < lengthEnd {
		return "", ErrPartial
	}
	length := int32(binary.BigEndian.Uint32(b[8:]))
	switch {
	case length < 0:
		return "length is negative", nil
	case length < minLegacyLength:
		return "length is too small for a batch", nil
	}
	if len(b) < magicEnd {
		h.Length = lengthEnd + int(length)
		return "", ErrPartial
	}
	switch magic := int8(b[magicEnd-1]); magic {
	case 0, 1:
		h.Magic = magic
		return "", ErrUnsupportedMagic
	case 2:
	default:
		return "magic is unknown", nil
	}
	if length < HeaderLength-lengthEnd {
		return "length is smaller than the header", nil
	}
	h.Length = lengthEnd + int(length)
	if len(b) < HeaderLength {
		return "", ErrPartial
	}
	h.BaseOffset = base
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[12:]))
	h.Magic = 2
	h.CRC = binary.BigEndian.Uint32(b[crcStart:])
	h.Attributes = int16(binary.BigEndian.Uint16(b[21:]))
	h.LastOffsetDelta = int32(binary.BigEndian.Uint32(b[23:]))
	h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[27:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[35:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[43:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.BaseSequence = int32(binary.BigEndian.Uint32(b[53:]))
	h.Records = int32(binary.BigEndian.Uint32(b[57:]))
	if h.LastOffsetDelta < 0 {
		return "last offset delta is negative", nil
	}
	if base > math.MaxInt64-1-int64(h.LastOffsetDelta) {
		return "last offset is beyond the largest offset", nil
	}
	if len(b) < h.Length {
		return "", ErrPartial
	}
	return "", nil
}
