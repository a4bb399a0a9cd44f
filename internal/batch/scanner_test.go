package batch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
)

// seen is what a scan found of one batch.
type seen struct {
	position       int
	base, last     int64
	epoch, records int32
}

// scan walks b to its end and returns what it found, the position of a partial tail (-1 for none) and the error.
func scan(b []byte) (found []seen, tail int, err error) {
	s := batch.NewScanner(b)
	for s.Next() {
		h := s.Header()
		found = append(found, seen{s.Position(), h.BaseOffset, h.LastOffset(), h.LeaderEpoch, h.Records})
	}
	tail = -1
	if position, ok := s.PartialTail(); ok {
		tail = position
	}
	return found, tail, s.Err()
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestHeaderFields(t *testing.T) {
	spec := batchtest.Spec{
		BaseOffset: 1 << 40, LeaderEpoch: 7, Attributes: batch.Transactional | batch.LogAppendTime | 4, LastOffsetDelta: 9,
		BaseTimestamp: 11, MaxTimestamp: 12, ProducerID: 1 << 33, ProducerEpoch: 14, BaseSequence: 15, Records: 2,
		Payload: []byte("opaque"),
	}
	b := spec.Bytes()

	h, err := batch.ParseHeader(b)

	require.NoError(t, err)
	assert.Equal(t, batch.Header{
		BaseOffset: 1 << 40, Length: 67, LeaderEpoch: 7, Magic: 2, CRC: binary.BigEndian.Uint32(b[17:]),
		Attributes: batch.Transactional | batch.LogAppendTime | 4, LastOffsetDelta: 9, BaseTimestamp: 11, MaxTimestamp: 12,
		ProducerID: 1 << 33, ProducerEpoch: 14, BaseSequence: 15, Records: 2,
	}, h)
	assert.Equal(t, int64(1<<40+9), h.LastOffset())
	assert.Equal(t, int64(1<<40+10), h.NextOffset())
	assert.NoError(t, batch.VerifyCRC(b))
}

// The vectors' verdicts, each pinned (S3).
func TestVectors(t *testing.T) {
	for _, test := range []struct {
		name, report string
		b            []byte
		want         []seen
		corruptAt    int // -1 if not corrupt
		crcGood      bool
	}{
		{"V1 plain", "", batchtest.V1(), []seen{{0, 100, 101, 5, 2}}, -1, true},
		{"V3 abort marker", "", batchtest.V3(), []seen{{0, 112, 112, 5, 1}}, -1, true},
		// A negative count is accepted as opaque: nothing is sized from it, and the ordinary fetch would copy it too.
		{"V4 negative count", "segmentio/kafka-go#1438", batchtest.V4(), []seen{{0, 100, 101, 5, -1}}, -1, true},
		{"V5 negative span", "KAFKA-6554", batchtest.V5(), nil, 0, true},
		{"V6 count above the span", "KAFKA-6554", batchtest.V6(), []seen{{0, 100, 100, 5, 2}}, -1, true},
		{"V7 payload is no gzip", "twmb/franz-go#854", batchtest.V7(), []seen{{0, 100, 101, 5, 2}}, -1, true},
		{"V8 compacted", "KAFKA-6554", batchtest.V8(), []seen{{0, 100, 109, 5, 2}}, -1, true},
		{"V10 checksum of zero", "redpanda-data/redpanda#4113", batchtest.V10(), []seen{{0, 100, 100, 5, 1}}, -1, true},
		{"61 zero bytes", "redpanda-data/redpanda#4113", make([]byte, 61), nil, 0, false},
		{"V1, then 61 zero bytes", "redpanda-data/redpanda#4113", join(batchtest.V1(), make([]byte, 61)), []seen{{0, 100, 101, 5, 2}}, 79, false},
		{"V1, then V5", "KAFKA-6554", join(batchtest.V1(), batchtest.V5()), []seen{{0, 100, 101, 5, 2}}, 79, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			given := bytes.Clone(test.b)

			found, tail, err := scan(test.b)

			assert.Equal(t, test.want, found, test.report)
			assert.Equal(t, -1, tail)
			assert.Equal(t, given, test.b, "the bytes are untouched (S2)")
			if test.corruptAt < 0 {
				assert.NoError(t, err)
			} else {
				var corrupt *batch.CorruptError
				require.ErrorAs(t, err, &corrupt, test.report)
				assert.ErrorIs(t, err, batch.ErrCorrupt)
				assert.Equal(t, test.corruptAt, corrupt.Position)
			}
			if test.crcGood {
				assert.NoError(t, batch.VerifyCRC(test.b))
			}
		})
	}
}

// KAFKA-6554, IBM/sarama#1026: with a negative span the next offset must never fall below the base.
func TestNegativeSpanNeverGoesBack(t *testing.T) {
	h, err := batch.ParseHeader(batchtest.V5())
	require.ErrorIs(t, err, batch.ErrCorrupt)
	assert.Zero(t, h, "no header comes with the error, so nobody can advance by it")
}

// segmentio/kafka-go#1438 and its siblings IBM/sarama#1225 and kafka-protocol-rs/kafka-protocol-rs#156: the count sizes
// nothing.
func TestCountIsNotTrusted(t *testing.T) {
	huge := batchtest.V1()
	binary.BigEndian.PutUint32(huge[57:], math.MaxInt32)
	batch.SetCRC(huge)

	var payload []byte
	for i := range int32(200_000) {
		payload = batchtest.AppendRecord(payload, 0, i, nil, []byte{1})
	}
	many := batchtest.NewSpec(100, 5)
	many.Records, many.LastOffsetDelta, many.Payload = 200_000, 199_999, payload
	legal := many.Bytes()

	for _, test := range []struct {
		name string
		b    []byte
		want seen
	}{
		{"count 0x7fffffff", huge, seen{0, 100, 101, 5, math.MaxInt32}},
		{"200,000 records of a byte", legal, seen{0, 100, 200_099, 5, 200_000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, tail, err := scan(test.b)
			require.NoError(t, err)
			assert.Equal(t, []seen{test.want}, found)
			assert.Equal(t, -1, tail)
			assert.NoError(t, batch.VerifyCRC(test.b))
		})
	}
}

// segmentio/kafka-go#621, segmentio/kafka-go#423: progress comes from the batch's last offset, so a jump forward is a
// legal gap.
func TestCompactionGap(t *testing.T) {
	found, tail, err := scan(join(batchtest.V8(), batchtest.Make(250, 5, "after the gap")))
	require.NoError(t, err)
	assert.Equal(t, -1, tail)
	assert.Equal(t, []seen{{0, 100, 109, 5, 2}, {79, 250, 250, 5, 1}}, found)
}

// redpanda-data/redpanda#5685: the old formats have a verdict of their own and are never called corrupt.
func TestOldFormats(t *testing.T) {
	flipped := batchtest.V9()
	flipped[len(flipped)-1] ^= 1
	magic0 := batchtest.V9()
	magic0[16] = 0
	for _, test := range []struct {
		name     string
		b        []byte
		want     []seen
		position int
		magic    int8
	}{
		{"V9", batchtest.V9(), nil, 0, 1},
		{"V9 with a byte of the second value flipped", flipped, nil, 0, 1},
		{"magic 0", magic0, nil, 0, 0},
		{"V1, then V9", join(batchtest.V1(), batchtest.V9()), []seen{{0, 100, 101, 5, 2}}, 79, 1},
		{"V9 cut after its magic", batchtest.V9()[:17], nil, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, tail, err := scan(test.b)
			assert.Equal(t, test.want, found)
			assert.Equal(t, -1, tail)
			var unsupported *batch.UnsupportedMagicError
			require.ErrorAs(t, err, &unsupported)
			assert.ErrorIs(t, err, batch.ErrUnsupportedMagic)
			assert.NotErrorIs(t, err, batch.ErrCorrupt)
			assert.Equal(t, batch.UnsupportedMagicError{Position: test.position, Magic: test.magic}, *unsupported)
		})
	}
}

// twmb/franz-go#854, confluentinc/librdkafka#5581: a partial tail is recognised from the header, wherever it is cut, and
// is no corruption.
func TestPartialTail(t *testing.T) {
	one := batchtest.V1()
	for cut := range len(one) {
		b := join(one, one[:cut])

		found, tail, err := scan(b)

		require.NoError(t, err, "cut at %d", cut)
		require.Equal(t, []seen{{0, 100, 101, 5, 2}}, found, "cut at %d", cut)
		if cut == 0 {
			require.Equal(t, -1, tail)
		} else {
			require.Equal(t, 79, tail, "cut at %d", cut)
		}

		h, err := batch.ParseHeader(one[:cut])
		require.ErrorIs(t, err, batch.ErrPartial, "cut at %d", cut)
		require.NotErrorIs(t, err, batch.ErrCorrupt)
		if cut >= 12 {
			require.Equal(t, 79, h.Length, "the size is known from byte 12 on")
		}
		if cut >= batch.HeaderLength {
			require.Equal(t, int64(101), h.LastOffset(), "the whole header is known")
		}
	}
}

func TestCorruptHeaders(t *testing.T) {
	set := func(at int, value ...byte) []byte {
		b := batchtest.V1()
		copy(b[at:], value)
		return b
	}
	for _, test := range []struct {
		name   string
		b      []byte
		reason string
	}{
		{"base offset negative", set(0, 0x80), "base offset is negative"},
		{"length negative", set(8, 0xff, 0xff, 0xff, 0xff), "length is negative"},
		{"length zero", set(8, 0, 0, 0, 0), "length is too small for a batch"},
		{"length below the header", set(8, 0, 0, 0, 48), "length is smaller than the header"},
		{"magic 3", set(16, 3), "magic is unknown"},
		{"magic negative", set(16, 0xff), "magic is unknown"},
		{"span negative", set(23, 0x80, 0, 0, 0), "last offset delta is negative"},
		{"last offset overflows", set(0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "last offset is beyond the largest offset"},
		{"negative span of a batch that is cut off", batchtest.V5()[:61], "last offset delta is negative"},
		{"negative length, cut after it", set(8, 0xff, 0xff, 0xff, 0xff)[:12], "length is negative"},
		{"negative base offset, cut after it", set(0, 0x80)[:8], "base offset is negative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := batch.ParseHeader(test.b)
			var corrupt *batch.CorruptError
			require.ErrorAs(t, err, &corrupt)
			assert.Equal(t, batch.CorruptError{Position: 0, Reason: test.reason}, *corrupt)

			s := batch.NewScanner(test.b)
			assert.False(t, s.Next())
			assert.Equal(t, err, s.Err())
			assert.False(t, s.Next(), "it stays ended")
			_, partial := s.PartialTail()
			assert.False(t, partial)
		})
	}
}

func TestSmallestBatch(t *testing.T) {
	// What the cleaner leaves of an idempotent producer's last batch: a header and no record.
	spec := batchtest.NewSpec(41, 0)
	spec.LastOffsetDelta = 2
	found, tail, err := scan(spec.Bytes())
	require.NoError(t, err)
	assert.Equal(t, -1, tail)
	assert.Equal(t, []seen{{0, 41, 43, 0, 0}}, found)
}

func TestVerifyCRC(t *testing.T) {
	for i := range batchtest.V1() {
		b := batchtest.V1()
		b[i] ^= 0x10
		err := batch.VerifyCRC(b)
		if i < 17 {
			assert.NoError(t, err, "byte %d is not covered", i)
		} else {
			assert.ErrorIs(t, err, batch.ErrCorrupt, "byte %d is covered", i)
		}
	}
	assert.ErrorIs(t, batch.VerifyCRC(nil), batch.ErrCorrupt)
}

func TestAssign(t *testing.T) {
	b := batchtest.V1()
	batch.Assign(b, 1<<34, 9)
	h, err := batch.ParseHeader(b)
	require.NoError(t, err)
	assert.Equal(t, int64(1<<34), h.BaseOffset)
	assert.Equal(t, int32(9), h.LeaderEpoch)
	assert.NoError(t, batch.VerifyCRC(b), "the checksum covers neither")
}

func TestScanAllocatesNothing(t *testing.T) {
	b := join(batchtest.V1(), batchtest.V8(), batchtest.V4(), batchtest.V1()[:30])
	var offsets int64
	allocations := testing.AllocsPerRun(100, func() {
		s := batch.NewScanner(b)
		for s.Next() {
			offsets += s.Header().NextOffset() + int64(len(s.Bytes()))
			if batch.VerifyCRC(s.Bytes()) != nil {
				panic("bad vector")
			}
		}
		if _, ok := s.PartialTail(); !ok || s.Err() != nil {
			panic("no tail")
		}
	})
	assert.Zero(t, allocations)
}

// isBatchError tells whether the error has exactly one of the kinds that a scan may end with.
func isBatchError(err error) bool {
	var corrupt *batch.CorruptError
	var unsupported *batch.UnsupportedMagicError
	return errors.As(err, &corrupt) != errors.As(err, &unsupported) &&
		errors.Is(err, batch.ErrCorrupt) == (corrupt != nil) && errors.Is(err, batch.ErrUnsupportedMagic) == (unsupported != nil)
}

// S3, S5: any bytes as batches. The seeds are those of scanSeeds.
func FuzzScan(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		given := bytes.Clone(b)
		s := batch.NewScanner(b)
		end := 0
		for s.Next() {
			h := s.Header()
			if s.Position() != end || len(s.Bytes()) != h.Length || h.Length < batch.HeaderLength {
				t.Fatalf("batch at %d of %d bytes after one that ended at %d", s.Position(), h.Length, end)
			}
			if h.NextOffset() <= h.BaseOffset || h.BaseOffset < 0 {
				t.Fatalf("offsets go back: %+v", *h)
			}
			if s.BaseOffset() != h.BaseOffset || s.LastOffset() != h.LastOffset() || s.LeaderEpoch() != h.LeaderEpoch ||
				s.MaxTimestamp() != h.MaxTimestamp || s.End() != end+h.Length {
				t.Fatalf("the short cuts differ from the header: %+v", *h)
			}
			if parsed, err := batch.ParseHeader(s.Bytes()); err != nil || parsed != *h {
				t.Fatalf("ParseHeader of the same batch: %+v, %v", parsed, err)
			}
			// What the header says is what makes the batch: written anew from its fields it has the same bytes.
			if again := rebuilt(h, s.Bytes()); !bytes.Equal(again, s.Bytes()) {
				t.Fatalf("%x is built again as %x", s.Bytes(), again)
			}
			end += h.Length
		}
		if !bytes.Equal(given, b) {
			t.Fatal("the input was changed (S2)")
		}
		err := s.Err()
		tail, partial := s.PartialTail()
		switch {
		case s.Next():
			t.Fatal("it goes on after its end")
		case err != nil && partial:
			t.Fatal("both an error and a partial tail")
		case err != nil && !isBatchError(err):
			t.Fatalf("an error of no kind, or of two: %v", err)
		case err == nil && !partial && end != len(b):
			t.Fatalf("ended at %d of %d without a reason", end, len(b))
		case partial && (tail != end || end == len(b)):
			t.Fatalf("partial tail at %d, batches end at %d of %d", tail, end, len(b))
		}
		if _, first := batch.ParseHeader(b[end:]); end < len(b) && (first == nil || errors.Is(first, batch.ErrPartial) != partial) {
			t.Fatalf("ParseHeader says %v of what ended the scan with %v", first, err)
		}
	})
}

// rebuilt returns the batch that has the fields of h and the records of b.
func rebuilt(h *batch.Header, b []byte) []byte {
	spec := batchtest.Spec{
		BaseOffset: h.BaseOffset, LeaderEpoch: h.LeaderEpoch, Attributes: h.Attributes, LastOffsetDelta: h.LastOffsetDelta,
		BaseTimestamp: h.BaseTimestamp, MaxTimestamp: h.MaxTimestamp, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch,
		BaseSequence: h.BaseSequence, Records: h.Records, Payload: b[batch.HeaderLength:],
	}
	again := spec.Bytes()
	binary.BigEndian.PutUint32(again[17:], h.CRC)
	return again
}
