package filelog

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFileNames(t *testing.T) {
	for _, name := range []fileName{{}, {1, 2, 3}, {math.MaxInt32, math.MaxInt64, math.MaxUint32}} {
		parsed, ok := parseFileName(name.broker, name.base())
		assert.True(t, ok, name.base())
		assert.Equal(t, name, parsed)
		broker, ok := parseBrokerDir(brokerDir(name.broker))
		assert.True(t, ok)
		assert.Equal(t, name.broker, broker)
	}
	for _, base := range []string{
		"", ".events", "-.events", "0000000000000000001-0000000001", "0000000000000000001-0000000001.event", "1-1.events",
		"0000000000000000001-0000000001.events.tmp", "000000000000000000x-0000000001.events", "-000000000000000001-0000000001.events",
		"9999999999999999999-0000000001.events", "0000000000000000001-9999999999.events", "+000000000000000001-0000000001.events",
	} {
		_, ok := parseFileName(1, base)
		assert.False(t, ok, base)
	}
	for _, name := range []string{"", "-1", "01", "+1", "x", "2147483648", "1 "} {
		_, ok := parseBrokerDir(name)
		assert.False(t, ok, name)
	}
	ordered := []fileName{{1, 1, 0}, {1, 1, 1}, {1, 1, 10}, {1, 2, 0}, {1, 10, 0}}
	assert.True(t, slices.IsSortedFunc(ordered, fileName.compare))
	assert.True(t, slices.IsSortedFunc(ordered, func(a, b fileName) int { return strings.Compare(a.base(), b.base()) }))
}

// A frame is good at its place in its file and nowhere else.
func TestFrameKnowsItsPlace(t *testing.T) {
	name := fileName{broker: 3, epoch: 1 << 40, number: 7}
	b := append(make([]byte, frameHeaderLength), "an event"...)
	stamp := time.UnixMilli(1234567890123)
	name.putFrame(b, 4711, stamp)
	got, ok := name.parseFrame(b, 4711)
	require.True(t, ok)
	assert.Equal(t, 8, got.length)
	assert.EqualValues(t, len(b), got.size())
	assert.Equal(t, stamp, got.stamp)
	assert.True(t, got.intact(b[frameHeaderLength:]))
	assert.False(t, got.intact([]byte("an Event")))

	for bit := range 8 * frameHeaderLength {
		b[bit/8] ^= 1 << (bit % 8)
		_, ok := name.parseFrame(b, 4711)
		assert.False(t, ok, "bit %d", bit)
		b[bit/8] ^= 1 << (bit % 8)
	}
	_, ok = name.parseFrame(b, 4712)
	assert.False(t, ok)
	for _, other := range []fileName{{4, 1 << 40, 7}, {3, 1<<40 + 1, 7}, {3, 1 << 40, 8}} {
		_, ok = other.parseFrame(b, 4711)
		assert.False(t, ok)
	}
	assert.Equal(t, 5, name.findFrame(append([]byte("rubb\xf7"), b...), 4711-5))
	assert.Equal(t, -1, name.findFrame(append([]byte("rubbish"), b...), 4711))
	assert.Equal(t, -1, name.findFrame(b[:frameHeaderLength-1], 4711))
}

// Other programs can compute the checksum with any CRC-32C, from the bytes in the documented order.
func TestFrameChecksumIsPlainCRC32C(t *testing.T) {
	name := fileName{broker: 0x01020304, epoch: 0x05060708090a0b0c, number: 0x0d0e0f10}
	header := []byte("01234567890123456789")
	all := slices.Clone(header)
	all = binary.BigEndian.AppendUint32(all, uint32(name.broker))
	all = binary.BigEndian.AppendUint64(all, uint64(name.epoch))
	all = binary.BigEndian.AppendUint32(all, name.number)
	all = binary.BigEndian.AppendUint64(all, 0x1112131415161718)
	assert.Equal(t, crc32.Checksum(all, crc32.MakeTable(crc32.Castagnoli)), name.frameCRC(header, 0x1112131415161718))
	assert.Zero(t, testing.AllocsPerRun(10, func() { name.frameCRC(header, 5) }))
}

func TestFileHeader(t *testing.T) {
	name := fileName{broker: 3, epoch: 5, number: 7}
	var b [headerLength]byte
	created := time.UnixMilli(1234567890123)
	name.putHeader(b[:], created)
	got, err := name.parseHeader(b[:])
	require.NoError(t, err)
	assert.Equal(t, created, got)
	for bit := range 8 * headerLength {
		b[bit/8] ^= 1 << (bit % 8)
		_, err := name.parseHeader(b[:])
		assert.ErrorIs(t, err, errHeader, "bit %d: a flipped bit is no other version", bit)
		b[bit/8] ^= 1 << (bit % 8)
	}
	_, err = fileName{broker: 3, epoch: 5, number: 8}.parseHeader(b[:])
	assert.ErrorIs(t, err, errHeader, "a file under another name")
	_, err = name.parseHeader(b[:headerLength-1])
	assert.ErrorIs(t, err, errHeader)
}
