package leader_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata/memlog"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// AutoMQ/automq#3033: under back-pressure no two segments claim the same offsets: with several appenders and Puts held up,
// the slices are one run.
func TestAutoMQ3033NoOffsetIsClaimedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.TargetBytes = 4 << 10 })
		defer g.close()
		gate := make(chan struct{})
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Wait: gate} })
		p := g.lead(0)
		var appenders sync.WaitGroup
		for i := range 2 {
			appenders.Go(func() {
				for j := range 500 {
					_, _, err := p.log.Append(g.ctx, 1, batchtest.Make(0, 0, fmt.Sprint(i, "-", j)))
					assert.NoError(t, err)
					p.lead.Notify()
					time.Sleep(time.Duration(i+1) * 300 * time.Microsecond)
				}
			})
		}
		time.Sleep(150 * time.Millisecond)
		close(gate)
		g.onPut(nil)
		appenders.Wait()
		g.flush()
		p.requireWhole()
	})
}

// In real time, with the race detector: brokers append, notify, resign, lead again, flush and look at the figures all at
// once, and in the end every partition's last epoch is whole.
func TestConcurrentUse(t *testing.T) {
	g := newRig(t, func(c *leader.Config) { c.Linger = time.Millisecond; c.TargetBytes = 8 << 10; c.Random = nil })
	defer g.close()
	g.driver.Fault(nil)
	var users sync.WaitGroup
	parts := make([]*part, 8)
	for i := range parts {
		users.Go(func() {
			p := g.lead(int32(i))
			for epoch := int32(2); epoch < 6; epoch++ {
				for range 50 {
					p.append("x")
				}
				if epoch%2 == 0 {
					p.lead.Resign()
				}
				p = g.leadLog(p.tp, p.log, epoch)
				p.append("y")
				_ = g.up.Stats()
			}
			parts[i] = p
		})
	}
	users.Wait()
	g.flush()
	for _, p := range parts {
		p.requireWhole()
	}
	assert.Equal(t, upTo(len(g.events())), g.sequences())
}

// D2, D3: one seed gives one trace, with faults and latencies that are a function of the segment and of the call.
func TestD3OneSeedOneTrace(t *testing.T) {
	trace := func(t *testing.T, seed uint64) (trace []string) {
		bubble(t, func(t *testing.T) {
			g := newRig(t, func(c *leader.Config) {
				c.Seed, c.TargetBytes = seed, 8<<10
				c.Random = rand.NewChaCha8([32]byte{byte(seed)})
			})
			defer g.close()
			g.onPut(func(call storemem.Call) storemem.Fault {
				h := fnv.New64a()
				h.Write(call.Segment.UUID[:])
				return storemem.Fault{Delay: time.Duration(h.Sum64() % 40_000_000)}
			})
			g.publishFaults(func(call memlog.PublishCall) memlog.PublishFault {
				if call.Number%7 == 3 {
					return memlog.PublishFault{Err: fmt.Errorf("strange"), Stored: 1, Delay: 3 * time.Millisecond}
				}
				return memlog.PublishFault{}
			})
			random := rand.New(rand.NewPCG(seed, 1))
			var parts []*part
			for i := range int32(12) {
				parts = append(parts, g.lead(i))
			}
			for range 250 {
				for range random.IntN(4) { // several in one instant
					parts[random.IntN(len(parts))].appendSized(100 + random.IntN(900))
				}
				time.Sleep(time.Duration(random.IntN(3_000_000)))
			}
			g.flush()
			for _, p := range parts {
				p.requireWhole()
			}
			for _, s := range g.slices() {
				trace = append(trace, fmt.Sprint(s.sequence, s.id, s.Slice))
			}
			for _, p := range seen(g, &g.published) {
				trace = append(trace, fmt.Sprint(p))
			}
		})
		return trace
	}
	for seed := range uint64(5) {
		first := trace(t, seed)
		require.NotEmpty(t, first)
		require.Equal(t, first, trace(t, seed), "seed %d", seed)
	}
}
