package faulty

import (
	"net/http"
	"slices"
	"sync"
)

// Request is what the fakes tell of a request as it came over the wire. They embed it and add what their protocol names.
type Request struct {
	// Op is the operation, as the fake calls it.
	Op string
	// Number counts the requests of this Op, from 1.
	Number int
	Proto  string
	Header http.Header // with Host
	// TransferEncoding is empty for a body with a Content-Length.
	TransferEncoding []string
	ContentLength    int64
	// Body is what came, in Requests alone: a fault is chosen before the body is read.
	Body []byte
}

// Came is the request that r is, but for what it asks for.
func Came(r *http.Request) Request {
	request := Request{Proto: r.Proto, Header: r.Header.Clone(), TransferEncoding: r.TransferEncoding, ContentLength: r.ContentLength}
	request.Header.Set("Host", r.Host)
	return request
}

func (r *Request) common() *Request { return r }

// embeds is a pointer to a type that embeds Request.
type embeds[R any] interface {
	*R
	common() *Request
}

// Script records the requests of a fake, of a type R that embeds [Request], and gives each its fault, of type F. The fake
// embeds it. It is made by [NewScript]; all methods may be called concurrently.
type Script[R, F any, P embeds[R]] struct {
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex
	fault    func(R) F
	counts   map[string]int
	requests []R
}

// NewScript makes a script without faults.
func NewScript[R, F any, P embeds[R]]() *Script[R, F, P] {
	return &Script[R, F, P]{closed: make(chan struct{}), counts: map[string]int{}}
}

// Close ends the waits of faults, for good. What serves the handler is closed by itself, afterwards.
func (s *Script[R, F, P]) Close() { s.close.Do(func() { close(s.closed) }) }

// Closed is closed by Close.
func (s *Script[R, F, P]) Closed() <-chan struct{} { return s.closed }

// Fault sets what chooses the fault of each request; nil is no fault. It is called for one request at a time, under a lock,
// and must not call the fake.
func (s *Script[R, F, P]) Fault(fault func(R) F) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Choose is Fault for who looks at nothing that a protocol names.
func (s *Script[R, F, P]) Choose(fault func(Request) F) {
	s.Fault(func(r R) F { return fault(*P(&r).common()) })
}

// Faults gives each request of an operation the fault of its number; those beyond have none, nor have those of other
// operations.
func (s *Script[R, F, P]) Faults(op string, script ...F) {
	s.Choose(func(r Request) (fault F) {
		if r.Op == op && r.Number <= len(script) {
			fault = script[r.Number-1]
		}
		return fault
	})
}

// Always gives every request of an operation one fault, and those of others none.
func (s *Script[R, F, P]) Always(op string, fault F) {
	s.Choose(func(r Request) (chosen F) {
		if r.Op == op {
			chosen = fault
		}
		return chosen
	})
}

// Requests returns what has come so far, in the order of coming.
func (s *Script[R, F, P]) Requests() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Came returns what has come so far, in the order of coming, without what a protocol names.
func (s *Script[R, F, P]) Came() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	came := make([]Request, len(s.requests))
	for i := range s.requests {
		came[i] = *P(&s.requests[i]).common()
	}
	return came
}

// Count is the number of requests of an operation.
func (s *Script[R, F, P]) Count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Begin numbers a request whose Op is set, records it and chooses its fault. body is to be called with what came of its
// body.
func (s *Script[R, F, P]) Begin(request P) (fault F, body func([]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	common := request.common()
	s.counts[common.Op]++
	common.Number = s.counts[common.Op]
	index := len(s.requests)
	s.requests = append(s.requests, *request)
	if s.fault != nil {
		fault = s.fault(*request)
	}
	return fault, func(came []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		P(&s.requests[index]).common().Body = came
	}
}
