package leader_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// L9: a partition that has a hundred segments to upload does not hold up one that has a single batch, and the other way
// round takes what the others leave.
func TestL9NoPartitionStarvesAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// given a store with room for one upload at a time, and a hot partition far ahead
		g := newRig(t, func(c *leader.Config) { c.MaxInFlightUploads = 1; c.MaxBacklogAge = time.Hour })
		defer g.close()
		hot := g.lead(0)
		var quiet []*part
		for i := range int32(9) {
			quiet = append(quiet, g.lead(i+1))
		}
		for range 600 { // 7.6 MiB
			hot.appendSized(13 << 10)
		}
		time.Sleep(50 * time.Millisecond)

		// when the quiet ones get one batch each
		start := time.Now()
		for _, q := range quiet {
			q.append("quiet")
		}
		// then they are published within the next two segments, and the hot one goes on meanwhile
		time.Sleep(45 * time.Millisecond)
		for _, q := range quiet {
			q.requireWhole()
		}
		assert.Less(t, time.Since(start), 50*time.Millisecond)
		assert.GreaterOrEqual(t, len(g.of(hot)), 5)
		g.flush()
		hot.requireWhole()
	})
}

// L9: partitions that all have much to send get equal shares of each segment.
func TestL9EqualSharesOfASegment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.MaxInFlightUploads = 1; c.MaxBacklogAge = time.Hour })
		defer g.close()
		gate := make(chan struct{})
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Wait: gate} })
		var parts []*part
		for i := range int32(8) {
			p := g.lead(i)
			parts = append(parts, p)
		}
		time.Sleep(time.Millisecond)
		for _, p := range parts {
			for range 512 {
				p.appendSized(1 << 10)
			}
		}
		time.Sleep(time.Millisecond)
		close(gate)
		g.onPut(nil)
		g.flush()
		require.Greater(t, len(g.events()), 10)
		for i, e := range g.events()[1 : len(g.events())-1] {
			for entry := range e.Segment.All() {
				assert.InDelta(t, 32<<10, entry.Slice.Length, 4<<10, "segment %d, %s", i+1, entry.Partition)
			}
		}
		for _, p := range parts {
			p.requireWhole()
		}
	})
}
