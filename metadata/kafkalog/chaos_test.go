package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// M1, L5, L6: two brokers on one partition, each started again and again before its older processes have ended; requests that
// are late, answers that are lost, refusals of every kind before and after the append, leaders that move, calls that end early.
// Whatever Publish says is stored is in the topic, and nothing of a publication is stored again behind a later one of the same
// process.
func TestChaos(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wire := new(kfake.VirtualNetwork)
				cluster := newCluster(t, kfake.ListenFn(wire.Listen), kfake.Ports(9092, 9093, 9094))
				c := &chaos{cluster: cluster, wire: wire, random: rand.New(rand.NewPCG(seed, 0)), stored: make(map[published]bool)}
				open(t, c.config(9, 0)) // which creates the topic
				c.begin()
				var processes sync.WaitGroup
				for epoch := range int64(6) {
					for broker := range int32(2) {
						processes.Go(func() { c.process(t, broker, epoch) })
					}
					require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, 0, int32(c.roll(3))))
					time.Sleep(c.within(400 * time.Millisecond))
				}
				processes.Wait()
				c.calm.Store(true)
				time.Sleep(time.Second) // what is late has come
				c.check(t)
			})
		})
	}
}

type published struct {
	broker          int32
	epoch, sequence int64
}

type chaos struct {
	cluster *kfake.Cluster
	wire    *kfake.VirtualNetwork
	calm    atomic.Bool
	mu      sync.Mutex
	random  *rand.Rand
	stored  map[published]bool // that Publish has said so of
}

func (c *chaos) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chaos) within(d time.Duration) time.Duration { return time.Duration(c.roll(int(d))) }

// config is that of a process on a topic of one partition.
func (c *chaos) config(broker int32, epoch int64) kafkalog.Config {
	cfg := config(c.cluster, broker, epoch)
	cfg.Partitions = 1
	cfg.Opts = []kgo.Opt{kgo.Dialer(c.wire.DialContext)}
	return cfg
}

// begin makes the cluster treat produce requests badly.
func (c *chaos) begin() {
	answerEpochEnds(c.cluster, math.MaxInt64)
	c.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.cluster.KeepControl()
		if c.calm.Load() {
			return nil, nil, false
		}
		switch n := c.roll(20); {
		case n < 4: // late
			late := c.within(120 * time.Millisecond)
			c.cluster.SleepControl(func() { time.Sleep(late) })
		case n < 5:
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	for _, refusal := range []*kerr.Error{
		kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition, kerr.OutOfOrderSequenceNumber, kerr.NotEnoughReplicas,
	} {
		c.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: refusal, Count: -1, When: func(kmsg.Request) bool {
			return !c.calm.Load() && c.roll(40) == 0
		}})
	}
}

// process publishes as an uploader does, until it is fenced or has published enough.
func (c *chaos) process(t *testing.T, broker int32, epoch int64) {
	network := &lossy{key: int16(kmsg.Produce), inner: c.wire.DialContext}
	cfg := c.config(broker, epoch)
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	log, err := kafkalog.Open(t.Context(), cfg)
	if err != nil {
		t.Errorf("open: %v", err)
		return
	}
	defer log.Close()
	for sequence := int64(0); sequence < 60; {
		var events []*metadata.Event
		for range 1 + c.roll(3) {
			events = append(events, event(cfg.Broker, cfg.BrokerEpoch, sequence+int64(len(events))))
		}
		if c.roll(6) == 0 {
			network.lose.Store(int64(c.roll(3)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond+c.within(60*time.Millisecond))
		stored, err := log.Publish(ctx, events...)
		cancel()
		network.lose.Store(0)
		c.mu.Lock()
		for _, e := range events[:stored] {
			c.stored[published{cfg.Broker, cfg.BrokerEpoch, e.Sequence}] = true
		}
		c.mu.Unlock()
		sequence += int64(stored)
		if errors.Is(err, metadata.ErrFenced) {
			return
		}
		time.Sleep(c.within(30 * time.Millisecond))
	}
}

// check reads the topic as it is, repetitions included.
func (c *chaos) check(t *testing.T) {
	var got []published
	cfg := c.config(9, 0)
	cfg.Hooks.Duplicate = func(e *metadata.Event) {
		got = append(got, published{e.Segment.ID.BrokerID, e.Segment.ID.BrokerEpoch, e.Sequence})
	}
	cfg.Hooks.Delivered = cfg.Hooks.Duplicate
	log := open(t, cfg)
	sub := subscribeFrom(t, log, time.Unix(1, 0))
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		item, err := sub.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		require.NoError(t, err)
		require.Nil(t, item.Gap, "nothing is missing")
	}
	last := make(map[published]int64)
	for i, p := range got {
		process := published{p.broker, p.epoch, 0}
		require.LessOrEqual(t, last[process]-p.sequence, int64(2), "%v is repeated behind a later publication: %v", p, got[max(0, i-10):i+1])
		last[process] = p.sequence
		delete(c.stored, p)
	}
	require.Empty(t, c.stored, "lost")
	require.NotEmpty(t, got)
}
