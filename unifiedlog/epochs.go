package unifiedlog

import (
	"slices"
	"sort"
)

// EpochStart is one entry of the leader epoch cache: the offset at which a leader epoch began.
type EpochStart struct {
	Epoch int32
	Start int64
}

// EpochEnd is a leader epoch and the offset at which it ended.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// epochCache holds the starts of the leader epochs, both fields strictly increasing, as Kafka's does. It is never changed
// in place, so that a reader may keep it.
type epochCache []EpochStart

// at returns the epoch of the batch that holds offset, -1 if the cache tells none.
func (c epochCache) at(offset int64) int32 {
	i := sort.Search(len(c), func(i int) bool { return c[i].Start > offset })
	if i == 0 {
		return -1
	}
	return c[i-1].Epoch
}

// latest returns the newest epoch, -1 if there is none.
func (c epochCache) latest() int32 {
	if len(c) == 0 {
		return -1
	}
	return c[len(c)-1].Epoch
}

// start returns the offset at which the epoch began.
func (c epochCache) start(epoch int32) (int64, bool) {
	i := sort.Search(len(c), func(i int) bool { return c[i].Epoch >= epoch })
	if i == len(c) || c[i].Epoch != epoch {
		return -1, false
	}
	return c[i].Start, true
}

// holds tells whether a batch of the epoch at offset leaves the cache as it is.
func (c epochCache) holds(epoch int32, offset int64) bool {
	return c.latest() == epoch && c[len(c)-1].Start <= offset
}

// assign returns the cache with the batches from offset on in the epoch. Entries that begin at or above offset and are of
// another epoch are of batches that no longer exist, or never did: they go.
func (c epochCache) assign(epoch int32, offset int64) epochCache {
	if c.holds(epoch, offset) {
		return c
	}
	c = c.truncateFromEnd(offset)
	for len(c) > 0 && c.latest() > epoch {
		c = c[:len(c)-1]
	}
	if c.latest() != epoch {
		c = append(slices.Clip(c), EpochStart{Epoch: epoch, Start: offset})
	}
	return c
}

// truncateFromEnd returns the cache without the entries that begin at end or above, the newest also where no bytes go
// (KAFKA-10706).
func (c epochCache) truncateFromEnd(end int64) epochCache {
	return c[:sort.Search(len(c), func(i int) bool { return c[i].Start >= end })]
}

// truncateFromStart returns the cache without what lies below start; the entry that holds start begins there from now on.
func (c epochCache) truncateFromStart(start int64) epochCache {
	i := sort.Search(len(c), func(i int) bool { return c[i].Start > start })
	if i == 0 || i == 1 && c[0].Start == start {
		return c
	}
	c = slices.Clone(c[i-1:])
	c[0].Start = start
	return c
}

// endOffset answers Kafka's OffsetsForLeaderEpoch: the largest epoch not above the one asked for and the offset at which
// it ended, logEnd for the newest. Both are -1 if the epoch asked for is above every epoch known.
func (c epochCache) endOffset(epoch int32, logEnd int64) EpochEnd {
	if len(c) == 0 || epoch < 0 || epoch > c.latest() {
		return EpochEnd{Epoch: -1, End: -1}
	}
	if epoch == c.latest() {
		return EpochEnd{Epoch: epoch, End: logEnd}
	}
	higher := sort.Search(len(c), func(i int) bool { return c[i].Epoch > epoch })
	if higher == 0 {
		return EpochEnd{Epoch: epoch, End: c[0].Start}
	}
	return EpochEnd{Epoch: c[higher-1].Epoch, End: c[higher].Start}
}
