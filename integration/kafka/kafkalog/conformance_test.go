package kafkalog

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// A log on a topic of real brokers keeps every rule that the suite checks, M1 to M5: with records that are damaged in the
// brokers' files (Q7), and with produce requests or their answers lost on the way (Q12).
func testConformance(t *testing.T, cluster *kafka.Cluster) {
	conformance.RunMetadata(t, conformance.MetadataConfig{
		Report: caseresults.Record(t, string(integration.Kafka)),
		Skip:   integration.Gaps(t, integration.Kafka, "RunMetadata"),
		Open: func(tb testing.TB, topic string, broker int32, epoch int64) metadata.Log {
			log, err := kafkalog.Open(tb.Context(), config(cluster, topic, broker, epoch))
			require.NoError(tb, err)
			return log
		},
		Damage: func(tb testing.TB, topic string, broker int32, reason metadata.GapReason) bool {
			partition := int(broker) % 3
			spoil(tb, cluster, topic, partition, newest(tb, cluster, topic, partition), func(value []byte) {
				if reason == metadata.GapCorrupt {
					value[len(value)/2] ^= 0xff
					value[len(value)-1] ^= 0xff
				} else {
					value[1] = 0x7f // the version
				}
			})
			return true
		},
		Unknown: func(tb testing.TB, topic string, broker int32, epoch int64, stored bool) metadata.Log {
			lossy := &lossy{answers: stored}
			cfg := config(cluster, topic, broker, epoch)
			cfg.PublishTimeout = 500 * time.Millisecond
			cfg.Opts = []kgo.Opt{kgo.Dialer(lossy.dial)}
			log, err := kafkalog.Open(tb.Context(), cfg)
			require.NoError(tb, err)
			return &unsure{Log: log, lossy: lossy}
		},
		Invalid: map[string]func() error{
			"Seeds": refused(kafkalog.Config{}),
			"Topic": refused(kafkalog.Config{Seeds: cluster.Addresses(), Topic: "a/b"}),
		},
		Timeout: 3 * time.Minute,
	})
}

func refused(cfg kafkalog.Config) func() error {
	return func() error {
		log, err := kafkalog.Open(context.Background(), cfg)
		if err == nil {
			return log.Close()
		}
		return err
	}
}

// unsure is a log whose first publication gets no answer.
type unsure struct {
	*kafkalog.Log
	lossy *lossy
	again atomic.Bool
}

func (u *unsure) Publish(ctx context.Context, events ...*metadata.Event) (int, error) {
	if u.again.CompareAndSwap(false, true) {
		u.lossy.losing.Store(true)
		defer u.lossy.losing.Store(false)
	}
	return u.Log.Publish(ctx, events...)
}

// lossy is a network that loses produce requests, or their answers, while it is told to.
type lossy struct {
	answers bool // lose the answers, otherwise the requests
	losing  atomic.Bool
	lost    atomic.Int64
}

func (l *lossy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &lossyConn{Conn: conn, network: l}, err
}

// lossyConn is a connection of a client, which writes a request with one call of Write.
type lossyConn struct {
	net.Conn
	network *lossy
	deaf    atomic.Bool // whatever comes from now on is lost
}

// isProduce tells whether it is a produce request: after the length, the key 0 stands for it.
func isProduce(request []byte) bool {
	return len(request) > 6 && bytes.Equal(request[4:6], []byte{0, 0})
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if isProduce(b) && c.network.losing.Load() {
		c.network.lost.Add(1)
		c.deaf.Store(true)
		if !c.network.answers {
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}
