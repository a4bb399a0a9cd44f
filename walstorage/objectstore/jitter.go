package objectstore

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// backoff returns the pause before the attempt that follows the given number of attempts: full jitter, a time between
// zero and base doubled with each attempt, up to limit. It is a pure function of its arguments and so needs no shared
// generator, whose order of use would differ from run to run (D2).
func backoff(seed uint64, id walstorage.SegmentID, attempts int, base, limit time.Duration) time.Duration {
	ceiling := limit
	if shift := max(attempts-1, 0); shift < 63 && base <= limit>>shift {
		ceiling = base << shift
	}
	h := mix(seed + 0x9e3779b97f4a7c15)
	h = mix(h ^ uint64(uint32(id.BrokerID)))
	h = mix(h ^ uint64(id.BrokerEpoch))
	h = mix(h ^ binary.BigEndian.Uint64(id.UUID[:8]))
	h = mix(h ^ binary.BigEndian.Uint64(id.UUID[8:]))
	h = mix(h ^ uint64(attempts))
	scaled, _ := bits.Mul64(h, uint64(ceiling)+1)
	return time.Duration(scaled)
}

// mix spreads every bit of its input over the whole word: it is a bijection, built from two rounds of multiplication by
// an odd number and a shift.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}
