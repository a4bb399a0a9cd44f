package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Config says what is behind a proxy. Exactly one of Handler and URL must be set.
type Config struct {
	// Handler is the server.
	Handler http.Handler
	// URL is the address of the server: its scheme and host.
	URL string
	// Transport sends the requests to URL. Default: a transport of the proxy's own.
	Transport http.RoundTripper
	// Host takes the place of the Host header. Default: what the client has sent.
	Host string
	// Whole returns the object that a request reads a range of, nil where it is not known. Default: nothing is known.
	Whole func(*http.Request) []byte
	// Operation names what a request asks for. Default: its method.
	Operation func(*http.Request) string
}

// Proxy is the handler. All methods may be called concurrently.
type Proxy struct {
	cfg      Config
	upstream *url.URL
	own      *http.Transport
	ctx      context.Context // of the requests to the server, ended by Close
	cancel   context.CancelFunc

	mu       sync.Mutex
	script   func(Request) Fault
	requests []*Request
	counts   map[string]int
}

// Request is one request as it came over the wire.
type Request struct {
	// Operation is what Config.Operation has called it.
	Operation string
	// Number counts the requests of this operation, and Total all of them, from 1, since the script was set.
	Number, Total int
	Method        string
	// URI is the path and the query as they were sent.
	URI    string
	Host   string
	Proto  string
	Header http.Header
	// TransferEncoding is empty for a body with a Content-Length. Trailer are the names that the head announces.
	TransferEncoding []string
	ContentLength    int64
	Trailer          []string
	// Came is when the head had come.
	Came time.Time
	// Body is what was read of the body, and Whole tells whether it was read to its end. A script is asked before that.
	Body  []byte
	Whole bool
}

// New makes a proxy that lets everything through.
func New(cfg Config) (*Proxy, error) {
	if (cfg.Handler == nil) == (cfg.URL == "") {
		return nil, errors.New("faultproxy: Config: exactly one of Handler and URL is needed")
	}
	p := &Proxy{cfg: cfg, counts: map[string]int{}}
	if cfg.URL != "" {
		upstream, err := url.Parse(cfg.URL)
		if err != nil || upstream.Host == "" || upstream.Scheme != "http" && upstream.Scheme != "https" {
			return nil, errors.New("faultproxy: Config.URL is no http or https URL with a host")
		}
		p.upstream = upstream
		if cfg.Transport == nil {
			p.own = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
			p.cfg.Transport = p.own
		}
	}
	if cfg.Operation == nil {
		p.cfg.Operation = func(r *http.Request) string { return r.Method }
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Script sets what chooses the fault of each request, nil for none, and begins a new record of requests. It is called
// for one request at a time, in the order of their coming, and must not call the proxy.
func (p *Proxy) Script(script func(Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script, p.requests, p.counts = script, nil, map[string]int{}
}

// Requests returns what has come since the script was set, in the order of coming.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := make([]Request, len(p.requests))
	for i, request := range p.requests {
		requests[i] = *request
	}
	return requests
}

// Count is the number of requests of an operation since the script was set.
func (p *Proxy) Count(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[operation]
}

// Close ends every stall and every request to the server, for good. What serves the proxy is closed by itself,
// afterwards.
func (p *Proxy) Close() {
	p.cancel()
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
}

// note records a request and asks the script.
func (p *Proxy) note(r *http.Request) (*Request, Fault) {
	request := &Request{
		Operation: p.cfg.Operation(r), Method: r.Method, URI: r.RequestURI, Host: r.Host, Proto: r.Proto, Header: r.Header.Clone(),
		TransferEncoding: r.TransferEncoding, ContentLength: r.ContentLength, Came: time.Now(),
	}
	for name := range r.Trailer {
		request.Trailer = append(request.Trailer, name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[request.Operation]++
	p.requests = append(p.requests, request)
	request.Number, request.Total = p.counts[request.Operation], len(p.requests)
	if p.script == nil {
		return request, Fault{}
	}
	return request, p.script(*request)
}

// ServeHTTP passes one request on, with its fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, fault := p.note(r)
	p.wait(r, fault)
	if p.at(w, r, fault, BeforeBody) {
		return
	}
	body, ok := p.read(w, r, request, fault)
	if !ok || p.at(w, r, fault, BeforeServer) {
		return
	}
	if fault.FlipRequest {
		body = flipped(body)
	}
	answer, err := p.forward(r, body, fault)
	if err != nil {
		// The server cannot be reached or has hung up: the client sees the same.
		reset(w)
		return
	}
	if p.at(w, r, fault, AfterServer) {
		return
	}
	if fault.Edit != nil {
		fault.Edit(answer)
	}
	if fault.FlipAnswer {
		answer.Body = flipped(answer.Body)
	}
	p.send(w, r, answer, fault)
}

func (p *Proxy) wait(r *http.Request, fault Fault) {
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-p.ctx.Done():
		}
	}
	if fault.Wait != nil {
		select {
		case <-fault.Wait:
		case <-r.Context().Done():
		case <-p.ctx.Done():
		}
	}
}

// at does what the fault wants at a point, and tells whether the request is over then.
func (p *Proxy) at(w http.ResponseWriter, r *http.Request, fault Fault, point Point) (over bool) {
	if fault.Reset == point {
		reset(w)
		return true
	}
	if fault.Stall == point {
		p.stall(r, fault)
		panic(http.ErrAbortHandler)
	}
	when := fault.At
	if when == 0 {
		when = BeforeServer
	}
	if fault.Answer == nil || when != point {
		return false
	}
	if point == BeforeBody {
		p.early(w, r, fault.Answer)
	} else {
		answer := *fault.Answer
		p.send(w, r, &answer, fault)
	}
	return true
}

// stall waits until the client has gone or the proxy is closed. net/http does not notice that the client has gone as
// long as there is a body to read.
func (p *Proxy) stall(r *http.Request, fault Fault) {
	if fault.Stalled != nil {
		fault.Stalled()
	}
	select {
	case <-r.Context().Done():
	case <-p.ctx.Done():
	}
}

// early answers before the body was read, and never reads it. net/http would read some of it by itself, so the
// connection is taken from it.
func (p *Proxy) early(w http.ResponseWriter, r *http.Request, answer *Answer) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", answer.Status, http.StatusText(answer.Status), len(answer.Body))
	_ = answer.Header.Write(&head)
	head.WriteString("\r\n")
	if r.Method != http.MethodHead {
		head.Write(answer.Body)
	}
	_, _ = conn.Write(head.Bytes())
	<-p.ctx.Done()
	_ = conn.Close()
}

// read reads the body of the request into the record.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request, request *Request, fault Fault) (body []byte, ok bool) {
	from := io.Reader(r.Body)
	if fault.Reset == InBody {
		from = io.LimitReader(r.Body, max(r.ContentLength/2, 1))
	}
	body, err := io.ReadAll(from)
	whole := err == nil && fault.Reset != InBody
	p.mu.Lock()
	request.Body, request.Whole = body, whole
	p.mu.Unlock()
	if !whole {
		reset(w)
	}
	return body, whole
}

// flipped returns a copy with one bit changed.
func flipped(body []byte) []byte {
	body = bytes.Clone(body)
	if len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	return body
}

// rangeHeaders are the headers that ask for a part of an object.
var rangeHeaders = []string{"Range", "X-Ms-Range", "X-Ms-Range-Get-Content-Crc64", "X-Ms-Range-Get-Content-Md5"}

// forward lets the server carry the request out. It does so to the end even if the client has gone, so that a lost
// answer is always that to a request that has had its effect.
func (p *Proxy) forward(r *http.Request, body []byte, fault Fault) (answer *Answer, err error) {
	out := r.Clone(p.ctx)
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 && r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	out.TransferEncoding = nil
	if len(r.TransferEncoding) > 0 {
		out.ContentLength = -1
		out.TransferEncoding = r.TransferEncoding
	}
	var whole []byte
	if fault.WholeObject && p.cfg.Whole != nil {
		whole = p.cfg.Whole(r)
	}
	if fault.WholeObject && whole == nil {
		for _, name := range rangeHeaders {
			out.Header.Del(name)
		}
	}
	if p.cfg.Host != "" {
		out.Host = p.cfg.Host
	}
	if p.cfg.Handler != nil {
		answer, err := handle(p.cfg.Handler, out)
		return ignored(answer, whole), err
	}
	out.URL.Scheme, out.URL.Host = p.upstream.Scheme, p.upstream.Host
	out.RequestURI = ""
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = nil // net/http would add its own
	}
	got, err := p.cfg.Transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = got.Body.Close() }()
	content, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	return ignored(&Answer{Status: got.StatusCode, Header: got.Header, Body: content}, whole), nil
}

// ignored makes the answer with a range of an object that with the whole of it, unless there is none.
func ignored(answer *Answer, whole []byte) *Answer {
	if answer != nil && whole != nil && answer.Status == http.StatusPartialContent {
		answer.Status, answer.Body = http.StatusOK, whole
		answer.Header.Del("Content-Range")
	}
	return answer
}

var errAborted = errors.New("the server has dropped the connection")

// handle lets a handler answer.
func handle(handler http.Handler, r *http.Request) (answer *Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			answer, err = nil, errAborted
		}
	}()
	into := &collector{header: http.Header{}}
	handler.ServeHTTP(into, r)
	into.WriteHeader(http.StatusOK)
	return &Answer{Status: into.status, Header: into.sent, Body: into.body.Bytes()}, nil
}

// collector is the http.ResponseWriter that a handler writes to.
type collector struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

func (c *collector) Header() http.Header { return c.header }

func (c *collector) WriteHeader(status int) {
	if c.status == 0 && status >= http.StatusOK {
		c.status, c.sent = status, c.header.Clone()
	}
}

func (c *collector) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	return c.body.Write(b)
}

func (c *collector) Flush() { c.WriteHeader(http.StatusOK) }

// ofConnection are the headers that say something of one connection alone.
var ofConnection = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// send sends an answer, whole or not.
func (p *Proxy) send(w http.ResponseWriter, r *http.Request, answer *Answer, fault Fault) {
	header := w.Header()
	for name, values := range answer.Header {
		header[name] = values
	}
	for _, name := range ofConnection {
		header.Del(name)
	}
	body, ends := answer.Body, false
	switch {
	case fault.Cut != 0, fault.Reset == InAnswer, fault.Stall == InAnswer:
		body = body[:min(fault.Bytes, len(body))]
		ends = fault.Cut != CutClean
	}
	if bodyAllowed(r, answer.Status) {
		switch fault.Cut {
		case CutChunked:
			header.Del("Content-Length")
		case CutClean:
			header.Set("Content-Length", strconv.Itoa(len(body)))
		default:
			header.Set("Content-Length", strconv.Itoa(len(answer.Body)))
		}
	} else {
		body = nil
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(body)
	if !ends {
		return
	}
	_ = http.NewResponseController(w).Flush()
	switch {
	case fault.Stall == InAnswer:
		p.stall(r, fault)
	case fault.Reset == InAnswer:
		reset(w)
		return
	}
	panic(http.ErrAbortHandler)
}

func bodyAllowed(r *http.Request, status int) bool {
	return r.Method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified
}

// reset drops the connection: over a socket with a TCP reset, so that the client does not take it for an end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	below := conn
	if secure, ok := conn.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	if socket, ok := below.(*net.TCPConn); ok {
		_ = socket.SetLinger(0)
	}
	_ = below.Close()
}
