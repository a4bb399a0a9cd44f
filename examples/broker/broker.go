package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// broker is one run of a broker: it ends with close or kill and is never started again.
type broker struct {
	brokerConfig
	life
	epoch int64 // of this run, as the controller has given it
	kept  kept  // by the run before; its maps are guarded by mu

	storage    walstorage.WalStorageManager // where segments are
	events     metadata.Log                 // where they are announced
	uploader   *leader.Uploader             // for the partitions that this broker leads
	tracker    *replica.Tracker
	replicator *follower.Replicator // for those that it follows
	reporter   *replica.Reporter
	sweeper    *retention.Sweeper

	server *server
	peers  map[int32]*peer // the other brokers
	// truncations counts the answers that made a log of this broker truncate its end.
	truncations atomic.Int64

	ctx     context.Context // ends when the broker does
	cancel  context.CancelFunc
	running sync.WaitGroup // what the broker itself has started
	review  chan struct{}  // asks for a look at the ISRs

	mu         sync.RWMutex
	partitions map[segment.PartitionKey]*partition
	producers  producerIDBlock
}

// brokerConfig is what a broker's own configuration would hold.
type brokerConfig struct {
	id         int32
	dir        string // of this broker's logs
	controller *controller
	network    network
	ids        []int32 // of all brokers
	// replicate says how the bytes get to the followers.
	replicate replication
	// storage and events open the places that all brokers share for their segments and for their announcements.
	storage func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error)
	events  func(ctx context.Context, broker int32, epoch int64) (metadata.Log, error)

	linger            time.Duration
	lagMax            time.Duration   // replica.lag.time.max.ms
	minISR            int             // min.insync.replicas
	defaultPartitions int             // of a topic that a client asks for without having created it
	segmentBytes      int64           // segment.bytes; 0: the default of unifiedlog
	fenced            func(err error) // called when another run of this broker is at work
	logger            *slog.Logger    // gets a line for each change of state that an operator should see
}

// replication is how the bytes get from a leader to its followers.
type replication string

const (
	// byStore: through the store, with the ordinary fetch to fall back on.
	byStore replication = "walhop"
	// byFetch: by the ordinary fetch alone, as in Kafka. It is there to be compared with.
	byFetch replication = "fetch"
)

// startBroker registers a broker, puts its parts together, and begins to serve.
func startBroker(ctx context.Context, cfg brokerConfig) (b *broker, err error) {
	kept, err := readKept(cfg.dir)
	if err != nil {
		return nil, err
	}
	b = &broker{brokerConfig: cfg, kept: kept, peers: map[int32]*peer{}, partitions: map[segment.PartitionKey]*partition{}, review: make(chan struct{}, 1)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for _, id := range cfg.ids {
		if id != cfg.id {
			b.peers[id] = newPeer(id, cfg.network)
		}
	}
	listener, err := cfg.network.listen(cfg.id)
	if err != nil {
		return b, err
	}
	if b.epoch, err = cfg.controller.register(cfg.id); err != nil {
		_ = listener.Close()
		return b, err
	}
	if cfg.replicate == byStore {
		if err := b.addReplication(ctx); err != nil {
			_ = listener.Close()
			return b, err
		}
	}
	b.server = serve(listener, b.answer)
	b.running.Go(b.obeyController)
	b.running.Go(b.keepISRs)
	b.running.Go(b.housekeeping)
	return b, nil
}

// addReplication adds the parts of walhop.
func (b *broker) addReplication(ctx context.Context) (err error) {
	cluster := b.controller.current().Cluster
	if b.storage, err = b.brokerConfig.storage(ctx, b.id, cluster); err != nil {
		return err
	}
	if b.events, err = b.brokerConfig.events(ctx, b.id, b.epoch); err != nil {
		return err
	}
	// Leading: the uploader, and the leader's end of the reports. A broker stops being one when a newer epoch of it is at
	// work (L6).
	b.uploader, err = leader.New(leader.Config{
		Storage: b.storage, Metadata: b.events, Cluster: cluster, Broker: b.id, BrokerEpoch: b.epoch,
		Linger: b.linger, Seed: uint64(b.id), Logger: b.logger, Hooks: leader.Hooks{Fenced: b.fenced},
	})
	if err != nil {
		return err
	}
	b.tracker, err = replica.NewTracker(replica.TrackerConfig{Partitions: b, Recorded: b.recorded})
	if err != nil {
		return err
	}
	// Following: the replicator, and the follower's end of the reports.
	b.replicator, err = follower.New(follower.Config{
		Storage: b.storage, Metadata: b.events, Leader: b, Cluster: cluster, LeaderMaxLinger: b.linger,
		ReplicaLagTimeMax: b.lagMax, Seed: uint64(b.id), Logger: b.logger,
		Hooks: follower.Hooks{StateChanged: func(p segment.TopicIDPartition, _ follower.State) {
			b.reporter.Moved(p) // whether the follower wants answers may have changed (B4)
		}},
	})
	if err != nil {
		return err
	}
	b.reporter, err = replica.NewReporter(replica.ReporterConfig{
		Replica: b.id, BrokerEpoch: b.epoch, Send: b.sendReports, Answered: b.answered, Seed: uint64(b.id), Logger: b.logger,
	})
	if err != nil {
		return err
	}
	// Retention: segments older than an hour go. Nothing is only there.
	b.sweeper, err = retention.New(retention.Config{Storage: b.storage, Broker: b.id, Logger: b.logger})
	if err != nil {
		return err
	}
	b.running.Go(func() { _ = b.sweeper.Run(b.ctx) })
	return nil
}

// close ends the broker in good order: what has been appended is uploaded, and the logs are flushed and marked as closed
// cleanly.
func (b *broker) close() { b.end(false) }

// kill ends it as a kill -9 does, as far as one process can show it: nothing is uploaded or flushed any more, and nothing
// of this run is used again.
func (b *broker) kill() { b.end(true) }

// end ends the parts in the opposite order: first what takes requests, then what writes to the logs and reads them, then
// what they use.
func (b *broker) end(killed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if killed {
		b.killed.Store(true)
		cancel()
	}
	b.cancel()
	if b.server != nil {
		b.server.close()
	}
	b.running.Wait()
	if b.reporter != nil {
		b.reporter.Close()
	}
	if b.tracker != nil {
		b.tracker.Close()
	}
	if b.replicator != nil {
		_ = b.replicator.Close(context.WithoutCancel(ctx))
	}
	for _, p := range b.all() {
		if !killed && b.uploader != nil {
			continue // the uploader resigns, once it has uploaded the rest
		}
		p.stop()
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
	for _, peer := range b.peers {
		peer.close()
	}
	for _, p := range b.all() {
		p.stop()
	}
	if err := b.closeLogs(); err != nil && !killed {
		b.logger.Error("the logs have not been closed cleanly", "err", err)
	}
}

// partition returns the replica of a partition, nil if there is none here.
func (b *broker) partition(key segment.PartitionKey) *partition {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.partitions[key]
}

// all returns the replicas that are here.
func (b *broker) all() (list []*partition) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, p := range b.partitions {
		list = append(list, p)
	}
	return list
}

// obeyController does what the controller's images say, one after the other: it makes and deletes replicas, and gives each
// its role.
func (b *broker) obeyController() {
	failed := map[segment.PartitionKey]bool{}
	for {
		again := false
		m := b.controller.current()
		if b.tracker != nil {
			// What a broker reported before it restarted counts no longer.
			for id, epoch := range m.alive {
				b.tracker.Registered(id, epoch)
			}
		}
		for _, p := range b.all() { // first, for a topic may be there again, with the same name and another id
			if m.byID[p.TopicID] == nil {
				b.remove(p)
			}
		}
		for _, t := range m.Topics {
			for n, a := range t.Partitions {
				id := segment.TopicIDPartition{TopicID: t.ID, Topic: t.Name, Partition: int32(n)}
				if !contains(a.Replicas, b.id) {
					continue
				}
				err := b.apply(id, a)
				if err != nil && !failed[id.Key()] {
					b.logger.Error("a partition cannot take its role", "partition", id, "err", err)
				}
				failed[id.Key()] = err != nil
				again = again || err != nil
			}
		}
		b.controller.hasObeyed(b.id, m.number)
		pause := time.Hour
		if again {
			pause = time.Second // the disk may have come to its senses
		}
		select {
		case <-m.replaced:
		case <-time.After(pause):
		case <-b.ctx.Done():
			return
		}
	}
}

// apply gives a replica its role. It is made where it is missing.
func (b *broker) apply(id segment.TopicIDPartition, a assignment) error {
	p := b.partition(id.Key())
	if p == nil {
		p = &partition{TopicIDPartition: id, broker: b, watchers: map[chan struct{}]struct{}{}}
		p.now = assignment{Leader: -1, Epoch: -1}
		if err := p.openLog(b.ctx); err != nil {
			return err
		}
		b.mu.Lock()
		b.partitions[id.Key()] = p
		b.mu.Unlock()
	}
	return p.apply(a)
}

// remove deletes the replica of a topic that has been deleted.
func (b *broker) remove(p *partition) {
	b.mu.Lock()
	delete(b.partitions, p.Key())
	b.mu.Unlock()
	p.stop() // B5
	b.forget(directory(p.TopicIDPartition))
	if err := p.log.Delete(); err != nil {
		b.logger.Error("a deleted partition's log cannot be removed", "partition", p.TopicIDPartition, "err", err)
	}
}

// reviewISRs asks for a look at the ISRs. It never blocks.
func (b *broker) reviewISRs() {
	select {
	case b.review <- struct{}{}:
	default:
	}
}

// keepISRs looks at the ISRs of the partitions that this broker leads: when a replica may have caught up, and often enough
// to see which ones have not.
func (b *broker) keepISRs() {
	ticker := time.NewTicker(b.lagMax / 2)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
		case <-b.review:
		}
		for _, p := range b.all() {
			p.reviewISR()
		}
	}
}

// Check makes the checks of an ordinary fetch (B3). It is called for reports and for ordinary fetches.
func (b *broker) Check(id int32, brokerEpoch int64, r replica.Report) (replica.Answer, error) {
	p := b.partition(r.Partition.Key())
	if p == nil {
		return replica.Answer{}, replica.ErrNotLeader
	}
	p.mu.Lock()
	leads, epoch, replicas := p.leads, p.now.Epoch, p.now.Replicas
	p.mu.Unlock()
	switch {
	case r.LeaderEpoch < epoch:
		return replica.Answer{}, replica.ErrOldLeaderEpoch
	case r.LeaderEpoch > epoch:
		return replica.Answer{}, replica.ErrUnknownLeaderEpoch
	case !leads:
		return replica.Answer{}, replica.ErrNotLeader
	case !contains(replicas, id):
		return replica.Answer{}, replica.ErrNotReplica
	case b.controller.current().alive[id] != brokerEpoch:
		return replica.Answer{}, replica.ErrOldBrokerEpoch
	}
	answer := replica.Answer{Partition: p.TopicIDPartition, LeaderEpoch: epoch, LogStart: p.log.Start(), HighWatermark: p.log.HighWatermark()}
	answer.LeaderLEO, _ = p.log.End()
	diverging, err := p.checkFetch(r.LogEndOffset, r.LastEpoch)
	if err != nil {
		return replica.Answer{}, err
	}
	answer.Diverging = diverging
	return answer, nil
}

// recorded is called when a report of a follower has been taken.
func (b *broker) recorded(id segment.TopicIDPartition, _ int32) {
	if p := b.partition(id.Key()); p != nil {
		p.advance()
	}
}

// answered takes the high watermark and the log start of an answer (B3): they come from nowhere else.
func (b *broker) answered(leaderID int32, a replica.Answer) {
	p := b.partition(a.Partition.Key())
	if p == nil || a.Err != nil || a.Diverging != nil {
		return
	}
	p.mu.Lock()
	mine := !p.leads && p.now.Leader == leaderID && p.now.Epoch == a.LeaderEpoch
	if mine {
		end, _ := p.log.End()
		p.raiseLocked(min(a.HighWatermark, end))
	}
	p.mu.Unlock()
	if mine && a.LogStart > p.log.Start() {
		_ = p.log.DeleteRecords(a.LogStart) // above this log's end: the next answer
	}
}

func contains(ids []int32, id int32) bool {
	for _, other := range ids {
		if other == id {
			return true
		}
	}
	return false
}

// network is how the brokers listen and reach each other.
type network interface {
	listen(id int32) (net.Listener, error)
	dial(ctx context.Context, id int32) (net.Conn, error)
	// address is where clients reach a broker.
	address(id int32) (host string, port int32)
}

var errStopped = errors.New("the broker has stopped")
