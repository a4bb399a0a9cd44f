package replica_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// R9, B1: a parked message does not hold back a report. With acks=all a record is acknowledged two network hops after
// the follower's append, though the leader parks each message for up to a second.
func TestParkedMessageHoldsBackNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a message that has been parked for a while.
		x := newPair(t, time.Millisecond)
		settle(500 * time.Millisecond)

		for range 20 {
			// When the leader appends and the follower has it at once.
			offset := x.led.append(t)
			start := time.Now()
			acknowledged := x.leader.acknowledged(x.p, offset)
			require.NoError(t, copyTo(x.led, x.log, offset+1))
			<-acknowledged

			// Then one hop later it is acknowledged, or two if a message had just gone out.
			assert.LessOrEqual(t, time.Since(start), 3*time.Millisecond)
			time.Sleep(7 * time.Millisecond)
		}
	})
}

// B1: the end and the epoch are read together, after what moved them, and no append is left unreported.
func TestEveryMoveIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		for range 100 {
			x.led.append(t)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for to := int64(1); to <= 100; to++ {
				assert.NoError(t, copyTo(x.led, x.log, to))
				time.Sleep(time.Duration(to*37%11) * 100 * time.Microsecond)
			}
		})
		wg.Wait()
		settle(10 * time.Millisecond)

		assert.EqualValues(t, 100, x.leader.watermark(x.p))
		last := int64(-1)
		for _, m := range x.net.sent() {
			for _, report := range m.Parts {
				assert.GreaterOrEqual(t, report.LogEndOffset, last)
				last = report.LogEndOffset
				if report.LogEndOffset > 0 {
					assert.EqualValues(t, 5, report.LastEpoch)
				} else {
					assert.EqualValues(t, -1, report.LastEpoch)
				}
				assert.EqualValues(t, 0, report.LogStart)
			}
		}
		assert.EqualValues(t, 100, last)
	})
}

// message makes a full message of one report.
func message(counter uint64, brokerEpoch int64, p segment.TopicIDPartition, end int64) replica.Reports {
	r := replica.Report{Partition: p, LeaderEpoch: 5, LogEndOffset: end, LastEpoch: 5, LogStart: 0, Known: replica.Known{}}
	if end == 0 {
		r.LastEpoch = -1
	}
	return replica.Reports{Replica: followerID, BrokerEpoch: brokerEpoch, Counter: counter, Full: true, Parts: []replica.Report{r}}
}

// B1, R9: two connections lose the order of messages; the counter tells it.
func TestOlderCounterIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a leader with ten records in each of two partitions, and another replica that holds back the high watermark.
		b := newLeaderBroker(t)
		p, q := partition(0), partition(1)
		lp, lq := b.lead(t, p, 5, followerID, 3), b.lead(t, q, 5, followerID, 3)
		for range 10 {
			lp.append(t)
			lq.append(t)
		}

		// When message 2, which says 8 of p, overtakes message 1, which says 3 of p and 4 of q.
		second := make(chan []replica.Answer, 1)
		go func() {
			answers, err := b.tracker.Handle(t.Context(), message(2, 1, p, 8))
			assert.NoError(t, err)
			second <- answers
		}()
		synctest.Wait()
		first := message(1, 1, p, 3)
		first.Full = false
		first.Parts = append(first.Parts, message(1, 1, q, 4).Parts[0])
		start := time.Now()
		answers, err := b.tracker.Handle(t.Context(), first)

		// Then what is old in message 1 is ignored and what is new in it is not; it is not parked, and ends nothing.
		require.NoError(t, err)
		assert.Empty(t, answers)
		assert.Zero(t, time.Since(start))
		_, end := b.tracker.CaughtUp(p, 5, followerID)
		assert.EqualValues(t, 8, end)
		_, end = b.tracker.CaughtUp(q, 5, followerID)
		assert.EqualValues(t, 4, end)
		got := <-second
		require.Len(t, got, 2, "both are behind for StallAfter, and the newer message tells of both")
		assert.EqualValues(t, 10, got[0].LeaderLEO)
		assert.EqualValues(t, 10, got[1].LeaderLEO)
	})
}

// B1: a newer message ends the parked one of the same replica, and of no other.
func TestNewerMessageEndsParkedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaderBroker(t)
		p := partition(0)
		b.lead(t, p, 5, followerID, 3)
		type result struct {
			answers []replica.Answer
			err     error
			at      time.Time
		}
		handle := func(r replica.Reports) <-chan result {
			done := make(chan result, 1)
			go func() {
				answers, err := b.tracker.Handle(t.Context(), r)
				done <- result{answers, err, time.Now()}
			}()
			synctest.Wait()
			return done
		}
		start := time.Now()
		other := message(1, 1, p, 0)
		other.Replica = 3
		third := handle(other)
		one := handle(message(1, 1, p, 0))
		time.Sleep(100 * time.Millisecond)
		two := handle(replica.Reports{Replica: followerID, BrokerEpoch: 1, Counter: 2})

		r := <-one
		assert.NoError(t, r.err)
		assert.Empty(t, r.answers)
		assert.Equal(t, 100*time.Millisecond, r.at.Sub(start))
		r = <-third
		assert.NoError(t, r.err)
		assert.Equal(t, time.Second, r.at.Sub(start), "parked for StallAfter")
		r = <-two
		assert.Equal(t, 1100*time.Millisecond, r.at.Sub(start))
		assert.Empty(t, r.answers, "nothing is said where nothing has happened")

		// A repetition of the newest counter is not parked either.
		r = <-handle(replica.Reports{Replica: followerID, BrokerEpoch: 1, Counter: 2})
		assert.Equal(t, 1100*time.Millisecond, r.at.Sub(start))

		// A context that ends and a tracker that is closed end it with an error.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := b.tracker.Handle(ctx, replica.Reports{Replica: followerID, BrokerEpoch: 1, Counter: 3})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		last := handle(replica.Reports{Replica: followerID, BrokerEpoch: 1, Counter: 4})
		b.tracker.Close()
		assert.ErrorIs(t, (<-last).err, replica.ErrClosed)
		_, err = b.tracker.Handle(t.Context(), message(5, 1, p, 0))
		assert.ErrorIs(t, err, replica.ErrClosed)
	})
}

// B3: a zombie follower, of an older broker epoch than the leader has seen or knows as registered, moves nothing.
func TestZombieFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a follower that has restarted: epoch 2 is registered, its log is empty.
		b := newLeaderBroker(t)
		p := partition(0)
		led := b.lead(t, p, 5, followerID)
		for range 10 {
			led.append(t)
		}
		b.change(func() { b.epochs[followerID] = 2 })

		// When its old process reports before the new one has, the broker's own check refuses.
		answers, err := b.tracker.Handle(t.Context(), message(9, 1, p, 10))
		require.NoError(t, err)
		require.Len(t, answers, 1)
		assert.ErrorIs(t, answers[0].Err, replica.ErrOldBrokerEpoch)
		assert.EqualValues(t, 0, b.watermark(p))

		// When the new process has reported, whatever its counter, the old one is turned away as a whole.
		_, err = b.tracker.Handle(t.Context(), message(1, 2, p, 0))
		require.NoError(t, err)
		_, err = b.tracker.Handle(t.Context(), message(10, 1, p, 10))
		assert.ErrorIs(t, err, replica.ErrOldBrokerEpoch)
		_, end := b.tracker.CaughtUp(p, 5, followerID)
		assert.EqualValues(t, 0, end)
		assert.EqualValues(t, 0, b.watermark(p))
	})
}

// A newer broker epoch ends the parked message of the older one, and what that one reported is forgotten.
func TestRestartedFollowerBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaderBroker(t)
		p := partition(0)
		led := b.lead(t, p, 5, followerID)
		led.append(t)
		_, err := b.tracker.Handle(t.Context(), message(1, 1, p, 1))
		require.NoError(t, err)
		parked := make(chan error, 1)
		go func() {
			_, err := b.tracker.Handle(t.Context(), replica.Reports{Replica: followerID, BrokerEpoch: 1, Counter: 2})
			parked <- err
		}()
		synctest.Wait()

		b.change(func() { b.epochs[followerID] = 2 })
		_, err = b.tracker.Handle(t.Context(), replica.Reports{Replica: followerID, BrokerEpoch: 2, Counter: 1})
		assert.ErrorIs(t, err, replica.ErrUnknownSession, "a session begins with a full message")
		again := make(chan error, 1)
		go func() {
			_, err := b.tracker.Handle(t.Context(), message(1, 2, p, 0))
			again <- err
		}()
		assert.NoError(t, <-parked)
		assert.NoError(t, <-again)
		_, end := b.tracker.CaughtUp(p, 5, followerID)
		assert.EqualValues(t, 0, end)
	})
}

// B3: the offset of a diverging report is not recorded, the follower is told once, and nothing is asked again before its
// log has moved, or a pause has passed.
func TestDivergingReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a follower with three records of epoch 4, of which the leader, in epoch 5, has the first alone.
		x := newPair(t, time.Millisecond)
		x.follower.reporter.Remove(x.p)
		first := batchtest.Make(0, 4, "a")
		x.led.log = memory.New(memory.Config{})
		require.NoError(t, x.led.log.AppendRaw(t.Context(), first))
		_, err := x.led.log.Lead(5)
		require.NoError(t, err)
		x.led.append(t)
		old := memory.New(memory.Config{Moved: func() { x.follower.reporter.Moved(x.p) }})
		require.NoError(t, old.AppendRaw(t.Context(), append(append(first, batchtest.Make(1, 4, "b")...), batchtest.Make(2, 4, "c")...)))
		before := len(x.net.sent())

		// When it reports.
		f, _ := x.follower.follow(t, x.p, 5, old)
		settle(time.Minute)

		// Then it is told so, the leader has recorded nothing, and the reports that repeat it are paced.
		assert.Greater(t, f.divergences(), 0)
		assert.Empty(t, f.observed)
		_, end := x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.EqualValues(t, -1, end)
		reports := 0
		for _, m := range x.net.sent()[before:] {
			reports += len(m.Parts)
		}
		assert.Less(t, reports, 100)
		answer := x.net.answered()[len(x.net.answered())-1]
		assert.Equal(t, &replica.Diverging{Epoch: 4, EndOffset: 1}, answer.Diverging)

		// When its ordinary fetch has truncated, the report follows at once.
		count := f.divergences()
		old.TruncateDiverging(memory.EpochEnd{Epoch: 4, End: 1})
		settle(10 * time.Millisecond)
		_, end = x.leader.tracker.CaughtUp(x.p, 5, followerID)
		assert.EqualValues(t, 1, end)
		assert.EqualValues(t, 2, f.newest())
		assert.Equal(t, count, f.divergences())
	})
}

// KAFKA-15510, B1: an answer with nothing in it, or one that refuses, changes nothing of what the follower reports: the epoch
// of the last batch is read from its log each time, with the end that it belongs to.
func TestEmptyAnswerKeepsTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given a follower of epoch 6 whose last batch is of epoch 5, and a leader that has nothing new in epoch 6.
		x := newPair(t, time.Millisecond)
		x.led.append(t)
		require.NoError(t, copyTo(x.led, x.log, 1))
		settle(10 * time.Millisecond)
		x.leader.change(func() { x.led.epoch = 6 })
		_, err := x.led.log.Lead(6)
		require.NoError(t, err)
		x.follower.follow(t, x.p, 6, x.log)
		settle(10 * time.Millisecond)
		before := len(x.net.sent())

		// When a minute brings empty answers, and some that refuse.
		for n := range 60 {
			x.leader.change(func() {
				if x.led.epoch = 6; n%4 == 0 {
					x.led.epoch = 7
				}
			})
			x.leader.tracker.Moved(x.p)
			x.follower.reporter.Moved(x.p)
			settle(time.Second)
		}

		// Then every report says the same.
		reports := 0
		for _, m := range x.net.sent()[before:] {
			for _, report := range m.Parts {
				assert.EqualValues(t, 6, report.LeaderEpoch)
				assert.EqualValues(t, 1, report.LogEndOffset)
				assert.EqualValues(t, 5, report.LastEpoch)
				reports++
			}
		}
		assert.Greater(t, reports, 10)
	})
}

// B3, Jepsen on Bufstream 0.1.0: what refuses a report is told to the broker, and no offset with it; out of range counts
// as diverging, and the report is repeated at a bounded pace until the reason is gone.
func TestRefusedReport(t *testing.T) {
	tests := map[string]struct {
		given    func(x *pair)
		mend     func(x *pair)
		err      error
		diverged bool
	}{
		"not the leader": {
			func(x *pair) { delete(x.leader.leads, x.p.Key()) },
			func(x *pair) { x.leader.leads[x.p.Key()] = x.led },
			replica.ErrNotLeader, false,
		},
		"the leader does not know the epoch yet": {
			func(x *pair) { x.led.epoch = 4 },
			func(x *pair) { x.led.epoch = 5 },
			replica.ErrUnknownLeaderEpoch, false,
		},
		"the epoch has ended": {
			func(x *pair) { x.led.epoch = 6 },
			func(x *pair) { x.led.epoch = 5 },
			replica.ErrOldLeaderEpoch, false,
		},
		"the leader's log starts above": {
			func(x *pair) { x.led.log.TruncateFullyAndStartAt(100) },
			func(x *pair) { x.led.log.TruncateFullyAndStartAt(0) },
			replica.ErrOutOfRange, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []replica.Answer
				x := newPair(t, time.Millisecond, func(c *replica.ReporterConfig) {
					c.Answered = func(from int32, a replica.Answer) { told = append(told, a) }
				})
				if test.diverged {
					test.given(x)
				} else {
					x.leader.change(func() { test.given(x) })
				}
				settle(30 * time.Second)

				require.NotEmpty(t, told)
				last := told[len(told)-1]
				assert.ErrorIs(t, last.Err, test.err)
				assert.Equal(t, [3]int64{-1, -1, -1}, [3]int64{last.LeaderLEO, last.HighWatermark, last.LogStart})
				assert.Equal(t, test.diverged, x.followed.divergences() > 0)
				assert.EqualValues(t, -1, x.followed.newest())
				assert.Less(t, len(told), 60, "paced")
				assert.Greater(t, len(told), 20, "and not given up")

				if test.diverged {
					test.mend(x)
				} else {
					x.leader.change(func() { test.mend(x) })
				}
				settle(1100 * time.Millisecond)
				_, end := x.leader.tracker.CaughtUp(x.p, 5, followerID)
				assert.EqualValues(t, 0, end)
				x.follower.reporter.Close()
			})
		})
	}
}
