package leader_test

import (
	"context"
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

// L9, L10: a log that hangs until its read is cancelled, again and again, has a small part of the time, and the others
// have the rest: they are current again between its tries, and skip once for each try at most.
func TestL9ALogThatHangsDoesNotStarveTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := g.leadScripted(0)
		q := g.lead(1)
		time.Sleep(time.Millisecond)
		log.script(func(s *scripted) {
			s.read = func(ctx context.Context, _ int64, _ []byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
		})
		tries := log.readCalls()
		const seconds = 5 * 60
		for range seconds * 20 {
			p.append("hangs")
			q.append("tick")
			time.Sleep(50 * time.Millisecond)
		}
		tries = log.readCalls() - tries
		assert.GreaterOrEqual(t, tries, 3, "it is tried again")
		assert.LessOrEqual(t, tries, 10)
		skips, lost := 0, int64(0)
		for _, s := range seen(g, &g.skipped) {
			if s.Partition == q.tp {
				skips, lost = skips+1, lost+s.To-s.From
			}
		}
		assert.LessOrEqual(t, skips, tries)
		assert.Less(t, lost, int64(seconds*20/6), "most of the others' records go through the store")
		assert.Equal(t, 1, g.up.Stats().FailedPartitions)
	})
}
