package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// TestDiffers: what holds replicas against each other where they are committed notices each way in which one can be wrong,
// and says nothing of what may be otherwise.
func TestDiffers(t *testing.T) {
	t.Parallel()
	history(t, "logs held against each other", Config{Replicas: [][]int32{{1, 2}}}, func(t *testing.T, c *Cluster) {
		part := c.Part(0)
		c.Produce(part, 5)
		c.AwaitConverged(stalled)
		c.Until(stalled, "all is committed", func() bool { return c.HighWatermark(part, 1) == 5 })
		good := c.disk(part, 2)
		var all [][]byte
		scanner := batch.NewScanner(good.log.Bytes(0))
		for scanner.Next() {
			all = append(all, scanner.Bytes())
		}
		require.Len(t, all, 5)
		epoch := c.controller.view(part).epoch

		// A disk of the follower with these batches in place of what it has.
		with := func(batches ...[]byte) *disk {
			log := memory.New(memory.Config{})
			for _, raw := range batches {
				require.NoError(t, log.AppendRaw(context.Background(), raw))
			}
			return &disk{cluster: c, part: part, broker: 2, who: "another", log: log, checkedEpoch: good.checkedEpoch, sameEpoch: -1}
		}
		require.Equal(t, epoch, good.checkedEpoch)
		leader := c.disk(part, 1)
		for name, log := range map[string]struct {
			disk  *disk
			to    int64
			wrong string
		}{
			"all of it":           {with(all...), 5, ""},
			"a prefix":            {with(all[:3]...), 5, ""},
			"a hole":              {with(all[0], all[1], all[3]), 5, "has no batch at 2"},
			"another batch":       {with(all[0], batchtest.Make(1, epoch, "x"), all[2]), 5, "another batch at 1"},
			"another uncommitted": {with(all[0], batchtest.Make(1, epoch, "x"), all[2]), 1, ""},
		} {
			wrong := log.disk.differs(leader, epoch, log.to)
			if log.wrong == "" {
				require.Empty(t, wrong, name)
			} else {
				require.Contains(t, wrong, log.wrong, name)
			}
		}
		require.Empty(t, with(all[1:]...).differs(leader, epoch+1, 5), "it has taken nothing in that epoch")

		// What its leader has not, though it is committed.
		short := with(all[0], all[2], all[3], all[4])
		short.broker = 1
		require.Contains(t, good.differs(short, epoch, 5), "at 1 that its leader 1 has not")

		// The next look begins where the last one ended.
		once := with(all[:3]...)
		require.Empty(t, once.differs(leader, epoch, 5))
		require.Equal(t, int64(3), once.sameTo)
	})
}
