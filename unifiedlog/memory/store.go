package memory

import "sort"

const (
	// minBlock and maxBlock bound the size of a block: the blocks of a log double, so that ten thousand small logs cost
	// little and a large one never copies what it holds.
	minBlock = 4 << 10
	maxBlock = 1 << 20
)

// placed is a batch and its place in its block.
type placed struct {
	base, last int64
	from, to   int
}

// block holds consecutive batches back to back. Its bytes never move: a batch that does not fit begins a new block.
type block struct {
	data    []byte
	batches []placed // never empty
}

// store holds the batches of a log in blocks, in the order of their offsets.
type store struct {
	blocks []*block
	size   int64 // bytes of all batches
}

// add appends a copy of one batch.
func (s *store) add(base, last int64, raw []byte) []byte {
	var b *block
	if n := len(s.blocks); n > 0 {
		b = s.blocks[n-1]
	}
	if b == nil || cap(b.data)-len(b.data) < len(raw) {
		size := minBlock
		if b != nil {
			size = min(2*cap(b.data), maxBlock)
		}
		b = &block{data: make([]byte, 0, max(size, len(raw)))}
		s.blocks = append(s.blocks, b)
	}
	from := len(b.data)
	b.data = append(b.data, raw...)
	b.batches = append(b.batches, placed{base: base, last: last, from: from, to: len(b.data)})
	s.size += int64(len(raw))
	return b.data[from:]
}

// find returns the place of the first batch whose last offset is offset or greater, len(s.blocks) if there is none.
func (s *store) find(offset int64) (i, j int) {
	i = sort.Search(len(s.blocks), func(i int) bool {
		batches := s.blocks[i].batches
		return batches[len(batches)-1].last >= offset
	})
	if i == len(s.blocks) {
		return i, 0
	}
	batches := s.blocks[i].batches
	return i, sort.Search(len(batches), func(j int) bool { return batches[j].last >= offset })
}

// at returns the bytes of a batch.
func (s *store) at(i, j int) (placed, []byte) {
	b := s.blocks[i]
	return b.batches[j], b.data[b.batches[j].from:b.batches[j].to]
}

// next returns the place after (i, j).
func (s *store) next(i, j int) (int, int) {
	if j+1 < len(s.blocks[i].batches) {
		return i, j + 1
	}
	return i + 1, 0
}

// cut drops the batch at (i, j) and all after it.
func (s *store) cut(i, j int) {
	for k := len(s.blocks) - 1; k >= i; k-- {
		b := s.blocks[k]
		from := 0
		if k == i {
			from = j
		}
		for _, p := range b.batches[from:] {
			s.size -= int64(p.to - p.from)
		}
		if from > 0 {
			b.batches = b.batches[:from]
			b.data = b.data[:b.batches[from-1].to]
			return
		}
		s.blocks[k] = nil
		s.blocks = s.blocks[:k]
	}
}

// drop removes the batches that lie wholly within the offsets [from, to) and returns how many. The bytes of a block are
// released when its last batch goes.
func (s *store) drop(from, to int64) int {
	dropped := 0
	blocks := s.blocks[:0]
	for _, b := range s.blocks {
		kept := b.batches[:0]
		for _, p := range b.batches {
			if p.base >= from && p.last < to {
				s.size -= int64(p.to - p.from)
				dropped++
				continue
			}
			kept = append(kept, p)
		}
		b.batches = kept
		if len(kept) > 0 {
			blocks = append(blocks, b)
		}
	}
	clear(s.blocks[len(blocks):])
	s.blocks = blocks
	return dropped
}

// dropBelow removes the batches whose last offset is below start.
func (s *store) dropBelow(start int64) {
	i, j := s.find(start)
	for _, b := range s.blocks[:i] {
		for _, p := range b.batches {
			s.size -= int64(p.to - p.from)
		}
	}
	clear(s.blocks[:i])
	s.blocks = s.blocks[i:]
	if j > 0 {
		b := s.blocks[0]
		for _, p := range b.batches[:j] {
			s.size -= int64(p.to - p.from)
		}
		b.batches = b.batches[j:]
	}
}
