package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

// The sizes that a client may ask this broker to hold.
const (
	// maxProduce is the largest produce request, maxOther the largest of the others, which carry names alone. What a
	// request decodes into is some ten times as large at worst.
	maxProduce = 16 << 20
	maxOther   = 256 << 10
	// smallFrame is up to where a request is read without taking its size from what all connections share.
	smallFrame = 32 << 10
	// budget is what the larger requests and the fetch answers of all connections take at most, together.
	budget = 256 << 20
)

const (
	// idleLimit ends a connection on which nothing has come for so long, frameLimit one in the midst of whose request or
	// answer nothing moves for so long.
	idleLimit  = 10 * time.Minute
	frameLimit = 30 * time.Second
)

var (
	errFrameSize   = errors.New("the frame is larger than this broker takes, or smaller than a header")
	errFrameHeader = errors.New("the request header is cut off")
)

// frame is one request as it came.
type frame struct {
	key, version int16
	correlation  int32
	body         []byte

	budget *semaphore.Weighted
	held   int64 // of the budget, given back after the answer
}

// hold takes a part of the budget for the answer.
func (f *frame) hold(ctx context.Context, bytes int64) error {
	ctx, cancel := context.WithTimeout(ctx, frameLimit)
	defer cancel()
	if err := f.budget.Acquire(ctx, bytes); err != nil {
		return err
	}
	f.held += bytes
	return nil
}

// keep gives back all of the part but what is needed.
func (f *frame) keep(bytes int64) {
	if f.held > bytes {
		f.budget.Release(f.held - bytes)
		f.held = bytes
	}
}

// readFrame reads the next request. A large one needs a part of the budget once its beginning is there: who announces much
// and sends nothing costs little, and who stops in the midst of it gives its part back after frameLimit.
func (s *server) readFrame(ctx context.Context, conn net.Conn, r *bufio.Reader) (f frame, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(idleLimit)); err != nil {
		return f, err
	}
	f.budget = s.budget
	if _, err := r.Peek(1); err != nil {
		return f, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(frameLimit)); err != nil {
		return f, err
	}
	head, err := r.Peek(4)
	if err != nil {
		return f, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head)))
	if size < 10 || size > maxProduce {
		return f, errFrameSize
	}
	if head, err = r.Peek(6); err != nil {
		return f, err
	}
	if kmsg.Key(binary.BigEndian.Uint16(head[4:])) != kmsg.Produce && size > maxOther {
		return f, errFrameSize
	}
	data := make([]byte, 4+min(size, smallFrame))
	if _, err := io.ReadFull(r, data); err != nil {
		return f, err
	}
	if size > smallFrame {
		if err := f.hold(ctx, size); err != nil {
			return f, err
		}
		whole := make([]byte, 4+size)
		if _, err := io.ReadFull(r, whole[copy(whole, data):]); err != nil {
			return f, err
		}
		data = whole
	}
	return f, f.parse(data[4:])
}

// parse takes the request header apart: key, version, correlation id, client id and, in flexible versions, tags.
func (f *frame) parse(data []byte) error {
	f.key, f.version = int16(binary.BigEndian.Uint16(data)), int16(binary.BigEndian.Uint16(data[2:]))
	f.correlation = int32(binary.BigEndian.Uint32(data[4:]))
	f.body = data[8:]
	if len(f.body) < 2 {
		return errFrameHeader
	}
	client := max(0, int(int16(binary.BigEndian.Uint16(f.body)))) // -1 is null
	if f.body = f.body[2:]; len(f.body) < client {
		return errFrameHeader
	}
	f.body = f.body[client:]
	return nil
}

// request decodes the body.
func (f *frame) request() (kmsg.Request, error) {
	request := kmsg.RequestForKey(f.key)
	request.SetVersion(f.version)
	body := f.body
	if request.IsFlexible() {
		var err error
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	// What is decoded may point into the body, which lives as long.
	if unsafe, ok := request.(kmsg.UnsafeReadFrom); ok {
		return request, unsafe.UnsafeReadFrom(body)
	}
	return request, request.ReadFrom(body)
}

// skipTags passes over the tagged fields of a header.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errFrameHeader
	}
	b = b[n:]
	for range min(count, uint64(len(b))+1) {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errFrameHeader
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, errFrameHeader
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// appendResponse appends an answer with its size and header.
func appendResponse(dst []byte, correlation int32, response kmsg.Response) []byte {
	begin := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if response.IsFlexible() && kmsg.Key(response.Key()) != kmsg.ApiVersions {
		dst = append(dst, 0) // no tags; a client that asks for versions cannot know yet whether there are any
	}
	dst = response.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-4))
	return dst
}

// readResponse reads the answer to a request. There is one request at a time on a connection, so no other answer is due.
func readResponse(r *bufio.Reader, correlation int32, request kmsg.Request) (response kmsg.Response, size int, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, 0, err
	}
	size = int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > maxAnswer {
		return nil, 0, fmt.Errorf("an answer of %d bytes", size)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != correlation {
		return nil, 0, fmt.Errorf("an answer to request %d, want %d", got, correlation)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, 0, err
	}
	response = request.ResponseKind()
	response.SetVersion(request.GetVersion())
	if response.IsFlexible() && kmsg.Key(response.Key()) != kmsg.ApiVersions {
		if body, err = skipTags(body); err != nil {
			return nil, 0, err
		}
	}
	return response, 4 + size, response.ReadFrom(body)
}
