// Package pipenet serves HTTP over net.Pipe, inside one process and without a socket, so that client and server can
// both live in a testing/synctest bubble, where a real connection would hang (D5).
package pipenet

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Server serves a handler to the clients that it makes.
type Server struct {
	server   *http.Server
	accept   chan net.Conn
	closed   chan struct{}
	close    sync.Once
	serving  sync.WaitGroup
	mu       sync.Mutex
	dialled  int
	clients  []*http.Transport
	refusing bool
}

// Serve starts a server. Close ends it.
func Serve(handler http.Handler) *Server {
	s := &Server{
		server: &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)},
		accept: make(chan net.Conn),
		closed: make(chan struct{}),
	}
	s.serving.Go(func() { _ = s.server.Serve(listener{s}) })
	return s
}

// Client returns a client all of whose requests reach the server, whatever host their URL names.
func (s *Server) Client() *http.Client {
	transport := &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 1000, DisableCompression: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, transport)
	return &http.Client{Transport: transport}
}

// Refuse makes every further connection fail, as a server that is down does, or ends that.
func (s *Server) Refuse(refusing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = refusing
}

// Dialled is the number of connections that were opened.
func (s *Server) Dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialled
}

// Close closes every connection and waits until the server has ended.
func (s *Server) Close() {
	s.close.Do(func() { close(s.closed) })
	_ = s.server.Close()
	s.serving.Wait()
	s.mu.Lock()
	clients := s.clients
	s.mu.Unlock()
	for _, client := range clients {
		client.CloseIdleConnections()
	}
}

var errRefused = errors.New("connection refused")

func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	refusing := s.refusing
	s.mu.Unlock()
	if refusing {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errRefused}
	}
	here, there := net.Pipe()
	select {
	case s.accept <- there:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dialled++
		return here, nil
	case <-s.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errRefused}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct{ s *Server }

func (l listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.s.accept:
		return conn, nil
	case <-l.s.closed:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.s.close.Do(func() { close(l.s.closed) })
	return nil
}

func (l listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }
