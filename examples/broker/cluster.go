package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// cluster is the brokers and the controller of one process.
type cluster struct {
	clusterConfig
	controller *controller

	changing sync.Mutex     // one start or stop at a time; it is held by no other lock's holder
	ending   sync.WaitGroup // of brokers that were fenced
	mu       sync.Mutex
	brokers  map[int32]*broker // those that run
}

// clusterConfig says what to run.
type clusterConfig struct {
	dir     string // of everything; it exists
	ids     []int32
	network network
	// replicate, linger, lagMax, minISR, unclean: see brokerConfig and controller. Defaults: byStore, 10 ms, 30 s, 2, false.
	replicate replication
	linger    time.Duration
	lagMax    time.Duration
	minISR    int
	unclean   bool
	// segmentBytes is segment.bytes, 0 for the default.
	segmentBytes int64
	// storage and events open the store and the metadata log for one broker.
	storage func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error)
	events  func(ctx context.Context, broker int32, epoch int64) (metadata.Log, error)
	logger  *slog.Logger
}

// newCluster starts the controller and all brokers.
func newCluster(ctx context.Context, cfg clusterConfig) (c *cluster, err error) {
	if cfg.replicate == "" {
		cfg.replicate = byStore
	}
	if cfg.linger == 0 {
		cfg.linger = 10 * time.Millisecond
	}
	if cfg.lagMax == 0 {
		cfg.lagMax = 30 * time.Second
	}
	if cfg.minISR == 0 {
		cfg.minISR = 2
	}
	if cfg.logger == nil {
		cfg.logger = slog.New(slog.DiscardHandler)
	}
	c = &cluster{clusterConfig: cfg, brokers: map[int32]*broker{}}
	if c.controller, err = newController(cfg.dir, cfg.unclean); err != nil {
		return nil, err
	}
	for _, id := range cfg.ids {
		if err := c.start(ctx, id); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

var errRunning = errors.New("the broker is running already")

// start starts a broker that does not run.
func (c *cluster) start(ctx context.Context, id int32) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if !slices.Contains(c.ids, id) {
		return fmt.Errorf("there is no broker %d", id)
	}
	if c.broker(id) != nil {
		return errRunning
	}
	dir := filepath.Join(c.dir, fmt.Sprintf("broker-%d", id))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	cfg := brokerConfig{
		id: id, dir: dir, controller: c.controller, network: c.network, ids: c.ids, replicate: c.replicate,
		storage: c.storage, events: c.events, linger: c.linger, lagMax: c.lagMax, minISR: c.minISR, defaultPartitions: 1, segmentBytes: c.segmentBytes,
		logger: c.logger.With("broker", id),
	}
	cfg.fenced = func(error) { // told in the log already
		c.ending.Go(func() { _ = c.kill(id) })
	}
	b, err := startBroker(ctx, cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("broker %d: %w", id, err), c.controller.fence(id))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brokers[id] = b
	return nil
}

// kill ends a broker as a kill -9 would, and then tells the controller, which in a real cluster would find out.
func (c *cluster) kill(id int32) error { return c.end(id, (*broker).kill) }

func (c *cluster) end(id int32, end func(*broker)) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	b := c.broker(id)
	if b == nil {
		return errStopped
	}
	end(b)
	c.mu.Lock()
	delete(c.brokers, id)
	c.mu.Unlock()
	return c.controller.fence(id)
}

// broker returns a broker that runs, nil if it does not.
func (c *cluster) broker(id int32) *broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brokers[id]
}

// close stops every broker in good order.
func (c *cluster) close() {
	defer c.ending.Wait()
	c.changing.Lock()
	defer c.changing.Unlock()
	for _, id := range c.ids {
		if b := c.broker(id); b != nil && b.reporter != nil {
			b.reporter.Close() // all of them first, or each would warn of the leaders that have gone before it
		}
	}
	for _, id := range c.ids {
		if b := c.broker(id); b != nil {
			b.close()
		}
	}
	c.mu.Lock()
	clear(c.brokers)
	c.mu.Unlock()
}
