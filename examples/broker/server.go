package main

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

// maxConnections is how many connections a broker holds at most: a further one is closed at once.
const maxConnections = 4096

// server is the listener of a broker. Each connection has one goroutine, which reads a request, answers it, and then reads
// the next: so the answers are in order, and a request that is parked holds back those behind it, as in Kafka.
type server struct {
	listener net.Listener
	answer   func(ctx context.Context, f *frame) (kmsg.Response, error)
	budget   *semaphore.Weighted

	ctx     context.Context // ends when the server closes
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
}

// serve starts a server. answer gives the answer to a request, nil if it gets none, or an error, which closes the
// connection.
func serve(listener net.Listener, answer func(ctx context.Context, f *frame) (kmsg.Response, error)) *server {
	s := &server{listener: listener, answer: answer, budget: semaphore.NewWeighted(budget), conns: map[net.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s
}

// close ends all connections and what they ask for, and waits until that has ended.
func (s *server) close() {
	s.cancel()
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// connections is how many there are.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *server) accept() {
	for s.ctx.Err() == nil {
		conn, err := s.listener.Accept()
		if err != nil {
			select { // too many open files, say
			case <-s.ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if !s.add(conn) {
			_ = conn.Close()
			continue
		}
		s.running.Go(func() {
			s.converse(conn)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			_ = conn.Close()
		})
	}
}

func (s *server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || len(s.conns) >= maxConnections {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

// converse answers the requests of one connection. Whatever cannot be understood ends it, as in Kafka: nothing that comes
// after it could be trusted.
func (s *server) converse(conn net.Conn) {
	r := bufio.NewReaderSize(conn, 4<<10)
	for s.ctx.Err() == nil {
		if !s.exchange(conn, r) {
			return
		}
	}
}

// exchange answers one request, and tells whether another may follow.
func (s *server) exchange(conn net.Conn, r *bufio.Reader) bool {
	f, err := s.readFrame(s.ctx, conn, r)
	defer func() { s.budget.Release(f.held) }()
	if err != nil {
		return false
	}
	response, err := s.answer(s.ctx, &f)
	if err != nil {
		return false
	}
	if response == nil {
		return true
	}
	if err := conn.SetWriteDeadline(time.Now().Add(frameLimit)); err != nil {
		return false
	}
	_, err = conn.Write(appendResponse(nil, f.correlation, response))
	return err == nil
}
