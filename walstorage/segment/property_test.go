package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/corpus"
)

// builderModel is a leader that reads many logs into one segment after another, and what it knows without a Builder:
// which bytes it was told were taken, by partition, since the last seal.
type builderModel struct {
	t       *testing.T
	random  *rand.Rand
	cfg     BuilderConfig
	builder *Builder
	reader  Reader
	dst     []byte
	logs    []*modelLog
	taken   map[PartitionKey]*modelSlice
	seals   int
	counts  map[string]int
}

// modelLog is the log of one partition: where its run stands.
type modelLog struct {
	partition TopicIDPartition
	epoch     int32
	start     int64 // of the epoch
	next      int64 // where the next batch is due
	sealed    int64 // the end of the last slice that was sealed, -1 if the next one begins a run
}

// modelSlice is what the open segment must hold of a partition.
type modelSlice struct {
	epoch              int32
	start, base, next  int64
	data               []byte
	maxTimestamp       int64
	closed, continuing bool
	log                *modelLog
}

// S1, S2, S4, L4, L8: whatever the order of partitions, new epochs, closes, gaps, sizes, torn reads and foreign epochs:
// what comes out of the sealed segments is what was taken, in its order, one slice for each partition, contiguous within
// a run, and the lengths tile the body.
func TestBuilderAgainstAModel(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(150) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			cfg := BuilderConfig{
				Cluster: cluster, TargetBytes: 300 + random.IntN(4000), MaxSlices: 1 + random.IntN(6),
				MaxEventBytes: minEventBytes + random.IntN(1000),
			}
			m := &builderModel{t: t, random: random, cfg: cfg, builder: newBuilder(t, cfg), taken: map[PartitionKey]*modelSlice{}, counts: counts}
			for i := range 1 + random.IntN(9) {
				topic := []uuid.UUID{topicA, topicB, topicC}[i%3]
				p := partition(topic, "t-"+topic.String()[:2], int32(random.IntN(1<<20)*16+i))
				start := random.Int64N(1 << 40)
				m.logs = append(m.logs, &modelLog{partition: p, epoch: int32(random.IntN(3)) - 1, start: start, next: start, sealed: -1})
			}
			for range 120 {
				m.step()
			}
			m.seal()
		})
	}
	for _, what := range []string{
		"sealed", "full", "slice closed", "large batch", "new epoch", "closed", "other epoch", "partial", "corrupt", "span",
		"nothing read", "too wide", "continued", "seal of nothing",
	} {
		require.Positive(t, counts[what], "never happened: %s; %v", what, counts)
	}
}

func (m *builderModel) step() {
	log := m.logs[m.random.IntN(len(m.logs))]
	switch m.random.IntN(20) {
	case 0: // another Lead (L4)
		m.counts["new epoch"]++
		log.epoch += 1 + int32(m.random.IntN(3))
		log.start, log.sealed = log.next, -1
		m.close(log)
	case 1: // Resign, or a skip forward: a new run in the same epoch
		m.counts["closed"]++
		log.next += m.random.Int64N(50)
		log.sealed = -1
		if m.random.IntN(2) == 0 { // a jump alone ends the slice too
			m.close(log)
		}
	case 2:
		m.seal()
	default:
		m.read(log)
	}
}

func (m *builderModel) close(log *modelLog) {
	m.builder.Close(log.partition.Key())
	if open := m.taken[log.partition.Key()]; open != nil {
		open.closed = true
	}
}

// batches makes what the log holds from log.next on, and what may stand behind it. good is the length of the part that
// belongs to the run.
func (m *builderModel) batches(log *modelLog) (data []byte, good int) {
	next := log.next
	for range m.random.IntN(4) {
		switch m.random.IntN(60) {
		case 0, 1, 2, 3, 4, 5:
			next += m.random.Int64N(100) // a compaction gap
		case 6:
			next += 1<<31 + m.random.Int64N(10) // one that no slice spans
		}
		spec := batchtest.NewSpec(next, log.epoch)
		spec.LastOffsetDelta = int32(m.random.IntN(20))
		spec.MaxTimestamp = batchtest.Time + m.random.Int64N(1000) - 500
		spec.Payload = make([]byte, m.random.IntN(200))
		if m.random.IntN(40) == 0 {
			spec.Payload = make([]byte, m.cfg.TargetBytes+m.random.IntN(m.cfg.TargetBytes))
		}
		for i := range spec.Payload {
			spec.Payload[i] = byte(m.random.Uint32())
		}
		data = append(data, spec.Bytes()...)
		next += int64(spec.LastOffsetDelta) + 1
	}
	good = len(data)
	switch m.random.IntN(12) {
	case 0:
		data = append(data, batchtest.Make(next, log.epoch+1, "of the next epoch")...)
	case 1:
		tail := batchtest.Make(next, log.epoch, "cut off")
		data = append(data, tail[:1+m.random.IntN(len(tail)-1)]...)
	case 2:
		data = append(data, make([]byte, 61)...) // no batch
	}
	return data, good
}

// read is one visit of a leader to a log: it reads into the buffer and appends.
func (m *builderModel) read(log *modelLog) {
	data, good := m.batches(log)
	need := 1
	if s := batch.NewScanner(data); s.Next() {
		need = s.End()
	}
	buffer := m.builder.Buffer(need)
	if buffer == nil {
		m.seal()
		if buffer = m.builder.Buffer(need); need > m.cfg.TargetBytes {
			m.counts["large batch"]++
		}
		require.GreaterOrEqual(m.t, len(buffer), need, "an empty segment has no room")
	}
	n := copy(buffer, data)
	run := Run{Partition: log.partition, LeaderEpoch: log.epoch, EpochStart: log.start, Base: log.next}
	got, err := m.builder.Append(run, n)

	// What the model takes: the whole batches in the first n bytes that belong to the run, as far as one slice spans.
	open := m.taken[log.partition.Key()]
	if open != nil && (open.closed || open.epoch != log.epoch || open.start != log.start || open.next != log.next) {
		m.counts["slice closed"]++
		require.ErrorIs(m.t, err, ErrSliceClosed)
		require.Equal(m.t, Appended{Next: log.next}, got)
		return
	}
	if errors.Is(err, ErrFull) {
		m.counts["full"]++
		require.Nil(m.t, open)
		require.NotEmpty(m.t, m.taken, "an empty segment is full")
		require.Equal(m.t, Appended{Next: log.next}, got)
		require.True(m.t, m.builder.Full(), "a segment that takes no slice is not full")
		m.seal()
		return
	}
	base := log.next
	if open != nil {
		base = open.base
	}
	want, maxTimestamp, spans := Appended{Next: log.next}, int64(-1), false
	var first int64 // the base offset of the batch that was too far away
	for s := batch.NewScanner(data[:min(n, good)]); s.Next(); {
		if s.LastOffset()-base >= 1<<31 {
			spans, first = true, s.BaseOffset()
			break
		}
		want.Next, want.Bytes = s.LastOffset()+1, s.End()
		want.Batches++
		maxTimestamp = max(maxTimestamp, s.MaxTimestamp())
	}
	want.OtherEpoch, want.Epoch = got.OtherEpoch, got.Epoch
	require.Equal(m.t, want, got)
	if got.OtherEpoch {
		m.counts["other epoch"]++
		require.Equal(m.t, log.epoch+1, got.Epoch)
		require.Equal(m.t, good, got.Bytes)
	}
	var span *SpanError
	var corrupt *CorruptError
	switch {
	case errors.As(err, &span):
		m.counts["too wide"]++
		require.True(m.t, spans)
		require.Equal(m.t, SpanError{Due: log.next, BaseOffset: first}, *span)
		log.next, log.sealed = first, -1 // a new run begins at the batch
		return
	case errors.Is(err, ErrSliceClosed):
		require.True(m.t, spans && open != nil && got.Batches == 0)
	case errors.Is(err, ErrPartialBatch):
		m.counts["partial"]++
		require.Zero(m.t, got.Batches)
	case errors.As(err, &corrupt):
		m.counts["corrupt"]++
		require.EqualValues(m.t, good, corrupt.Position)
	default:
		require.NoError(m.t, err)
	}
	if got.Batches == 0 {
		m.counts["nothing read"]++
	} else {
		if open == nil {
			open = &modelSlice{epoch: log.epoch, start: log.start, base: log.next, maxTimestamp: -1, continuing: log.sealed >= 0, log: log}
			if open.continuing {
				m.counts["continued"]++
				require.Equal(m.t, log.sealed, open.base, "the model's own")
			}
			m.taken[log.partition.Key()] = open
		}
		open.data = append(open.data, data[:got.Bytes]...)
		open.maxTimestamp = max(open.maxTimestamp, maxTimestamp)
		log.next, open.next = got.Next, got.Next
	}
	if spans {
		m.counts["span"]++
		open.closed = true
	}
	if m.builder.Full() && m.random.IntN(3) > 0 {
		m.seal()
	}
}

// seal ends the segment and compares what a reader finds in it with what the model has taken.
func (m *builderModel) seal() {
	m.seals++
	id := segmentID(m.t, 3, 4, byte(m.seals))
	limit := m.builder.SealedLen()
	object, md, err := m.builder.Seal(id, m.dst)
	if len(m.taken) == 0 {
		m.counts["seal of nothing"]++
		require.ErrorIs(m.t, err, ErrEmpty) // L8: no bytes, no object
		m.dst = object
		return
	}
	m.counts["sealed"]++
	require.NoError(m.t, err)
	require.LessOrEqual(m.t, len(object), limit)
	require.LessOrEqual(m.t, maxEnvelopeBytes+md.EncodedLen(), m.cfg.MaxEventBytes, "L8: the event")
	require.LessOrEqual(m.t, md.Slices(), m.cfg.MaxSlices)
	require.NoError(m.t, m.reader.Reset(object))
	require.NoError(m.t, m.reader.Match(md))
	require.Len(m.t, m.taken, md.Slices(), "S1: one slice for each partition")

	position := int64(HeaderLength)
	var before *Entry
	for v, err := range m.reader.All() {
		require.NoError(m.t, err)
		want := m.taken[v.Partition.Key()]
		require.NotNil(m.t, want, "%v", v.Partition)
		require.True(m.t, bytes.Equal(want.data, v.Data), "S2: %v has other bytes", v.Partition)
		require.Equal(m.t, Slice{
			Partition: want.log.partition.Partition, LeaderEpoch: want.epoch, EpochStart: want.start, BaseOffset: want.base,
			LastOffset: want.next - 1, Length: int64(len(want.data)), CRC32C: v.Slice.CRC32C, MaxTimestamp: want.maxTimestamp,
		}, *v.Slice)
		require.Equal(m.t, want.log.partition, v.Partition)
		require.Equal(m.t, position, v.Position, "S1: the lengths tile the body")
		if before != nil {
			order := compareIDs(&before.Partition.TopicID, &v.Partition.TopicID)
			require.True(m.t, order < 0 || order == 0 && before.Partition.Partition < v.Partition.Partition, "the order")
		}
		position += v.Slice.Length
		entry := v.Entry
		before = &entry
		// S4: if nothing closed the run, its next slice begins where this one ends.
		if want.epoch == want.log.epoch && want.next == want.log.next && !want.closed {
			want.log.sealed = want.next
		} else {
			want.log.sealed = -1
		}
	}
	require.EqualValues(m.t, HeaderLength+m.builder.Len(), position)
	if m.builder.Len() > m.cfg.TargetBytes {
		require.Equal(m.t, 1, md.Slices(), "S3: only a batch alone is larger than the target")
	}
	clear(m.taken)
	m.dst = object
	m.builder.Reset()
}

// S5: a Builder that is fed damaged logs takes whole batches of the run or nothing, and what it seals always verifies.
func TestBuilderOfDamagedLogs(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 3))
	seeds := sliceSeeds()
	b := newBuilder(t, BuilderConfig{TargetBytes: 16 << 10})
	taken := 0
	for range 3000 {
		seed := seeds[random.IntN(len(seeds))]
		data := seed.data
		if random.IntN(4) > 0 {
			data = corpus.Damage(random, join(data, seeds[random.IntN(len(seeds))].data))
		}
		if len(data) == 0 {
			continue
		}
		b.Reset()
		run := Run{Partition: partition(topicA, "a", 0), LeaderEpoch: seed.epoch, Base: seed.base}
		got, err := appendBytes(t, b, run, data)
		if got.Batches == 0 {
			continue
		}
		taken++
		require.Positive(t, got.Bytes, "%v", err)
		object, md, err := b.Seal(segmentID(t, 1, 1, 9), nil)
		require.NoError(t, err)
		require.Equal(t, map[PartitionKey][]byte{run.Partition.Key(): data[:got.Bytes]}, split(t, object))
		require.Equal(t, got.Next-1, md.Topics[0].Slices[0].LastOffset)
	}
	require.Greater(t, taken, 1000)
}
