package unifiedlog

import (
	"slices"
	"sort"
)

// EpochStart is one entry of a leader epoch cache: the offset at which a leader epoch began.
type EpochStart struct {
	Epoch int32
	Start int64
}

// EpochEnd is a leader epoch and the offset at which it ended.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// Epochs is a leader epoch cache as Kafka's logs keep one: the starts of the epochs, oldest first, both fields strictly
// increasing. It is for brokers with a log of their own; [Log] has one. No method changes the cache that it is called on:
// those that change something return another, so a reader may keep what it has.
type Epochs []EpochStart

// At returns the epoch of the batch that holds offset, -1 if the cache tells none.
func (c Epochs) At(offset int64) int32 {
	i := sort.Search(len(c), func(i int) bool { return c[i].Start > offset })
	if i == 0 {
		return -1
	}
	return c[i-1].Epoch
}

// Latest returns the newest epoch, -1 if there is none.
func (c Epochs) Latest() int32 {
	if len(c) == 0 {
		return -1
	}
	return c[len(c)-1].Epoch
}

// StartOf returns the offset at which the epoch began; -1 and false if the cache does not hold it.
func (c Epochs) StartOf(epoch int32) (start int64, ok bool) {
	i := sort.Search(len(c), func(i int) bool { return c[i].Epoch >= epoch })
	if i == len(c) || c[i].Epoch != epoch {
		return -1, false
	}
	return c[i].Start, true
}

// Assign returns the cache with the batches from offset on in the epoch. Entries that begin at or above offset and are of
// another epoch are of batches that no longer exist, or never did: they go.
func (c Epochs) Assign(epoch int32, offset int64) Epochs {
	if c.Latest() == epoch && c[len(c)-1].Start <= offset {
		return c
	}
	c = c.TruncateFromEnd(offset)
	for len(c) > 0 && c.Latest() > epoch {
		c = c[:len(c)-1]
	}
	if c.Latest() != epoch {
		c = append(slices.Clip(c), EpochStart{Epoch: epoch, Start: offset})
	}
	return c
}

// TruncateFromEnd returns the cache without the entries that begin at end or above. It is for every truncation, also where
// no bytes go (KAFKA-10706).
func (c Epochs) TruncateFromEnd(end int64) Epochs {
	return c[:sort.Search(len(c), func(i int) bool { return c[i].Start >= end })]
}

// TruncateFromStart returns the cache without what lies below start; the entry that holds start begins there from now on.
func (c Epochs) TruncateFromStart(start int64) Epochs {
	i := sort.Search(len(c), func(i int) bool { return c[i].Start > start })
	if i == 0 || i == 1 && c[0].Start == start {
		return c
	}
	c = slices.Clone(c[i-1:])
	c[0].Start = start
	return c
}

// EndOffset answers Kafka's OffsetsForLeaderEpoch: the largest epoch not above the one asked for and the offset at which
// it ended, logEnd for the newest. Below every epoch known, the answer is the epoch asked for and the start of the first
// known one. Both fields are -1 if the epoch is above every epoch known, or none is known.
func (c Epochs) EndOffset(epoch int32, logEnd int64) EpochEnd {
	if len(c) == 0 || epoch < 0 || epoch > c.Latest() {
		return EpochEnd{Epoch: -1, End: -1}
	}
	if epoch == c.Latest() {
		return EpochEnd{Epoch: epoch, End: logEnd}
	}
	higher := sort.Search(len(c), func(i int) bool { return c[i].Epoch > epoch })
	if higher == 0 {
		return EpochEnd{Epoch: epoch, End: c[0].Start}
	}
	return EpochEnd{Epoch: c[higher-1].Epoch, End: c[higher].Start}
}

// Diverging returns where a follower's log that ends at offset, its last batch of lastEpoch, parts from the log of this
// cache, which ends at logEnd: nil if it does not. known is false if lastEpoch is above every epoch of the cache.
func (c Epochs) Diverging(offset int64, lastEpoch int32, logEnd int64) (at *EpochEnd, known bool) {
	ended := c.EndOffset(lastEpoch, logEnd)
	if ended.Epoch < 0 {
		return nil, false
	}
	if ended.Epoch < lastEpoch || ended.End < offset {
		return &ended, true
	}
	return nil, true
}

// TruncationPoint returns to where a follower with this cache and a log that ends at logEnd truncates, if that is what its
// leader says of where they part. Where the follower has batches of an epoch that the answer skips, a further fetch and
// a further truncation follow.
func (c Epochs) TruncationPoint(leader EpochEnd, logEnd int64) int64 {
	to := min(leader.End, logEnd)
	if leader.Epoch < 0 {
		return to
	}
	own := c.EndOffset(leader.Epoch, logEnd)
	switch {
	case own.Epoch < 0:
		return to
	case own.Epoch != leader.Epoch:
		return min(own.End, logEnd)
	}
	return min(own.End, to)
}
