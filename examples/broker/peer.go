package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// peer is the way to another broker. A connection carries one request at a time, so a request that the other end parks
// holds back no other (B1): each takes an idle connection, or a new one.
type peer struct {
	id      int32
	network network
	client  *kmsg.RequestFormatter

	sent, received atomic.Int64 // bytes, all that goes over the connections
	records        atomic.Int64 // bytes of records in the answers
	requests       atomic.Int64

	mu     sync.Mutex
	idle   []*peerConn
	closed bool
}

type peerConn struct {
	net.Conn
	reader      *bufio.Reader
	correlation int32
}

// maxIdle is how many connections are kept for the next requests.
const maxIdle = 8

// maxAnswer is the largest answer that is taken.
const maxAnswer = 64 << 20

func newPeer(id int32, network network) *peer {
	return &peer{id: id, network: network, client: kmsg.NewRequestFormatter(kmsg.FormatterClientID("broker"))}
}

// ask sends a request and waits for its answer, no longer than ctx allows. A connection on which anything goes wrong is not
// used again.
func (p *peer) ask(ctx context.Context, request kmsg.Request) (response kmsg.Response, err error) {
	conn, err := p.connection(ctx)
	if err != nil {
		return nil, fmt.Errorf("broker %d: %w", p.id, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	response, err = p.exchange(conn, request)
	if !stop() || err != nil {
		_ = conn.Close()
		p.drop() // the other end may have restarted
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("broker %d: %w", p.id, err)
		}
		return response, nil
	}
	p.keep(conn)
	return response, nil
}

func (p *peer) exchange(conn *peerConn, request kmsg.Request) (kmsg.Response, error) {
	conn.correlation++
	data := p.client.AppendRequest(nil, request, conn.correlation)
	if _, err := conn.Write(data); err != nil {
		return nil, err
	}
	p.sent.Add(int64(len(data)))
	p.requests.Add(1)
	response, size, err := readResponse(conn.reader, conn.correlation, request)
	p.received.Add(int64(size))
	return response, err
}

func (p *peer) connection(ctx context.Context) (*peerConn, error) {
	p.mu.Lock()
	closed := p.closed
	if n := len(p.idle); n > 0 && !closed {
		conn := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return conn, nil
	}
	p.mu.Unlock()
	if closed {
		return nil, errStopped
	}
	conn, err := p.network.dial(ctx, p.id)
	if err != nil {
		return nil, err
	}
	return &peerConn{Conn: conn, reader: bufio.NewReader(conn)}, nil
}

func (p *peer) keep(conn *peerConn) {
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < maxIdle
	if keep {
		p.idle = append(p.idle, conn)
	}
	p.mu.Unlock()
	if !keep {
		_ = conn.Close()
	}
}

// drop closes the idle connections.
func (p *peer) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, conn := range idle {
		_ = conn.Close()
	}
}

// close closes the idle connections; the others end with their requests.
func (p *peer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}
