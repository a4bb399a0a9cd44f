package segment

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/walstorage"
)

// The defaults of [BuilderConfig].
const (
	DefaultTargetBytes   = 256 << 10
	DefaultMaxBytes      = 64 << 20
	DefaultMaxSlices     = 4096
	DefaultMaxEventBytes = 512 << 10
)

// minEventBytes leaves room for one topic with the longest name in the longest cluster.
const minEventBytes = 1 << 10

// BuilderConfig says how large segments get.
type BuilderConfig struct {
	// Cluster is the id of the Kafka cluster; required, see [walstorage.NewKeys] for what is legal.
	Cluster string
	// TargetBytes is the size of the body at which a segment is full, in bytes; default 256 KiB. A body is larger only
	// if it is a single batch that is (S3).
	TargetBytes int
	// MaxBytes is the largest body, in bytes, at least TargetBytes; default 64 MiB, or TargetBytes if that is more. It
	// bounds a batch that is a segment of its own. The object is larger by [HeaderLength], [TrailerLength] and the
	// index, which stays below MaxEventBytes.
	MaxBytes int
	// MaxSlices is the largest number of slices; default 4,096.
	MaxSlices int
	// MaxEventBytes is the largest size of the segment's event on the metadata topic, in bytes, at least 1 KiB; default
	// 512 KiB.
	MaxEventBytes int
}

// withDefaults returns c with its defaults filled in, or an error that names the wrong field.
func (c BuilderConfig) withDefaults() (BuilderConfig, error) {
	if _, err := walstorage.NewKeys("", c.Cluster); err != nil {
		return c, err
	}
	set := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	set(&c.TargetBytes, DefaultTargetBytes)
	set(&c.MaxBytes, max(DefaultMaxBytes, c.TargetBytes))
	set(&c.MaxSlices, DefaultMaxSlices)
	set(&c.MaxEventBytes, DefaultMaxEventBytes)
	var problem string
	switch {
	case c.TargetBytes < batch.HeaderLength:
		problem = fmt.Sprintf("TargetBytes is %d, less than the smallest batch", c.TargetBytes)
	case c.MaxBytes < c.TargetBytes:
		problem = fmt.Sprintf("MaxBytes is %d, less than TargetBytes, %d", c.MaxBytes, c.TargetBytes)
	case c.MaxBytes > math.MaxInt32:
		problem = fmt.Sprintf("MaxBytes is %d, more than 2 GiB", c.MaxBytes)
	case c.MaxSlices < 1:
		problem = fmt.Sprintf("MaxSlices is %d, less than 1", c.MaxSlices)
	case c.MaxEventBytes < minEventBytes:
		problem = fmt.Sprintf("MaxEventBytes is %d, less than %d", c.MaxEventBytes, minEventBytes)
	default:
		return c, nil
	}
	return c, walstorage.NewError(walstorage.ErrInvalidArgument, errors.New(problem))
}

// Run names the run that log bytes belong to: what a leader reads of one partition in one leader epoch, batch after
// batch without a jump.
type Run struct {
	// Partition is the partition.
	Partition TopicIDPartition
	// LeaderEpoch is the epoch under which the bytes are read, -1 or greater; every batch must carry it (S4).
	LeaderEpoch int32
	// EpochStart is the offset at which that epoch began, 0 to Base.
	EpochStart int64
	// Base is the offset at which the bytes are due: the last offset of the run so far + 1, or the run's start, which
	// is a batch boundary. The first batch may begin later, after a compaction gap (S4).
	Base int64
}

// Appended says what [Builder.Append] took.
type Appended struct {
	// Next is the offset at which the run goes on: Run.Base if nothing was taken.
	Next int64
	// Bytes and Batches count what was taken: a prefix of the bytes given.
	Bytes, Batches int
	// OtherEpoch says that the first batch not taken carries another leader epoch, Epoch: no later read of this run
	// gets past it.
	OtherEpoch bool
	Epoch      int32
}

// Builder combines the batches of many partitions into one segment after another. It is for one goroutine.
//
// Bytes are read into the free end of a staging buffer ([Builder.Buffer]) and taken from there by [Builder.Append],
// which looks at the batch headers only. [Builder.Seal] copies them, sorted by partition, into the object, and computes
// the checksums on the way. In the steady state nothing is allocated.
type Builder struct {
	cfg BuilderConfig

	base  []byte // staging buffer of TargetBytes
	stage []byte // base, or a larger one for a batch that is a segment of its own
	used  int    // of stage

	index   map[PartitionKey]int32 // into open
	open    []openSlice
	extents []extent
	event   int // upper bound of the event's size

	// Of Seal.
	order    []int32
	metadata Metadata
	entries  []Slice // backs Metadata.Topics[].Slices
}

// openSlice is a slice of the open segment.
type openSlice struct {
	partition   TopicIDPartition
	slice       Slice
	first, last int32 // extents
	closed      bool
}

// extent is a piece of a slice in the staging buffer.
type extent struct {
	start, end int32
	next       int32 // the slice's next extent, -1 at the end
}

// NewBuilder returns a builder with an empty open segment. The error names the wrong field of cfg and is of kind
// [walstorage.ErrInvalidArgument].
func NewBuilder(cfg BuilderConfig) (*Builder, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Builder{cfg: cfg, base: make([]byte, cfg.TargetBytes), index: make(map[PartitionKey]int32)}
	b.Reset()
	return b, nil
}

// Reset discards the open segment and begins an empty one. What Seal returned as Metadata is no longer valid.
func (b *Builder) Reset() {
	b.stage, b.used = b.base, 0
	clear(b.index)
	clear(b.open) // lets go of topic names
	b.open, b.extents = b.open[:0], b.extents[:0]
	b.event = maxEnvelopeBytes + maxSegmentBytes + len(b.cfg.Cluster)
}

// Buffer returns the free end of the staging buffer, at least min bytes long, for a log to read into; nil if it is
// shorter than that: seal first. While the segment is empty the buffer grows for a batch that is larger than TargetBytes
// (S3), up to MaxBytes; nil then means that no segment can hold min bytes. The buffer is valid until the next call of
// Append or Reset; what was read into it and not appended is overwritten by the next read.
func (b *Builder) Buffer(min int) []byte {
	if free := b.stage[b.used:]; len(free) >= max(min, 1) {
		return free
	}
	if b.used > 0 || min > b.cfg.MaxBytes {
		return nil
	}
	b.stage = make([]byte, min)
	return b.stage
}

// Append takes whole batches of run from the first n bytes of the last Buffer. The headers alone are looked at, and
// each must belong to the run: its leader epoch (S4), offsets that go up from Run.Base. The batches continue the
// partition's open slice or begin one. Bytes not taken are dropped: the caller reads them again, from Appended.Next on.
//
// Taken is the longest good prefix, also where the error is not nil: a [*CorruptError] or [ErrUnsupportedMagic] for the
// batch after it, [ErrPartialBatch] if there is no whole batch at all, a [*SpanError] if the first batch is 2^31 offsets
// or more away. If the partition's slice can't be continued by this run, nothing is taken and the error is
// [ErrSliceClosed]; if it would be a slice too many, [ErrFull]. An invalid run, or an n beyond the buffer, is
// [walstorage.ErrInvalidArgument].
//
// A batch of another epoch ends what is taken without an error, as does one that would make the slice span 2^31 offsets
// or more; in the latter case the slice is closed, too, and the run goes on in the next segment.
func (b *Builder) Append(run Run, n int) (Appended, error) {
	appended := Appended{Next: run.Base}
	if n < 0 || n > len(b.stage)-b.used {
		return appended, invalid("n is %d, the buffer has %d bytes", n, len(b.stage)-b.used)
	}
	key := run.Partition.Key()
	at, isOpen := b.index[key]
	if isOpen {
		open := &b.open[at]
		if open.closed || open.slice.LeaderEpoch != run.LeaderEpoch || open.slice.EpochStart != run.EpochStart ||
			open.slice.LastOffset+1 != run.Base {
			return appended, ErrSliceClosed
		}
	} else if err := b.admit(run); err != nil {
		return appended, err
	}
	sliceBase := run.Base
	if isOpen {
		sliceBase = b.open[at].slice.BaseOffset
	}

	given := b.stage[b.used : b.used+n]
	maxTimestamp := int64(-1)
	spanned := false
	var err error
	s := batch.NewScanner(given)
	for s.Next() {
		h := s.Header()
		if h.LeaderEpoch != run.LeaderEpoch {
			appended.OtherEpoch, appended.Epoch = true, h.LeaderEpoch
			break
		}
		if h.BaseOffset < appended.Next {
			err = &CorruptError{
				Where: "batch", Position: int64(s.Position()),
				Reason: fmt.Sprintf("base offset %d is below %d, where the run stands", h.BaseOffset, appended.Next),
			}
			break
		}
		if h.LastOffset()-sliceBase > maxSpan {
			if spanned = true; !isOpen && appended.Batches == 0 {
				err = &SpanError{Due: run.Base, BaseOffset: h.BaseOffset}
			}
			break
		}
		appended.Next = h.NextOffset()
		appended.Bytes += h.Length
		appended.Batches++
		maxTimestamp = max(maxTimestamp, h.MaxTimestamp)
	}
	if err == nil && s.Err() != nil {
		err = batchError(s.Err(), "batch", 0)
	}
	if _, partial := s.PartialTail(); partial && appended.Batches == 0 {
		err = ErrPartialBatch
	}
	if appended.Batches > 0 {
		if !isOpen {
			at = b.openSlice(run, key)
		}
		b.take(at, appended, maxTimestamp)
	}
	if spanned && err == nil {
		b.open[at].closed = true
		if appended.Batches == 0 {
			err = ErrSliceClosed
		}
	}
	return appended, err
}

// admit tells whether a slice for run may begin in the open segment.
func (b *Builder) admit(run Run) error {
	if run.Partition.Partition < 0 || run.LeaderEpoch < -1 || run.EpochStart < 0 || run.Base < run.EpochStart {
		return invalid("run %+v: wanted are Partition >= 0, LeaderEpoch >= -1, 0 <= EpochStart <= Base", run)
	}
	if problem := topicProblem(run.Partition.TopicID, run.Partition.Topic); problem != "" {
		return invalid("run %+v: topic %s", run, problem)
	}
	if len(b.open) >= b.cfg.MaxSlices || b.event+sliceEventBytes(len(run.Partition.Topic)) > b.cfg.MaxEventBytes {
		return ErrFull
	}
	return nil
}

// sliceEventBytes is an upper bound of what a slice adds to the event. Every slice is counted with its topic.
func sliceEventBytes(topicLength int) int { return maxSliceBytes + maxTopicBytes + topicLength }

func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf(format, args...))
}

func (b *Builder) openSlice(run Run, key PartitionKey) int32 {
	at := int32(len(b.open))
	b.open = append(b.open, openSlice{
		partition: run.Partition,
		slice: Slice{
			Partition: run.Partition.Partition, LeaderEpoch: run.LeaderEpoch, EpochStart: run.EpochStart,
			BaseOffset: run.Base, LastOffset: run.Base - 1, MaxTimestamp: -1,
		},
		first: -1, last: -1,
	})
	b.index[key] = at
	b.event += sliceEventBytes(len(run.Partition.Topic))
	return at
}

// take moves the end of the staging buffer behind what was appended and gives it to the slice.
func (b *Builder) take(at int32, appended Appended, maxTimestamp int64) {
	open := &b.open[at]
	start, end := int32(b.used), int32(b.used+appended.Bytes)
	b.used = int(end)
	open.slice.LastOffset = appended.Next - 1
	open.slice.Length += int64(appended.Bytes)
	open.slice.MaxTimestamp = max(open.slice.MaxTimestamp, maxTimestamp)
	if open.last >= 0 && b.extents[open.last].end == start {
		b.extents[open.last].end = end
		return
	}
	piece := int32(len(b.extents))
	b.extents = append(b.extents, extent{start: start, end: end, next: -1})
	if open.last < 0 {
		open.first = piece
	} else {
		b.extents[open.last].next = piece
	}
	open.last = piece
}

// Close ends the partition's slice in the open segment, if there is one: its next bytes go into the next segment (L4).
func (b *Builder) Close(p PartitionKey) {
	if at, ok := b.index[p]; ok {
		b.open[at].closed = true
	}
}

// Len returns the number of bytes in the open segment's body.
func (b *Builder) Len() int { return b.used }

// Slices returns the number of slices in the open segment.
func (b *Builder) Slices() int { return len(b.open) }

// Full tells whether the open segment is to be sealed: TargetBytes or MaxSlices is reached, or MaxEventBytes would be
// exceeded by another slice whose topic has a name of the greatest length.
func (b *Builder) Full() bool {
	return b.used >= b.cfg.TargetBytes || len(b.open) >= b.cfg.MaxSlices ||
		b.event+sliceEventBytes(maxTopicLength) > b.cfg.MaxEventBytes
}

// SealedLen returns an upper bound of the size of the object that Seal makes: with a dst of this capacity it allocates
// nothing.
func (b *Builder) SealedLen() int { return HeaderLength + b.used + b.event + TrailerLength }

// Seal writes the open segment as one object into dst, which grows if its capacity is too small, and returns the object
// and its Metadata. id names the segment; its time becomes the creation time, its broker epoch that of the object. The
// Metadata belongs to the builder and is valid until Reset; Clone keeps it. The open segment is left as it is.
//
// The error is [ErrEmpty] if nothing was appended, or says that id is not valid.
func (b *Builder) Seal(id walstorage.SegmentID, dst []byte) (object []byte, metadata *Metadata, err error) {
	if len(b.open) == 0 {
		return dst, nil, ErrEmpty
	}
	if err := id.Validate(); err != nil {
		return dst, nil, err
	}
	b.order = b.order[:0]
	for i := range b.open {
		b.order = append(b.order, int32(i))
	}
	slices.SortFunc(b.order, func(x, y int32) int { return b.open[x].compare(&b.open[y]) })

	m := &b.metadata
	m.Cluster, m.ID, m.Created, m.Topics = b.cfg.Cluster, id, id.Created(), m.Topics[:0]
	b.entries = slices.Grow(b.entries[:0], len(b.open)) // no later growth: Topics point into it

	object = slices.Grow(dst[:0], b.SealedLen())
	object = appendHeader(object, id)
	for i, at := range b.order {
		open := &b.open[at]
		// The positions are sums of the lengths before, never of a slice's own (apache/pulsar#1738).
		var crc uint32
		for piece := open.first; piece >= 0; piece = b.extents[piece].next {
			start := len(object)
			object = append(object, b.stage[b.extents[piece].start:b.extents[piece].end]...)
			crc = crc32.Update(crc, castagnoli, object[start:]) // of the copy, which is in the cache
		}
		slice := open.slice
		slice.CRC32C = crc
		b.entries = append(b.entries, slice)
		if i == 0 || b.open[b.order[i-1]].partition.TopicID != open.partition.TopicID {
			m.Topics = append(m.Topics, Topic{ID: open.partition.TopicID, Name: open.partition.Topic, Slices: b.entries[i:i:i]})
		}
		topic := &m.Topics[len(m.Topics)-1]
		first := i - len(topic.Slices)
		topic.Slices = b.entries[first : i+1 : i+1]
	}
	indexStart := len(object)
	object = m.append(object)
	return appendTrailer(object, indexStart), m, nil
}

// compare orders the slices of a segment.
func (s *openSlice) compare(other *openSlice) int {
	if c := compareIDs(&s.partition.TopicID, &other.partition.TopicID); c != 0 {
		return c
	}
	return cmp.Compare(s.partition.Partition, other.partition.Partition)
}
