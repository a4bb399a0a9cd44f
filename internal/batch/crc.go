package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the polynomial of the checksums of batches, read only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VerifyCRC checks the checksum of b, which is one whole batch. The error is a [*CorruptError] with position 0. A
// stored checksum of 0 is as good as any other.
func VerifyCRC(b []byte) error {
	if len(b) < HeaderLength {
		return &CorruptError{Reason: "shorter than a header"}
	}
	if crc32.Checksum(b[crcEnd:], castagnoli) != binary.BigEndian.Uint32(b[crcStart:]) {
		return &CorruptError{Reason: "checksum does not match"}
	}
	return nil
}

// SetCRC computes the checksum of b, which is one whole batch, and stores it in the header. It is for those who make
// batches; what walhop carries keeps the checksum that it has (S2).
func SetCRC(b []byte) {
	binary.BigEndian.PutUint32(b[crcStart:], crc32.Checksum(b[crcEnd:], castagnoli))
}

// Assign sets the base offset and the leader epoch of b, which is one whole batch, as the leader's log does on a
// producer's append. The checksum covers neither.
func Assign(b []byte, baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b, uint64(baseOffset))
	binary.BigEndian.PutUint32(b[12:], uint32(leaderEpoch))
}
