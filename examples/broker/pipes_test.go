package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// pipes is a network of net.Pipe, for brokers in a synctest bubble, where sockets hang (D5). Each message takes delay.
type pipes struct {
	delay time.Duration

	mu        sync.Mutex
	listeners map[int32]*pipeListener
	dials     int
}

func (p *pipes) listen(id int32) (net.Listener, error) {
	l := &pipeListener{accept: make(chan net.Conn), closed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners[id] = l
	return l, nil
}

var errRefused = errors.New("connection refused")

func (p *pipes) dial(ctx context.Context, id int32) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[id]
	p.dials++
	p.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	here, there := net.Pipe()
	select {
	case l.accept <- delayed{there, p.delay}:
		return delayed{here, p.delay}, nil
	case <-l.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) address(id int32) (string, int32) { return "pipe", id }

// delayed is a connection whose messages take a while.
type delayed struct {
	net.Conn
	delay time.Duration
}

func (d delayed) Write(b []byte) (int, error) {
	time.Sleep(d.delay)
	return d.Conn.Write(b)
}

type pipeListener struct {
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accept:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// inBubble is three brokers on pipes, over a store and a metadata log in memory. The logs are files.
func inBubble(t *testing.T, delay time.Duration, store func(walstorage.WalStorageManager) walstorage.WalStorageManager) clusterConfig {
	t.Helper()
	segments := memory.NewStore()
	events, err := memlog.New(memlog.Config{})
	require.NoError(t, err)
	return clusterConfig{
		dir: t.TempDir(), ids: []int32{0, 1, 2}, network: &pipes{delay: delay, listeners: map[int32]*pipeListener{}},
		storage: func(_ context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error) {
			m, err := objectstore.New(memory.New(memory.Config{Store: segments}), objectstore.Config{Cluster: cluster, Seed: uint64(broker)})
			if err != nil || store == nil {
				return m, err
			}
			return store(m), nil
		},
		events: func(_ context.Context, broker int32, epoch int64) (metadata.Log, error) {
			return events.Open(memlog.Options{Broker: broker, BrokerEpoch: epoch})
		},
	}
}

// plainClient is a client that sends single requests.
type plainClient struct {
	t       *testing.T
	cluster *cluster
	peers   map[int32]*peer
}

func newPlainClient(t *testing.T, c *cluster) *plainClient {
	p := &plainClient{t: t, cluster: c, peers: map[int32]*peer{}}
	for _, id := range c.ids {
		p.peers[id] = newPeer(id, c.network)
	}
	return p
}

func (p *plainClient) close() {
	for _, peer := range p.peers {
		peer.close()
	}
}

// ask sends a request to one broker.
func ask[R kmsg.Response](p *plainClient, broker int32, request kmsg.Request) R {
	p.t.Helper()
	response, err := p.peers[broker].ask(context.Background(), request)
	require.NoError(p.t, err)
	return response.(R)
}

// produce sends one record to partition 0 of a topic's leader. Without a leader that answers, the code is that of one which
// is not there.
func (p *plainClient) produce(topic string, acks int16, value string) kmsg.ProduceResponseTopicPartition {
	p.t.Helper()
	leader := p.cluster.controller.current().Topics[topic].Partitions[0].Leader
	if leader < 0 {
		return kmsg.ProduceResponseTopicPartition{ErrorCode: codeLeaderNotAvailable}
	}
	response, err := p.peers[leader].ask(context.Background(), produceRequest(topic, 0, acks, batchNow(value)))
	if err != nil {
		return kmsg.ProduceResponseTopicPartition{ErrorCode: codeBrokerNotAvailable}
	}
	return response.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func produceRequest(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(9)
	request.Acks, request.TimeoutMillis = acks, 30_000
	t, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, part.Partition, part.Records = topic, partition, records
	t.Partitions = append(t.Partitions, part)
	request.Topics = append(request.Topics, t)
	return request
}

// awaitISR waits until the partition has as many replicas in sync.
func awaitISR(t *testing.T, c *cluster, topic string, n int) {
	t.Helper()
	until := time.Now().Add(time.Minute)
	for {
		m := c.controller.current()
		if len(m.Topics[topic].Partitions[0].ISR) == n {
			return
		}
		select {
		case <-m.replaced:
		case <-time.After(time.Until(until)):
			require.FailNow(t, "the ISR has not become as it should", "%+v", m.Topics[topic].Partitions[0])
		}
	}
}

// mustProduce is produce until it succeeds.
func (p *plainClient) mustProduce(topic string, acks int16, value string) (offset int64) {
	p.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		answer := p.produce(topic, acks, value)
		if answer.ErrorCode == codeNone {
			return answer.BaseOffset
		}
		require.Less(p.t, time.Since(begun), time.Minute, "the last answer has code %d", answer.ErrorCode)
	}
}

// batchNow is a batch of one record with the time of the bubble.
func batchNow(value string) []byte {
	spec := batchtest.NewSpec(0, -1, value)
	spec.BaseTimestamp = time.Now().UnixMilli()
	spec.MaxTimestamp = spec.BaseTimestamp
	return spec.Bytes()
}

// start makes a cluster with one topic of one partition, which is led in a moment.
func (cfg clusterConfig) start(t *testing.T) (*cluster, *plainClient) {
	t.Helper()
	c, err := newCluster(t.Context(), cfg)
	require.NoError(t, err)
	_, err = c.controller.createTopic("t", 1, 3)
	require.NoError(t, err)
	client := newPlainClient(t, c)
	client.mustProduce("t", acksAll, "first")
	return c, client
}

// moveLeader makes another replica in sync the leader, as an operator may.
func moveLeader(c *cluster, topic string, n int, to int32) error {
	return c.controller.update(func(m *image) error {
		a := &m.Topics[topic].Partitions[n]
		if !contains(a.ISR, to) || a.Leader == to {
			return errStaleRequest
		}
		a.Leader = to
		a.Epoch++
		a.Version++
		return nil
	})
}
