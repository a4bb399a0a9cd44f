package threebrokers

import (
	"encoding/binary"
	"hash/crc32"
)

// The fields of a record batch header (format 2) that this program reads or writes.
const (
	batchHeader = 61
	atLength    = 8  // of what follows the field
	atEpoch     = 12 // partition leader epoch
	atCRC       = 17 // of everything after it
	atCRCEnd    = 21
)

func baseOffset(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch)) }
func batchLength(batch []byte) int  { return 12 + int(binary.BigEndian.Uint32(batch[atLength:])) }
func leaderEpoch(batch []byte) int32 {
	return int32(binary.BigEndian.Uint32(batch[atEpoch:]))
}

// recordsOf returns the number of records, for the table alone: offsets are never computed from it.
func recordsOf(batch []byte) int { return int(int32(binary.BigEndian.Uint32(batch[57:]))) }

// count returns the number of batches and of records in whole batches.
func count(batches []byte) (n, records int) {
	for len(batches) > 0 {
		n++
		records += recordsOf(batches)
		batches = batches[batchLength(batches):]
	}
	return n, records
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newBatch makes a batch of records without keys whose values have size bytes each, filled with fill. Offsets and epoch
// are the leader's to give.
func newBatch(records, size int, timestamp int64, fill byte) []byte {
	b := make([]byte, batchHeader, batchHeader+records*(size+16))
	b[16] = 2 // magic
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	binary.BigEndian.PutUint64(b[27:], uint64(timestamp))
	binary.BigEndian.PutUint64(b[35:], uint64(timestamp))
	for i := 43; i < 57; i++ {
		b[i] = 0xff // no producer id, epoch or sequence
	}
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	var record []byte
	for i := range records {
		record = append(record[:0], 0)                        // attributes
		record = binary.AppendVarint(record, 0)               // timestamp delta
		record = binary.AppendVarint(record, int64(i))        // offset delta
		record = binary.AppendVarint(record, -1)              // no key
		record = binary.AppendVarint(record, int64(size))     // length of the value
		b = binary.AppendVarint(b, int64(len(record)+size+1)) // length of the record
		b = append(b, record...)
		for range size {
			b = append(b, fill)
		}
		b = append(b, 0) // no headers
	}
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atCRCEnd:], castagnoli))
	return b
}
