package leader_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
)

// The whole way: what several partitions append within a linger becomes one segment, stored first, published second.
func TestAppendsOfManyPartitionsBecomeOneSegment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// given three partitions
		g := newRig(t, nil)
		defer g.close()
		a, b, c := g.lead(0), g.lead(1), g.lead(2)

		// when each gets a batch or two within the linger
		b.append("b0", "b1")
		time.Sleep(3 * time.Millisecond)
		a.append("a0")
		c.append("c0")
		time.Sleep(3 * time.Millisecond)
		b.append("b2")
		start := time.Now()
		g.flush()

		// then one segment holds them all, byte for byte, once
		require.Len(t, g.events(), 1)
		for _, p := range []*part{a, b, c} {
			p.requireWhole()
		}
		assert.Equal(t, 1, g.driver.Calls("Put"))
		// and Flush has not waited for the linger, but for a Put and a Publish
		assert.Less(t, time.Since(start), putLatency+2*time.Millisecond)
		p := seen(g, &g.published)
		require.Len(t, p, 1)
		assert.Equal(t, 3, p[0].Slices)
		assert.Equal(t, int64(0), p[0].Sequence)
		assert.Equal(t, putLatency, p[0].Stored)
		assert.Equal(t, leader.SealFlush, seen(g, &g.sealed)[0].Reason)
	})
}

// L8: a segment closes a linger after its first byte, without anybody asking.
func TestSegmentClosesAfterTheLinger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		time.Sleep(time.Second)
		start := time.Now()

		p.append("a")
		time.Sleep(10*time.Millisecond + putLatency + time.Millisecond + time.Microsecond)

		require.Len(t, g.events(), 1)
		p.requireWhole()
		sealed := seen(g, &g.sealed)
		require.Len(t, sealed, 1)
		assert.Equal(t, leader.SealLinger, sealed[0].Reason)
		assert.Equal(t, 10*time.Millisecond, sealed[0].Open)
		assert.Less(t, time.Since(start), 22*time.Millisecond)
	})
}
