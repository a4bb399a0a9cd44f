package kafkalog_test

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// blackhole is a network that lets one address have no byte and brings none from it, and closes no connection: what a
// machine that is gone looks like.
type blackhole struct {
	address atomic.Value
	inner   func(ctx context.Context, network, address string) (net.Conn, error)
}

func (b *blackhole) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if b.address.Load() == address {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // as the client's own dialer does
		defer cancel()
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	conn, err := b.inner(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &swallowed{Conn: conn, network: b, address: address}, nil
}

type swallowed struct {
	net.Conn
	network *blackhole
	address string
}

func (s *swallowed) Write(b []byte) (int, error) {
	if s.network.address.Load() == s.address {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

// A leader whose machine is gone answers nothing and closes nothing. The calls of an uploader are short; one of the first
// after the election finds the new leader.
func TestLeaderIsSwallowed(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	network := &blackhole{inner: new(net.Dialer).DialContext}
	cfg := config(cluster, 1, 0)
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	log := open(t, cfg)
	publish(t, log, event(1, 0, 0))
	leader := cluster.LeaderFor(kafkalog.DefaultTopic, 1)
	network.address.Store(cluster.ListenAddrs()[leader])
	attempt := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := log.Publish(ctx, event(1, 0, 1))
		return err
	}
	for range 3 {
		require.Error(t, attempt())
	}
	require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, 1, (leader+1)%3))
	require.Eventually(t, func() bool { return attempt() == nil }, 20*time.Second, time.Millisecond)
}

// One long call finds the new leader as well.
func TestLeaderIsSwallowedInACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := new(kfake.VirtualNetwork)
		cluster := newCluster(t, kfake.ListenFn(wire.Listen), kfake.Ports(9092, 9093, 9094))
		network := &blackhole{inner: wire.DialContext}
		cfg := config(cluster, 1, 0)
		cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
		log := open(t, cfg)
		publish(t, log, event(1, 0, 0))
		leader := cluster.LeaderFor(kafkalog.DefaultTopic, 1)
		network.address.Store(cluster.ListenAddrs()[leader])
		require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, 1, (leader+1)%3))
		begun := time.Now()
		publish(t, log, event(1, 0, 1))
		require.Less(t, time.Since(begun), 20*time.Second)
	})
}

// A reader whose calls are short goes on at the new leader, too, and another one can begin.
func TestLeaderIsSwallowedUnderAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := new(kfake.VirtualNetwork)
		cluster := newCluster(t, kfake.ListenFn(wire.Listen), kfake.Ports(9092, 9093, 9094))
		network := &blackhole{inner: wire.DialContext}
		cfg := config(cluster, 2, 0)
		cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
		reader := open(t, cfg)
		cfg.Broker, cfg.Opts = 1, []kgo.Opt{kgo.Dialer(wire.DialContext)}
		log := open(t, cfg)
		sub := subscribe(t, reader)
		publish(t, log, event(1, 0, 0))
		wantEvents(t, sub, event(1, 0, 0))
		leader := cluster.LeaderFor(kafkalog.DefaultTopic, 1)
		network.address.Store(cluster.ListenAddrs()[leader])
		answerEpochEnds(cluster, math.MaxInt64)
		for p := range int32(3) {
			if cluster.LeaderFor(kafkalog.DefaultTopic, p) == leader {
				require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, p, (leader+1)%3))
			}
		}
		begun := time.Now()
		publish(t, log, event(1, 0, 1))
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			item, err := sub.Next(ctx)
			cancel()
			if err == nil {
				require.EqualValues(t, 1, item.Event.Sequence)
				break
			}
			require.Less(t, time.Since(begun), 20*time.Second)
		}
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			s, err := reader.Subscribe(ctx, metadata.Position{})
			if err == nil {
				require.NoError(t, s.Close())
			}
			return err == nil
		}, time.Minute, time.Millisecond)
	})
}
