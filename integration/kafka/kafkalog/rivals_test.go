package kafkalog

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/metadata"
)

// Two writers take over from a third one at the same time, and count up to the same producer epoch. To the partition the
// second one's first batch is a repetition of the first one's: it answers that it is stored, and drops it. The writer finds
// out, and no event is lost though Publish said done (M1, L6).
func testRivals(t *testing.T, cluster *kafka.Cluster) {
	const topic = "rivals"
	before := &publisher{log: open(t, config(cluster, topic, 1, 1)), broker: 1, epoch: 1}
	require.NoError(t, before.publish(t.Context(), 1, 0))
	held := &gate{there: make(chan struct{}), release: make(chan struct{})}
	cfg := config(cluster, topic, 1, 7)
	cfg.Opts = []kgo.Opt{kgo.Dialer(held.dial)}
	older := &publisher{log: open(t, config(cluster, topic, 1, 4)), broker: 1, epoch: 4}
	newer := &publisher{log: open(t, cfg), broker: 1, epoch: 7}
	reader := subscribe(t, open(t, config(cluster, topic, 9, 0)), theEnd)

	held.shut.Store(true)
	done := make(chan error, 1)
	go func() { done <- newer.publish(t.Context(), 1, 0) }()
	<-held.there // it has looked, and its batch is on its way
	require.NoError(t, older.publish(t.Context(), 1, 0))
	close(held.release)
	require.NoError(t, <-done)
	events, gaps := read(t, reader, 2)
	require.Empty(t, gaps)
	require.Equal(t, []*metadata.Event{older.events[0], newer.events[0]}, events[1])
	require.ErrorIs(t, older.publish(t.Context(), 1, 0), metadata.ErrFenced)
	require.NoError(t, newer.publish(t.Context(), 1, 0))
}

// gate is a network that holds a produce request up.
type gate struct {
	shut           atomic.Bool // for the next one
	there, release chan struct{}
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &gatedConn{conn, g}, nil
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c *gatedConn) Write(b []byte) (int, error) {
	const produce = 0 // after its length, a request begins with its key
	if len(b) >= 6 && binary.BigEndian.Uint16(b[4:]) == produce && c.gate.shut.CompareAndSwap(true, false) {
		close(c.gate.there)
		<-c.gate.release
	}
	return c.Conn.Write(b)
}
