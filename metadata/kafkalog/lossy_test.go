package kafkalog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
)

// lossy is a network that loses answers: of the requests with the key it lets the cluster have each, and cuts the
// connection when the answer comes.
type lossy struct {
	key   int16
	lose  atomic.Int64                                                         // how many answers more are lost
	inner func(ctx context.Context, network, address string) (net.Conn, error) // below it, if it is not the real one
}

func (l *lossy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := l.inner
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: conn, network: l}, nil
}

type lossyConn struct {
	net.Conn
	network *lossy
	asked   atomic.Bool // a request with the key is under way
}

var errLost = errors.New("the answer was lost")

func (c *lossyConn) Write(b []byte) (int, error) {
	if len(b) >= 6 && int16(binary.BigEndian.Uint16(b[4:])) == c.network.key { // after its length, a request begins with its key
		c.asked.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.asked.Load() && c.network.lose.Add(-1) >= 0 {
		_ = c.Conn.Close()
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: errLost}
	}
	return n, err
}

// flipper is a network that flips a bit behind the pattern, wherever it comes from the cluster.
type flipper struct{ pattern atomic.Value }

func (f *flipper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &flippedConn{Conn: conn, flipper: f}, nil
}

type flippedConn struct {
	net.Conn
	flipper *flipper
}

func (c *flippedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if pattern, ok := c.flipper.pattern.Load().([]byte); ok {
		for at := 0; ; {
			i := bytes.Index(b[at:n], pattern)
			if i < 0 {
				break
			}
			b[at+i] ^= 1
			at += i + 1
		}
	}
	return n, err
}
