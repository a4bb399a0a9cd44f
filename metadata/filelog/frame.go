package filelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/walhop/walhop/metadata"
)

// The form of a file, all numbers big endian:
//
//	header  magic 8 bytes, format version 2, zero 2, broker id 4, broker epoch 8, number 4, created 8, CRC-32C 4
//	frames  marker 4 bytes, length of the event 4, stamp 8, CRC-32C of the event 4, CRC-32C of the frame's header 4,
//	        then the event
//
// Times are Unix milliseconds by the writer's clock. The last checksum of a frame's header also covers broker id,
// broker epoch, number and the offset of the frame in the file: what has it right is a frame of this file at this
// place, so that reading can find its way again after damage.
const (
	headerLength      = 40
	frameHeaderLength = 24
	formatVersion     = 1

	magic  = "\x89WALMDL\n"
	marker = "\xf7WEV"
)

// castagnoli is the polynomial of all checksums, read only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// putHeader writes the header of a file into b.
func (n fileName) putHeader(b []byte, created time.Time) {
	copy(b, magic)
	binary.BigEndian.PutUint16(b[8:], formatVersion)
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint32(b[12:], uint32(n.broker))
	binary.BigEndian.PutUint64(b[16:], uint64(n.epoch))
	binary.BigEndian.PutUint32(b[24:], n.number)
	binary.BigEndian.PutUint64(b[28:], uint64(created.UnixMilli()))
	binary.BigEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli))
}

var (
	errHeader        = errors.New("the file's header does not match its checksum or its name")
	errFormatVersion = errors.New("the file has a format version that this reader does not know")
)

// parseHeader reads the header of a file and returns when it was created.
func (n fileName) parseHeader(b []byte) (created time.Time, err error) {
	if len(b) < headerLength || string(b[:8]) != magic || crc32.Checksum(b[:36], castagnoli) != binary.BigEndian.Uint32(b[36:]) {
		return time.Time{}, errHeader
	}
	if binary.BigEndian.Uint16(b[8:]) != formatVersion || binary.BigEndian.Uint16(b[10:]) != 0 {
		return time.Time{}, errFormatVersion
	}
	named := fileName{
		broker: int32(binary.BigEndian.Uint32(b[12:])),
		epoch:  int64(binary.BigEndian.Uint64(b[16:])),
		number: binary.BigEndian.Uint32(b[24:]),
	}
	if named != n {
		return time.Time{}, errHeader
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[28:]))), nil
}

// putFrame writes the header of the frame that begins at offset and holds the event, which stands behind the header
// in b.
func (n fileName) putFrame(b []byte, offset int64, stamp time.Time) {
	event := b[frameHeaderLength:]
	copy(b, marker)
	binary.BigEndian.PutUint32(b[4:], uint32(len(event)))
	binary.BigEndian.PutUint64(b[8:], uint64(stamp.UnixMilli()))
	binary.BigEndian.PutUint32(b[16:], crc32.Checksum(event, castagnoli))
	binary.BigEndian.PutUint32(b[20:], n.frameCRC(b, offset))
}

// frameCRC is the checksum of a frame's header and, behind it, of the file's name as in the file's header and of the
// frame's offset as 8 bytes.
func (n fileName) frameCRC(header []byte, offset int64) uint32 {
	crc := crc32.Checksum(header[:20], castagnoli)
	crc = updateCRC(crc, uint64(n.broker), 4)
	crc = updateCRC(crc, uint64(n.epoch), 8)
	crc = updateCRC(crc, uint64(n.number), 4)
	return updateCRC(crc, uint64(offset), 8)
}

// updateCRC adds the lowest bytes of v, the highest of them first, to a checksum. Unlike hash/crc32 it needs them in no
// slice, and so on no heap.
func updateCRC(crc uint32, v uint64, bytes int) uint32 {
	crc = ^crc
	for shift := 8 * (bytes - 1); shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(v>>shift)] ^ crc>>8
	}
	return ^crc
}

// frame is the header of a frame.
type frame struct {
	length int // of the event
	stamp  time.Time
	crc    uint32
}

func (f frame) size() int64 { return frameHeaderLength + int64(f.length) }

// intact tells whether the event is the one that was written.
func (f frame) intact(event []byte) bool { return crc32.Checksum(event, castagnoli) == f.crc }

// parseFrame reads the header of the frame at offset. It tells whether there is one; b holds at least a header.
func (n fileName) parseFrame(b []byte, offset int64) (frame, bool) {
	if string(b[:4]) != marker || n.frameCRC(b, offset) != binary.BigEndian.Uint32(b[20:]) {
		return frame{}, false
	}
	length := binary.BigEndian.Uint32(b[4:])
	if length == 0 || length > metadata.MaxEventBytes {
		return frame{}, false
	}
	return frame{
		length: int(length),
		stamp:  time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:]))),
		crc:    binary.BigEndian.Uint32(b[16:]),
	}, true
}

// findFrame returns the index in b of the first frame's header, -1 if there is none. b stands at offset in the file.
func (n fileName) findFrame(b []byte, offset int64) int {
	for at := 0; at+frameHeaderLength <= len(b); at++ {
		next := bytes.Index(b[at:], []byte(marker))
		if next < 0 || at+next+frameHeaderLength > len(b) {
			return -1
		}
		at += next
		if _, ok := n.parseFrame(b[at:], offset+int64(at)); ok {
			return at
		}
	}
	return -1
}
