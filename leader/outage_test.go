package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

const (
	outagePartitions = 6
	outageRate       = 25 << 20 / scale // bytes a second
	outageBatch      = 16 << 10 / scale
	outageFetch      = 1 << 20 / scale // of an ordinary fetch
	outageTarget     = 256 << 10 / scale
	outageTick       = time.Second * outagePartitions * outageBatch / outageRate
	outageWarmUp     = time.Second
	// outageBack is how soon after the store is back everything must be current.
	outageBack = 2 * time.Second
)

// TestOutage takes the store away from a leader with 25 MB/s and its two followers, for 2 s and for 10 s, with 8 uploads
// in flight and Puts of 10 ms. L1: no append waits, and the leader's memory stays bounded. L11: after 2 s nothing is
// skipped and all is caught up within 2 s; after 10 s the tail is current within 2 s. F5: each follower falls back once
// per partition, in any number of ranges, and comes back; and both have the leader's log, byte for byte.
func TestOutage(t *testing.T) {
	short, long := runOutage(t, 2*time.Second), runOutage(t, 10*time.Second)

	assert.Zero(t, short.skips, "2 s: nothing is skipped")
	assert.Positive(t, long.skips, "10 s: the middle is skipped")
	for _, r := range []*outage{short, long} {
		assert.Less(t, r.current, outageBack, "%s: current again", r.lasts)
		assert.Zero(t, r.delayed, "%s: no append waits", r.lasts)
		assert.LessOrEqual(t, r.peak, int64((8+2)*outageTarget), "%s: memory at the leader", r.lasts)
		assert.Zero(t, r.differences, "%s: differences", r.lasts)
		for follower, fallbacks := range r.fallbacks {
			assert.Len(t, fallbacks, outagePartitions, "%s: follower %d: every partition fell back", r.lasts, follower)
			for p, n := range fallbacks {
				assert.Equal(t, 1, n, "%s: follower %d, partition %d: one fallback", r.lasts, follower, p.Partition)
			}
		}
		assert.Zero(t, r.inFallback, "%s: partitions still in a fallback", r.lasts)
		t.Logf("%s: current after %s, %d skips of %d batches, %d of %d segments given up", r.lasts, r.current, r.skips, r.skippedBatches, r.givenUp, r.sealed)
	}
	if scale > 1 {
		t.Logf("at a %dth of the load and of TargetBytes, for the race detector's sake", scale)
	} else if !t.Failed() {
		fmt.Printf("outage: 2s %d skipped, 10s %d skipped, append delayed %s, peak %.1f MiB, %d differences\n",
			short.skips, long.skips, max(short.delayed, long.delayed), float64(max(short.peak, long.peak))/(1<<20),
			short.differences+long.differences)
	}
}

// outage is what one run has shown.
type outage struct {
	lasts          time.Duration
	skips          int64
	skippedBatches int64
	sealed         int64
	givenUp        int64
	current        time.Duration // from the store's return until all lag is gone and no follower is in a fallback
	delayed        time.Duration // the longest that an append and its Notify took
	peak           int64         // bytes held by the leader for segments
	differences    int
	fallbacks      []map[segment.PartitionKey]int // by follower
	inFallback     int
}

// runOutage runs a leader and two followers under load and takes the store away for a time.
func runOutage(t *testing.T, lasts time.Duration) *outage {
	r := &outage{lasts: lasts}
	bubble(t, func(t *testing.T) {
		c := newOutageCluster(t)
		start := time.Now()
		down, up := start.Add(outageWarmUp), start.Add(outageWarmUp+lasts)
		payload := batchtest.Sized(0, 0, outageBatch, 'x')
		for now := start; now.Before(up.Add(2 * outageBack)); now = time.Now() {
			c.down(!now.Before(down) && now.Before(up))
			for _, p := range c.parts {
				_, _, err := p.log.Append(t.Context(), 1, payload)
				require.NoError(t, err)
				p.lead.Notify()
			}
			r.delayed = max(r.delayed, time.Since(now))
			if now.Before(up) {
				r.current = 0
			} else if r.current == 0 && c.current() {
				r.current = now.Sub(up)
			}
			r.differences += c.compare()
			time.Sleep(outageTick)
		}
		if r.current == 0 {
			r.current = time.Hour // never
		}
		require.NoError(t, c.up.Flush(t.Context()))
		time.Sleep(100 * time.Millisecond) // the last events reach the followers
		for _, f := range c.followers {
			r.inFallback += f.r.Stats().InFallback
			r.fallbacks = append(r.fallbacks, f.fallbacks)
			for _, p := range c.parts {
				end, _ := p.log.End()
				if got, _ := f.logs[p.tp.Key()].End(); got != end {
					r.differences++
				}
			}
		}
		r.differences += c.compare()
		s := c.up.Stats()
		r.skips, r.skippedBatches, r.peak = s.Skips, s.SkippedOffsets, s.PeakBufferBytes
		r.sealed, r.givenUp = s.Sealed, s.GivenUp
		c.close()
	})
	return r
}

// outageCluster is one leader and two followers, each with its own handles on one store and one metadata topic.
type outageCluster struct {
	t         *testing.T
	up        *leader.Uploader
	parts     []*part
	followers []*outageFollower
	closers   []func() error
	cancel    context.CancelFunc
	reports   sync.WaitGroup
	want, got []byte // scratch of compare

	mu     sync.Mutex
	isDown bool
}

// outageFollower is one follower with its logs.
type outageFollower struct {
	r    *follower.Replicator
	logs map[segment.PartitionKey]*memory.Log
	// compared is up to where a partition's log has been found equal to the leader's, and dropped.
	compared map[segment.PartitionKey]int64

	mu        sync.Mutex
	fallbacks map[segment.PartitionKey]int
}

func newOutageCluster(t *testing.T) *outageCluster {
	c := &outageCluster{t: t, want: make([]byte, outageFetch), got: make([]byte, outageFetch)}
	store := storemem.NewStore()
	topic, err := memlog.New(memlog.Config{})
	require.NoError(t, err)
	open := func(broker int32, epoch int64) (*objectstore.Manager, *memlog.Log) {
		driver := storemem.New(storemem.Config{Store: store})
		driver.Fault(func(call storemem.Call) storemem.Fault {
			c.mu.Lock()
			defer c.mu.Unlock()
			latency := map[string]time.Duration{"Put": putLatency, "Get": 4 * time.Millisecond, "Stat": 2 * time.Millisecond}[call.Method]
			if c.isDown {
				return storemem.Fault{Delay: latency, Err: walstorage.NewError(walstorage.ErrUnavailable, errors.New("503"))}
			}
			return storemem.Fault{Delay: latency}
		})
		manager, err := objectstore.New(driver, objectstore.Config{Cluster: cluster, Seed: uint64(broker)})
		require.NoError(t, err)
		log, err := topic.Open(memlog.Options{Broker: broker, BrokerEpoch: epoch, Faults: memlog.Faults{
			Publish: func(memlog.PublishCall) memlog.PublishFault { return memlog.PublishFault{Delay: time.Millisecond} },
			Deliver: func(memlog.Delivery) memlog.DeliveryFault { return memlog.DeliveryFault{Delay: time.Millisecond} },
		}})
		require.NoError(t, err)
		c.closers = append(c.closers, manager.Close, log.Close)
		return manager, log
	}

	manager, meta := open(broker, brokerEpoch)
	c.up, err = leader.New(leader.Config{
		Storage: manager, Metadata: meta, Cluster: cluster, Broker: broker, BrokerEpoch: brokerEpoch,
		TargetBytes: outageTarget, Random: rand.NewChaCha8([32]byte{1}),
	})
	require.NoError(t, err)
	for p := range int32(outagePartitions) {
		log := memory.New(memory.Config{})
		start, err := log.Lead(1)
		require.NoError(t, err)
		lead, err := c.up.Lead(partitionOf(p), 1, start, log)
		require.NoError(t, err)
		c.parts = append(c.parts, &part{tp: partitionOf(p), log: log, lead: lead, epoch: 1})
	}

	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	for id := int32(2); id <= 3; id++ {
		f := &outageFollower{
			logs: map[segment.PartitionKey]*memory.Log{}, compared: map[segment.PartitionKey]int64{},
			fallbacks: map[segment.PartitionKey]int{},
		}
		manager, meta := open(id, 1)
		f.r, err = follower.New(follower.Config{
			Storage: manager, Metadata: meta, Leader: &outageFetcher{c: c, f: f}, Cluster: cluster,
			Hooks: follower.Hooks{StateChanged: func(p segment.TopicIDPartition, s follower.State) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if s.Kind == follower.Fallback {
					f.fallbacks[p.Key()]++
				}
			}},
		})
		require.NoError(t, err)
		for _, p := range c.parts {
			log := memory.New(memory.Config{})
			require.NoError(t, log.Follow(1))
			f.logs[p.tp.Key()] = log
		}
		for _, p := range c.parts {
			following, err := f.r.Follow(p.tp, broker, 1, f.logs[p.tp.Key()])
			require.NoError(t, err)
			c.reports.Go(func() { // the usual fetch request, which carries offsets and brings back the leader's
				for ctx.Err() == nil {
					end, _ := p.log.End()
					following.Observe(end)
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		c.followers = append(c.followers, f)
	}
	return c
}

func (c *outageCluster) down(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isDown = down
}

// current tells whether the uploader has nothing that is older than a few lingers, and every follower's path is the
// store again.
func (c *outageCluster) current() bool {
	if c.up.Stats().Lag > 50*time.Millisecond {
		return false
	}
	for _, f := range c.followers {
		if f.r.Stats().InFallback > 0 {
			return false
		}
	}
	return true
}

// compare compares what the followers have appended since the last time with the leader's bytes, returns how many runs of
// batches differ, and drops what is old, so that minutes of load need no gigabytes.
func (c *outageCluster) compare() (differences int) {
	want, got := c.want, c.got
	for _, p := range c.parts {
		for _, f := range c.followers {
			log := f.logs[p.tp.Key()]
			from := f.compared[p.tp.Key()]
			end, _ := log.End()
			if end-from < 32 && end < 32 {
				continue
			}
			for from < end {
				n, err := log.Read(c.t.Context(), from, got)
				require.NoError(c.t, err)
				m, err := p.log.Read(c.t.Context(), from, want[:n])
				require.NoError(c.t, err)
				if !bytes.Equal(got[:n], want[:m]) {
					differences++
				}
				from += int64(n / outageBatch)
			}
			f.compared[p.tp.Key()] = from
			require.NoError(c.t, log.DeleteRecords(max(0, from-16)))
		}
	}
	return differences
}

func (c *outageCluster) close() {
	c.cancel()
	c.reports.Wait()
	for _, f := range c.followers {
		require.NoError(c.t, f.r.Close(context.Background()))
	}
	require.NoError(c.t, c.up.Close(context.Background()))
	for _, f := range slices.Backward(c.closers) {
		require.NoError(c.t, f())
	}
}

// outageFetcher is the ordinary replica fetch: outageFetch bytes and 2 ms each.
type outageFetcher struct {
	c       *outageCluster
	f       *outageFollower
	buffers sync.Pool
}

func (o *outageFetcher) FetchFromLeader(ctx context.Context, p segment.TopicIDPartition, epoch int32, to int64) (int64, error) {
	from, log := o.c.parts[p.Partition].log, o.f.logs[p.Key()]
	pooled, ok := o.buffers.Get().(*[outageFetch]byte)
	if !ok {
		pooled = new([outageFetch]byte)
	}
	defer o.buffers.Put(pooled)
	buffer := pooled[:]
	for {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		end, _ := log.End()
		leo, _ := from.End()
		if to < 0 {
			to = leo
		}
		if end >= to {
			return leo, nil
		}
		n, err := from.Read(ctx, end, buffer[:min(len(buffer), int(to-end)*outageBatch)])
		if err != nil {
			return leo, err
		}
		if err := log.AppendAsFollower(ctx, epoch, end, buffer[:n]); err != nil {
			return leo, err
		}
		if end, _ := log.End(); end >= to {
			return leo, nil
		}
	}
}
