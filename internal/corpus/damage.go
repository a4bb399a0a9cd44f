package corpus

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
)

// Damage returns a copy of b with one to four things done to it: a bit flipped, a byte set, a range cut out, zeroed,
// doubled or moved, bytes put in, the end cut off. The same random gives the same damage.
func Damage(random *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + random.IntN(4) {
		if len(b) == 0 {
			return append(b, byte(random.Uint32()))
		}
		from := random.IntN(len(b))
		to := min(len(b), from+1+random.IntN(1+len(b)/4))
		switch random.IntN(8) {
		case 0, 1:
			b[from] ^= 1 << random.IntN(8)
		case 2:
			b[from] = []byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
		case 3:
			b = slices.Delete(b, from, to)
		case 4:
			clear(b[from:to])
		case 5:
			b = slices.Insert(b, from, bytes.Clone(b[from:to])...)
		case 6:
			piece := bytes.Clone(b[from:to])
			b = slices.Delete(b, from, to)
			b = slices.Insert(b, random.IntN(len(b)+1), piece...)
		case 7:
			b = b[:from]
		}
	}
	return b
}

// Allocated returns how many bytes f allocates: the least of three calls, as other goroutines may allocate meanwhile.
func Allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
