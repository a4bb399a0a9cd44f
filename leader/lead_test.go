package leader_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// L7, redpanda-data/redpanda#9759: a Lead begins at its epoch's start, which its own log tells and no view of what was
// published before, so the end never seems to go back; what lies below is for the followers' first fetch.
func TestL7LeadBeginsAtItsEpochsStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		// given a log with three batches of older epochs
		log := memory.New(memory.Config{})
		require.NoError(t, log.AppendRaw(g.ctx, batchtest.Make(0, 0, "a", "b")))
		require.NoError(t, log.AppendRaw(g.ctx, batchtest.Make(2, 0, "c")))
		require.NoError(t, log.AppendRaw(g.ctx, batchtest.Make(3, 2, "d")))

		// when epoch 5 is led and gets a batch
		p := g.leadLog(partitionOf(0), log, 5)
		p.append("e")
		g.flush()

		// then only that is published
		all := g.of(p)
		require.Len(t, all, 1)
		assert.Equal(t, int64(4), all[0].BaseOffset)
		assert.Equal(t, int64(4), all[0].EpochStart)
		assert.Equal(t, int32(5), all[0].LeaderEpoch)
		p.requireWhole()
	})
}

// L7, H2, redpanda-data/redpanda#8959: a Lead whose epoch has batches already publishes them without waiting for
// traffic, as after a restart between the upload and the publication: nobody notifies any more.
func TestL7LeadIsDirtyFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		// given a log that has grown in epoch 1 before the uploader was told
		log := memory.New(memory.Config{})
		start, err := log.Lead(1)
		require.NoError(t, err)
		_, _, err = log.Append(g.ctx, 1, batchtest.Make(0, 0, "pending"))
		require.NoError(t, err)

		// when it is led and nothing is ever appended or notified again
		lead, err := g.up.Lead(partitionOf(0), 1, start, log)
		require.NoError(t, err)
		time.Sleep(time.Second)

		// then it is published
		p := &part{g: g, tp: partitionOf(0), log: log, lead: lead, epoch: 1}
		p.requireWhole()
	})
}

// L7, H2: the epoch already led gives the same handle and restarts nothing, a lower one is refused, a higher one ends
// the older handle.
func TestL7LeadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		p.append("a")
		g.flush()

		// when the same epoch is led again, as a broker does at every change of the partition's other state
		again, err := g.up.Lead(p.tp, 1, 0, p.log)
		require.NoError(t, err)
		assert.Same(t, p.lead, again)
		g.flush()
		// then nothing is uploaded twice
		assert.Len(t, g.events(), 1)

		// a lower epoch is refused and changes nothing
		_, err = g.up.Lead(p.tp, 0, 0, p.log)
		require.ErrorIs(t, err, leader.ErrStaleEpoch)
		var stale *leader.StaleEpochError
		require.ErrorAs(t, err, &stale)
		assert.Equal(t, int32(1), stale.Newest)

		// a higher epoch is a new handle; the old one's late calls hit nothing
		newer := g.leadLog(p.tp, p.log, 2)
		assert.NotSame(t, p.lead, newer.lead)
		p.lead.Resign()
		p.lead.Notify()
		newer.append("b")
		g.flush()
		newer.requireWhole()
		assert.Equal(t, 1, g.up.Stats().Partitions)
	})
}

// B6, R8: an epoch is never led twice. Led again after a crash that lost unflushed records, the same epoch would give
// the same offsets other bytes, and nothing on the follower could tell.
func TestR8AnEpochIsNotLedAgainAfterResign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		p.append("r0")
		p.lead.Resign()
		for _, epoch := range []int32{0, 1} {
			_, err := g.up.Lead(p.tp, epoch, 0, p.log)
			require.ErrorIs(t, err, leader.ErrStaleEpoch, "epoch %d", epoch)
		}
		newer := g.leadLog(p.tp, p.log, 2)
		newer.append("r1")
		g.flush()
		newer.requireWhole()
		// another topic of the same name and partition is another partition
		other := segment.TopicIDPartition{TopicID: uuid.UUID{15: 9}, Topic: "orders"}
		_, err := g.up.Lead(other, 0, 0, memory.New(memory.Config{}))
		assert.NoError(t, err)
	})
}

func TestLeadRefusesWhatCannotBe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		log := memory.New(memory.Config{})
		for what, lead := range map[string]func() error{
			"topic id": func() error {
				_, err := g.up.Lead(segment.TopicIDPartition{Topic: "t"}, 0, 0, log)
				return err
			},
			"topic name": func() error {
				_, err := g.up.Lead(segment.TopicIDPartition{TopicID: uuid.UUID{1}}, 0, 0, log)
				return err
			},
			"partition": func() error { _, err := g.up.Lead(partitionOf(-1), 0, 0, log); return err },
			"leader epoch": func() error {
				_, err := g.up.Lead(partitionOf(0), -1, 0, log)
				return err
			},
			"epoch start": func() error { _, err := g.up.Lead(partitionOf(0), 0, -1, log); return err },
			"log":         func() error { _, err := g.up.Lead(partitionOf(0), 0, 0, nil); return err },
		} {
			err := lead()
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument, what)
			assert.ErrorContains(t, err, what)
		}
	})
}
