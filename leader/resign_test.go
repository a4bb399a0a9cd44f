package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// C4, L4: bytes read in epoch 1 stay bytes of epoch 1, though the partition is resigned, truncated and led again in
// epoch 3 while their segment is still open. Captured at sealing, the epoch would be 3, and a follower of epoch 3 would
// append a record that its leader has truncated.
func TestC4EpochIsTheOneUnderWhichTheBytesWereRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		// given r0 of epoch 1 in the open segment
		p := g.lead(0)
		p.append("r0")
		time.Sleep(time.Millisecond)
		require.NotZero(t, g.up.Stats().OpenBytes)

		// when the broker loses the partition, truncates r0 away and leads again in epoch 3, all before the seal
		p.lead.Resign()
		p.log.TruncateTo(0)
		again := g.leadLog(p.tp, p.log, 3)
		again.append("r1")
		again.append("r2")
		g.flush()

		// then each slice says the epoch of its batches, in segments of their own
		all := g.of(p)
		require.Len(t, all, 2)
		assert.Equal(t, int32(1), all[0].LeaderEpoch)
		assert.Equal(t, int32(3), all[1].LeaderEpoch)
		assert.NotEqual(t, all[0].id, all[1].id, "one slice per partition and segment: S1")
		again.requireWhole()
	})
}

// L4, R11: Resign or Lead closes the partition's slice in the open segment; its next bytes go into the next one.
func TestR11LeadClosesTheSlice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, other := g.lead(0), g.lead(1)
		p.append("old")
		other.append("x")
		time.Sleep(time.Millisecond)

		newer := g.leadLog(p.tp, p.log, 2)
		newer.append("new")
		other.append("y")
		time.Sleep(100 * time.Millisecond)

		all := g.of(p)
		require.Len(t, all, 2)
		assert.NotEqual(t, all[0].id, all[1].id)
		newer.requireWhole()
		// the other partition's slice was not touched by it
		other.requireWhole()
		require.Len(t, g.of(other), 1)
	})
}

// L4, F7: Resign cancels a Read under way and waits for it; its bytes are dropped, and no call on the log follows.
func TestL4BytesOfAReadThatResignOvertookAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := g.leadScripted(0)
		q := g.lead(1)
		time.Sleep(time.Millisecond)
		// given a Read that notices its context after a while, and then returns bytes all the same
		reading, slow := make(chan struct{}), 20*time.Millisecond
		log.script(func(s *scripted) {
			s.read = func(ctx context.Context, offset int64, dst []byte) (int, error) {
				close(reading)
				<-ctx.Done()
				time.Sleep(slow)
				return p.log.Read(context.WithoutCancel(ctx), offset, dst)
			}
		})
		p.append("overtaken")
		<-reading

		// when the leadership is resigned meanwhile
		start := time.Now()
		p.lead.Resign()

		// then Resign has waited, and no more than that
		assert.Equal(t, slow, time.Since(start))
		calls := log.readCalls()
		p.lead.Notify()
		q.append("goes on")
		g.flush()
		assert.Equal(t, calls, log.readCalls(), "nothing starts after Resign: F7")
		assert.Empty(t, g.of(p))
		q.requireWhole()
		assert.Empty(t, seen(g, &g.failed), "a cancelled read is no failure of the partition")
	})
}

// L4: a Lead in a higher epoch returns at once although a Read of the older one is under way, whose bytes are dropped.
func TestL4BytesOfAReadThatALeadOvertookAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := g.leadScripted(0)
		time.Sleep(time.Millisecond)
		reading := make(chan struct{})
		log.script(func(s *scripted) {
			s.read = func(ctx context.Context, offset int64, dst []byte) (int, error) {
				close(reading)
				<-ctx.Done() // Lead cancels it
				time.Sleep(20 * time.Millisecond)
				return p.log.Read(context.WithoutCancel(ctx), offset, dst)
			}
		})
		p.append("old")
		<-reading

		start := time.Now()
		newer := g.leadLog(p.tp, p.log, 2)
		assert.Zero(t, time.Since(start), "and does not wait for it")
		newer.append("new")
		g.flush()

		assert.Less(t, time.Since(start), 50*time.Millisecond)
		require.Len(t, g.of(p), 1)
		newer.requireWhole()
	})
}

// redpanda-data/redpanda#4007, redpanda-data/redpanda#11892, redpanda-data/redpanda#10242: what a leader has sealed is
// published unchanged, under the epochs captured then, whatever it leads by then: object key and event name one broker
// epoch, and the slice the leader epoch of its bytes.
func TestRedpanda4007EpochsAreCapturedOnce(t *testing.T) {
	for name, after := range map[string]func(g *rig, p *part) *part{
		"another broker leads now": func(_ *rig, p *part) *part {
			p.lead.Resign()
			return nil
		},
		"led again in epoch 3": func(g *rig, p *part) *part {
			p.lead.Resign()
			p.log.TruncateTo(0)
			return g.leadLog(p.tp, p.log, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				// given a sealed segment whose Put is held up
				gate := make(chan struct{})
				g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Wait: gate} })
				p := g.lead(0)
				p.append("a", "b")
				time.Sleep(20 * time.Millisecond)
				require.Len(t, seen(g, &g.sealed), 1)
				sealed := seen(g, &g.sealed)[0]

				// when leadership changes, and only then the Put goes through
				again := after(g, p)
				if again != nil {
					again.append("c")
				}
				synctest.Wait()
				close(gate)
				g.onPut(nil)
				g.flush()

				// then the event says epoch 1, as the object does
				all := g.of(p)
				require.NotEmpty(t, all)
				assert.Equal(t, int32(1), all[0].LeaderEpoch)
				assert.Equal(t, sealed.ID, all[0].id)
				assert.Equal(t, brokerEpoch, all[0].id.BrokerEpoch)
				if again != nil {
					again.requireWhole()
				}
			})
		})
	}
}

// H3: a partition resigned before publication changes nothing in the event: it tiles its body, and the other partitions
// of the segment are published.
func TestH3ResignBeforePublicationLeavesTheEventWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		gate := make(chan struct{})
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Wait: gate} })
		p, q := g.lead(0), g.lead(1)
		p.append("p")
		q.append("q")
		time.Sleep(20 * time.Millisecond)

		p.lead.Resign()
		close(gate)
		g.flush()

		require.Len(t, g.events(), 1)
		assert.Equal(t, 2, g.events()[0].Segment.Slices())
		q.requireWhole() // by way of VerifyObject: the event is what the object says
	})
}

// An uploader that does not lead a partition any more keeps nothing of it.
func TestResignForgetsThePartition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		var leads []*leader.Leadership
		for p := range int32(100) {
			leads = append(leads, g.leadLog(partitionOf(p), memory.New(memory.Config{}), 1).lead)
		}
		assert.Equal(t, 100, g.up.Stats().Partitions)
		for _, l := range leads {
			l.Resign()
			l.Resign()
			l.Notify()
		}
		g.flush()
		assert.Zero(t, g.up.Stats().Partitions)
		assert.Zero(t, g.driver.Calls("Put"), "no bytes, no object: L8")
	})
}
