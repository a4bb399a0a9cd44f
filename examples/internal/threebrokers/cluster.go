package threebrokers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/walstorage/segment"
)

// cluster is three brokers and a controller, which is this program: it says who leads.
type cluster struct {
	ctx     context.Context // ends when the cluster closes
	cancel  context.CancelFunc
	brokers []*broker
	latency latencies

	mu         sync.Mutex
	partitions []*replicated
	changed    chan struct{} // closed and replaced after each append by a follower
}

// replicated is a partition and its three replicas; the first one leads.
type replicated struct {
	segment.TopicIDPartition
	replicas []*partition
}

func (r *replicated) leader() *partition { return r.replicas[0] }

// newCluster starts the brokers.
func newCluster(config Config) (c *cluster, err error) {
	c = &cluster{changed: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	cfg := brokerConfig{
		cluster: config.Cluster, linger: config.Linger, peers: c.broker, appended: c.appended,
		store: config.Store, announcements: config.Announcements,
		// A real broker gets its epoch from the controller at each registration.
		epoch: time.Now().UnixMilli(),
	}
	for id := range int32(3) {
		cfg.id, cfg.logger = id, slog.Default().With("broker", id)
		b, err := newBroker(c.ctx, cfg)
		if err != nil {
			return c, fmt.Errorf("broker %d: %w", id, err)
		}
		c.brokers = append(c.brokers, b)
	}
	// Each leader learns of each registration before the first report: what a broker reported before it restarted counts no
	// longer.
	for _, b := range c.brokers {
		for _, other := range c.brokers {
			b.tracker.Registered(other.id, other.epoch)
		}
	}
	return c, nil
}

func (c *cluster) close() {
	c.cancel()
	for _, b := range c.brokers {
		b.reporter.Close() // all of them first, or each would warn of the leaders that have gone before it
	}
	for _, b := range c.brokers {
		b.close()
	}
}

func (c *cluster) broker(id int32) *broker { return c.brokers[id] }

// create makes a partition of a topic, with a replica on each broker. Leaders go round.
func (c *cluster) create(topic string, topicID uuid.UUID, number int32) *replicated {
	c.mu.Lock()
	first := len(c.partitions) % len(c.brokers)
	c.mu.Unlock()
	r := &replicated{TopicIDPartition: segment.TopicIDPartition{TopicID: topicID, Topic: topic, Partition: number}}
	var ids []int32
	for i := range c.brokers {
		ids = append(ids, c.brokers[(first+i)%len(c.brokers)].id)
	}
	for _, id := range ids {
		r.replicas = append(r.replicas, c.brokers[id].add(r.TopicIDPartition, ids))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitions = append(c.partitions, r)
	return r
}

// elect begins a new leader epoch of the partition and returns when both followers have made their first ordinary fetch of
// it: what the leader appends from then on goes through the store.
func (c *cluster) elect(r *replicated, epoch int32) error {
	if err := r.leader().lead(epoch); err != nil {
		return err
	}
	for _, p := range r.replicas[1:] {
		if err := p.follow(r.leader().broker.id, epoch); err != nil {
			return err
		}
	}
	return c.await(patience, func() bool {
		for _, p := range r.replicas[1:] {
			p.mu.Lock()
			following := p.following
			p.mu.Unlock()
			if following.State().Kind == follower.Starting {
				return false
			}
		}
		return true
	})
}

// appended is called after each append from the store.
func (c *cluster) appended(a follower.Appended) {
	c.latency.arrived(a, time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

var errTimeout = errors.New("the followers have not caught up in time")

// await waits until the condition holds. It looks again after each append, and every few milliseconds, since not
// everything that moves is an append.
func (c *cluster) await(limit time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeoutCause(c.ctx, limit, errTimeout)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// all returns the partitions.
func (c *cluster) all() []*replicated {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*replicated(nil), c.partitions...)
}

// caughtUp tells whether both followers of the partition have what the leader has.
func (r *replicated) caughtUp() bool {
	end, _ := r.leader().log.End()
	for _, p := range r.replicas[1:] {
		if at, _ := p.log.End(); at < end {
			return false
		}
	}
	return true
}

// settle waits until every follower has everything.
func (c *cluster) settle(limit time.Duration) error {
	return c.await(limit, func() bool {
		for _, r := range c.all() {
			if !r.caughtUp() {
				return false
			}
		}
		return true
	})
}
