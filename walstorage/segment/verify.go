package segment

import (
	"fmt"
	"hash/crc32"

	"github.com/walhop/walhop/internal/batch"
)

// VerifySlice checks data, the bytes fetched for a slice, against its entry in the index before anything is appended
// (F3): the length, the CRC-32C, and the batch headers: whole batches, the first at BaseOffset or, after a compaction
// gap, later, offsets that go up, and the last one ending at LastOffset.
//
// It returns the longest prefix of data whose batches carry the entry's leader epoch, and the last offset of that; a
// batch of another epoch ends the slice, and the rest is dropped (S4). Usually the prefix is all of data. It is empty,
// with a last offset of BaseOffset - 1, if the first batch is of another epoch. Jumps inside the prefix are legal
// compaction gaps (segmentio/kafka-go#621). Payloads are opaque and the batches' own checksums are left to the log
// that appends them.
//
// The error is a [*CorruptError], or wraps [ErrUnsupportedMagic]; nothing of the slice may be used then. Nothing is
// allocated but for errors.
func VerifySlice(slice Slice, data []byte) (prefix []byte, lastOffset int64, err error) {
	if int64(len(data)) != slice.Length {
		return nil, 0, corruptSlice(min(int64(len(data)), slice.Length), "%d bytes, the index says %d", len(data), slice.Length)
	}
	if crc32.Checksum(data, castagnoli) != slice.CRC32C {
		return nil, 0, corruptSlice(0, "the checksum does not match")
	}
	// From here on the bytes are those that the leader sent. What is wrong with them now was wrong there.
	next, end := slice.BaseOffset, 0
	s := batch.NewScanner(data)
	for s.Next() {
		if s.LeaderEpoch() != slice.LeaderEpoch {
			return data[:end:end], next - 1, nil
		}
		baseOffset, lastOffset := s.BaseOffset(), s.LastOffset()
		if baseOffset < next {
			return nil, 0, corruptSlice(int64(s.Position()), "base offset %d where %d is due", baseOffset, next)
		}
		if lastOffset > slice.LastOffset {
			return nil, 0, corruptSlice(int64(s.Position()), "last offset %d, the index ends at %d", lastOffset, slice.LastOffset)
		}
		next, end = lastOffset+1, s.End()
	}
	if err := s.Err(); err != nil {
		return nil, 0, batchError(err, "slice", 0)
	}
	if tail, partial := s.PartialTail(); partial {
		return nil, 0, corruptSlice(int64(tail), "the slice ends in the middle of a batch")
	}
	if next-1 != slice.LastOffset {
		return nil, 0, corruptSlice(int64(end), "the last offset is %d, the index says %d", next-1, slice.LastOffset)
	}
	return data, slice.LastOffset, nil
}

func corruptSlice(position int64, format string, args ...any) error {
	return &CorruptError{Where: "slice", Position: position, Reason: fmt.Sprintf(format, args...)}
}

// VerifyObject checks that object, fetched whole, is the segment that an event described with md (F3): it is intact as
// far as header, index and trailer tell, and its index says the same as md, cluster, topic and segment ids included.
// The slices are left to [VerifySlice]. A caller with many objects keeps a [Reader] and uses [Reader.Match].
func VerifyObject(md *Metadata, object []byte) error {
	r, err := NewReader(object)
	if err != nil {
		return err
	}
	return r.Match(md)
}
