package replica_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/replica"
)

// kafkaSample is Kafka's own way to tell whether a replica is caught up: one sample, overwritten by each fetch. It is
// here to show what B2 is for.
type kafkaSample struct {
	mu       sync.Mutex
	at       time.Time // last caught up
	sampled  time.Time
	sample   int64
	fetches  int
	leftISR  bool
	deadline time.Duration
}

func (k *kafkaSample) fetch(end, leaderEnd int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	switch {
	case end >= leaderEnd:
		k.at = now
	case k.fetches > 0 && end >= k.sample:
		k.at = k.sampled
	}
	k.fetches++
	k.sample, k.sampled = leaderEnd, now
	k.leftISR = k.leftISR || now.Sub(k.at) > k.deadline
}

// C1, B2: under steady load, with bytes that take L on their own path and reports more often than that, the follower
// stays in the ISR. With Kafka's sample, fed the very same reports, it leaves it after 30 s and never comes back.
func TestBusyFollowerStaysInISR(t *testing.T) {
	for _, test := range []struct {
		latency, every time.Duration
		kafkaKeeps     bool
	}{
		{100 * time.Millisecond, 10 * time.Millisecond, false}, // L = 10 d
		{40 * time.Millisecond, 15 * time.Millisecond, false},
		{40 * time.Millisecond, 50 * time.Millisecond, true},
	} {
		t.Run(fmt.Sprintf("%s behind, a batch each %s", test.latency, test.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Given a leader and a follower of one partition, nothing on the way.
				x := newPair(t, 100*time.Microsecond)
				kafka := &kafkaSample{at: time.Now(), deadline: x.leader.lagMax}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				appended := x.store(t, ctx, test.latency)
				seen := map[int64]bool{}
				x.leader.change(func() {
					x.leader.saw = func(r replica.Report, leaderEnd int64) {
						// Check is asked more than once for one report, Kafka records a fetch once.
						if !seen[r.LogEndOffset] {
							seen[r.LogEndOffset] = true
							kafka.fetch(r.LogEndOffset, leaderEnd)
						}
					}
				})

				// When the leader appends without a pause for 31 s.
				var worst time.Duration
				start := time.Now()
				for time.Since(start) < 31*time.Second {
					x.led.append(t)
					appended()
					time.Sleep(test.every)
					x.leader.shrink(x.p)
					if time.Since(start) > time.Second {
						at, _ := x.leader.tracker.CaughtUp(x.p, 5, followerID)
						worst = max(worst, time.Since(at))
					}
				}

				// Then the follower has never left the ISR, and its lag as the leader sees it is at most twice the true one.
				assert.True(t, x.leader.inSync(x.p, followerID))
				assert.Zero(t, x.led.shrinks)
				assert.LessOrEqual(t, worst, 2*(test.latency+test.every)+time.Millisecond)
				assert.Greater(t, x.leader.watermark(x.p), int64(0))
				assert.Equal(t, test.kafkaKeeps, !kafka.leftISR, "what Kafka's own sample makes of the same reports")
				assert.Greater(t, kafka.fetches, 500)
				cancel()
				synctest.Wait()
			})
		})
	}
}

// "No rejoin under load", B2: a busy follower that has left the ISR comes back at once, since the high watermark waits for
// it. Where the high watermark waits for the ISR alone it runs ahead for ever.
func TestRejoinUnderLoad(t *testing.T) {
	for name, isrAlone := range map[string]bool{"the high watermark waits for who is caught up": false, "for the ISR alone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Given a leader alone in the ISR and a follower that has been away for a minute: 1 batch a millisecond, 80 ms.
				x := newPair(t, 100*time.Microsecond)
				x.leader.change(func() {
					x.leader.isrAlone = isrAlone
					delete(x.led.isr, followerID)
				})
				x.follower.reporter.Remove(x.p)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				appended := x.store(t, ctx, 80*time.Millisecond)
				for range 1000 {
					x.led.append(t)
				}

				// When it is back, has caught up by its ordinary fetch, and goes on from the store.
				require.NoError(t, copyTo(x.led, x.log, 990))
				x.follower.reporter.Add(x.p, leaderID, x.followed, x.log)
				start := time.Now()
				joined := time.Duration(-1)
				for time.Since(start) < 3*time.Second {
					x.led.append(t)
					appended()
					time.Sleep(time.Millisecond)
					x.leader.shrink(x.p)
					if x.leader.inSync(x.p, followerID) {
						joined = time.Since(start)
						break
					}
				}

				if isrAlone {
					assert.EqualValues(t, -1, joined, "proves the test: this must not come back")
				} else {
					assert.GreaterOrEqual(t, joined, time.Duration(0))
					assert.LessOrEqual(t, joined, 500*time.Millisecond)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// An idle follower stays caught up as long as it sends messages, and counts from its last one when something is appended.
func TestIdleFollowerIsCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		settle(10 * time.Minute)
		at, end := x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.LessOrEqual(t, time.Since(at), time.Second+10*time.Millisecond)
		assert.EqualValues(t, 0, end)

		// When the follower is gone and the leader goes on.
		x.follower.reporter.Close()
		gone := time.Now()
		settle(time.Minute)
		x.led.append(t)
		x.leader.shrink(x.p)
		at, _ = x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.False(t, at.After(gone))
		assert.False(t, x.leader.inSync(x.p, followerID))
	})
}

// B2: the sample, and all that was reported, is dropped when the leader epoch changes.
func TestNewLeaderEpochForgetsReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		settle(10 * time.Millisecond)
		x.led.append(t)
		settle(10 * time.Millisecond)
		at, end := x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.False(t, at.IsZero())
		assert.EqualValues(t, 0, end)
		require.NoError(t, copyTo(x.led, x.log, 1))
		settle(10 * time.Millisecond)
		_, end = x.leader.tracker.CaughtUp(x.p, 5, followerID)
		require.EqualValues(t, 1, end)

		// When the leader goes into the next epoch, and the follower is told later.
		_, err := x.led.log.Lead(6)
		require.NoError(t, err)
		x.leader.change(func() { x.led.epoch = 6 })
		x.leader.tracker.Moved(x.p)
		at, end = x.leader.tracker.CaughtUp(x.p, 6, followerID)
		assert.True(t, at.IsZero(), "nothing has been reported in the new epoch")
		assert.EqualValues(t, -1, end)

		settle(50 * time.Millisecond)
		x.follower.follow(t, x.p, 6, x.log)
		settle(10 * time.Millisecond)
		at, end = x.leader.tracker.CaughtUp(x.p, 6, followerID)
		assert.False(t, at.IsZero())
		assert.EqualValues(t, 1, end)
		_, end = x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.EqualValues(t, -1, end, "and of the old one nothing is known any more")

		x.leader.tracker.Forget(x.p)
		_, end = x.leader.tracker.CaughtUp(x.p, 6, followerID)
		assert.EqualValues(t, -1, end)
	})
}

// KIP-903: what a broker reported before it was registered anew counts no longer, though no new report has come; what the
// new run has reported stays.
func TestOldBrokerEpochForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		settle(10 * time.Millisecond)
		_, end := x.leader.tracker.CaughtUp(x.p, 5, followerID)
		require.EqualValues(t, 0, end)
		x.leader.tracker.Registered(followerID, 1)
		_, end = x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.EqualValues(t, 0, end, "the epoch that has reported is the one registered")

		x.leader.tracker.Registered(followerID, 2)
		at, end := x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.True(t, at.IsZero())
		assert.EqualValues(t, -1, end)
	})
}
