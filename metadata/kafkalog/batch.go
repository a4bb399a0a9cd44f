package kafkalog

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"strconv"
	"time"

	"github.com/walhop/walhop/metadata"
)

// A record of the topic. The key is the broker id in decimal digits, so that any tool shows whose events they are. The
// value is the event. The header tells the broker epoch where an event cannot be read, of a later version say: fencing
// (L6) and gaps (M3) need no more than that.
const epochHeader = "epoch"

// Where the fields of a record batch stand, format 2.
const (
	batchLengthAt    = 8
	batchLeaderAt    = 12
	batchMagicAt     = 16
	batchCRCAt       = 17
	batchAttributes  = 21
	batchLastDeltaAt = 23
	batchFirstTimeAt = 27
	batchMaxTimeAt   = 35
	batchProducerAt  = 43
	batchEpochAt     = 51
	batchSequenceAt  = 53
	batchCountAt     = 57
	batchHeaderBytes = 61
)

// maxRecordOverhead is the most that a batch of one event takes more than the event: the batch's header, five lengths, the
// key, the header with its epoch, with some room.
const maxRecordOverhead = batchHeaderBytes + 5*binary.MaxVarintLen32 + 10 + len(epochHeader) + 19 + 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is a part of what one Publish has to send: whole events in one record batch.
type batch struct {
	bytes  []byte
	events int
}

// encoder makes record batches of events. Its memory is used again.
type encoder struct {
	key, epoch []byte
	version    metadata.Version
	limit      int  // of one batch in bytes
	single     bool // one event in a batch

	value   []byte
	record  []byte
	buffer  []byte
	ends    []int // of each batch in buffer
	counts  []int // of its events
	batches []batch
}

// spareBuffer is the largest buffer that an encoder keeps between two publications.
const spareBuffer = 4 << 20

func newEncoder(cfg Config) *encoder {
	return &encoder{
		key:     strconv.AppendInt(nil, int64(cfg.Broker), 10),
		epoch:   strconv.AppendInt(nil, cfg.BrokerEpoch, 10),
		version: cfg.EventVersion,
	}
}

// encode returns the events before the first invalid one in batches no larger than the limit, and what is wrong with that
// one. The batches are valid until the next call.
func (e *encoder) encode(events []*metadata.Event, cfg *Config) (batches []batch, err error) {
	if cap(e.buffer) > spareBuffer {
		e.buffer = nil
	}
	e.buffer, e.ends, e.counts = e.buffer[:0], e.ends[:0], e.counts[:0]
	now := cfg.Now()
	begin, count := 0, 0
	for _, event := range events {
		if err = metadata.CheckWriter(event, cfg.Broker, cfg.BrokerEpoch); err != nil {
			break
		}
		if e.value, err = event.AppendVersion(e.value[:0], e.version); err != nil {
			break
		}
		if batchHeaderBytes+e.appendRecord(0) > e.limit {
			err = tooLarge(len(e.value), e.limit)
			break
		}
		if count > 0 && (e.single || len(e.buffer)-begin+e.appendRecord(count) > e.limit) {
			e.end(begin, count)
			begin, count = len(e.buffer), 0
			e.appendRecord(0)
		}
		if count == 0 {
			e.buffer = appendBatchHeader(e.buffer, now)
		}
		e.buffer = append(e.buffer, e.record...)
		count++
	}
	if count > 0 {
		e.end(begin, count)
	}
	e.batches = e.batches[:0]
	begin = 0
	for i, end := range e.ends {
		e.batches = append(e.batches, batch{e.buffer[begin:end:end], e.counts[i]})
		begin = end
	}
	return e.batches, err
}

// appendRecord makes the record of the value in e.record and returns its length.
func (e *encoder) appendRecord(delta int) int {
	body := 1 + 1 + varintLen(delta) + // attributes, timestamp delta, offset delta
		varintLen(len(e.key)) + len(e.key) + varintLen(len(e.value)) + len(e.value) +
		1 + varintLen(len(epochHeader)) + len(epochHeader) + varintLen(len(e.epoch)) + len(e.epoch)
	r := binary.AppendVarint(e.record[:0], int64(body))
	r = append(r, 0)
	r = binary.AppendVarint(r, 0)
	r = binary.AppendVarint(r, int64(delta))
	r = binary.AppendVarint(r, int64(len(e.key)))
	r = append(r, e.key...)
	r = binary.AppendVarint(r, int64(len(e.value)))
	r = append(r, e.value...)
	r = binary.AppendVarint(r, 1)
	r = binary.AppendVarint(r, int64(len(epochHeader)))
	r = append(r, epochHeader...)
	r = binary.AppendVarint(r, int64(len(e.epoch)))
	e.record = append(r, e.epoch...)
	return len(e.record)
}

// varintLen is the length of a zigzag varint of a length.
func varintLen(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }

// appendBatchHeader appends the header of a batch without what end and stamp put into it.
func appendBatchHeader(b []byte, now time.Time) []byte {
	var header [batchHeaderBytes]byte
	binary.BigEndian.PutUint32(header[batchLeaderAt:], ^uint32(0)) // the broker's
	header[batchMagicAt] = 2
	binary.BigEndian.PutUint64(header[batchFirstTimeAt:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint64(header[batchMaxTimeAt:], uint64(now.UnixMilli()))
	return append(b, header[:]...)
}

// end finishes a batch that begins in the buffer.
func (e *encoder) end(begin, count int) {
	b := e.buffer[begin:]
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLeaderAt))
	binary.BigEndian.PutUint32(b[batchLastDeltaAt:], uint32(count-1))
	binary.BigEndian.PutUint32(b[batchCountAt:], uint32(count))
	e.ends, e.counts = append(e.ends, len(e.buffer)), append(e.counts, count)
}

// stamp says who sends the batch, and with which sequence it begins.
func (b batch) stamp(p producer) {
	binary.BigEndian.PutUint64(b.bytes[batchProducerAt:], uint64(p.id))
	binary.BigEndian.PutUint16(b.bytes[batchEpochAt:], uint16(p.epoch))
	binary.BigEndian.PutUint32(b.bytes[batchSequenceAt:], uint32(p.sequence))
	binary.BigEndian.PutUint32(b.bytes[batchCRCAt:], crc32.Checksum(b.bytes[batchAttributes:], castagnoli))
}

// producer is an idempotent producer as Kafka knows it.
type producer struct {
	id       int64
	epoch    int16
	sequence int32 // of the next record
}

// after is the producer once a batch of so many records is stored. Sequences begin again at 0 after the greatest.
func (p producer) after(records int) producer {
	p.sequence = int32(uint32(p.sequence)+uint32(records)) & (1<<31 - 1)
	return p
}
