package faultproxy

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/walhop/walhop/internal/fakes/pipenet"
)

// Server serves a proxy, until Close.
type Server struct {
	// URL is where clients find it: scheme and host.
	URL string
	// Client is one that reaches the server, where not every client does: with TLS, and without a socket. Else nil.
	Client *http.Client

	proxy  *Proxy
	socket *httptest.Server
	pipe   *pipenet.Server

	mu          sync.Mutex
	connections map[net.Conn]http.ConnState
	opened      int
}

// Listen serves the proxy on a port of the loopback device.
func Listen(p *Proxy) *Server {
	s := newServer(p)
	s.socket.Start()
	s.URL = s.socket.URL
	return s
}

// ListenTLS does so with TLS, over HTTP/1.1.
func ListenTLS(p *Proxy) *Server {
	s := newServer(p)
	s.socket.StartTLS()
	s.URL, s.Client = s.socket.URL, s.socket.Client()
	return s
}

// Pipe serves the proxy without a socket, so that server and client can live in a testing/synctest bubble.
func Pipe(p *Proxy) *Server {
	pipe := pipenet.Serve(p)
	return &Server{URL: "http://walhop.invalid", Client: pipe.Client(), proxy: p, pipe: pipe}
}

func newServer(p *Proxy) *Server {
	s := &Server{proxy: p, socket: httptest.NewUnstartedServer(p), connections: map[net.Conn]http.ConnState{}}
	s.socket.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.socket.Config.ConnState = s.state
	return s
}

func (s *Server) state(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.opened++
		s.connections[conn] = state
	case http.StateClosed, http.StateHijacked:
		delete(s.connections, conn)
	default:
		s.connections[conn] = state
	}
}

// Opened is the number of connections that clients have opened.
func (s *Server) Opened() int {
	if s.pipe != nil {
		return s.pipe.Dialled()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// CloseIdle closes, from the server's side, every connection on which no request is under way, and returns how many.
// Over a pipe it does nothing.
func (s *Server) CloseIdle() int {
	var idle []net.Conn
	s.mu.Lock()
	for conn, state := range s.connections {
		if state == http.StateIdle {
			idle = append(idle, conn)
			delete(s.connections, conn)
		}
	}
	s.mu.Unlock()
	for _, conn := range idle {
		_ = conn.Close()
	}
	return len(idle)
}

// Close closes the proxy, every connection and the server.
func (s *Server) Close() {
	s.proxy.Close()
	if s.pipe != nil {
		s.pipe.Close()
		return
	}
	s.socket.CloseClientConnections()
	s.socket.Close()
}
