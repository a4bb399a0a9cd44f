package batch_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/internal/kafkadata"
)

// set returns V1 with one field overwritten, checksum as it was.
func set(at int, value ...byte) []byte {
	b := batchtest.V1()
	copy(b[at:], value)
	return b
}

// scanSeeds are the bytes that FuzzScan begins with, and what a scan says of each: the number of whole batches, and the
// error or "" or "partial".
func scanSeeds() []struct {
	name    string
	b       []byte
	batches int
	says    string
} {
	v1 := batchtest.V1()
	many := batchtest.NewSpec(100, 5)
	many.Records, many.LastOffsetDelta, many.Payload = 1<<31-1, 9, []byte("few")
	last := set(0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc)
	seeds := []struct {
		name    string
		b       []byte
		batches int
		says    string
	}{
		{"empty", nil, 0, ""},
		{"v1", v1, 1, ""},
		{"v3-marker", batchtest.V3(), 1, ""},
		{"v4-negative-count", batchtest.V4(), 1, ""},
		{"v5-negative-span", batchtest.V5(), 0, "last offset delta is negative"},
		{"v6-count-above-span", batchtest.V6(), 1, ""},
		{"v7-no-gzip", batchtest.V7(), 1, ""},
		{"v8-compacted", batchtest.V8(), 1, ""},
		{"v9-magic-1", batchtest.V9(), 0, "magic 1"},
		{"v10-zero-checksum", batchtest.V10(), 1, ""},
		{"v1-then-v9", join(v1, batchtest.V9()), 1, "magic 1"},
		{"v1-then-zeros", join(v1, make([]byte, 61)), 1, "length is too small"},
		{"v1-twice", join(v1, v1), 2, ""},
		{"cut-in-base-offset", v1[:5], 0, "partial"},
		{"cut-in-length", v1[:10], 0, "partial"},
		{"cut-before-magic", v1[:16], 0, "partial"},
		{"cut-in-header", v1[:60], 0, "partial"},
		{"cut-in-records", join(v1, v1[:70]), 1, "partial"},
		{"base-offset-negative", set(0, 0x80), 0, "base offset is negative"},
		{"base-offset-largest", last, 1, ""},
		{"base-offset-overflows", set(0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), 0, "beyond the largest offset"},
		{"length-negative", set(8, 0xff, 0xff, 0xff, 0xff), 0, "length is negative"},
		{"length-zero", set(8, 0, 0, 0, 0), 0, "length is too small"},
		{"length-below-header", set(8, 0, 0, 0, 48), 0, "smaller than the header"},
		{"length-one-too-small", set(8, 0, 0, 0, 66), 1, "partial"}, // a byte is left over
		{"length-one-too-large", set(8, 0, 0, 0, 68), 0, "partial"},
		{"length-largest", set(8, 0x7f, 0xff, 0xff, 0xff), 0, "partial"},
		{"magic-3", set(16, 3), 0, "magic is unknown"},
		{"magic-negative", set(16, 0xff), 0, "magic is unknown"},
		{"span-largest", set(23, 0x7f, 0xff, 0xff, 0xff), 1, ""},
		{"count-largest", many.Bytes(), 1, ""},
	}
	for _, topic := range kafkadata.Topics() {
		// Written by Kafka: the first batches up to some 600 bytes, and the beginning of the next one.
		log, whole, end := topic.Log(), 0, 0
		for s := batch.NewScanner(log); s.Next() && s.End() <= 600; {
			whole, end = whole+1, s.End()
		}
		if whole == 0 {
			continue // its first batch is larger; the others are like it
		}
		cut, says := log[:end], ""
		if len(log) >= end+40 {
			cut, says = log[:end+40], "partial"
		}
		seeds = append(seeds, struct {
			name    string
			b       []byte
			batches int
			says    string
		}{"kafka-" + topic.Name, cut, whole, says})
	}
	return seeds
}

// The seeds of FuzzScan, each with its verdict. None needs more memory than its error (S5).
func TestScanCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range scanSeeds() {
		found, tail, err := scan(seed.b)
		assert.Len(t, found, seed.batches, seed.name)
		switch seed.says {
		case "":
			assert.NoError(t, err, seed.name)
			assert.Equal(t, -1, tail, seed.name)
		case "partial":
			assert.NoError(t, err, seed.name)
			assert.GreaterOrEqual(t, tail, 0, seed.name)
		default:
			assert.ErrorContains(t, err, seed.says, seed.name)
		}
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.b}})
	}
	corpus.Check(t, "FuzzScan", files...)
}

// S5: whatever the bytes, a scan allocates an error at most, and what it takes is what other bytes with the same headers
// would be: the batches found are found again when they are put back to back.
func TestScanOfDamagedBytes(t *testing.T) {
	seeds := scanSeeds()
	random := rand.New(rand.NewPCG(5, 1))
	failed := 0
	for range 5000 {
		b := corpus.Damage(random, join(seeds[random.IntN(len(seeds))].b, seeds[random.IntN(len(seeds))].b))
		taken := []byte{}
		for s := batch.NewScanner(b); s.Next(); {
			taken = append(taken, s.Bytes()...)
		}
		require.Equal(t, b[:len(taken)], taken)
		_, tail, err := scan(taken)
		require.NoError(t, err)
		require.Equal(t, -1, tail)
		if _, _, err := scan(b); err != nil {
			failed++
			require.True(t, isBatchError(err), "%v", err)
		}
	}
	assert.Greater(t, failed, 500, "too little is damaged")
	for _, seed := range seeds {
		allocated := testing.AllocsPerRun(10, func() {
			s := batch.NewScanner(seed.b)
			for s.Next() {
				_ = s.Header()
			}
			_ = s.Err()
		})
		assert.LessOrEqual(t, allocated, float64(1), seed.name)
	}
}

// Assign and SetCRC make of any batch that a scan finds another one that it finds, and change what they say and nothing
// else (S2: the checksum covers neither base offset nor epoch).
func TestAssignAndSetCRC(t *testing.T) {
	for _, seed := range scanSeeds() {
		for s := batch.NewScanner(seed.b); s.Next(); {
			before := *s.Header()
			b := slices.Clone(s.Bytes())
			batch.Assign(b, 7, 9)
			h, err := batch.ParseHeader(b)
			require.NoError(t, err, seed.name)
			before.BaseOffset, before.LeaderEpoch = 7, 9
			assert.Equal(t, before, h, seed.name)
			assert.Equal(t, s.Bytes()[16:], b[16:], seed.name)

			binary.BigEndian.PutUint32(b[17:], 1)
			batch.SetCRC(b)
			assert.NoError(t, batch.VerifyCRC(b), seed.name)
		}
	}
}
