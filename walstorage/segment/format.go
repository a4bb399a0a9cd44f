package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/walhop/walhop/walstorage"
)

// The frame of an object, all numbers big endian:
//
//	header   magic 8 bytes, format version 2, flags 2, broker id 4, broker epoch 8
//	body     the slices, back to back, in the order of the index
//	index    Metadata, see segment.proto
//	trailer  length of the index 4, CRC-32C of header and index 4, magic 8
//
// The body has no checksum of its own: each slice has one in the index, so that any range can be checked (W4). Header
// and trailer keep their form in every version.
const (
	// HeaderLength is the number of bytes before the first slice.
	HeaderLength = 24
	// TrailerLength is the number of bytes after the index.
	TrailerLength = 16
	// FormatVersion is the version of the format that [Builder.Seal] writes, the only one so far.
	FormatVersion = 1

	headerMagic  = "\x89WALHOP\n"
	trailerMagic = "\x89POHLAW\n"
)

// castagnoli is the polynomial of all checksums, read only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHeader(dst []byte, id walstorage.SegmentID) []byte {
	dst = append(dst, headerMagic...)
	dst = binary.BigEndian.AppendUint16(dst, FormatVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0) // flags: none so far
	dst = binary.BigEndian.AppendUint32(dst, uint32(id.BrokerID))
	return binary.BigEndian.AppendUint64(dst, uint64(id.BrokerEpoch))
}

// appendTrailer completes an object that holds header, body and an index that begins at indexStart.
func appendTrailer(object []byte, indexStart int) []byte {
	index := object[indexStart:]
	crc := crc32.Update(crc32.Checksum(object[:HeaderLength], castagnoli), castagnoli, index)
	object = binary.BigEndian.AppendUint32(object, uint32(len(index)))
	object = binary.BigEndian.AppendUint32(object, crc)
	return append(object, trailerMagic...)
}

// frame is what the fixed parts of an object say.
type frame struct {
	brokerID    int32
	brokerEpoch int64
	indexStart  int // where the body ends and the index begins
	indexEnd    int
}

// parseFrame checks everything of an object but the content of index and body.
func parseFrame(object []byte) (frame, error) {
	if len(object) < HeaderLength+TrailerLength {
		return frame{}, &CorruptError{Where: "header", Position: int64(len(object)), Reason: "the object is shorter than header and trailer"}
	}
	if string(object[:8]) != headerMagic {
		return frame{}, &CorruptError{Where: "header", Reason: "no segment begins so"}
	}
	trailer := len(object) - TrailerLength
	if string(object[trailer+8:]) != trailerMagic {
		return frame{}, &CorruptError{Where: "trailer", Position: int64(trailer + 8), Reason: "no segment ends so, it may be cut off"}
	}
	f := frame{indexEnd: trailer}
	length := int64(binary.BigEndian.Uint32(object[trailer:]))
	if length > int64(trailer-HeaderLength) {
		return frame{}, &CorruptError{Where: "trailer", Position: int64(trailer), Reason: "the index is longer than the object"}
	}
	f.indexStart = trailer - int(length)
	crc := crc32.Update(crc32.Checksum(object[:HeaderLength], castagnoli), castagnoli, object[f.indexStart:f.indexEnd])
	if crc != binary.BigEndian.Uint32(object[trailer+4:]) {
		return frame{}, &CorruptError{Where: "trailer", Position: int64(trailer + 4), Reason: "the checksum of header and index does not match"}
	}
	// Only now, so that a flipped bit in the version is told from another version.
	if version := binary.BigEndian.Uint16(object[8:]); version != FormatVersion {
		return frame{}, fmt.Errorf("%w: version %d", ErrUnsupportedVersion, version)
	}
	if flags := binary.BigEndian.Uint16(object[10:]); flags != 0 {
		return frame{}, fmt.Errorf("%w: flags %#x", ErrUnsupportedVersion, flags)
	}
	f.brokerID = int32(binary.BigEndian.Uint32(object[12:]))
	f.brokerEpoch = int64(binary.BigEndian.Uint64(object[16:]))
	return f, nil
}
