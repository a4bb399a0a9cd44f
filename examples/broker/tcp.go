package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// tcp is a network of loopback ports.
type tcp struct {
	mu    sync.Mutex
	ports map[int32]int // 0: any that is free
	fixed bool          // whether a broker must have its port again after a restart
}

// newTCP gives each broker its port. If there are no ports, each gets one that is free.
func newTCP(ids []int32, ports []int) *tcp {
	t := &tcp{ports: map[int32]int{}, fixed: len(ports) > 0}
	for i, id := range ids {
		t.ports[id] = 0
		if t.fixed {
			t.ports[id] = ports[i]
		}
	}
	return t
}

func (t *tcp) port(id int32) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ports[id]
}

// loopback is where everything listens.
const loopback = "127.0.0.1"

func (t *tcp) listen(id int32) (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(t.port(id))))
	if err != nil && !t.fixed {
		listener, err = net.Listen("tcp", loopback+":0") // somebody has taken it meanwhile
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ports[id] = listener.Addr().(*net.TCPAddr).Port
	return listener, nil
}

func (t *tcp) dial(ctx context.Context, id int32) (net.Conn, error) {
	port := t.port(id)
	if port == 0 {
		return nil, fmt.Errorf("broker %d has no port yet", id)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
}

func (t *tcp) address(id int32) (string, int32) { return loopback, int32(t.port(id)) }
