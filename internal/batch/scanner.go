package batch

import "encoding/binary"

// Scanner walks the batches that stand back to back in bytes:
//
//	for s := batch.NewScanner(b); s.Next(); {
//		h := s.Header()
//		...
//	}
//
// It checks each header by itself and not one against the other: whether offsets may go back or leave gaps is for the
// caller to say. It keeps and touches nothing of b. Use it from one goroutine.
type Scanner struct {
	b      []byte
	start  int // of the current batch
	end    int // of the current batch, where Next looks on
	header Header
	filled bool // the header is that of the current batch
	done   bool
	found  verdict
}

// NewScanner returns a scanner of b that stands before the first batch.
func NewScanner(b []byte) Scanner { return Scanner{b: b} }

// Next moves to the next whole batch. It returns false at the end, at a partial tail and at a batch that is corrupt or
// of an unsupported format; from then on it returns false always.
func (s *Scanner) Next() bool {
	if s.done {
		return false
	}
	s.start, s.filled = s.end, false
	if s.start == len(s.b) {
		s.done = true
		return false
	}
	length, found := check(s.b[s.start:])
	if found != whole {
		s.done, s.found = true, found
		return false
	}
	s.end = s.start + length
	return true
}

// Header returns the header of the current batch. It is valid until the next call of Next.
func (s *Scanner) Header() *Header {
	if !s.filled {
		s.filled = true
		s.header.Length = s.end - s.start
		s.header.fill(s.b[s.start:s.end])
	}
	return &s.header
}

// BaseOffset returns [Header.BaseOffset] of the current batch. This and the next methods cost less than a whole header.
func (s *Scanner) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(s.b[s.start:])) }

// LastOffset returns the last offset of the current batch.
func (s *Scanner) LastOffset() int64 {
	return s.BaseOffset() + int64(binary.BigEndian.Uint32(s.b[s.start+23:]))
}

// LeaderEpoch returns [Header.LeaderEpoch] of the current batch.
func (s *Scanner) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(s.b[s.start+12:])) }

// MaxTimestamp returns [Header.MaxTimestamp] of the current batch.
func (s *Scanner) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(s.b[s.start+35:])) }

// Position returns where the current batch begins, and after Next has returned false, where the batches end.
func (s *Scanner) Position() int { return s.start }

// End returns where the current batch ends.
func (s *Scanner) End() int { return s.end }

// Bytes returns the current batch, a part of the bytes scanned.
func (s *Scanner) Bytes() []byte { return s.b[s.start:s.end:s.end] }

// Err returns what ended the scan: nil at the end of the bytes and at a partial tail, otherwise a [*CorruptError] or
// an [*UnsupportedMagicError] with the position of the batch that is wrong. Those before it are good.
func (s *Scanner) Err() error {
	switch s.found {
	case whole, partial:
		return nil
	case oldFormat:
		return &UnsupportedMagicError{Position: s.start, Magic: int8(s.b[s.start+magicEnd-1])}
	default:
		return &CorruptError{Position: s.start, Reason: s.found.reason()}
	}
}

// PartialTail tells, after Next has returned false, whether the bytes end in the middle of a batch, and where that one
// begins.
func (s *Scanner) PartialTail() (position int, ok bool) {
	if s.found != partial {
		return 0, false
	}
	return s.start, true
}
