package threebrokers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/segment"
)

// broker is one broker with walhop in it. A real one has a log on disk in place of memory.Log, and its own network in
// place of the calls between brokers in network.go; all else is as here.
type broker struct {
	id    int32
	epoch int64 // of this start of the broker, never used before
	peers func(id int32) *broker

	storage    *objectstore.Manager // where segments are
	events     metadata.Log         // where they are announced
	uploader   *leader.Uploader     // for the partitions that this broker leads
	tracker    *replica.Tracker
	replicator *follower.Replicator // for those that it follows
	reporter   *replica.Reporter
	sweeper    *retention.Sweeper
	endSweeps  func()

	mu         sync.RWMutex
	partitions map[segment.PartitionKey]*partition
}

// partition is this broker's replica of a partition.
type partition struct {
	segment.TopicIDPartition
	broker   *broker
	replicas []int32
	log      *memory.Log

	mu         sync.Mutex
	leaderID   int32
	epoch      int32
	leadership *leader.Leadership  // while this broker leads
	following  *follower.Following // while it follows
	// highWatermark is the leader's own reckoning, or what its answers told the follower.
	highWatermark atomic.Int64
}

// brokerConfig is what a broker's own configuration would hold.
type brokerConfig struct {
	id            int32
	epoch         int64
	cluster       string
	store         Opener    // of the place that all brokers share for their segments
	announcements Announcer // of the place that they share for their announcements
	linger        time.Duration
	peers         func(id int32) *broker
	appended      func(follower.Appended)
	logger        *slog.Logger // gets a line for each change of state that an operator should see
}

// newBroker puts the parts together.
func newBroker(ctx context.Context, cfg brokerConfig) (b *broker, err error) {
	b = &broker{id: cfg.id, epoch: cfg.epoch, peers: cfg.peers, partitions: map[segment.PartitionKey]*partition{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	// The store. A broker calls the New of its backend here: local.New, s3.New, ...
	b.storage, err = cfg.store(ctx, objectstore.Config{Cluster: cfg.cluster, Seed: uint64(cfg.id), Logger: cfg.logger})
	if err != nil {
		return b, err
	}
	// Connections are opened now, so that the first upload need not wait for them. A broker starts whatever the store says.
	if err := b.storage.Warm(ctx); err != nil {
		cfg.logger.Warn("the store does not answer as it should", "err", err)
	}
	// The metadata log. A broker calls filelog.New or kafkalog.Open here.
	b.events, err = cfg.announcements(ctx, cfg.id, cfg.epoch, cfg.logger)
	if err != nil {
		return b, err
	}
	// Leading: the uploader, and the leader's end of the fetch requests. A real broker stops being one when Hooks.Fenced
	// says that a newer epoch of it is at work (L6).
	b.uploader, err = leader.New(leader.Config{
		Storage: b.storage, Metadata: b.events, Cluster: cfg.cluster, Broker: cfg.id, BrokerEpoch: cfg.epoch,
		Linger: cfg.linger, Seed: uint64(cfg.id), Logger: cfg.logger,
	})
	if err != nil {
		return b, err
	}
	b.tracker, err = replica.NewTracker(replica.TrackerConfig{Partitions: b, Recorded: b.recorded})
	if err != nil {
		return b, err
	}
	// Following: the replicator, and the follower's end of the fetch requests.
	b.replicator, err = follower.New(follower.Config{
		Storage: b.storage, Metadata: b.events, Leader: b, Cluster: cfg.cluster, LeaderMaxLinger: cfg.linger, Seed: uint64(cfg.id),
		Logger: cfg.logger,
		Hooks: follower.Hooks{
			Appended: cfg.appended,
			StateChanged: func(p segment.TopicIDPartition, _ follower.State) {
				b.reporter.Moved(p) // whether the follower wants answers may have changed (B4)
			},
		},
	})
	if err != nil {
		return b, err
	}
	b.reporter, err = replica.NewReporter(replica.ReporterConfig{
		Replica: cfg.id, BrokerEpoch: cfg.epoch, Send: b.send, Answered: b.answered, Seed: uint64(cfg.id), Logger: cfg.logger,
	})
	if err != nil {
		return b, err
	}
	// Retention: what is older than an hour goes.
	b.sweeper, err = retention.New(retention.Config{Storage: b.storage, Broker: cfg.id, Logger: cfg.logger})
	if err != nil {
		return b, err
	}
	sweeps, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.sweeper.Run(sweeps) })
	b.endSweeps = func() {
		cancel()
		running.Wait()
	}
	return b, nil
}

// close ends the parts in the opposite order: first what writes to the logs and reads them, then what they use.
func (b *broker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if b.endSweeps != nil {
		b.endSweeps()
	}
	if b.reporter != nil {
		b.reporter.Close()
	}
	if b.replicator != nil {
		_ = b.replicator.Close(ctx)
	}
	if b.tracker != nil {
		b.tracker.Close()
	}
	if b.uploader != nil {
		_ = b.uploader.Close(ctx)
	}
	if b.events != nil {
		_ = b.events.Close()
	}
	if b.storage != nil {
		_ = b.storage.Close()
	}
}

// add creates this broker's replica of a partition.
func (b *broker) add(id segment.TopicIDPartition, replicas []int32) *partition {
	p := &partition{TopicIDPartition: id, broker: b, replicas: replicas, leaderID: -1, epoch: -1}
	p.log = memory.New(memory.Config{Moved: p.moved})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partitions[id.Key()] = p
	return p
}

// partition returns the replica of a partition, nil if there is none here.
func (b *broker) partition(key segment.PartitionKey) *partition {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.partitions[key]
}

// lead makes this broker the partition's leader in a new epoch: stop following, put the epoch into the log's epoch cache,
// then lead (B5, B6).
func (p *partition) lead(epoch int32) error {
	p.stop()
	start, err := p.log.Lead(epoch)
	if err != nil {
		return err
	}
	p.become(p.broker.id, epoch)
	leadership, err := p.broker.uploader.Lead(p.TopicIDPartition, epoch, start, p.log)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.leadership = leadership
	p.mu.Unlock()
	p.moved() // for an append that came before the handle was there, and since the leader epoch has moved
	return nil
}

// follow makes this broker follow the leader of a new epoch. The log is told first, so that it refuses what a newer epoch
// has overtaken.
func (p *partition) follow(leaderID, epoch int32) error {
	p.stop()
	if err := p.log.Follow(epoch); err != nil {
		return err
	}
	p.become(leaderID, epoch)
	following, err := p.broker.replicator.Follow(p.TopicIDPartition, leaderID, epoch, p.log)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.following = following
	p.mu.Unlock()
	p.broker.reporter.Add(p.TopicIDPartition, leaderID, following, p.log)
	return nil
}

func (p *partition) become(leaderID, epoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaderID, p.epoch = leaderID, epoch
}

// stop ends whatever this broker does with the partition's log. It must not hold p.mu meanwhile: what is under way on the
// log calls moved.
func (p *partition) stop() {
	p.mu.Lock()
	leadership, following := p.leadership, p.following
	p.leadership, p.following = nil, nil
	p.mu.Unlock()
	if leadership != nil {
		leadership.Resign()
		p.broker.tracker.Forget(p.TopicIDPartition)
	}
	if following != nil {
		p.broker.reporter.Remove(p.TopicIDPartition)
		following.Stop()
	}
}

// moved is called by the log when its end or its start has moved.
func (p *partition) moved() {
	p.mu.Lock()
	leadership := p.leadership
	p.mu.Unlock()
	if leadership == nil {
		p.broker.reporter.Moved(p.TopicIDPartition) // B1: after the append
		return
	}
	leadership.Notify()
	p.broker.tracker.Moved(p.TopicIDPartition)
}

// Check makes the checks of an ordinary fetch (B3).
func (b *broker) Check(replicaID int32, brokerEpoch int64, r replica.Report) (replica.Answer, error) {
	p := b.partition(r.Partition.Key())
	if p == nil {
		return replica.Answer{}, replica.ErrNotLeader
	}
	p.mu.Lock()
	leaderID, epoch := p.leaderID, p.epoch
	p.mu.Unlock()
	switch {
	case leaderID != b.id:
		return replica.Answer{}, replica.ErrNotLeader
	case r.LeaderEpoch < epoch:
		return replica.Answer{}, replica.ErrOldLeaderEpoch
	case r.LeaderEpoch > epoch:
		return replica.Answer{}, replica.ErrUnknownLeaderEpoch
	case !p.hasReplica(replicaID):
		return replica.Answer{}, replica.ErrNotReplica
	case b.peers(replicaID).epoch != brokerEpoch:
		return replica.Answer{}, replica.ErrOldBrokerEpoch
	}
	answer := replica.Answer{Partition: p.TopicIDPartition, LeaderEpoch: epoch, LogStart: p.log.Start(), HighWatermark: p.highWatermark.Load()}
	answer.LeaderLEO, _ = p.log.End()
	diverging, err := p.log.CheckFetch(r.LogEndOffset, r.LastEpoch)
	if errors.Is(err, memory.ErrOutOfRange) {
		return replica.Answer{}, replica.ErrOutOfRange
	}
	if diverging != nil {
		answer.Diverging = &replica.Diverging{Epoch: diverging.Epoch, EndOffset: diverging.End}
	}
	return answer, err
}

func (p *partition) hasReplica(id int32) bool {
	for _, r := range p.replicas {
		if r == id {
			return true
		}
	}
	return false
}

// recorded works out the high watermark: the lowest end of the replicas that are caught up. All of them count as in sync
// here; a real broker leaves out those behind for longer than replica.lag.time.max (B2).
func (b *broker) recorded(id segment.TopicIDPartition, _ int32) {
	p := b.partition(id.Key())
	if p == nil {
		return
	}
	p.mu.Lock()
	epoch := p.epoch
	p.mu.Unlock()
	lowest, _ := p.log.End()
	for _, r := range p.replicas {
		if r != b.id {
			_, end := b.tracker.CaughtUp(id, epoch, r)
			lowest = min(lowest, max(end, 0))
		}
	}
	if p.raise(lowest) {
		b.tracker.Moved(id)
	}
}

// raise raises the high watermark, which never falls (KAFKA-16452): consumers have read what lies below. It tells whether
// it has moved.
func (p *partition) raise(to int64) bool {
	for {
		now := p.highWatermark.Load()
		if to <= now {
			return false
		}
		if p.highWatermark.CompareAndSwap(now, to) {
			return true
		}
	}
}

// answered takes the high watermark of an answer. A real broker takes the log start as well (B3).
func (b *broker) answered(_ int32, a replica.Answer) {
	if p := b.partition(a.Partition.Key()); p != nil && a.Err == nil && a.Diverging == nil {
		end, _ := p.log.End()
		p.raise(min(a.HighWatermark, end))
	}
}
