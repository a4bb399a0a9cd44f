package objectstore

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// Full jitter: every pause lies between zero and base doubled with each attempt, up to the cap, and they are spread over
// the whole of it.
func TestBackoffIsFullJitter(t *testing.T) {
	const base, limit = 50 * time.Millisecond, time.Second
	ceilings := map[int]time.Duration{0: base, 1: base, 2: 2 * base, 3: 4 * base, 5: 16 * base, 6: limit, 7: limit, 64: limit, 1000: limit}
	for attempts, ceiling := range ceilings {
		var sum, least, most time.Duration
		least = limit
		const n = 2000
		for i := range n {
			id := walstorage.SegmentID{BrokerID: int32(i % 3), BrokerEpoch: 1, UUID: uuid.UUID{15: byte(i), 14: byte(i >> 8)}}
			pause := backoff(9, id, attempts, base, limit)
			require.GreaterOrEqual(t, pause, time.Duration(0))
			require.LessOrEqual(t, pause, ceiling)
			sum, least, most = sum+pause, min(least, pause), max(most, pause)
		}
		assert.InDelta(t, float64(ceiling)/2, float64(sum/n), float64(ceiling)/20, "attempt %d: the mean", attempts)
		assert.Less(t, least, ceiling/50)
		assert.Greater(t, most, ceiling-ceiling/50)
	}
}

// D2: the pause is a pure function of seed, id and attempt, and differs with each of them.
func TestBackoffIsAPureFunction(t *testing.T) {
	id := walstorage.SegmentID{BrokerID: 1, BrokerEpoch: 2, UUID: uuid.UUID{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80}}
	pause := func(seed uint64, id walstorage.SegmentID, attempts int) time.Duration {
		return backoff(seed, id, attempts, time.Second, time.Second)
	}
	want := pause(1, id, 1)
	require.Equal(t, want, pause(1, id, 1))

	assert.NotEqual(t, want, pause(2, id, 1), "seed")
	assert.NotEqual(t, want, pause(1, id, 2), "attempt")
	for name, change := range map[string]func(*walstorage.SegmentID){
		"broker": func(id *walstorage.SegmentID) { id.BrokerID++ },
		"epoch":  func(id *walstorage.SegmentID) { id.BrokerEpoch++ },
		"time":   func(id *walstorage.SegmentID) { id.UUID[0]++ },
		"random": func(id *walstorage.SegmentID) { id.UUID[15]++ },
	} {
		other := id
		change(&other)
		assert.NotEqual(t, want, pause(1, other, 1), name)
	}
	// A cap below any doubling, and the largest one, overflow nothing.
	assert.Equal(t, time.Duration(0), backoff(1, id, 3, 0, 0))
	assert.GreaterOrEqual(t, backoff(1, id, 90, time.Hour, 1<<63-1), time.Duration(0))
}
