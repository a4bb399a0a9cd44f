package replica_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// Messages that fail are repeated at a bounded pace, the operator hears of it once, and then everything is reported anew.
func TestLinkDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []error
		x := newPair(t, time.Millisecond, func(c *replica.ReporterConfig) {
			c.Hooks.LeaderChanged = func(_ int32, err error) { changes = append(changes, err) }
		})
		second, _ := x.follower.follow(t, partition(1), 5, nil)
		x.leader.lead(t, partition(1), 5, followerID)
		settle(100 * time.Millisecond)

		// When the network is down for a minute, and the log goes on moving.
		x.net.set(func(n *network) { n.down = true })
		x.led.append(t)
		require.NoError(t, copyTo(x.led, x.log, 1))
		before := len(x.net.sent())
		for range 600 {
			x.follower.reporter.Moved(x.p)
			time.Sleep(100 * time.Millisecond)
		}

		// Then there is about one message a second, and each is full.
		during := x.net.sent()[before:]
		assert.Less(t, len(during), 90)
		assert.Greater(t, len(during), 55)
		assert.True(t, during[len(during)-1].Full)
		assert.Len(t, during[len(during)-1].Parts, 2)

		// And it comes back within a pause.
		x.net.set(func(n *network) { n.down = false })
		settle(1100 * time.Millisecond)
		assert.EqualValues(t, 1, x.leader.watermark(x.p))
		assert.EqualValues(t, 0, second.newest())
		x.follower.reporter.Close()
		require.Len(t, changes, 2)
		assert.ErrorIs(t, changes[0], errLinkDown)
		assert.NoError(t, changes[1])
	})
}

// An answer that was lost is given again: a report says what the follower knows.
func TestLostAnswerIsGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watermark int64
		x := newPair(t, time.Millisecond, func(c *replica.ReporterConfig) {
			c.Answered = func(_ int32, a replica.Answer) { watermark = a.HighWatermark }
		})
		settle(100 * time.Millisecond)
		x.net.set(func(n *network) { n.lose = 1 })
		x.led.append(t)
		require.NoError(t, copyTo(x.led, x.log, 1))
		settle(100 * time.Millisecond)
		x.follower.reporter.Close()
		assert.Zero(t, x.net.lose)
		assert.EqualValues(t, 1, watermark)
		assert.EqualValues(t, 1, x.followed.newest())
	})
}

// A leader that has restarted knows nothing: it asks for a full message, and gets it at once.
func TestRestartedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		settle(1500 * time.Millisecond)
		again := newLeaderBroker(t)
		again.leads[x.p.Key()] = x.led
		x.net.set(func(n *network) { n.leaders[leaderID] = again })

		// The message that is parked at the old process comes back empty; the next one goes to the new process.
		settle(600 * time.Millisecond)
		_, end := again.tracker.CaughtUp(x.p, 5, followerID)
		assert.EqualValues(t, 0, end)
		assert.True(t, x.net.sent()[len(x.net.sent())-1].Full)
	})
}

// A Send that never returns is ended, one that panics is an error, and so is a log that does; a leader that answers
// nothing at once is no hot loop.
func TestBrokenTransport(t *testing.T) {
	tests := map[string]struct {
		send     replica.Send
		messages int
		err      string
	}{
		"hangs": {func(ctx context.Context, _ int32, _ replica.Reports) ([]replica.Answer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 15, "deadline"},
		"panics": {func(context.Context, int32, replica.Reports) ([]replica.Answer, error) { panic("out of cables") }, 80, "out of cables"},
		"returns nothing at once": {func(context.Context, int32, replica.Reports) ([]replica.Answer, error) {
			return nil, nil
		}, 80, ""},
		"answers what nobody asked": {func(_ context.Context, _ int32, r replica.Reports) ([]replica.Answer, error) {
			time.Sleep(time.Second)
			return []replica.Answer{{Partition: partition(77), LeaderLEO: 5}}, nil
		}, 61, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				messages := 0
				var failed error
				x := newPair(t, 0, func(c *replica.ReporterConfig) {
					c.Send = func(ctx context.Context, id int32, r replica.Reports) ([]replica.Answer, error) {
						messages++
						return test.send(ctx, id, r)
					}
					c.Hooks.LeaderChanged = func(_ int32, err error) { failed = errors.Join(failed, err) }
				})
				settle(time.Minute)
				x.follower.reporter.Close()
				assert.LessOrEqual(t, messages, test.messages)
				assert.Greater(t, messages, 5)
				if test.err != "" {
					assert.ErrorContains(t, failed, test.err)
				} else {
					assert.NoError(t, failed)
				}
			})
		})
	}
}

// An answer of another leader epoch than the one followed says nothing of this one's log.
func TestAnswerOfAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, 0, func(c *replica.ReporterConfig) {
			c.Send = func(ctx context.Context, _ int32, r replica.Reports) ([]replica.Answer, error) {
				if err := sleep(ctx, 100*time.Millisecond); err != nil {
					return nil, err
				}
				return []replica.Answer{{Partition: partition(0), LeaderEpoch: 4, LeaderLEO: 9}}, nil
			}
		})
		time.Sleep(10 * time.Second)
		x.follower.reporter.Close()
		assert.Empty(t, x.followed.observed)
		assert.Zero(t, x.followed.divergences())
	})
}

// A full message takes back the reports of partitions that it does not name.
func TestFullMessageTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaderBroker(t)
		p, q := partition(0), partition(1)
		b.lead(t, p, 5, followerID)
		led := b.lead(t, q, 5, followerID)
		both := message(1, 1, p, 0)
		both.Parts = append(both.Parts, message(1, 1, q, 0).Parts[0])
		_, err := b.tracker.Handle(t.Context(), both)
		require.NoError(t, err)
		led.append(t)
		require.NoError(t, led.log.DeleteRecords(1))
		answers, err := b.tracker.Handle(t.Context(), message(2, 1, p, 0))
		require.NoError(t, err)
		assert.Empty(t, answers)
	})
}

// brokenLog panics when its end is read.
type brokenLog struct{ *memory.Log }

func (brokenLog) End() (int64, int32) { panic("log is closed") }

// A log whose end cannot be read holds back no other partition.
func TestBrokenLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newPair(t, time.Millisecond)
		x.follower.reporter.Add(partition(1), leaderID, &followed{epoch: 5}, brokenLog{})
		settle(10 * time.Second)
		x.led.append(t)
		require.NoError(t, copyTo(x.led, x.log, 1))
		settle(10 * time.Millisecond)
		assert.EqualValues(t, 1, x.leader.watermark(x.p))
		assert.Less(t, len(x.net.sent()), 60)
	})
}

// A partition that moves to another leader is told nothing of the old one, and a handle that was replaced is told nothing
// more.
func TestMoveToAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		x := newPair(t, 10*time.Millisecond, func(c *replica.ReporterConfig) {
			c.Answered = func(_ int32, a replica.Answer) {
				if a.Err != nil {
					refused.Add(1)
				}
			}
		})
		settle(5 * time.Millisecond) // the first message is on its way
		other := newLeaderBroker(t)
		led := other.lead(t, x.p, 6, followerID)
		led.append(t)
		x.net.set(func(n *network) { n.leaders[9] = other })
		require.NoError(t, x.log.Follow(6))
		f := &followed{epoch: 6}
		x.follower.reporter.Add(x.p, 9, f, x.log)
		settle(100 * time.Millisecond)
		assert.Empty(t, x.followed.observed)
		assert.EqualValues(t, 1, f.newest())

		// The same leader in a newer epoch: the answer to the older report is not for the newer handle.
		_, err := led.log.Lead(7)
		require.NoError(t, err)
		other.change(func() { led.epoch = 7 })
		other.tracker.Moved(x.p)
		settle(5 * time.Millisecond) // the refusal is on its way
		g := &followed{epoch: 7}
		x.follower.reporter.Add(x.p, 9, g, x.log)
		settle(100 * time.Millisecond)
		assert.EqualValues(t, 1, g.newest())
		assert.Zero(t, refused.Load())

		// Without a partition there is nobody to talk to.
		x.follower.reporter.Remove(x.p)
		settle(100 * time.Millisecond)
		before := len(x.net.sent())
		settle(time.Minute)
		assert.Len(t, x.net.sent(), before)
		x.follower.reporter.Moved(x.p)
		x.follower.reporter.Close()
		x.follower.reporter.Close()
		x.follower.reporter.Add(x.p, 9, g, x.log)
		x.follower.reporter.Remove(x.p)
	})
}

func TestConfigNamesTheField(t *testing.T) {
	type reporter = replica.ReporterConfig
	t.Run("reporter", func(t *testing.T) {
		configtest.Run(t, configtest.Table[reporter]{
			Valid: reporter{Send: func(context.Context, int32, replica.Reports) ([]replica.Answer, error) { return nil, nil }},
			Open: func(_ testing.TB, c reporter) error {
				r, err := replica.NewReporter(c)
				if err == nil {
					r.Close()
				}
				return err
			},
			Wrong: map[string][]func(*reporter){
				"Replica":     {func(c *reporter) { c.Replica = -1 }},
				"BrokerEpoch": {func(c *reporter) { c.BrokerEpoch = -1 }},
				"Send":        {func(c *reporter) { c.Send = nil }},
				"Linger":      {func(c *reporter) { c.Linger = -1 }},
				"Timeout":     {func(c *reporter) { c.Timeout = -1 }},
				"MinPause":    {func(c *reporter) { c.MinPause = -1 }, func(c *reporter) { c.MinPause = time.Minute }},
				"MaxPause":    {func(c *reporter) { c.MaxPause = -1 }, func(c *reporter) { c.MaxPause = time.Millisecond }},
			},
			Any: map[string]string{
				"Answered": "it may be nil",
				"Seed":     "every number is a seed",
				"Hooks":    "every one of them may be nil",
				"Logger":   "nil is none",
			},
		})
	})
	type tracker = replica.TrackerConfig
	t.Run("tracker", func(t *testing.T) {
		configtest.Run(t, configtest.Table[tracker]{
			Valid: tracker{Partitions: &leaderBroker{}},
			Open: func(_ testing.TB, c tracker) error {
				r, err := replica.NewTracker(c)
				if err == nil {
					r.Close()
				}
				return err
			},
			Wrong: map[string][]func(*tracker){
				"Partitions": {func(c *tracker) { c.Partitions = nil }},
				"StallAfter": {func(c *tracker) { c.StallAfter = -1 }},
				"Linger":     {func(c *tracker) { c.Linger = -1 }, func(c *tracker) { c.Linger = time.Second }},
			},
			Any: map[string]string{"Recorded": "it may be nil"},
		})
	})
}

// Ten thousand partitions between two brokers: one message a second while nothing happens, and what moves costs what moves.
func TestManyPartitions(t *testing.T) {
	const n = 10_000
	synctest.Test(t, func(t *testing.T) {
		leader := newLeaderBroker(t)
		net := &network{oneWay: time.Millisecond, leaders: map[int32]*leaderBroker{leaderID: leader}}
		follower := newFollowerBroker(t, net)
		leads := make([]*led, n)
		logs := make([]*memory.Log, n)
		for i := range n {
			leads[i] = leader.lead(t, partition(int32(i)), 5, followerID)
			_, logs[i] = follower.follow(t, partition(int32(i)), 5, nil)
		}
		settle(10 * time.Millisecond)
		checks, messages := leader.checked(), len(net.sent())

		settle(time.Minute)
		assert.Equal(t, checks, leader.checked(), "an idle minute asks the broker nothing")
		idle := net.sent()[messages:]
		assert.LessOrEqual(t, len(idle), 61)
		for _, m := range idle {
			assert.Empty(t, m.Parts)
		}

		messages = len(net.sent())
		for i := 0; i < n; i += 100 {
			leads[i].append(t)
			require.NoError(t, copyTo(leads[i], logs[i], 1))
		}
		settle(20 * time.Millisecond)
		reports := 0
		for _, m := range net.sent()[messages:] {
			reports += len(m.Parts)
		}
		assert.Equal(t, 2*n/100, reports, "its move, and the answer that took in the high watermark")
		assert.Less(t, len(net.sent())-messages, 10)
		assert.Less(t, leader.checked()-checks, 10*n/100)
		for i := 0; i < n; i += 100 {
			require.EqualValues(t, 1, leader.watermark(partition(int32(i))), fmt.Sprint(i))
		}
	})
}
