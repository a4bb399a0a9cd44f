package faultproxy

import (
	"net/http"
	"time"
)

// Point is a moment in the life of a request.
type Point int

// The moments, in their order. The zero value is none.
const (
	// BeforeBody is when the head of the request has come, and nothing of its body was read.
	BeforeBody Point = iota + 1
	// InBody is when half of the request's body was read.
	InBody
	// BeforeServer is when the whole request has come, and the server has seen nothing of it.
	BeforeServer
	// AfterServer is when the server has carried the request out, and the client has seen nothing of the answer.
	AfterServer
	// InAnswer is when the head of the answer and Fault.Bytes bytes of its body were sent.
	InAnswer
)

// Cut is a way in which a body ends too early.
type Cut int

// The ways. The zero value is none.
const (
	// CutLength closes the connection before the Content-Length is reached.
	CutLength Cut = iota + 1
	// CutChunked closes the connection in the midst of a chunked body.
	CutChunked
	// CutClean ends the answer well formed, with the shorter length in its head.
	CutClean
)

// Answer is an answer as a whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Fault is what goes wrong with one request. The zero value is nothing. Where several fields are set, what comes first
// in the life of the request happens first.
type Fault struct {
	// Delay is waited before anything else. Wait is waited for until it is closed, or the client has gone, or the proxy
	// is closed.
	Delay time.Duration
	Wait  <-chan struct{}

	// Answer is sent to the client, At BeforeBody, BeforeServer or AfterServer. Zero means BeforeServer. At BeforeBody
	// nothing of the body is read, then or later.
	Answer *Answer
	At     Point

	// Reset drops the connection, over a socket with a TCP reset.
	Reset Point

	// Stall does nothing more from BeforeBody, BeforeServer, AfterServer or InAnswer on, until the client has gone, as
	// far as that can be noticed, or the proxy is closed.
	Stall Point
	// Stalled, if it is set, is called when the stall begins.
	Stalled func()

	// FlipRequest and FlipAnswer change one bit in the middle of a body.
	FlipRequest, FlipAnswer bool

	// WholeObject answers 200 with the whole object to a request for a range. Where Config.Whole does not know the object,
	// the range is taken out of the request; a server that verifies a signature over it would refuse that.
	WholeObject bool

	// Edit changes the server's answer, on its way to the client. It is called from the goroutine of the request.
	Edit func(*Answer)

	// Cut ends the body of the answer, in its way, after Bytes bytes.
	Cut Cut
	// Bytes is a number of bytes for Cut, and for Reset or Stall InAnswer.
	Bytes int
}
