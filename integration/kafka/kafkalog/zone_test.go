package kafkalog

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
)

// fetched counts the bytes of answers to fetches by broker.
type fetched struct {
	mu    sync.Mutex
	bytes map[int32]int
}

// OnBrokerRead is called by the client for each answer.
func (f *fetched) OnBrokerRead(broker kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	if key == 1 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.bytes[broker.NodeID] += n
	}
}

func (f *fetched) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.bytes)
}

// A reader that knows its zone reads from the replica there, whoever leads.
func testOwnZone(t *testing.T, cluster *kafka.Cluster) {
	const topic = "zoned"
	p := &publisher{log: open(t, config(cluster, topic, 1, 0)), broker: 1}
	for _, broker := range cluster.Brokers() {
		cfg := config(cluster, topic, int32(10+broker.ID), 0)
		counts := &fetched{bytes: make(map[int32]int)}
		cfg.Rack, cfg.Opts = broker.Rack(), []kgo.Opt{kgo.WithHooks(counts)}
		sub := subscribe(t, open(t, cfg), theEnd)
		counts.reset() // opening a log looks at the leader for other writers
		own := &publisher{log: p.log, broker: 1, events: p.events}
		require.NoError(t, own.publish(t.Context(), 200, time.Millisecond))
		p.events = own.events
		own.events = own.events[len(own.events)-200:]
		wantAll(t, sub, own)
		counts.mu.Lock()
		total, there := 0, counts.bytes[int32(broker.ID)]
		for _, n := range counts.bytes {
			total += n
		}
		counts.mu.Unlock()
		t.Attr("own-zone", fmt.Sprintf("%d of %d bytes fetched from the broker of %s", there, total, broker.Rack()))
		require.Greater(t, there, total*8/10, "bytes from the own zone, by broker: %v", counts.bytes)
	}
}
