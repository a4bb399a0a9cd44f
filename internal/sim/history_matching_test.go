package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
)

// requireViolation fails the test unless the truth was violated in the way given: a guard taken away must show.
func (c *Cluster) requireViolation(like string) {
	c.t.Helper()
	for _, v := range c.Violations() {
		if strings.Contains(v, like) {
			return
		}
	}
	c.Fatalf("no violation like %q, but %q", like, c.Violations())
}

// C3: bytes may be appended only behind a prefix that is the leader's. Until an ordinary answer of the epoch has not
// diverged, nothing is (F6).
func TestC3NoAppendBeforeTheGate(t *testing.T) {
	t.Parallel()
	history(t, "C3", Config{Replicas: [][]int32{{1, 2}}}, func(t *testing.T, c *Cluster) {
		// Given a record of epoch 0 that only its leader has,
		c.Cut(1, 2)
		c.PutsDown(1)
		c.Produce(c.Part(0), 1)
		// and a new leader, elected without fault, with two other records, the first at the same offset,
		c.Elect(c.Part(0), 2)
		c.Produce(c.Part(0), 2)
		// when the old leader follows, and gets the event before its first answer,
		c.Run(900 * time.Millisecond)
		require.Len(t, c.Events(), 1)
		require.Equal(t, follower.Starting, c.State(c.Part(0), 1).Kind)
		// then it appends nothing, though the slice begins below its end and holds a batch that begins there,
		require.Equal(t, int64(1), c.LEO(c.Part(0), 1))
		// and once it can ask, its own record goes.
		c.Heal(1, 2)
		c.AwaitConverged(stalled)
		require.Equal(t, int64(2), c.HighWatermark(c.Part(0), 2))
	})
}

// C4, R11: a slice's epoch is that of the Lead under which its first byte was read (L4); Resign and Lead close it, and
// nobody else's bytes are touched (redpanda-data/redpanda#4007, second case).
func TestC4EpochOfTheRead(t *testing.T) {
	t.Parallel()
	cfg := Config{Replicas: [][]int32{{1, 2, 3}, {1, 2, 3}}, Leader: lingering(800 * time.Millisecond), Follower: lingers(800 * time.Millisecond)}
	history(t, "C4 and R11", cfg, func(t *testing.T, c *Cluster) {
		p, q := c.Part(0), c.Part(1)
		// Given an open segment with a record of P that nobody else has, and records of Q around it,
		c.Produce(q, 2)
		c.Produce(p, 1)
		c.Run(30 * time.Millisecond)
		// when P moves to 2, where 1 truncates, and back to 1 which writes others, all while the segment is open,
		c.Elect(p, 2)
		c.Until(soon, "1 has truncated", func() bool { return c.LEO(p, 1) == 0 })
		c.Elect(p, 1)
		c.Produce(p, 2)
		c.Produce(q, 3)
		// then what was read under epoch 0 is published as epoch 0 and used by nobody, and what came after in a slice of
		// its own,
		begun := c.Now()
		c.AwaitConverged(3 * time.Second)
		epochs := map[int32]int{}
		for _, e := range c.Events() {
			for _, topic := range e.Segment.Topics {
				if topic.ID == p.TopicID {
					epochs[topic.Slices[0].LeaderEpoch]++
				}
			}
		}
		require.Equal(t, map[int32]int{0: 1, 2: 1}, epochs)
		// and Q, whose bytes lay in the same open segment, came through the store undisturbed.
		for _, f := range c.Fallbacks(begun) {
			require.NotEqual(t, q.Topic, f.Partition.Topic)
		}
	})
}

// C5: the append is conditional under the log's own lock (expectedOffset), and nothing is appended after Stop (F7).
func TestC5ConditionalAppend(t *testing.T) {
	t.Parallel()
	behindItsBack := func(t *testing.T, c *Cluster) {
		// Given a follower that holds one record, and an append of the next that has been decided and is under way,
		c.Produce(c.Part(0), 1)
		c.AwaitConverged(time.Second)
		c.Produce(c.Part(0), 1)
		c.Run(60 * time.Millisecond)
		require.Equal(t, int64(1), c.LEO(c.Part(0), 2))
		// when the log is truncated behind its back,
		c.TruncateBehindItsBack(c.Part(0), 2, 0)
		c.Run(3 * time.Second)
	}
	cfg := Config{Replicas: [][]int32{{1, 2}}, DiskLatency: 100 * time.Millisecond}
	history(t, "C5", cfg, func(t *testing.T, c *Cluster) {
		behindItsBack(t, c)
		// then the append is refused, and the log comes to what the leader has.
		c.AwaitConverged(2 * stalled)
	})
	cfg.Break.IgnoreExpectedOffset, cfg.ExpectViolations = true, true
	history(t, "C5 guard taken away: expectedOffset", cfg, func(t *testing.T, c *Cluster) {
		behindItsBack(t, c)
		c.requireViolation("hole")
	})
	history(t, "C5 an election while an append is under way", Config{Replicas: [][]int32{{1, 2}}, DiskLatency: 100 * time.Millisecond}, func(t *testing.T, c *Cluster) {
		// Given an append under way, when the follower becomes the leader, then Stop waits for the append or ends it, and
		// nothing of it comes later.
		c.Produce(c.Part(0), 1)
		c.Run(60 * time.Millisecond)
		c.Elect(c.Part(0), 2)
		end := c.LEO(c.Part(0), 2)
		c.Run(300 * time.Millisecond)
		require.Equal(t, end, c.LEO(c.Part(0), 2))
		c.AwaitConverged(stalled)
	})
}

// R2: the ordinary fetch truncates inside itself, which needs no Stop (B5); and Stop ends a fetch under way (F7).
func TestR2TruncationInsideTheFetch(t *testing.T) {
	t.Parallel()
	history(t, "R2 every old leader with a tail", Config{FlushEvery: time.Hour}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		for _, next := range []int32{2, 3, 1, 2, 3} {
			// Given a leader with a tail that nobody has,
			leader := c.AwaitLeader(part)
			c.Produce(part, 5)
			c.AwaitConverged(stalled)
			c.PutsDown(leader)
			c.Produce(part, 5)
			// when another is elected without fault,
			c.Elect(part, next)
			c.Produce(part, 3)
			// then its first fetch truncates, and it follows.
			c.AwaitConverged(stalled)
			c.StoreUp()
		}
	})
	history(t, "R2 Stop ends a fetch that hangs", Config{LinkTimeout: time.Minute}, func(t *testing.T, c *Cluster) {
		// Given a follower in a fetch that gets no answer,
		c.PutsDown()
		c.Cut(1, 3)
		c.Produce(c.Part(0), 1)
		c.Run(1500 * time.Millisecond)
		// when another leader is elected, then the broker is not held up by it.
		c.Elect(c.Part(0), 2)
		c.Until(soon, "3 follows 2", func() bool {
			return c.State(c.Part(0), 3).Epoch == 1 && c.State(c.Part(0), 3).Kind == follower.Replicating
		})
	})
}

// KAFKA-10706: elections without new data leave no follower that truncates for ever.
func TestElectionsWithoutData(t *testing.T) {
	t.Parallel()
	history(t, "KAFKA-10706", Config{}, func(t *testing.T, c *Cluster) {
		// Given a log of which every broker has all,
		c.Produce(c.Part(0), 100)
		c.AwaitConverged(time.Second)
		c.Until(time.Second, "it is committed", func() bool { return c.HighWatermark(c.Part(0), 1) == 100 })
		// when leaders come and go without a record, and one writes again,
		for _, next := range []int32{2, 3, 1, 3, 2} {
			c.Elect(c.Part(0), next)
			c.Run(20 * time.Millisecond)
		}
		c.Produce(c.Part(0), 5)
		c.AwaitConverged(stalled)
		c.Run(10 * time.Second)
		// then nobody has truncated anything.
		require.Zero(t, c.Counts()["truncation"])
		require.Equal(t, int64(105), c.HighWatermark(c.Part(0), 2))
	})
}

// R4: a log end inside a compaction gap is no boundary (F2).
func TestR4LogEndInACompactionGap(t *testing.T) {
	t.Parallel()
	history(t, "R4", Config{Replicas: [][]int32{{1, 2}}}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given r0 on both, and r1 on its leader alone, which crashes and keeps both,
		c.Produce(part, 1)
		c.AwaitConverged(time.Second)
		c.PutsDown(1)
		c.Cut(1, 2)
		c.Produce(part, 1)
		c.Kill(1)
		c.AwaitLeader(part)
		c.Until(10*time.Second, "2 leads alone", func() bool { return len(c.ISR(part)) == 1 && c.Epoch(part) > 0 })
		c.AwaitLeader(part)
		// and a new leader that writes r2 and r3, whose r2 compaction takes before the uploader reads it,
		c.StoreUp()
		c.Reads(part, 2, func([]byte) error { return errors.New("not yet") })
		c.Produce(part, 2)
		c.Compact(part, 2, 1, 2)
		c.Reads(part, 2, nil)
		c.Until(time.Second, "the event is there", func() bool { return len(c.Events()) == 2 })
		// when the old one returns, its end inside the gap, then r1 does not survive.
		c.Heal(1, 2)
		c.Restart(1)
		c.AwaitConverged(stalled)
	})
}

// R8: each start of leadership has a leader epoch that was never used (B6).
func TestR8EpochsAreNeverUsedTwice(t *testing.T) {
	t.Parallel()
	restart := func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given a leader whose record is published and not flushed, and a follower that gets the event late,
		c.EventsBehind(2, 200*time.Millisecond)
		c.Produce(part, 1)
		c.Run(60 * time.Millisecond)
		require.Equal(t, int64(0), c.LEO(part, 2))
		// when the leader crashes, is back at once, and writes another record at the same offset,
		c.Kill(1)
		c.Restart(1)
		c.AwaitLeader(part)
		c.Produce(part, 1)
		c.Run(time.Second)
	}
	cfg := Config{Replicas: [][]int32{{1, 2}}, FlushEvery: time.Hour}
	history(t, "R8", cfg, func(t *testing.T, c *Cluster) {
		restart(t, c)
		require.Positive(t, c.Epoch(c.Part(0)))
		c.AwaitConverged(2 * stalled)
	})
	cfg.Break.EpochsRepeat, cfg.ExpectViolations = true, true
	history(t, "R8 guard taken away: the epoch is used again", cfg, func(t *testing.T, c *Cluster) {
		restart(t, c)
		c.requireViolation("is not what the leader wrote")
	})
}

// S1: FetchFromLeader asks at least once, and returns nil only if its last answer did not diverge and was in range.
func TestS1FetchFromLeaderReturnsNilTooEasily(t *testing.T) {
	t.Parallel()
	asksNothing := func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given r0 of epoch 0 on A alone and another record of epoch 1 at the same offset on B alone,
		c.Cut(1, 2)
		c.PutsDown()
		c.Produce(part, 1)
		c.Elect(part, 2)
		c.Produce(part, 1)
		// when A leads again and B follows, its end already where A's is,
		c.Elect(part, 1)
		c.StoreUp()
		c.Run(300 * time.Millisecond)
		// and A's next record comes to B through the store,
		c.Produce(part, 1)
		c.Run(300 * time.Millisecond)
	}
	two := Config{Replicas: [][]int32{{1, 2}}}
	history(t, "S1(a)", two, func(t *testing.T, c *Cluster) {
		asksNothing(t, c)
		// then B appends nothing until it has asked.
		require.Equal(t, int64(1), c.LEO(c.Part(0), 2))
		c.Heal(1, 2)
		c.AwaitConverged(stalled)
	})
	broken := two
	broken.Break.FetchAsksNothing, broken.ExpectViolations = true, true
	history(t, "S1(a) guard taken away: it asks nothing", broken, func(t *testing.T, c *Cluster) {
		asksNothing(t, c)
		c.requireViolation("diverged")
	})

	diverges := func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given A with r0 of epoch 0 and r2 of epoch 2, and B with r1 of epoch 1,
		c.Cut(1, 2)
		c.PutsDown()
		c.Produce(part, 1)
		c.Elect(part, 2)
		c.Produce(part, 1)
		c.Elect(part, 1)
		c.Produce(part, 1)
		// when B leads epoch 3, and the first answer truncates A exactly to where B's log ends,
		c.LoseReports(1)
		c.Heal(1, 2)
		c.Elect(part, 2)
		c.StoreUp()
		c.Run(300 * time.Millisecond)
		// and B's next record comes to A through the store,
		c.Produce(part, 1)
		c.Run(300 * time.Millisecond)
	}
	history(t, "S1(b)", two, func(t *testing.T, c *Cluster) {
		diverges(t, c)
		// then A has asked again, and has lost r0 before it appends.
		c.BringAll(1)
		c.AwaitConverged(stalled)
	})
	broken = two
	broken.Break.FetchEndsDiverged, broken.ExpectViolations = true, true
	history(t, "S1(b) guard taken away: nil after an answer that diverged", broken, func(t *testing.T, c *Cluster) {
		diverges(t, c)
		c.requireViolation("diverged")
	})
}

// B3: the offset of a report that diverges is not recorded; else what nobody has is acknowledged.
func TestB3ReportsAreChecked(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		// Given a follower with three records that its leader does not have,
		c.Cut(1, 2)
		c.PutsDown()
		c.Produce(part, 3)
		c.Elect(part, 2)
		// when the new leader writes two, and the follower reports before it has fetched,
		c.Produce(part, 2)
		c.LoseFetches(1)
		c.Heal(1, 2)
		c.Run(time.Second)
		// and, without having fetched, is elected, then nothing was acknowledged that it lacks.
		c.Elect(part, 1)
		c.Run(time.Second)
	}
	two := Config{Replicas: [][]int32{{1, 2}}, Brokers: 2}
	history(t, "B3", two, func(t *testing.T, c *Cluster) {
		story(t, c)
		c.BringAll(1)
		c.StoreUp()
		c.AwaitConverged(2 * stalled)
	})
	two.Break.NoReportChecks, two.ExpectViolations = true, true
	history(t, "B3 guard taken away: every report counts", two, func(t *testing.T, c *Cluster) {
		story(t, c)
		c.requireViolation("lost what was committed")
	})
}

// A leader that does not know yet of an unclean election goes on alone, and acknowledges what its successor never has. That is
// lost with the election, as in Kafka, and not by the clean one that follows (seeds 449, 802, 1776 and 1940).
func TestZombieAfterAnUncleanElection(t *testing.T) {
	t.Parallel()
	history(t, "a zombie acknowledges", Config{Replicas: [][]int32{{1, 2}}, Brokers: 2}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		c.ProduceAcked(part, time.Second)
		c.Flush(2)
		// Given a leader that is the whole ISR, and hears neither of the other replica nor of the controller,
		c.Kill(2)
		c.Until(10*time.Second, "2 has left the ISR", func() bool { return len(c.ISR(part)) == 1 })
		c.Run(c.cfg.LagTimeMax) // B2: until it is not waited for any more
		c.Isolate(1)
		c.Cut(1, 2)
		c.Restart(2)
		c.ElectUnclean(part, 2)
		// when it acknowledges more records while the other leads already,
		require.NoError(t, c.ProduceAt(1, part, 3))
		c.Until(time.Second, "1 commits them alone", func() bool { return c.HighWatermark(part, 1) == 4 })
		c.Produce(part, 2)
		// then they are lost, and the clean election that follows loses nothing.
		c.Heal(1, 2)
		c.Reconnect(1)
		c.Until(10*time.Second, "1 is back in the ISR", func() bool { return len(c.ISR(part)) == 2 })
		c.Elect(part, 1)
		require.Equal(t, int64(3), c.LEO(part, 1))
		c.AwaitConverged(10 * time.Second)
	})
}
