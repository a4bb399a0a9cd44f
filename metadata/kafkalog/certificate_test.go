package kafkalog_test

import (
	"context"
	"crypto/x509"
	"errors"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// expired is a network with a broker whose certificate has expired: its connections are cut, and there are no new ones.
type expired struct {
	mu      sync.Mutex
	address string
	conns   map[string][]net.Conn
}

func (e *expired) dial(ctx context.Context, network, address string) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.address == address {
		return nil, x509.CertificateInvalidError{Reason: x509.Expired}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		e.conns[address] = append(e.conns[address], conn)
	}
	return conn, err
}

func (e *expired) set(address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.address = address
	for _, conn := range e.conns[address] {
		_ = conn.Close()
	}
}

// What is wrong with a connection is no damage to a batch: a reader that cannot talk to the new leader says so, and once it
// can, it has missed nothing.
func TestCertificateExpires(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	answerEpochEnds(cluster, math.MaxInt64)
	network := &expired{conns: make(map[string][]net.Conn)}
	cfg := config(cluster, 2, 0)
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	cfg.Hooks.Damage = func(d metadata.Damage) { t.Errorf("damage: %+v", d) }
	log, sub := open(t, config(cluster, 1, 0)), subscribe(t, open(t, cfg))
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))

	leader := (cluster.LeaderFor(kafkalog.DefaultTopic, 1) + 1) % 3
	network.set(cluster.ListenAddrs()[leader])
	require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, 1, leader))
	publish(t, log, event(1, 0, 1))
	publish(t, log, event(1, 0, 2))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	item, err := sub.Next(ctx)
	require.ErrorAs(t, err, new(x509.CertificateInvalidError), "got %+v", item)

	network.set("")
	for want := int64(1); want < 3; {
		item, err := sub.Next(ctx)
		if errors.As(err, new(x509.CertificateInvalidError)) {
			continue
		}
		require.NoError(t, err)
		require.NotNil(t, item.Event, "got %v", item.Gap)
		require.Equal(t, want, item.Event.Sequence)
		want++
	}
}
