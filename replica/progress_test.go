package replica

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// at returns a point in the virtual past of these tests, which need no clock.
func at(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }

// B2: the sample is held until it is reached.
func TestHeldSample(t *testing.T) {
	var p progress
	p.report(5, 0, 10, at(100)) // behind: sample (100, 10)
	assert.True(t, p.caughtUp(at(100)).IsZero())
	p.report(5, 9, 50, at(110)) // Kafka would overwrite the sample here
	assert.True(t, p.caughtUp(at(110)).IsZero())
	p.report(5, 10, 60, at(120)) // reached: caught up as of 100, and a new sample (120, 60)
	assert.Equal(t, at(100), p.caughtUp(at(120)))
	p.report(5, 59, 99, at(130))
	assert.Equal(t, at(100), p.caughtUp(at(130)))
	p.report(5, 60, 99, at(140))
	assert.Equal(t, at(120), p.caughtUp(at(140)))

	// The leader's end itself is reached: caught up now, and at every message as long as nothing moves.
	p.report(5, 99, 99, at(150))
	assert.Equal(t, at(150), p.caughtUp(at(150)))
	assert.Equal(t, at(900), p.caughtUp(at(900)))

	// The high watermark moves: nobody has looked yet, so only what was true before counts; then it is level again.
	p.moved(at(900))
	assert.Equal(t, at(900), p.caughtUp(at(950)))
	p.look(99, p.moves, at(960))
	assert.Equal(t, at(970), p.caughtUp(at(970)))

	// The leader appends.
	p.moved(at(970))
	p.look(100, p.moves, at(980))
	assert.Equal(t, at(970), p.caughtUp(at(2000)))

	// A new leader epoch drops everything, the sample too.
	p.report(6, 99, 120, at(2000))
	assert.True(t, p.caughtUp(at(2000)).IsZero())
	p.report(6, 100, 130, at(2010))
	assert.True(t, p.caughtUp(at(2010)).IsZero(), "the sample of epoch 5 at 100 must not count")

	// A refused report ends the time at which every message counts.
	p.report(6, 130, 130, at(2020))
	p.refuse()
	assert.Equal(t, at(2020), p.caughtUp(at(3000)))
}

// However reports, appends and looks are interleaved, the replica is never said to have been caught up later than it was:
// at the time told, the leader's end was at or below what the replica has reported.
func TestCaughtUpNeverOverstates(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		var p progress
		var leader []int64 // the leader's end at each millisecond
		leaderEnd, end, heard := int64(0), int64(0), time.Time{}
		claims := 0
		for ms := range 400 {
			if random.IntN(3) == 0 {
				leaderEnd += int64(random.IntN(5))
				p.moved(heard)
			}
			leader = append(leader, leaderEnd)
			now := at(ms)
			if random.IntN(2) == 0 {
				end += random.Int64N(leaderEnd - end + 1)
			}
			switch random.IntN(4) {
			case 0:
				heard = now
				p.report(5, end, leaderEnd, heard)
			case 1:
				heard = now // a message without a report of this partition
			case 2:
				p.look(leaderEnd, p.moves, now)
			}
			if claimed := p.caughtUp(heard); !claimed.IsZero() {
				claims++
				then := int(claimed.Sub(at(0)) / time.Millisecond)
				require.LessOrEqual(t, leader[then], p.end, "seed %d at %d ms, claimed %d ms", seed, ms, then)
			}
		}
		require.Positive(t, claims)
	}
}

func TestSchedule(t *testing.T) {
	var s schedule[int]
	ds := make([]deadline[int], 20)
	for i := range ds {
		s.set(&ds[i], i, at((i*7)%20))
	}
	s.set(&ds[0], 0, at(15)) // moves
	s.clear(&ds[1])
	s.clear(&ds[1]) // not in it any more
	next, ok := s.next()
	require.True(t, ok)
	assert.Equal(t, at(1), next)
	var got []time.Time
	for {
		i, ok := s.pop(at(16))
		if !ok {
			break
		}
		assert.NotEqual(t, 1, i)
		assert.Zero(t, ds[i].place)
		got = append(got, ds[i].at)
	}
	assert.Len(t, got, 16)
	assert.IsNonDecreasing(t, unix(got))
	next, ok = s.next()
	require.True(t, ok)
	assert.Equal(t, at(17), next)
}

func unix(times []time.Time) []int64 {
	var all []int64
	for _, t := range times {
		all = append(all, t.UnixMilli())
	}
	return all
}

// D2: pauses are a function of the seed and of what fails, double, and stay within their bounds.
func TestPause(t *testing.T) {
	r, err := NewReporter(ReporterConfig{Send: nobody})
	require.NoError(t, err)
	defer r.Close()
	l := r.newLink(1)
	defer l.cancel()
	for n := 1; n < 100; n++ {
		d := l.pause(n, 0)
		full := min(20*time.Millisecond<<min(n-1, 20), time.Second)
		assert.LessOrEqual(t, d, full)
		assert.GreaterOrEqual(t, d, full*3/4)
		assert.Equal(t, d, l.pause(n, 0))
	}
	assert.NotEqual(t, l.pause(10, 1), l.pause(10, 2), "partitions do not come back in step")
}
