package segment

import (
	"encoding/binary"
	"math"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields walks the fields of one protobuf message. Known fields are read with the methods below; an unknown one is
// passed by. It allocates nothing.
type fields struct {
	b    []byte
	base int // position of b[0] in the outermost message
	end  int // where in b the next field begins

	// The current field: its position in the outermost message, its number and type, and its value: varint holds that of
	// every number, bytes that of everything that has a length, start the position of those bytes.
	at     int
	number protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte
	start  int

	reason string // what ended the walk, empty at the end of the message
}

// next moves to the next field. It returns false at the end, and with a reason where b is no message.
func (f *fields) next() bool {
	b := f.b[f.end:]
	if len(b) == 0 {
		return false
	}
	f.at = f.base + f.end
	// Tags of one byte are all that walhop has; 7 and less would be the number 0.
	number, typ, n := protowire.Number(b[0]>>3), protowire.Type(b[0]&7), 1
	if b[0] < 8 || b[0] >= 0x80 {
		if number, typ, n = protowire.ConsumeTag(b); n < 0 {
			f.reason = "no field tag"
			return false
		}
	}
	f.number, f.typ, f.varint, f.bytes = number, typ, 0, nil
	value := b[n:]
	var m int
	switch typ {
	case protowire.VarintType:
		if len(value) > 0 && value[0] < 0x80 {
			f.varint, m = uint64(value[0]), 1
		} else {
			f.varint, m = protowire.ConsumeVarint(value)
		}
	case protowire.Fixed32Type:
		if m = -1; len(value) >= 4 {
			f.varint, m = uint64(binary.LittleEndian.Uint32(value)), 4
		}
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(value)
		f.start = f.at + n + m - len(f.bytes)
	default:
		m = protowire.ConsumeFieldValue(number, typ, value)
	}
	if m < 0 {
		f.reason = "a field is cut off or malformed"
		return false
	}
	f.end += n + m
	return true
}

// is tells whether the current field has the type.
func (f *fields) is(typ protowire.Type) bool { return f.typ == typ }

// int64 returns the current field as an int64.
func (f *fields) int64() (int64, bool) { return int64(f.varint), f.typ == protowire.VarintType }

// int32 returns the current field as an int32. Negative numbers are sign extended to 64 bits on the wire; what is
// outside of the range is refused and not cut.
func (f *fields) int32() (int32, bool) {
	v := int64(f.varint)
	return int32(v), f.typ == protowire.VarintType && v >= math.MinInt32 && v <= math.MaxInt32
}

// uuid copies the current field to dst; it must have 16 bytes.
func (f *fields) uuid(dst *uuid.UUID) bool {
	if f.typ != protowire.BytesType || len(f.bytes) != len(dst) {
		return false
	}
	copy(dst[:], f.bytes)
	return true
}

// left is the number of bytes after the current field.
func (f *fields) left() int { return len(f.b) - f.end }

// count returns how often the field comes after the current one.
func (f *fields) count(number protowire.Number) int {
	ahead := fields{b: f.b, end: f.end}
	n := 0
	for ahead.next() {
		if ahead.number == number {
			n++
		}
	}
	return n
}
