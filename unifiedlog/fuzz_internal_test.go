package unifiedlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/corpus"
)

// A textual checkpoint is taken if it is what a writer makes, to the byte: it has no checksum.
var epochSeeds = []struct {
	name, text string
	ok         bool
}{
	{"kafka", "0\n4\n0 0\n2 4\n4 8\n6 12\n", true},
	{"none", "0\n0\n", true},
	{"largest", "0\n1\n2147483647 9223372036854775807\n", true},
	{"empty", "", false},
	{"version-1", "1\n0\n", false},
	{"version-alone", "0\n", false},
	{"no-end-of-line", "0\n1\n0 0", false},
	{"count-too-small", "0\n1\n0 0\n1 5\n", false},
	{"count-too-large", "0\n3\n0 0\n1 5\n", false},
	{"count-negative", "0\n-1\n", false},
	{"epochs-fall", "0\n2\n3 0\n2 5\n", false},
	{"epochs-repeat", "0\n2\n3 0\n3 5\n", false},
	{"starts-repeat", "0\n2\n3 5\n4 5\n", false},
	{"epoch-negative", "0\n1\n-1 0\n", false},
	{"epoch-beyond-32-bits", "0\n1\n2147483648 0\n", false},
	{"start-negative", "0\n1\n0 -1\n", false},
	{"start-beyond-64-bits", "0\n1\n0 9223372036854775808\n", false},
	{"zero-in-front", "0\n1\n00 0\n", false},
	{"plus", "0\n1\n+1 0\n", false},
	{"two-spaces", "0\n1\n1  0\n", false},
	{"carriage-return", "0\r\n0\r\n", false},
	{"three-numbers", "0\n1\n1 0 0\n", false},
	{"line-too-many", "0\n0\n\n", false},
}

func TestEpochsCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range epochSeeds {
		c, err := decodeEpochs([]byte(seed.text))
		assert.Equal(t, seed.ok, err == nil, seed.name)
		if seed.ok {
			assert.Equal(t, seed.text, string(encodeEpochs(c)), seed.name)
		} else {
			assert.ErrorIs(t, err, ErrCorrupt, seed.name)
		}
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{[]byte(seed.text)}})
	}
	corpus.Check(t, "FuzzEpochs", files...)
}

// S5: any bytes as a checkpoint of the epochs.
func FuzzEpochs(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeEpochs(b)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.Equal(t, string(b), string(encodeEpochs(c)))
		for i, e := range c {
			require.Equal(t, e.Epoch, c.At(e.Start))
			start, ok := c.StartOf(e.Epoch)
			require.True(t, ok)
			require.Equal(t, e.Start, start)
			require.Equal(t, Epochs(c[:i]), c.TruncateFromEnd(e.Start))
		}
	})
}

var metadataSeeds = []struct {
	name, text string
	ok         bool
}{
	{"kafka", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCaukA", true},
	{"end-of-line", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCaukA\n", true},
	{"empty", "", false},
	{"version-1", "version: 1\ntopic_id: KJJVKjH7Qz6pjmWHKCaukA", false},
	{"no-id", "version: 0\ntopic_id: ", false},
	{"id-too-short", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCauk", false},
	{"id-too-long", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCaukAA", false},
	{"id-with-unused-bits", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCaukB", false},
	{"id-in-the-other-alphabet", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCau+A", false},
	{"id-broken-by-a-line", "version: 0\ntopic_id: KJJVKjH7Qz6p\njmWHKCaukA", false},
	{"padded", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCaukA==", false},
	{"more-lines", "version: 0\ntopic_id: KJJVKjH7Qz6pjmWHKCaukA\nmore\n", false},
}

func TestMetadataCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range metadataSeeds {
		_, err := decodeMetadata([]byte(seed.text))
		assert.Equal(t, seed.ok, err == nil, seed.name)
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{[]byte(seed.text)}})
	}
	corpus.Check(t, "FuzzMetadata", files...)
}

// S5: any bytes as partition.metadata.
func FuzzMetadata(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeMetadata(b)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.Equal(t, string(bytes.TrimSuffix(b, []byte("\n"))), string(encodeMetadata(id)))
	})
}

// sealed puts the right checksum into a snapshot.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[snapshotCRCStart:], crc32.Checksum(b[snapshotCRCEnd:], castagnoli))
	return b
}

func snapshotSeeds() []struct {
	name string
	b    []byte
	ok   bool
} {
	two := func() []byte {
		return encodeSnapshot(map[int64]*producer{
			7:             {id: 7, epoch: 3, coordinator: 5, time: 1_700_000_000_000, txnFirst: 90, batches: []produced{{4, 95, 2, 1_700_000_000_000}}},
			math.MaxInt64: {id: math.MaxInt64, epoch: -1, coordinator: -1, time: -1, txnFirst: -1},
		})
	}
	set := func(at int, value ...byte) []byte {
		b := two()
		copy(b[at:], value)
		return sealed(b)
	}
	flipped := two()
	flipped[20] ^= 1
	const second = snapshotHeaderSize + snapshotEntrySize
	return []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"two", two(), true},
		{"none", encodeSnapshot(nil), true},
		{"empty", nil, false},
		{"header-cut", two()[:9], false},
		{"entry-cut", two()[:second+5], false},
		{"entry-cut-and-sealed", sealed(two()[:second+5]), false},
		{"entry-missing-and-sealed", sealed(two()[:second]), false},
		{"more-behind", sealed(append(two(), 0)), false},
		{"version-2", set(1, 2), false},
		{"flipped", flipped, false},
		{"count-largest", set(6, 0xff, 0xff, 0xff, 0xff), false},
		{"id-negative", set(snapshotHeaderSize, 0x80), false},
		{"id-twice", set(second, 0, 0, 0, 0, 0, 0, 0, 7), false},
		{"offset-negative", set(snapshotHeaderSize+14, 0xff), true},
		{"delta-negative", set(snapshotHeaderSize+22, 0xff), false},
		{"transaction-negative", set(snapshotHeaderSize+38, 0xff), true},
	}
}

func TestSnapshotCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range snapshotSeeds() {
		producers, err := decodeSnapshot("x.snapshot", seed.b)
		assert.Equal(t, seed.ok, err == nil, seed.name)
		if err != nil {
			assert.ErrorIs(t, err, ErrCorrupt, seed.name)
		}
		allocated := corpus.Allocated(func() { producers, _ = decodeSnapshot("x.snapshot", seed.b) })
		assert.LessOrEqual(t, allocated, uint64(2048+16*len(seed.b)), "%s: S5", seed.name)
		_ = producers
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.b}})
	}
	corpus.Check(t, "FuzzSnapshot", files...)
}

// S5: any bytes as a snapshot. The checksum is put right, else hardly any input would come further.
func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		for range 2 {
			producers, err := decodeSnapshot("x.snapshot", b)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
			} else {
				again, err := decodeSnapshot("x.snapshot", encodeSnapshot(producers))
				require.NoError(t, err)
				require.Equal(t, producers, again)
			}
			if len(b) < snapshotHeaderSize {
				return
			}
			b = sealed(bytes.Clone(b))
		}
	})
}

// recordSeeds are the records of a control batch, and whether they tell how a transaction ended.
func recordSeeds() []struct {
	name string
	b    []byte
	ok   bool
} {
	record := func(key, value []byte) []byte { return batchtest.AppendRecord(nil, 3, 0, key, value) }
	commit := record([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 9})
	return []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"commit", commit, true},
		{"abort", record([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 9}), true},
		{"another-type", record([]byte{0, 0, 0, 2}, []byte{0, 0, 0, 0, 0, 9}), false},
		{"type-negative", record([]byte{0, 0, 0xff, 0xff}, []byte{0, 0, 0, 0, 0, 9}), false},
		{"key-short", record([]byte{0, 0, 0}, []byte{0, 0, 0, 0, 0, 9}), false},
		{"key-null", record(nil, []byte{0, 0, 0, 0, 0, 9}), false},
		{"value-short", record([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0}), false},
		{"value-null", record([]byte{0, 0, 0, 1}, nil), false},
		{"empty", nil, false},
		{"cut", commit[:len(commit)-3], false},
		{"length-zero", []byte{0}, false},
		{"length-negative", []byte{1}, false},
		{"length-largest", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, false},
		{"length-endless", bytes.Repeat([]byte{0xff}, 12), false},
		{"key-length-beyond", []byte{10, 0, 0, 0, 0x7e, 0}, false},
		{"offset-delta-negative", []byte{10, 0, 0, 1, 0, 0}, false},
	}
}

func controlBatch(records []byte) (batch.Header, []byte) {
	spec := batchtest.NewSpec(5, 0)
	spec.ProducerID, spec.Attributes, spec.Payload = 7, batch.Control|batch.Transactional, records
	raw := spec.Bytes()
	h, err := batch.ParseHeader(raw)
	if err != nil {
		panic(err) // the spec above is wrong
	}
	return h, raw
}

func TestRecordCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range recordSeeds() {
		h, raw := controlBatch(seed.b)
		m, ok := parseMarker(&h, raw)
		assert.Equal(t, seed.ok, ok, seed.name)
		if ok {
			assert.Equal(t, endMarker{commit: seed.name == "commit", coordinator: 9, time: batchtest.Time + 3}, m, seed.name)
		}
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.b}})
	}
	corpus.Check(t, "FuzzRecord", files...)
}

// S5: any bytes as the records of a batch, as the search by time and the state of the producers read them.
func FuzzRecord(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		h, raw := controlBatch(b)
		_, _ = parseMarker(&h, raw)
		left := len(b)
		for rest := b; ; {
			r, after, err := parseRecord(rest)
			if err != nil {
				break
			}
			require.Less(t, len(after), left)
			require.LessOrEqual(t, len(r.key)+len(r.value), left-len(after))
			left, rest = len(after), after
		}
		state := newProducerState(0)
		_, _ = state.follow(&h, raw)
		for time := range int64(3) {
			answer, ok := recordAtTime(&h, raw, 0, batchtest.Time+time)
			require.True(t, !ok || answer.Offset >= h.BaseOffset)
		}
	})
}
