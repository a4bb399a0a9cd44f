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

// maxConnections is how many connections a broker holds at most. A further one is closed at once.
const maxConnections = 4096

// server is the listener of a broker. Each connection has a goroutine that reads requests and answers them one after the
// other, so one that is parked holds back those behind it, as in Kafka; and one that writes the answers in the same order.
// Between the two go the answers of produce requests that wait for replicas, so a producer that has several requests on
// their way does not wait for each in turn. There Kafka waits, which costs little where replicas are near.
type server struct {
	listener net.Listener
	answer   func(ctx context.Context, f *frame) (reply, error)
	budget   *semaphore.Weighted

	ctx     context.Context // ends when the server closes
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
}

// reply is the answer to a request.
type reply struct {
	response kmsg.Response // nil if none is due
	// complete, if not nil, waits for what the answer waits for and fills it in. The request is not needed any more.
	complete func(ctx context.Context)

	correlation int32
	held        int64 // of the budget, given back once it is written
}

// pipeline is how many answers of one connection may wait to be written.
const pipeline = 8

// serve starts a server. answer gives the answer to a request, or an error, which closes the connection.
func serve(listener net.Listener, answer func(ctx context.Context, f *frame) (reply, error)) *server {
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
	ctx, cancel := context.WithCancel(s.ctx)
	replies := make(chan reply, pipeline)
	var writing sync.WaitGroup
	writing.Go(func() {
		for r := range replies {
			if ctx.Err() == nil && s.write(ctx, conn, r) != nil {
				cancel()
				_ = conn.Close() // which ends the reading too
			}
			s.budget.Release(r.held)
		}
	})
	reader := bufio.NewReaderSize(conn, 4<<10)
	for ctx.Err() == nil {
		r, err := s.read(ctx, conn, reader)
		if err != nil {
			break
		}
		if r.response != nil {
			replies <- r
		}
	}
	close(replies)
	writing.Wait() // what has been asked properly is answered
	cancel()
}

// read reads a request and has it answered.
func (s *server) read(ctx context.Context, conn net.Conn, reader *bufio.Reader) (reply, error) {
	f, err := s.readFrame(ctx, conn, reader)
	defer func() { s.budget.Release(f.held) }()
	if err != nil {
		return reply{}, err
	}
	r, err := s.answer(ctx, &f)
	if r.complete == nil { // the answer may hold a part of the budget
		r.held, f.held = f.held, 0
	}
	r.correlation = f.correlation
	if err != nil || r.response == nil {
		s.budget.Release(r.held)
	}
	return r, err
}

func (s *server) write(ctx context.Context, conn net.Conn, r reply) error {
	if r.complete != nil {
		r.complete(ctx)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(frameLimit)); err != nil {
		return err
	}
	_, err := conn.Write(appendResponse(nil, r.correlation, r.response))
	return err
}
