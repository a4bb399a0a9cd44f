package retention_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// What becomes of a segment whose id and whose time of storing disagree, with a sweeper whose clock is right (N2,
// slatedb/slatedb#356).
func TestSkewedSegment(t *testing.T) {
	const limit = time.Hour + 5*time.Minute
	tests := map[string]struct {
		created  time.Duration // after the upload, by the id
		noStored bool
		lives    time.Duration // after the upload
	}{
		"clocks agree":                     {0, false, limit},
		"id a minute late":                 {time.Minute, false, limit + time.Minute},
		"id 2 h in the future":             {2 * time.Hour, false, limit},
		"id of the year 2100":              {74 * 365 * 24 * time.Hour, false, limit},
		"id 2 h behind":                    {-2 * time.Hour, false, limit},
		"id of the year 1970":              {-1 << 62, false, limit},
		"no time of storing":               {0, true, limit},
		"no time of storing, id 2 h late":  {2 * time.Hour, true, limit + 2*time.Hour},
		"no time of storing, id 2 h early": {-2 * time.Hour, true, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, func(c *memory.Config) { c.NoStored = test.noStored })
				created := time.Now().Add(test.created)
				if created.Unix() < 0 {
					created = time.Unix(0, 0)
				}
				id := b.upload(1, created)
				if test.lives > 0 {
					time.Sleep(test.lives - time.Second)
					b.upload(1, time.Now()) // the clock is right now
					sweep(t, b.sweeper())
					assert.True(t, b.has(id))
					time.Sleep(time.Second)
				}
				result := sweep(t, b.sweeper())
				assert.False(t, b.has(id))
				if !test.noStored && test.created.Abs() > 5*time.Minute {
					assert.Equal(t, 1, result.Skewed)
				} else {
					assert.Zero(t, result.Skewed)
				}
				assert.Zero(t, result.ClockAhead)
			})
		})
	}
}

// R13: a broker whose clock is 2 h ahead all the time deletes nothing that is live, and everything in time.
func TestClockAheadAllTheTime(t *testing.T) {
	for name, noStored := range map[string]bool{"the store tells its time": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, func(c *memory.Config) { c.NoStored = noStored })
				now := func() time.Time { return time.Now().Add(2 * time.Hour) }
				var lines lines
				s := b.sweeper(func(c *retention.Config) { c.Now, c.Logger = now, lines.logger() })
				id := b.upload(1, now())
				for range 64 {
					time.Sleep(time.Minute)
					b.upload(1, now())
					require.Zero(t, sweep(t, s).Deleted)
				}
				// A sweeper that has just started lists everything.
				require.Zero(t, sweep(t, b.sweeper(func(c *retention.Config) { c.Now = now })).Deleted)
				assert.True(t, b.has(id))
				time.Sleep(time.Minute)
				result := sweep(t, s)
				assert.Equal(t, 1, result.Deleted)
				assert.False(t, b.has(id))
				if noStored {
					assert.Zero(t, lines.count())
				} else {
					assert.Equal(t, 1, lines.count(), "%s", lines.all())
					assert.Contains(t, lines.all(), "ahead")
				}
			})
		})
	}
}

// R13: a clock that jumps 2 h ahead costs no live segment if one has been uploaded since, and one that is set right again
// is noticed too.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		var skew time.Duration
		now := func() time.Time { return time.Now().Add(skew) }
		s := b.sweeper(func(c *retention.Config) { c.Now = now })
		minutes := func(n int) (deleted int) {
			for range n {
				time.Sleep(time.Minute)
				b.upload(1, now())
				deleted += sweep(t, s).Deleted
			}
			return deleted
		}
		assert.Equal(t, 120-65, minutes(120))
		require.Len(t, b.ids(), 65)

		skew = 2 * time.Hour
		assert.Equal(t, 10, minutes(10), "as many as come of age, and none before")
		require.Len(t, b.ids(), 65)

		// The ten ids of the time ahead are kept till they are old themselves, or till the daily list.
		skew = 0
		assert.Equal(t, 110, minutes(120))
		assert.Len(t, b.ids(), 65+10)
		minutes(70)
		assert.Len(t, b.ids(), 65)

		skew = -2 * time.Hour
		assert.Zero(t, minutes(30), "a clock behind deletes later")
		skew = 0
		minutes(95)
		assert.Len(t, b.ids(), 65)
	})
}

// R13: nothing tells a sweeper that its clock, once ahead, was put right, before its broker makes another segment. What is there
// lives longer by as much as the clock was ahead, and then goes; a clock ahead by more than a segment lives holds up nothing
// (seed 396 of internal/sim).
func TestClockWasAhead(t *testing.T) {
	const limit = time.Hour + 5*time.Minute
	tests := map[string]struct{ ahead, longer time.Duration }{
		"within the grace":               {4 * time.Minute, 0},
		"by half an hour":                {30 * time.Minute, 30 * time.Minute},
		"by an hour":                     {time.Hour, time.Hour},
		"by longer than a segment lives": {2 * time.Hour, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Given a segment made under the right clock and one a minute later under a clock that is ahead, the last for long,
				b := newBucket(t)
				begun := time.Now()
				right := b.upload(1, time.Now())
				time.Sleep(time.Minute)
				wrong := b.upload(1, time.Now().Add(test.ahead))
				lived := map[bool]time.Duration{}
				// when the clock is right again, whoever sweeps, for the first time or not,
				for len(b.ids()) > 0 && time.Since(begun) < 4*limit {
					time.Sleep(time.Minute)
					sweep(t, b.sweeper())
					for isRight, id := range map[bool]walstorage.SegmentID{true: right, false: wrong} {
						if _, gone := lived[isRight]; !gone && !b.has(id) {
							lived[isRight] = time.Since(begun)
						}
					}
				}
				// then both go in time.
				longer := test.longer
				assert.GreaterOrEqual(t, lived[true], limit+longer)
				assert.LessOrEqual(t, lived[true], limit+longer+2*time.Minute)
				if longer == 0 && test.ahead < limit {
					longer = test.ahead // the id within the grace of its storing counts too
				}
				assert.GreaterOrEqual(t, lived[false], limit+longer+time.Minute)
				assert.LessOrEqual(t, lived[false], limit+longer+2*time.Minute)
			})
		})
	}
}
