package replica_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/replica"
)

// B4: an answer comes as soon as the high watermark or the log start has moved.
func TestAnswerWhenWatermarkOrStartMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []replica.Answer
		x := newPair(t, time.Millisecond, func(c *replica.ReporterConfig) {
			c.Answered = func(_ int32, a replica.Answer) { told = append(told, a) }
		})
		settle(100 * time.Millisecond)
		require.Len(t, told, 1, "the first report is answered at once: the follower knows nothing yet")

		x.led.append(t)
		require.NoError(t, copyTo(x.led, x.log, 1))
		start := time.Now()
		for x.leader.watermark(x.p) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		settle(2 * time.Millisecond)
		require.Len(t, told, 2)
		assert.EqualValues(t, 1, told[1].HighWatermark)
		assert.EqualValues(t, 1, told[1].LeaderLEO)
		assert.Less(t, time.Since(start), 10*time.Millisecond)

		require.NoError(t, x.led.log.DeleteRecords(1))
		settle(2 * time.Millisecond)
		require.Len(t, told, 3)
		assert.EqualValues(t, 1, told[2].LogStart)
		x.follower.reporter.Close()
	})
}

// B4, F6: a follower that is behind, and asks for nothing, learns the leader's end once StallAfter has passed, also if its
// own reports go on meanwhile; an idle one is not answered at all.
func TestAnswerAfterStallAfter(t *testing.T) {
	for name, busy := range map[string]bool{"standing still": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Given a high watermark that another replica holds back, so that it says nothing.
				x := newPair(t, time.Millisecond)
				x.leader.change(func() {
					x.led.replicas = append(x.led.replicas, 3)
					x.led.isr[3] = true
				})
				settle(10 * time.Second)
				idle := len(x.net.answered())
				assert.Equal(t, 1, idle)

				// When the leader appends a hundred records.
				for range 100 {
					x.led.append(t)
				}
				start := time.Now()
				var learned time.Duration
				for to := int64(1); time.Since(start) < 5*time.Second; to++ {
					if busy {
						require.NoError(t, copyTo(x.led, x.log, to))
					}
					settle(100 * time.Millisecond)
					if learned == 0 && x.followed.newest() == 100 {
						learned = time.Since(start)
					}
				}

				// Then it knows after a second, and is told again each second as long as it is behind.
				assert.GreaterOrEqual(t, learned, time.Second)
				assert.LessOrEqual(t, learned, 1200*time.Millisecond)
				assert.Equal(t, 4, len(x.net.answered())-idle)
			})
		})
	}
}

// A report gets at most one answer, however much happens at the leader.
func TestAtMostOneAnswerForEachReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, 10*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		appended := x.store(t, ctx, 30*time.Millisecond)
		for i := range 2000 {
			x.led.append(t)
			appended()
			if i%100 == 50 {
				require.NoError(t, x.led.log.DeleteRecords(int64(i-50)))
			}
			time.Sleep(time.Millisecond)
		}
		settle(time.Second)
		cancel()
		x.follower.reporter.Close()
		synctest.Wait()

		reports := 0
		for _, m := range x.net.sent() {
			reports += len(m.Parts)
			assert.LessOrEqual(t, len(m.Parts), 1)
		}
		answers := len(x.net.answered())
		assert.LessOrEqual(t, answers, reports)
		assert.Greater(t, answers, 50)
		assert.EqualValues(t, 2000, x.leader.watermark(x.p))
		assert.Less(t, len(x.net.sent()), 500, "what moves while a message is on its way waits for the next one")
	})
}

// "An outage must not become polling", B4: while the store is down and the follower takes each batch by an ordinary fetch
// as soon as it knows of one, five producers with acks=all go on. Without the flag the next batch is seen when the message
// has been parked for StallAfter.
func TestOutageDoesNotBecomePolling(t *testing.T) {
	run := func(t *testing.T, flag bool) (perSecond float64, p50 time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			// Given a follower in a fallback: what it learns of the leader's end it fetches, in 2 ms.
			x := newPair(t, time.Millisecond)
			x.followed.want(flag)
			wake := make(chan struct{}, 1)
			x.followed.whenTold(func() {
				select {
				case wake <- struct{}{}:
				default:
				}
			})
			x.follower.reporter.Moved(x.p) // the flag has changed
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for {
					select {
					case <-wake:
					case <-ctx.Done():
						return
					}
					if end, _ := x.log.End(); x.followed.newest() <= end {
						continue
					}
					if sleep(ctx, 2*time.Millisecond) != nil {
						return
					}
					assert.NoError(t, copyTo(x.led, x.log, x.followed.newest()))
				}
			}()

			// When five producers send one record after the other, each when the one before is acknowledged, for ten seconds.
			var took []time.Duration
			results := make(chan time.Duration, 64)
			for range 5 {
				go func() {
					for ctx.Err() == nil {
						start := time.Now()
						select {
						case <-x.leader.acknowledged(x.p, x.led.append(t)):
							results <- time.Since(start)
							_ = sleep(ctx, time.Millisecond) // the acknowledgement and the next record travel
						case <-ctx.Done():
						}
					}
				}()
			}
			deadline := time.After(10 * time.Second)
			for done := false; !done; {
				select {
				case d := <-results:
					took = append(took, d)
				case <-deadline:
					done = true
				}
			}
			cancel()
			synctest.Wait()
			for len(results) > 0 {
				<-results
			}
			synctest.Wait()
			slices.Sort(took)
			require.NotEmpty(t, took)
			perSecond, p50 = float64(len(took))/10, took[len(took)/2]
		})
		return perSecond, p50
	}

	perSecond, p50 := run(t, true)
	assert.Greater(t, perSecond, 500.0)
	assert.Less(t, p50, 10*time.Millisecond)

	polled, polledP50 := run(t, false)
	assert.Less(t, polled, 15.0, "proves the test: without the flag an outage is polling")
	assert.Greater(t, polledP50, 400*time.Millisecond)
	t.Logf("with the flag %.0f acknowledgements a second, p50 %s; without %.1f, p50 %s", perSecond, p50, polled, polledP50)
}

// B4: the flag asks once for each end that is news; a follower that cannot follow up at once is no hot loop.
func TestWantingFollowerThatStandsStillIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		x.followed.want(true)
		x.follower.reporter.Moved(x.p)
		settle(10 * time.Millisecond)
		before := len(x.net.answered())
		start := time.Now()
		for range 1000 {
			x.led.append(t)
			time.Sleep(time.Millisecond)
		}
		assert.EqualValues(t, 1000, x.followed.newest()+x.followedLag())
		assert.LessOrEqual(t, len(x.net.answered())-before, 3, "at once, and after StallAfter")
		assert.GreaterOrEqual(t, time.Since(start), time.Second)
	})
}

// followedLag is what the leader has above what the follower was told.
func (x *pair) followedLag() int64 {
	end, _ := x.led.log.End()
	return end - x.followed.newest()
}
