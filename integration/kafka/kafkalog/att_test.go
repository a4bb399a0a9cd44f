package kafkalog

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/metadata"
)

// gate holds produce requests until it is opened.
type gate struct {
	on   atomic.Bool
	held chan struct{}
	open chan struct{}
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &gateConn{conn, g}, nil
}

type gateConn struct {
	net.Conn
	g *gate
}

func (c *gateConn) Write(b []byte) (int, error) {
	if len(b) >= 6 && binary.BigEndian.Uint16(b[4:]) == 0 && c.g.on.CompareAndSwap(true, false) {
		close(c.g.held)
		<-c.g.open
	}
	return c.Conn.Write(b)
}

func TestAttack(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{Settings: map[string]string{"producer.id.expiration.ms": "1500", "producer.id.expiration.check.interval.ms": "500"}})
	t.Run("one producer epoch", func(t *testing.T) {
		const topic = "rivals"
		first := open(t, config(cluster, topic, 1, 1))
		e0 := newEvent(1, 1, 0, 4)
		_, err := first.Publish(t.Context(), e0)
		require.NoError(t, err)
		g := &gate{held: make(chan struct{}), open: make(chan struct{})}
		older, cfg := open(t, config(cluster, topic, 1, 4)), config(cluster, topic, 1, 7)
		cfg.Opts = []kgo.Opt{kgo.Dialer(g.dial)}
		newer := open(t, cfg)
		sub := subscribe(t, older, theEnd)
		g.on.Store(true)
		done := make(chan error, 1)
		mine, theirs := newEvent(1, 7, 0, 4), newEvent(1, 4, 0, 4)
		go func() {
			n, err := newer.Publish(t.Context(), mine)
			t.Log("newer:", n, err)
			done <- err
		}()
		<-g.held
		n, err := older.Publish(t.Context(), theirs)
		t.Log("older:", n, err)
		close(g.open)
		<-done
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			item, err := sub.Next(ctx)
			cancel()
			if item.Event != nil {
				t.Log(item.Event.Segment.ID.BrokerEpoch, item.Event.Sequence, err)
			} else {
				t.Log(item.Gap, err)
			}
		}
	})
	t.Run("expiry", func(t *testing.T) {
		const topic = "expiry"
		log := open(t, config(cluster, topic, 1, 1))
		p := &publisher{log: log, broker: 1, epoch: 1}
		sub := subscribe(t, log, theEnd)
		require.NoError(t, p.publish(t.Context(), 5, 0))
		time.Sleep(4 * time.Second)
		begun := time.Now()
		require.NoError(t, p.publish(t.Context(), 5, 0))
		t.Log("after expiry:", time.Since(begun), p.unknown, p.failed)
		wantAll(t, sub, p)
		cluster.DeleteRecords(t, topic, 1, 10)
		time.Sleep(4 * time.Second)
		require.NoError(t, p.publish(t.Context(), 5, 0))
		again := open(t, config(cluster, topic, 1, 2))
		q := &publisher{log: again, broker: 1, epoch: 2}
		require.NoError(t, q.publish(t.Context(), 5, 0))
		_, err := log.Publish(t.Context(), newEvent(1, 1, 15, 4))
		require.ErrorIs(t, err, metadata.ErrFenced)
		time.Sleep(4 * time.Second)
		require.NoError(t, q.publish(t.Context(), 5, 0))
	})
	t.Run("transactions", func(t *testing.T) {
		const topic = "transactions"
		log := open(t, config(cluster, topic, 1, 1))
		sub := subscribe(t, log, theEnd)
		p := &publisher{log: log, broker: 1, epoch: 1}
		require.NoError(t, p.publish(t.Context(), 2, 0))
		client := cluster.Client(t, kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 2 {
			require.NoError(t, client.BeginTransaction())
			require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Key: []byte("x")}).FirstErr())
			require.NoError(t, client.EndTransaction(t.Context(), i == 0))
			require.NoError(t, p.publish(t.Context(), 2, 0))
		}
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			item, err := sub.Next(ctx)
			cancel()
			if item.Event != nil {
				t.Log(item.Event.Segment.ID.BrokerEpoch, item.Event.Sequence, err)
			} else {
				t.Log(item.Gap, err)
			}
		}
	})
}
