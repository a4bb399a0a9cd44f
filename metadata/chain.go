package metadata

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/walhop/walhop/walstorage"
)

const maxOffset = math.MaxInt64

// chain holds entries in the order of leader epoch and base offset. Within an epoch each begins and ends after the one
// before it, so those that contain an offset are found by bisection. What it holds is what is not covered among the
// entries added, whatever their order (M5).
type chain struct {
	entries []Entry
	head    int // entries before it have been dropped
}

// spareEntries is the room that a chain keeps once it is empty.
const spareEntries = 16

func (c *chain) len() int { return len(c.entries) - c.head }

func (c *chain) entry(i int) *Entry { return &c.entries[c.head+i] }

// above returns the index of the first entry that lies after the epoch and base offset given.
func (c *chain) above(epoch int32, offset int64) int {
	return sort.Search(c.len(), func(i int) bool {
		slice := &c.entry(i).Slice
		return slice.LeaderEpoch > epoch || slice.LeaderEpoch == epoch && slice.BaseOffset > offset
	})
}

// add adds an entry and returns how many were found to be covered by another, e itself or older ones. Of two that
// cover each other the one with the lower segment id stays.
func (c *chain) add(e Entry) (covered int) {
	at := c.above(e.Slice.LeaderEpoch, e.Slice.BaseOffset)
	from := at
	if at > 0 {
		before := c.entry(at - 1)
		if before.Slice.LeaderEpoch == e.Slice.LeaderEpoch {
			same := before.Slice.BaseOffset == e.Slice.BaseOffset
			switch {
			case same && before.Slice.LastOffset == e.Slice.LastOffset:
				if compareIDs(e.ID, before.ID) < 0 {
					*before = e
				}
				return 1
			case before.Slice.LastOffset >= e.Slice.LastOffset:
				return 1
			case same:
				from--
			}
		}
	}
	to := from
	for to < c.len() && c.entry(to).Slice.LeaderEpoch == e.Slice.LeaderEpoch && c.entry(to).Slice.LastOffset <= e.Slice.LastOffset {
		to++
	}
	if to > from { // e takes the place of those that it covers
		*c.entry(from) = e
		c.entries = slices.Delete(c.entries, c.head+from+1, c.head+to)
		return to - from
	}
	if len(c.entries) == cap(c.entries) && c.head > len(c.entries)/2 {
		c.entries = append(c.entries[:0], c.entries[c.head:]...)
		c.head = 0
	}
	c.entries = slices.Insert(c.entries, c.head+from, e)
	return 0
}

// dropFirst drops the first n entries.
func (c *chain) dropFirst(n int) {
	c.head += n
	if c.head < len(c.entries) {
		return
	}
	c.entries, c.head = c.entries[:0], 0
	if cap(c.entries) > spareEntries {
		c.entries = nil // a partition that has caught up gives back what it needed
	}
}

// dropBelow drops the entries that end below the offset, and tells whether there were any. It is for a chain of one
// epoch.
func (c *chain) dropBelow(offset int64) bool {
	n := 0
	for n < c.len() && c.entry(n).Slice.LastOffset < offset {
		n++
	}
	if n > 0 {
		c.dropFirst(n)
	}
	return n > 0
}

func compareIDs(a, b walstorage.SegmentID) int {
	return cmp.Or(cmp.Compare(a.BrokerID, b.BrokerID), cmp.Compare(a.BrokerEpoch, b.BrokerEpoch), bytes.Compare(a.UUID[:], b.UUID[:]))
}
