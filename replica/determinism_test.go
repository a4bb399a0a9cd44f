package replica_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/replica"
)

// D2: the same things at the same times make the same messages at the same times, as long as no two that have to do with
// each other share an instant.
func TestMessagesAreDeterministic(t *testing.T) {
	run := func(t *testing.T) (trace []string) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var mu sync.Mutex
			x := newPair(t, 703_117*time.Nanosecond, func(c *replica.ReporterConfig) {
				send := c.Send
				c.Send = func(ctx context.Context, id int32, r replica.Reports) ([]replica.Answer, error) {
					mu.Lock()
					trace = append(trace, fmt.Sprint(time.Since(start), r.Counter, r.Full, r.Parts))
					mu.Unlock()
					return send(ctx, id, r)
				}
			})
			for i := range int32(20) {
				x.leader.lead(t, partition(i+1), 5, followerID)
				x.follower.follow(t, partition(i+1), 5, nil)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			appended := x.store(t, ctx, 30_000_331*time.Nanosecond)
			for i := range 500 {
				x.led.append(t)
				appended()
				if i == 200 {
					x.net.set(func(n *network) { n.down = true })
				}
				if i == 300 {
					x.net.set(func(n *network) { n.down = false })
				}
				time.Sleep(1_300_077 * time.Nanosecond)
			}
			settle(2 * time.Second)
			cancel()
			x.follower.reporter.Close()
			synctest.Wait()
		})
		return trace
	}
	first := run(t)
	assert.Greater(t, len(first), 100)
	for range 5 {
		again := run(t)
		assert.Len(t, again, len(first))
		for i := range min(len(first), len(again)) {
			require.Equal(t, first[i], again[i], "message %d", i)
		}
	}
}
