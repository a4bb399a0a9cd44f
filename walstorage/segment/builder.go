package segment

import (
	"cmp"
	"encoding/binary"
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
	case c.MaxBytes > math.MaxInt32-HeaderLength:
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

	// The staging buffer has the form of an object whose index is still to come: room for the header, limit bytes for
	// the body, of which used are taken, and room for a short index and the trailer. So a body that was read in the
	// order of the object need not be copied.
	stage  []byte
	limit  int
	used   int
	base   []byte // the staging buffer for TargetBytes; stage is another one for a batch that is a segment of its own
	sealed bool

	table   table // of open
	open    []openSlice
	extents []extent
	event   int // upper bound of the event's size

	// Of Seal.
	order    []place
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
	b := &Builder{cfg: cfg}
	b.base = make([]byte, b.stageLen(cfg.TargetBytes))
	b.Reset()
	return b, nil
}

// stageLen returns the size of a staging buffer for a body of limit bytes.
func (b *Builder) stageLen(limit int) int {
	return HeaderLength + limit + min(b.cfg.MaxEventBytes, max(minEventBytes, b.cfg.TargetBytes/16)) + TrailerLength
}

// Reset discards the open segment and begins an empty one. What Seal returned as Metadata is no longer valid.
func (b *Builder) Reset() {
	b.stage, b.limit, b.used, b.sealed = b.base, b.cfg.TargetBytes, 0, false
	b.table.clear()
	clear(b.open) // lets go of topic names
	b.open, b.extents = b.open[:0], b.extents[:0]
	b.event = maxEnvelopeBytes + maxSegmentBytes + len(b.cfg.Cluster)
}

// Buffer returns the free end of the staging buffer, at least need bytes long, for a log to read into; nil if it is
// shorter than that: seal first. While the segment is empty the buffer grows for a batch that is larger than TargetBytes
// (S3), up to MaxBytes; nil then means that no segment can hold need bytes. The buffer is valid until the next call of
// Buffer, Append, Seal or Reset; what was read into it and not appended is overwritten by the next read.
func (b *Builder) Buffer(need int) []byte {
	if b.sealed {
		return nil
	}
	if b.used == 0 && b.limit > b.cfg.TargetBytes && b.limit != need {
		b.stage, b.limit = b.base, b.cfg.TargetBytes // it grew for a batch that was not taken
	}
	if free := b.free(); len(free) >= max(need, 1) {
		return free
	}
	if b.used > 0 || need > b.cfg.MaxBytes {
		return nil
	}
	b.stage, b.limit = make([]byte, b.stageLen(need)), need
	return b.free()
}

// free is the part of the body that is not taken yet.
func (b *Builder) free() []byte {
	return b.stage[HeaderLength+b.used : HeaderLength+b.limit : HeaderLength+b.limit]
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
	if b.sealed {
		return appended, invalid("the segment is sealed already")
	}
	if n < 0 || n > b.limit-b.used {
		return appended, invalid("n is %d, the buffer has %d bytes", n, b.limit-b.used)
	}
	at, isOpen := b.table.find(&run.Partition.TopicID, run.Partition.Partition, b.open)
	if isOpen {
		open := &b.open[at]
		if open.closed || open.slice.LeaderEpoch != run.LeaderEpoch || open.slice.EpochStart != run.EpochStart ||
			open.slice.LastOffset+1 != run.Base {
			return appended, ErrSliceClosed
		}
	} else if err := b.admit(&run); err != nil {
		return appended, err
	}
	sliceBase := run.Base
	if isOpen {
		sliceBase = b.open[at].slice.BaseOffset
	}

	given := b.free()[:n]
	maxTimestamp := int64(-1)
	spanned := false
	var err error
	s := batch.NewScanner(given)
	for s.Next() {
		if epoch := s.LeaderEpoch(); epoch != run.LeaderEpoch {
			appended.OtherEpoch, appended.Epoch = true, epoch
			break
		}
		baseOffset, lastOffset := s.BaseOffset(), s.LastOffset()
		if baseOffset < appended.Next {
			err = &CorruptError{
				Where: "batch", Position: int64(s.Position()),
				Reason: fmt.Sprintf("base offset %d is below %d, where the run stands", baseOffset, appended.Next),
			}
			break
		}
		if lastOffset-sliceBase > maxSpan {
			if spanned = true; !isOpen && appended.Batches == 0 {
				err = &SpanError{Due: run.Base, BaseOffset: baseOffset}
			}
			break
		}
		appended.Next = lastOffset + 1
		appended.Bytes = s.End()
		appended.Batches++
		maxTimestamp = max(maxTimestamp, s.MaxTimestamp())
	}
	if err == nil && s.Err() != nil {
		err = batchError(s.Err(), "batch", 0)
	}
	if _, partial := s.PartialTail(); partial && appended.Batches == 0 {
		err = ErrPartialBatch
	}
	if appended.Batches > 0 {
		if !isOpen {
			at = b.openSlice(&run)
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
func (b *Builder) admit(run *Run) error {
	if run.Partition.Partition < 0 || run.LeaderEpoch < -1 || run.EpochStart < 0 || run.Base < run.EpochStart {
		return invalid("run %+v: wanted are Partition >= 0, LeaderEpoch >= -1, 0 <= EpochStart <= Base", *run)
	}
	if problem := topicProblem(run.Partition.TopicID, run.Partition.Topic); problem != "" {
		return invalid("run %+v: topic %s", *run, problem)
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

func (b *Builder) openSlice(run *Run) int32 {
	at := int32(len(b.open))
	b.open = append(b.open, openSlice{})
	open := &b.open[at] // filled in place
	open.partition, open.first, open.last = run.Partition, -1, -1
	open.slice.Partition, open.slice.LeaderEpoch, open.slice.EpochStart = run.Partition.Partition, run.LeaderEpoch, run.EpochStart
	open.slice.BaseOffset, open.slice.LastOffset, open.slice.MaxTimestamp = run.Base, run.Base-1, -1
	b.table.add(b.open)
	b.event += sliceEventBytes(len(run.Partition.Topic))
	return at
}

// take moves the end of the staging buffer behind what was appended and gives it to the slice.
func (b *Builder) take(at int32, appended Appended, maxTimestamp int64) {
	open := &b.open[at]
	start := int32(HeaderLength + b.used)
	end := start + int32(appended.Bytes)
	b.used += appended.Bytes
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
	if at, ok := b.table.find(&p.TopicID, p.Partition, b.open); ok {
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

// Seal ends the open segment and returns it as one object with its Metadata. id names the segment; its time becomes the
// creation time, its broker epoch that of the object. Until Reset nothing can be appended or sealed again.
//
// The object is the caller's, and dst is the builder's: the object is written into dst, which grows if its capacity is
// too small, or, where the slices were appended in the order of the object and copying can be saved, it is the staging
// buffer itself, and dst takes its place. So the caller goes on with the object and must not touch dst again. The
// Metadata belongs to the builder and is valid until Reset; Clone keeps it.
//
// The error is [ErrEmpty] if nothing was appended, or says that id is not valid; dst is returned, and the open segment
// is left as it is.
func (b *Builder) Seal(id walstorage.SegmentID, dst []byte) (object []byte, metadata *Metadata, err error) {
	if len(b.open) == 0 {
		return dst, nil, ErrEmpty
	}
	if b.sealed {
		return dst, nil, invalid("the segment is sealed already")
	}
	if err := id.Validate(); err != nil {
		return dst, nil, err
	}
	b.sort()
	m := &b.metadata
	m.Cluster, m.ID, m.Created, m.Topics = b.cfg.Cluster, id, id.Created(), m.Topics[:0]
	b.entries = slices.Grow(b.entries[:0], len(b.open)) // no later growth: Topics point into it

	object, gather := dst, true
	if b.ordered() && cap(b.stage) >= b.SealedLen() {
		if own := b.limit > b.cfg.TargetBytes; own || cap(dst) >= len(b.base) {
			object, gather = b.stage, false
			if !own {
				b.base = dst[:len(b.base)]
			}
		}
	}
	object = appendHeader(slices.Grow(object[:0], b.SealedLen()), id)
	for i := range b.order {
		open := &b.open[b.order[i].at]
		// The position is the sum of the lengths before, never a multiple of the slice's own (apache/pulsar#1738).
		slice := open.slice
		start := len(object)
		if gather {
			// The checksum is that of the copy, piece by piece while it is in the cache (W4).
			for piece := open.first; piece >= 0; piece = b.extents[piece].next {
				from := len(object)
				object = append(object, b.stage[b.extents[piece].start:b.extents[piece].end]...)
				slice.CRC32C = crc32.Update(slice.CRC32C, castagnoli, object[from:])
			}
		} else {
			object = object[:start+int(slice.Length)]
			slice.CRC32C = crc32.Checksum(object[start:], castagnoli)
		}
		b.entries = append(b.entries, slice)
		if i == 0 || b.open[b.order[i-1].at].partition.TopicID != open.partition.TopicID {
			m.Topics = append(m.Topics, Topic{ID: open.partition.TopicID, Name: open.partition.Topic, Slices: b.entries[i:i:i]})
		}
		topic := &m.Topics[len(m.Topics)-1]
		first := i - len(topic.Slices)
		topic.Slices = b.entries[first : i+1 : i+1]
	}
	indexStart := len(object)
	object = m.append(object)
	b.sealed = true
	return appendTrailer(object, indexStart), m, nil
}

// ordered tells whether the body stands in the staging buffer as it will in the object.
func (b *Builder) ordered() bool {
	at := int32(HeaderLength)
	for i := range b.order {
		open := &b.open[b.order[i].at]
		if open.first != open.last || b.extents[open.first].start != at {
			return false
		}
		at = b.extents[open.first].end
	}
	return true
}

// place is an open slice in the order of the object.
type place struct {
	prefix    uint64 // the first half of the topic id, as a number of the same order
	partition int32
	at        int32 // in open
}

// sort fills order: by topic id, then partition. Ids are random, so the first half of them nearly always decides.
func (b *Builder) sort() {
	b.order = b.order[:0]
	for i := range b.open {
		p := &b.open[i].partition
		b.order = append(b.order, place{prefix: binary.BigEndian.Uint64(p.TopicID[:]), partition: p.Partition, at: int32(i)})
	}
	slices.SortFunc(b.order, func(x, y place) int {
		switch {
		case x.prefix < y.prefix:
			return -1
		case x.prefix > y.prefix:
			return 1
		}
		if c := compareIDs(&b.open[x.at].partition.TopicID, &b.open[y.at].partition.TopicID); c != 0 {
			return c
		}
		return cmp.Compare(x.partition, y.partition)
	})
}
