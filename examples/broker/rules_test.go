package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// slow makes a store whose requests take the times given.
func slow(put, get time.Duration, stopped *atomic.Bool) func(walstorage.WalStorageManager) walstorage.WalStorageManager {
	return func(m walstorage.WalStorageManager) walstorage.WalStorageManager {
		return slowStore{
			WalStorageManager: m, stopped: stopped,
			put: func(int) time.Duration { return put }, get: func(int) time.Duration { return get },
		}
	}
}

// B1: given followers whose reports are parked at the leader, when a record is appended and replicated, then the report of
// it does not wait for those: acks=all takes as long as the way through the store, and not StallAfter.
func TestReportsAreNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, slow(5*time.Millisecond, 2*time.Millisecond, nil)).start(t)
		defer c.close()
		defer client.close()
		for range 20 {
			time.Sleep(700 * time.Millisecond) // reports park for up to StallAfter, 1 s
			begun := time.Now()
			require.Equal(t, codeNone, client.produce("t", acksAll, "x").ErrorCode)
			require.Less(t, time.Since(begun), 50*time.Millisecond)
		}
	})
}

// B2: given a store ten times as slow as the time between two reports, when there is a steady load for longer than
// replica.lag.time.max.ms, then the ISR does not change, and nothing was fetched from the leader after the first fetches.
func TestSteadyLoadKeepsTheISR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 10 * time.Millisecond // of a report
		c, client := inBubble(t, roundTrip/2, slow(60*time.Millisecond, 40*time.Millisecond, nil)).start(t)
		defer c.close()
		defer client.close()
		before := c.controller.current().Topics["t"].Partitions[0]
		fetched := c.state()
		for begun := time.Now(); time.Since(begun) < 31*time.Second; {
			require.Equal(t, codeNone, client.produce("t", acksOne, "x").ErrorCode)
		}
		require.Equal(t, before, c.controller.current().Topics["t"].Partitions[0])
		for i, b := range c.state().Brokers {
			require.Equal(t, fetched.Brokers[i].RecordBytesFetched, b.RecordBytesFetched)
		}
	})
}

// B2: given followers that were away while the leader alone was in sync, when they come back under a steady load over a slow
// store, then they join the ISR again. The high watermark waits for them, or it would run ahead of them for ever.
func TestRejoinUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 10 * time.Millisecond
		cfg := inBubble(t, roundTrip/2, slow(60*time.Millisecond, 40*time.Millisecond, nil))
		cfg.minISR = 1
		c, client := cfg.start(t)
		defer c.close()
		defer client.close()
		a := c.controller.current().Topics["t"].Partitions[0]
		away := without(a.Replicas, a.Leader)
		for _, id := range away {
			require.NoError(t, c.kill(id))
		}
		load := func(d time.Duration) {
			for begun := time.Now(); time.Since(begun) < d; {
				require.Equal(t, codeNone, client.produce("t", acksOne, "x").ErrorCode)
			}
		}
		load(time.Second)
		require.Len(t, c.controller.current().Topics["t"].Partitions[0].ISR, 1)
		for _, id := range away {
			require.NoError(t, c.start(t.Context(), id))
		}
		load(5 * time.Second)
		require.Len(t, c.controller.current().Topics["t"].Partitions[0].ISR, 3)
		require.Equal(t, a.Leader, c.controller.current().Topics["t"].Partitions[0].Leader)
	})
}

// B3: given a leader in its second epoch, when a follower reports, or fetches, then every check of an ordinary fetch is made,
// and what is refused or diverges counts nothing for the follower.
func TestEveryCheckOfAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		first := c.controller.current().Topics["t"].Partitions[0].Leader
		require.NoError(t, c.kill(first))
		client.mustProduce("t", acksAll, "of the second epoch")

		m := c.controller.current()
		topic := m.Topics["t"]
		a := topic.Partitions[0]
		require.EqualValues(t, 1, a.Epoch)
		leader := c.broker(a.Leader)
		p := leader.partition(segment.PartitionKey{TopicID: topic.ID})
		end, lastEpoch := p.log.End()
		start, _ := p.log.EpochStart(a.Epoch)
		follower := without(without(c.ids, first), a.Leader)[0]
		require.NoError(t, c.kill(follower)) // this test reports in its place
		epoch, err := c.controller.register(follower)
		require.NoError(t, err)
		leader.tracker.Registered(follower, epoch)

		good := replica.Report{
			Partition: p.TopicIDPartition, LeaderEpoch: a.Epoch, LogEndOffset: end, LastEpoch: lastEpoch,
			Known: replica.Known{LogEndOffset: -1, HighWatermark: -1, LogStart: -1},
		}
		type test struct {
			name   string
			change func(r *replica.Report)
			id     int32
			epoch  int64
			err    error
		}
		tests := []test{
			{"old leader epoch", func(r *replica.Report) { r.LeaderEpoch-- }, follower, epoch, replica.ErrOldLeaderEpoch},
			{"new leader epoch", func(r *replica.Report) { r.LeaderEpoch++ }, follower, epoch, replica.ErrUnknownLeaderEpoch},
			{"no such topic", func(r *replica.Report) { r.Partition.TopicID[0]++ }, follower, epoch, replica.ErrNotLeader},
			{"no replica", func(*replica.Report) {}, 7, 1, replica.ErrNotReplica},
			{"a zombie", func(*replica.Report) {}, follower, epoch - 1, replica.ErrOldBrokerEpoch},
			{"beyond the end", func(r *replica.Report) { r.LogEndOffset += 5; r.LastEpoch = -1 }, follower, epoch, replica.ErrOutOfRange},
			{"of an epoch to come", func(r *replica.Report) { r.LastEpoch++ }, follower, epoch, replica.ErrOutOfRange},
			{"diverging", func(r *replica.Report) { r.LastEpoch-- }, follower, epoch, nil},
			{"good", func(*replica.Report) {}, follower, epoch, nil},
		}
		for i, test := range tests {
			r := good
			test.change(&r)
			counter := uint64(i) // each broker epoch and replica counts for itself
			report := encodeReports(replica.Reports{Replica: test.id, BrokerEpoch: test.epoch, Counter: counter, Full: true, Parts: []replica.Report{r}})
			fetch := newFetch(test.id, test.epoch)
			asked := report.Topics[0].Partitions[0]
			asked.UnknownTags, asked.PartitionMaxBytes = kmsg.Tags{}, fetchBytes
			appendToTopic(fetch, r.Partition.TopicID, asked)
			for _, request := range []*kmsg.FetchRequest{report, fetch} {
				if test.epoch < epoch && request == report && test.id == follower {
					response := ask[*kmsg.FetchResponse](client, a.Leader, request)
					require.Equal(t, codeStaleBrokerEpoch, response.ErrorCode, "the whole message is a zombie's")
					continue
				}
				answers, err := decodeAnswers(ask[*kmsg.FetchResponse](client, a.Leader, request))
				require.NoError(t, err, test.name)
				require.Len(t, answers, 1, test.name)
				require.ErrorIs(t, answers[0].Err, test.err, test.name)
				if test.name == "diverging" {
					require.Equal(t, &replica.Diverging{Epoch: 0, EndOffset: start}, answers[0].Diverging)
				} else {
					require.Nil(t, answers[0].Diverging, test.name)
				}
				at, counted := p.caughtUp(follower)
				if test.name == "good" {
					require.Equal(t, end, counted)
					require.False(t, at.IsZero())
				} else {
					require.EqualValues(t, -1, counted, test.name)
				}
			}
		}
	})
}

// B4: given a store that is down and followers in their fallback, when records come, then each is acknowledged as soon as
// the followers have fetched it, and nobody asks in vain: an outage is no polling.
func TestOutageIsNoPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Bool
		c, client := inBubble(t, time.Millisecond, slow(5*time.Millisecond, 2*time.Millisecond, &stopped)).start(t)
		defer c.close()
		defer client.close()
		stopped.Store(true)
		require.Equal(t, codeNone, client.produce("t", acksAll, "the one that waits for StallAfter").ErrorCode)
		time.Sleep(5 * time.Second)
		requests := func() (n int64) {
			for _, id := range c.ids {
				for _, peer := range c.broker(id).peers {
					n += peer.requests.Load()
				}
			}
			return n
		}
		before, quiet := requests(), 0
		const records = 200
		for range records {
			begun := time.Now()
			require.Equal(t, codeNone, client.produce("t", acksAll, "x").ErrorCode)
			if time.Since(begun) < 100*time.Millisecond {
				quiet++
			}
			time.Sleep(50 * time.Millisecond)
		}
		// The hold for the store, once a minute at most, takes up to StallAfter (F5).
		require.GreaterOrEqual(t, quiet, records-3)
		require.Less(t, requests()-before, int64(records*12), "a report, a fetch and a report for each record and follower, and little more")
		require.Len(t, c.controller.current().Topics["t"].Partitions[0].ISR, 3)
	})
}

// B6: each start of leadership has an epoch that was never used, after a restart of the broker and of everything too; and
// a topic that is made anew is another topic, whose logs begin at 0.
func TestEpochsAreNeverUsedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := inBubble(t, 0, nil)
		c, client := cfg.start(t)
		used := map[int32]bool{}
		note := func() {
			client.mustProduce("t", acksOne, "x")
			epoch := c.controller.current().Topics["t"].Partitions[0].Epoch
			require.False(t, used[epoch], "epoch %d", epoch)
			used[epoch] = true
		}
		note()
		// The last one in sync dies and comes back: it leads again, in a new epoch.
		for len(c.controller.current().Topics["t"].Partitions[0].ISR) > 1 {
			a := c.controller.current().Topics["t"].Partitions[0]
			require.NoError(t, c.kill(without(a.ISR, a.Leader)[0]))
		}
		leader := c.controller.current().Topics["t"].Partitions[0].Leader
		for range 3 {
			require.NoError(t, c.kill(leader))
			require.EqualValues(t, -1, c.controller.current().Topics["t"].Partitions[0].Leader, "nobody else may lead")
			for _, id := range without(c.ids, leader) {
				if c.broker(id) == nil {
					require.NoError(t, c.start(t.Context(), id))
				}
			}
			require.EqualValues(t, -1, c.controller.current().Topics["t"].Partitions[0].Leader, "unclean elections are off")
			require.NoError(t, c.start(t.Context(), leader))
			require.Equal(t, leader, c.controller.current().Topics["t"].Partitions[0].Leader)
			note()
			awaitISR(t, c, "t", 3)
			for _, id := range without(c.ids, leader) {
				require.NoError(t, c.kill(id))
			}
		}
		client.close()
		c.close()

		c, err := newCluster(t.Context(), cfg)
		require.NoError(t, err)
		defer c.close()
		client = newPlainClient(t, c)
		defer client.close()
		note()

		old := c.controller.current().Topics["t"].ID
		require.NoError(t, c.controller.deleteTopic(old))
		created, err := c.controller.createTopic("t", 1, 3)
		require.NoError(t, err)
		require.NotEqual(t, old, created.ID)
		require.Zero(t, client.mustProduce("t", acksAll, "x"))
	})
}

// B5: given a leader, when another broker is made leader while it lives, then whatever the two did with their logs before
// has ended before they do something else.
func TestRolesEndBeforeOthersBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		topic := c.controller.current().Topics["t"]
		from := topic.Partitions[0].Leader
		to := without(topic.Partitions[0].ISR, from)[0]
		key := segment.PartitionKey{TopicID: topic.ID}
		old, next := c.broker(from).partition(key), c.broker(to).partition(key)
		followed := next.following
		require.Equal(t, 1, c.broker(from).uploader.Stats().Partitions)
		before, _ := old.log.End()

		require.NoError(t, moveLeader(c, "t", 0, to))
		require.Equal(t, before, client.mustProduce("t", acksAll, "x"))
		require.Equal(t, follower.Stopped, followed.State().Kind)
		require.Zero(t, c.broker(from).uploader.Stats().Partitions)
		require.Equal(t, 1, c.broker(to).uploader.Stats().Partitions)
		require.Nil(t, next.following)
		require.Nil(t, old.leadership)
		// What the old leader had not answered yet, it will never acknowledge.
		done, code := old.acknowledged(0, before)
		require.True(t, done)
		require.Equal(t, codeNotLeaderOrFollower, code)
		done, code = next.acknowledged(0, before)
		require.True(t, done)
		require.Equal(t, codeNotLeaderOrFollower, code, "not even where it leads again, in another epoch")
		_, err := old.log.AppendAsLeader(t.Context(), 0, batchNow("late"))
		require.ErrorIs(t, err, unifiedlog.ErrNotLeader)
	})
}

// KIP-497: given a replica that the controller is being asked to count as in sync, then the high watermark waits for it,
// since the controller may have done so already.
func TestHighWatermarkWaitsForJoiners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := inBubble(t, 0, nil)
		cfg.minISR = 1
		c, client := cfg.start(t)
		defer c.close()
		defer client.close()
		topic := c.controller.current().Topics["t"]
		a := topic.Partitions[0]
		for _, id := range without(a.Replicas, a.Leader) {
			require.NoError(t, c.kill(id))
		}
		p := c.broker(a.Leader).partition(segment.PartitionKey{TopicID: topic.ID})
		offset := client.mustProduce("t", acksAll, "x")
		require.Equal(t, offset+1, p.log.HighWatermark())
		for _, joining := range []bool{true, false} {
			p.mu.Lock()
			p.joining = nil
			if joining {
				p.joining = without(a.Replicas, a.Leader)
			}
			p.mu.Unlock()
			offset = client.mustProduce("t", acksOne, "x")
			require.Equal(t, joining, p.log.HighWatermark() <= offset)
		}
	})
}
