package search

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

const cluster = "search"

// partition returns the partition of a number.
func partition(p int8) segment.TopicIDPartition {
	return segment.TopicIDPartition{TopicID: uuid.UUID{15: 1}, Topic: "t", Partition: int32(p)}
}

// segmentID names a segment with its event. 0 is none.
type segmentID uint16

// piece is what one read gives to a segment: a run of the epoch, due at base.
type piece struct {
	part, epoch, start, base int8
	bytes                    bytesID
}

// content is what a segment is made of. An epoch of 0 is no piece.
type content [mostPartitions]piece

// sealedSegment is a segment as the store and the metadata log hold it.
type sealedSegment struct {
	content content
	event   *metadata.Event
	object  []byte
	reader  *segment.Reader
	damaged *sealedSegment // the same with a byte changed on the way, nil for a damaged one
}

// segments holds every segment that has been sealed, by the real Builder. One content has one id: that a leader seals it
// twice under two ids adds nothing, as a Store looks at ids only to settle which of two equal slices it names.
type segments struct {
	all []*sealedSegment
	ids map[content]segmentID
	of  map[walstorage.SegmentID]segmentID
}

func newSegments() *segments {
	return &segments{all: []*sealedSegment{nil}, ids: map[content]segmentID{}, of: map[walstorage.SegmentID]segmentID{}}
}

func (s *segments) get(id segmentID) *sealedSegment { return s.all[id] }

// newBuilder returns a builder of segments of up to 4 KiB.
func newBuilder() *segment.Builder {
	b, err := segment.NewBuilder(segment.BuilderConfig{Cluster: cluster, TargetBytes: 4 << 10, MaxBytes: 4 << 10})
	if err != nil {
		panic(err)
	}
	return b
}

// of one piece or two. forged has the builder take batches of any epoch, which the real one refuses.
func (s *segments) make(c content, raw func(bytesID) []byte, forged bool) segmentID {
	if id, ok := s.ids[c]; ok {
		return id
	}
	b := newBuilder()
	for _, p := range c {
		if p.epoch == 0 {
			continue
		}
		data := bytes.Clone(raw(p.bytes))
		if forged {
			restamp(data, p.epoch)
		}
		lead := decide.Lead{Partition: partition(p.part), Epoch: int32(p.epoch), EpochStart: int64(p.start)}
		if appended, err := b.Append(lead.Run(int64(p.base)), copy(b.Buffer(len(data)), data)); err != nil || appended.Bytes < len(data) {
			s.ids[c] = 0
			return 0
		}
	}
	return s.seal(c, b)
}

// restamp writes an epoch over those of the batches, whose own checksums do not cover it.
func restamp(raw []byte, epoch int8) {
	for s := batch.NewScanner(raw); s.Next(); {
		binary.BigEndian.PutUint32(raw[s.Position()+12:], uint32(epoch))
	}
}

func (s *segments) seal(c content, b *segment.Builder) segmentID {
	id := segmentID(len(s.all))
	if int(id) != len(s.all) {
		panic("search: too many segments")
	}
	var random [10]byte
	binary.BigEndian.PutUint16(random[4:], uint16(id))
	name, err := walstorage.NewSegmentID(1, 1, time.UnixMilli(1_700_000_000_000), bytes.NewReader(random[:]))
	if err != nil {
		panic(err)
	}
	object, md, err := b.Seal(name, nil)
	if err != nil {
		panic(err)
	}
	sealed := &sealedSegment{content: c, object: object, reader: new(segment.Reader)}
	sealed.event = (&metadata.Event{ObjectSize: int64(len(object)), Segment: *md}).Clone()
	if err := sealed.reader.Reset(object); err != nil {
		panic(err)
	}
	sealed.damaged = sealed.damage()
	s.all = append(s.all, sealed)
	s.ids[c], s.of[name] = id, id
	return id
}

// damage returns the segment with the base offset of a batch, which the batch's own checksum leaves out, set back by one:
// the second one of the first slice, or the only one.
func (s *sealedSegment) damage() *sealedSegment {
	d := *s
	d.object = bytes.Clone(s.object)
	slice := d.object[segment.HeaderLength : segment.HeaderLength+s.event.Segment.Topics[0].Slices[0].Length]
	at := 0
	for b := batch.NewScanner(slice); b.Next() && at == 0; {
		at = b.Position()
	}
	offset := slice[at : at+8]
	binary.BigEndian.PutUint64(offset, binary.BigEndian.Uint64(offset)-1)
	return &d
}

// damage is what becomes of an object on its way to a follower.
type damage int8

const (
	whole   damage = iota
	altered        // a byte of it is another
)

// storeID names a content of a metadata.Store. 0 is the one that follows nothing.
type storeID uint32

type storeOp struct {
	kind    storeOpKind
	part    int8
	epoch   int8
	segment segmentID
}

type storeOpKind int8

const (
	storeFollow storeOpKind = iota
	storeUnfollow
	storeApply
	storeNext // the log ends at epoch
)

// stores holds every content that a Store has had, as logs does.
type stores struct {
	segments   *segments
	maxEntries int
	ops        [][]storeOp
	ids        map[string]storeID
	done       map[storedOp]storeResult
	evicted    int // calls that evicted entries over the bound
}

type storedOp struct {
	store storeID
	op    storeOp
}

type storeResult struct {
	store   storeID
	entry   metadata.Entry
	verdict metadata.Verdict
}

func newStores(s *segments, maxEntries int) *stores {
	all := &stores{segments: s, maxEntries: maxEntries, ids: map[string]storeID{}, done: map[storedOp]storeResult{}}
	all.enter(nil, all.open(nil))
	return all
}

func (s *stores) open(ops []storeOp) *metadata.Store {
	store, err := metadata.NewStore(metadata.StoreConfig{Cluster: cluster, MaxEntries: s.maxEntries})
	if err != nil {
		panic(err)
	}
	for _, op := range ops {
		s.call(store, op)
	}
	return store
}

func (s *stores) enter(ops []storeOp, store *metadata.Store) storeID {
	key := string(snapshot(nil, store, "mu", "stats", "arrivals"))
	if id, ok := s.ids[key]; ok {
		return id
	}
	id := storeID(len(s.ops))
	s.ids[key], s.ops = id, append(s.ops, ops)
	return id
}

func (s *stores) do(id storeID, op storeOp) storeResult {
	if r, ok := s.done[storedOp{id, op}]; ok {
		return r
	}
	store := s.open(s.ops[id])
	before := store.Stats().Evicted
	r := s.call(store, op)
	if store.Stats().Evicted > before {
		s.evicted++
	}
	r.store = s.enter(append(s.ops[id][:len(s.ops[id]):len(s.ops[id])], op), store)
	s.done[storedOp{id, op}] = r
	return r
}

// call makes one call of the real Store.
func (s *stores) call(store *metadata.Store, op storeOp) (r storeResult) {
	switch op.kind {
	case storeFollow:
		store.Follow(partition(op.part), 1, int32(op.epoch))
	case storeUnfollow:
		store.Unfollow(partition(op.part))
	case storeApply:
		store.Apply(metadata.Item{Event: s.segments.get(op.segment).event})
	case storeNext:
		r.entry, r.verdict = store.Next(partition(op.part), int64(op.epoch))
	default:
		panic(fmt.Sprintf("search: no such call %d", op.kind))
	}
	return r
}
