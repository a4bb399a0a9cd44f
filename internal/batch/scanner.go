package batch

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
	done   bool
	reason string
	magic  bool
}

// NewScanner returns a scanner of b that stands before the first batch.
func NewScanner(b []byte) Scanner { return Scanner{b: b} }

// Next moves to the next whole batch. It returns false at the end, at a partial tail and at a batch that is corrupt or
// of an unsupported format; from then on it returns false always.
func (s *Scanner) Next() bool {
	if s.done {
		return false
	}
	s.start = s.end
	if s.start == len(s.b) {
		s.done = true
		return false
	}
	reason, err := s.header.parse(s.b[s.start:])
	if reason != "" || err != nil {
		s.done, s.reason, s.magic = true, reason, err == ErrUnsupportedMagic
		return false
	}
	s.end = s.start + s.header.Length
	return true
}

// Header returns the header of the current batch. It is valid until the next call of Next.
func (s *Scanner) Header() *Header { return &s.header }

// Position returns where the current batch begins, and after Next has returned false, where the batches end.
func (s *Scanner) Position() int { return s.start }

// Bytes returns the current batch, a part of the bytes scanned.
func (s *Scanner) Bytes() []byte { return s.b[s.start:s.end:s.end] }

// Err returns what ended the scan: nil at the end of the bytes and at a partial tail, otherwise a [*CorruptError] or
// an [*UnsupportedMagicError] with the position of the batch that is wrong. Those before it are good.
func (s *Scanner) Err() error {
	switch {
	case s.reason != "":
		return &CorruptError{Position: s.start, Reason: s.reason}
	case s.magic:
		return &UnsupportedMagicError{Position: s.start, Magic: s.header.Magic}
	}
	return nil
}

// PartialTail tells, after Next has returned false, whether the bytes end in the middle of a batch, and where that one
// begins.
func (s *Scanner) PartialTail() (position int, ok bool) {
	if !s.done || s.reason != "" || s.magic || s.start == len(s.b) {
		return 0, false
	}
	return s.start, true
}
