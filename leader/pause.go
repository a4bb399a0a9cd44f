package leader

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/walhop/walhop/walstorage/segment"
)

// pause returns how long to wait after so many failures in a row: it doubles from first up to most.
func pause(failures int, first, most time.Duration) time.Duration {
	for ; failures > 1 && first < most; failures-- {
		first *= 2
	}
	return min(first, most)
}

// jittered takes up to a quarter off the pause, as a pure function of the other arguments (D2).
func jittered(pause time.Duration, seed uint64, what []byte, n int) time.Duration {
	return pause - time.Duration(hash(seed, what, n)%1024)*pause/4096
}

// patience returns the part that is added to a partition's MaxBacklog, in 4096ths and up to a quarter, so that the
// partitions of a broker do not all skip at once (L11). It is a pure function of seed and partition.
func patience(seed uint64, key segment.PartitionKey) int64 {
	return int64(hash(seed, key.TopicID[:], int(key.Partition)) % 1024)
}

func hash(seed uint64, what []byte, n int) uint64 {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(n))
	h.Write(b[:])
	h.Write(what)
	x := h.Sum64() // the low bits of FNV alone are not spread well enough
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
