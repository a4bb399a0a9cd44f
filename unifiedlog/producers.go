package unifiedlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/walhop/walhop/internal/batch"
)

// retainedBatches is how many of a producer's last batches a duplicate is told from, as in Kafka: a producer has at most
// five requests in flight.
const retainedBatches = 5

// produced is a batch of a producer.
type produced struct {
	sequence int32 // of the last record
	offset   int64 // of the last record
	delta    int32
	time     int64 // the largest timestamp
}

// producer is what the log knows of one idempotent or transactional producer.
type producer struct {
	id          int64
	epoch       int16 // -1 before the first batch
	coordinator int32 // the epoch of the transaction coordinator that wrote the last marker, -1 before the first
	time        int64 // of the last batch or marker, Unix milliseconds, -1 before the first
	txnFirst    int64 // the first offset of the open transaction, -1 if there is none
	batches     []produced
}

// newProducer returns a producer of which nothing is known.
func newProducer(id int64) *producer {
	return &producer{id: id, epoch: -1, coordinator: -1, time: -1, txnFirst: -1}
}

// last returns the last batch, with -1 for what is not known.
func (p *producer) last() produced {
	if len(p.batches) == 0 {
		return produced{sequence: -1, offset: -1}
	}
	return p.batches[len(p.batches)-1]
}

// enter takes over the epoch of a batch or marker. The sequence numbers begin again with it.
func (p *producer) enter(epoch int16) {
	if p.epoch != epoch {
		p.epoch, p.batches = epoch, nil
	}
}

// txn is a transaction by its producer, first offset, and, once it is complete, the offset of its marker.
type txn struct {
	producer    int64
	first, last int64
}

// producerState is what Kafka's ProducerStateManager is: the producers of a partition and their transactions. It follows
// every batch of the log, and anything in it is a function of the log alone; a snapshot of it spares reading the log
// again.
type producerState struct {
	producers map[int64]*producer
	// open are the transactions without a marker, unreplicated those whose marker is not below the high watermark. Both
	// are in the order of their first offsets.
	open, unreplicated []txn
	// end is the offset up to which the log was followed, snapshot that of the newest snapshot.
	end, snapshot int64
	// anomalies counts batches that a leader would have refused (KAFKA-6003).
	anomalies int64
}

func newProducerState(end int64) producerState {
	return producerState{producers: map[int64]*producer{}, end: end, snapshot: end}
}

// follow takes in one batch, as it stands in the log. raw is the whole batch if it is a control batch. It returns the
// transaction that the batch aborted. Nothing is refused (F8, KAFKA-6003): what a leader would have refused is counted.
func (s *producerState) follow(h *batch.Header, raw []byte) (aborted abortedTxn, ok bool) {
	s.end = h.NextOffset()
	if h.ProducerID < 0 {
		return aborted, false
	}
	if h.Attributes&batch.Control != 0 {
		return s.marker(h, raw)
	}
	p := s.producers[h.ProducerID]
	if p == nil {
		p = newProducer(h.ProducerID)
		s.producers[h.ProducerID] = p
	} else if p.refuses(h) != nil {
		s.anomalies++
	}
	p.enter(h.ProducerEpoch)
	if len(p.batches) == retainedBatches {
		p.batches = append(p.batches[:0], p.batches[1:]...)
	}
	p.batches = append(p.batches, produced{
		sequence: lastSequence(h), offset: h.LastOffset(), delta: h.LastOffsetDelta, time: h.MaxTimestamp,
	})
	p.time = h.MaxTimestamp
	if h.Attributes&batch.Transactional != 0 && p.txnFirst < 0 {
		p.txnFirst = h.BaseOffset
		s.open = append(s.open, txn{producer: p.id, first: h.BaseOffset, last: -1})
	}
	return aborted, false
}

// marker takes in a control batch.
func (s *producerState) marker(h *batch.Header, raw []byte) (aborted abortedTxn, ok bool) {
	end, found := parseMarker(h, raw)
	if !found {
		return aborted, false // cleaned away, or another kind of control record
	}
	p := s.producers[h.ProducerID]
	if p == nil {
		p = newProducer(h.ProducerID)
		s.producers[h.ProducerID] = p
	}
	first := p.txnFirst
	p.enter(h.ProducerEpoch)
	p.coordinator, p.time, p.txnFirst = end.coordinator, end.time, -1
	if first < 0 {
		return aborted, false // a transaction without a batch in this partition
	}
	s.open = slices.DeleteFunc(s.open, func(t txn) bool { return t.first == first })
	done := txn{producer: p.id, first: first, last: h.BaseOffset}
	at, _ := slices.BinarySearchFunc(s.unreplicated, first, func(t txn, first int64) int { return int(min(1, max(-1, t.first-first))) })
	s.unreplicated = slices.Insert(s.unreplicated, at, done)
	if end.commit {
		return aborted, false
	}
	stable := h.BaseOffset + 1
	if len(s.open) > 0 {
		stable = s.open[0].first
	}
	return abortedTxn{producer: p.id, first: first, last: h.BaseOffset, stable: stable}, true
}

// replicated drops the transactions whose markers lie below the high watermark.
func (s *producerState) replicated(highWatermark int64) {
	if len(s.unreplicated) > 0 {
		s.unreplicated = slices.DeleteFunc(s.unreplicated, func(t txn) bool { return t.last < highWatermark })
	}
}

// firstUnstable returns the first offset of the oldest transaction that is open or whose marker is not replicated, -1 if
// there is none.
func (s *producerState) firstUnstable() int64 {
	first := int64(-1)
	if len(s.open) > 0 {
		first = s.open[0].first
	}
	if len(s.unreplicated) > 0 && (first < 0 || s.unreplicated[0].first < first) {
		first = s.unreplicated[0].first
	}
	return first
}

// load replaces the producers by those of a snapshot at offset, but for the expired.
func (s *producerState) load(producers map[int64]*producer, offset int64, expired func(*producer) bool) {
	*s = newProducerState(offset)
	for id, p := range producers {
		if !expired(p) {
			s.producers[id] = p
			if p.txnFirst >= 0 {
				s.open = append(s.open, txn{producer: id, first: p.txnFirst, last: -1})
			}
		}
	}
	slices.SortFunc(s.open, func(a, b txn) int { return int(min(1, max(-1, a.first-b.first))) })
}

// clone returns a copy of a producer, on which further batches can be tried.
func (p *producer) clone() *producer {
	c := *p
	c.batches = slices.Clone(p.batches)
	return &c
}

// duplicate returns the batch that h repeats, if it is among the last five: as a whole or not at all.
func (p *producer) duplicate(h *batch.Header) (produced, bool) {
	if p.epoch != h.ProducerEpoch {
		return produced{}, false
	}
	for _, known := range p.batches {
		if known.sequence == lastSequence(h) && decrement(known.sequence, known.delta) == h.BaseSequence {
			return known, true
		}
	}
	return produced{}, false
}

// refuses tells why a leader refuses the data batch h after what the producer has written, nil if it does not. The error
// is one of the sentinels with the figures.
func (p *producer) refuses(h *batch.Header) error {
	switch {
	case h.ProducerEpoch < p.epoch:
		return fmt.Errorf("%w: epoch %d after %d", ErrProducerFenced, h.ProducerEpoch, p.epoch)
	case p.epoch < 0:
		// Nothing is known of it: its records are gone, or it is new. Any sequence number begins.
	case h.ProducerEpoch != p.epoch:
		if h.BaseSequence != 0 {
			return fmt.Errorf("%w: %d, the first of a new producer epoch is 0", ErrOutOfOrderSequence, h.BaseSequence)
		}
	default:
		last := p.last().sequence
		if h.BaseSequence != last+1 && (h.BaseSequence != 0 || last != math.MaxInt32) {
			return fmt.Errorf("%w: %d after %d", ErrOutOfOrderSequence, h.BaseSequence, last)
		}
	}
	if p.txnFirst >= 0 && h.Attributes&batch.Transactional == 0 {
		return fmt.Errorf("%w: since offset %d", ErrInvalidTxnState, p.txnFirst)
	}
	return nil
}

// refusesMarker tells why a leader refuses a marker.
func (p *producer) refusesMarker(h *batch.Header, raw []byte) error {
	end, ok := parseMarker(h, raw)
	switch {
	case !ok:
		return fmt.Errorf("%w: the control batch holds no marker of a transaction", ErrInvalidRecord)
	case h.ProducerEpoch < p.epoch:
		return fmt.Errorf("%w: epoch %d after %d", ErrProducerFenced, h.ProducerEpoch, p.epoch)
	case end.coordinator < p.coordinator:
		return fmt.Errorf("%w: epoch %d after %d", ErrCoordinatorFenced, end.coordinator, p.coordinator)
	}
	return nil
}

// lastSequence returns the sequence number of the batch's last record. After the largest comes 0.
func lastSequence(h *batch.Header) int32 {
	if h.BaseSequence < 0 {
		return -1
	}
	return int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) & math.MaxInt32)
}

// decrement returns the sequence number that lies delta before.
func decrement(sequence, delta int32) int32 {
	if sequence < 0 {
		return -1
	}
	return int32((int64(sequence) - int64(delta)) & math.MaxInt32)
}

// endMarker is the record of a control batch that ends a transaction.
type endMarker struct {
	commit      bool
	coordinator int32
	time        int64
}

// The types of control records that end a transaction.
const (
	abortMarker  = 0
	commitMarker = 1
)

var errRecord = errors.New("no record")

// parseMarker reads the first record of a control batch: a key of version and type, a value of version and coordinator
// epoch. It is not ok where there is none, or one of another type.
func parseMarker(h *batch.Header, raw []byte) (m endMarker, ok bool) {
	if h.Attributes&batch.CodecMask != 0 || len(raw) <= batch.HeaderLength {
		return m, false
	}
	r, _, err := parseRecord(raw[batch.HeaderLength:])
	if err != nil || len(r.key) < 4 || len(r.value) < 6 {
		return m, false
	}
	kind := int16(binary.BigEndian.Uint16(r.key[2:]))
	m = endMarker{
		commit:      kind == commitMarker,
		coordinator: int32(binary.BigEndian.Uint32(r.value[2:])),
		time:        h.BaseTimestamp + r.timeDelta,
	}
	if h.Attributes&batch.LogAppendTime != 0 {
		m.time = h.MaxTimestamp
	}
	return m, kind == commitMarker || kind == abortMarker
}

// record is what the log reads of an uncompressed record.
type record struct {
	timeDelta   int64
	offsetDelta int32
	key, value  []byte
}

// parseRecord reads the record at the beginning of b and returns what follows it.
func parseRecord(b []byte) (r record, rest []byte, err error) {
	length, n := binary.Varint(b)
	if n <= 0 || length < 1 || length > int64(len(b)-n) {
		return r, nil, errRecord
	}
	body, rest := b[n:n+int(length)], b[n+int(length):]
	body = body[1:] // attributes
	if r.timeDelta, n = binary.Varint(body); n <= 0 {
		return r, nil, errRecord
	}
	body = body[n:]
	delta, n := binary.Varint(body)
	if n <= 0 || delta < 0 || delta > math.MaxInt32 {
		return r, nil, errRecord
	}
	r.offsetDelta, body = int32(delta), body[n:]
	for _, field := range []*[]byte{&r.key, &r.value} {
		length, n := binary.Varint(body)
		if n <= 0 || length > int64(len(body)-n) {
			return r, nil, errRecord
		}
		body = body[n:]
		if length >= 0 {
			*field, body = body[:length], body[length:]
		}
	}
	return r, rest, nil
}
