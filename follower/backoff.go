package follower

import (
	"hash/fnv"
	"time"
)

// minPause is the first pause after a failure.
const minPause = 50 * time.Millisecond

// backoff returns the pause after so many failures in a row: it doubles from 50 ms up to most, less up to a quarter of
// jitter, which is a pure function of the arguments (D2).
func backoff(seed uint64, what string, failures int, most time.Duration) time.Duration {
	pause := minPause << min(failures, 16)
	pause = min(pause, most)
	h := fnv.New64a()
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(seed>>(8*i)), byte(failures>>(8*i))
	}
	h.Write(b[:])
	h.Write([]byte(what))
	return pause - time.Duration(h.Sum64()%1024)*pause/4096
}
