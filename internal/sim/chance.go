package sim

import (
	"math"
	"time"
)

// chance is where all randomness comes from: a pure function of the seed, an actor and the number of an operation, and
// of which of several draws for that operation is meant (D2).
type chance struct{ key uint64 }

// of narrows the chance to one actor.
func (c chance) of(name string) chance { return chance{mix(c.key ^ hashString(name))} }

// bits returns 64 random bits.
func (c chance) bits(op uint64, draw string) uint64 { return mix(mix(c.key+op) ^ hashString(draw)) }

// unit returns a number in [0,1).
func (c chance) unit(op uint64, draw string) float64 {
	return float64(c.bits(op, draw)>>11) / (1 << 53)
}

// happens is true with the probability p.
func (c chance) happens(op uint64, draw string, p float64) bool { return p > 0 && c.unit(op, draw) < p }

// between returns a duration in [least, most).
func (c chance) between(op uint64, draw string, least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(c.unit(op, draw)*float64(most-least))
}

// pick returns a number in [0,n).
func (c chance) pick(op uint64, draw string, n int) int { return int(c.unit(op, draw) * float64(n)) }

// lognormal returns a duration around median; sigma is the width of its logarithm.
func (c chance) lognormal(op uint64, draw string, median time.Duration, sigma float64) time.Duration {
	u, v := 1-c.unit(op, draw+"/u"), c.unit(op, draw+"/v")
	normal := math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
	return time.Duration(float64(median) * math.Exp(sigma*normal))
}

// mix is the finaliser of SplitMix64: every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// hashString is FNV-1a.
func hashString(s string) uint64 { return addString(fnvOffset, s) }

func addString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

func addNumber(h uint64, n int64) uint64 {
	for i := range 8 {
		h = (h ^ uint64(byte(n>>(8*i)))) * fnvPrime
	}
	return h
}

func hashBytes(b []byte) uint64 {
	h := uint64(fnvOffset)
	for len(b) >= 8 { // eight at a time: the batches of a long run are hashed several times each
		h = (h ^ (uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56)) * fnvPrime
		h ^= h >> 29
		b = b[8:]
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
