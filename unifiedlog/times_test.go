package unifiedlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog"
)

// The search by time finds what looking at every record does, in a log of many segments whose timestamps go back now and
// then, wherever it starts.
func TestOffsetForTime(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	log := open(t, unifiedlog.Config{Dir: t.TempDir(), SegmentBytes: 2000, IndexIntervalBytes: 200, SegmentAge: forever})
	times := []int64{} // by offset
	now := int64(1000)
	for range 300 {
		count := 1 + random.IntN(4)
		spec := batchtest.NewSpec(int64(len(times)), 2)
		spec.BaseTimestamp, spec.MaxTimestamp = now, 0
		spec.Records, spec.LastOffsetDelta = int32(count), int32(count-1)
		for i := range count {
			delta := int64(random.IntN(20) - 8)
			spec.MaxTimestamp = max(spec.MaxTimestamp, now+delta)
			times = append(times, now+delta)
			spec.Payload = batchtest.AppendRecord(spec.Payload, delta, int32(i), nil, []byte("value"))
		}
		require.NoError(t, log.AppendRaw(t.Context(), spec.Bytes()))
		now += int64(random.IntN(12) - 3)
	}
	for _, start := range []int64{0, 1, 77, 200, int64(len(times)) - 1, int64(len(times))} {
		require.NoError(t, log.DeleteRecords(start))
		for time := int64(980); time < now+40; time += 3 {
			want, ok := unifiedlog.TimeOffset{}, false
			for offset := start; offset < int64(len(times)) && !ok; offset++ {
				if ok = times[offset] >= time; ok {
					want = unifiedlog.TimeOffset{Offset: offset, Timestamp: times[offset], LeaderEpoch: 2}
				}
			}
			got, found, err := log.OffsetForTime(t.Context(), time)
			require.NoError(t, err)
			require.Equal(t, ok, found, "start %d, time %d", start, time)
			require.Equal(t, want, got, "start %d, time %d", start, time)
		}
	}
	largest := int64(0)
	for _, time := range times {
		largest = max(largest, time)
	}
	latest, at := log.LatestTime()
	assert.Equal(t, largest, latest)
	assert.GreaterOrEqual(t, at, int64(0))
}

// In a compressed batch, and in one with the broker's time, no record is looked at.
func TestOffsetForTimeOfOpaqueBatches(t *testing.T) {
	for name, test := range map[string]struct {
		attributes int16
		payload    []byte
		want       unifiedlog.TimeOffset
	}{
		"compressed":          {1, []byte("no gzip"), unifiedlog.TimeOffset{Offset: 5, Timestamp: batchtest.Time}},
		"the broker's time":   {batch.LogAppendTime, nil, unifiedlog.TimeOffset{Offset: 5, Timestamp: batchtest.Time + 2}},
		"damaged records":     {0, []byte("no records"), unifiedlog.TimeOffset{Offset: 5, Timestamp: batchtest.Time}},
		"an ordinary batch":   {0, nil, unifiedlog.TimeOffset{Offset: 6, Timestamp: batchtest.Time + 1}},
		"with delete horizon": {batch.DeleteHorizon, nil, unifiedlog.TimeOffset{Offset: 6, Timestamp: batchtest.Time + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t, unifiedlog.Config{Dir: t.TempDir(), LogStart: 5})
			spec := batchtest.NewSpec(5, 0, "a", "b", "c")
			spec.Attributes = test.attributes
			if test.payload != nil {
				spec.Payload = test.payload
			}
			require.NoError(t, log.AppendRaw(t.Context(), spec.Bytes()))
			got, ok, err := log.OffsetForTime(t.Context(), batchtest.Time+1)
			require.NoError(t, err)
			require.True(t, ok)
			assert.Equal(t, test.want, got)
			_, ok, err = log.OffsetForTime(t.Context(), batchtest.Time+3)
			require.NoError(t, err)
			assert.False(t, ok)
		})
	}
	empty := open(t, unifiedlog.Config{Dir: t.TempDir()})
	_, ok, err := empty.OffsetForTime(t.Context(), 0)
	require.NoError(t, err)
	assert.False(t, ok)
	latest, offset := empty.LatestTime()
	assert.Equal(t, "-1 -1", fmt.Sprint(latest, offset))
}
