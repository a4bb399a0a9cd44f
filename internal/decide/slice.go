package decide

import (
	"errors"
	"fmt"
	"slices"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// MaxObject is more than a segment of one batch can take, in bytes; an event that says more is not believed, for a buffer
// is made of that size.
const MaxObject = 1 << 32

// Plausible tells whether an object of the size announced can exist and hold the slice.
func Plausible(entry *metadata.Entry) bool {
	return entry.Position >= 0 && entry.Slice.Length > 0 && entry.ObjectSize <= MaxObject &&
		entry.Slice.Length <= entry.ObjectSize-entry.Position
}

// CheckObject tells whether an object's own index says that it is the segment wanted (F3). The error is of kind
// walstorage.ErrCorrupt.
func CheckObject(md *segment.Metadata, cluster string, id walstorage.SegmentID) error {
	if md.Cluster != cluster {
		return Corrupt("segment %s belongs to cluster %q", id, md.Cluster)
	}
	if md.ID != id {
		return Corrupt("object of segment %s holds segment %s", id, md.ID)
	}
	return nil
}

// Cut is the part of a slice that continues the log.
type Cut struct {
	// Batches are whole batches, a part of the object.
	Batches []byte
	// Count is how many.
	Count int
	// To is the offset after the last one.
	To int64
}

// ErrMidBatch is what [CutSlice] returns where the log's end is no batch boundary of the slice.
var ErrMidBatch = errors.New("follower: the log end is not the end of a batch of the slice")

// CutSlice verifies the entry's slice (F3) in an object whose index is md, and returns its batches from the log's end on.
// The slice begins at the log's end, or the log's end is exactly the end of one of its batches; inside a batch or inside a
// compaction gap it is not (F2, R4). The error is [ErrMidBatch], or of kind walstorage.ErrCorrupt.
func CutSlice(md *segment.Metadata, object []byte, partition segment.TopicIDPartition, entry *metadata.Entry, end int64) (Cut, error) {
	if !hasSlice(md, partition.Key(), &entry.Slice) {
		return Cut{}, Corrupt("segment %s has not the slice of %s that its event names", entry.ID, partition)
	}
	if entry.Slice.Length > int64(len(object))-entry.Position { // another event gave the size
		return Cut{}, Corrupt("slice of %s lies outside of segment %s", partition, entry.ID)
	}
	data := object[entry.Position : entry.Position+entry.Slice.Length]
	prefix, _, err := segment.VerifySlice(entry.Slice, data)
	if err != nil {
		return Cut{}, err
	}
	start, count, due := -1, 0, entry.Slice.BaseOffset
	for s := batch.NewScanner(prefix); s.Next(); {
		if start < 0 && due == end {
			start = s.Position()
		}
		if due = s.Header().NextOffset(); start >= 0 {
			count++
		} else if due > end {
			return Cut{}, ErrMidBatch
		}
	}
	if start < 0 { // only a batch of another epoch follows, which ends the slice (F3)
		return Cut{}, Corrupt("slice of %s in segment %s ends early at offset %d", partition, entry.ID, due)
	}
	return Cut{Batches: prefix[start:], Count: count, To: due}, nil
}

// hasSlice tells whether the object's own index has the slice that the event names.
func hasSlice(md *segment.Metadata, key segment.PartitionKey, want *segment.Slice) bool {
	i, found := slices.BinarySearchFunc(md.Topics, key, func(t segment.Topic, k segment.PartitionKey) int {
		return segment.PartitionKey{TopicID: t.ID}.Compare(segment.PartitionKey{TopicID: k.TopicID})
	})
	if !found {
		return false
	}
	topic := md.Topics[i].Slices
	j, found := slices.BinarySearchFunc(topic, key.Partition, func(s segment.Slice, p int32) int { return int(s.Partition) - int(p) })
	return found && topic[j] == *want
}

// Corrupt returns an error of kind walstorage.ErrCorrupt.
func Corrupt(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrCorrupt, fmt.Errorf("follower: "+format, args...))
}
