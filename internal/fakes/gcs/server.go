package gcs

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config shapes a server.
type Config struct {
	// Buckets are the buckets that exist.
	Buckets []string
	// Tokens are the bearer tokens that are let in. Default: every request is, one without a token too.
	Tokens []string
	// PageSize is the number of objects in a page of a list, if the request names no smaller one. Default 1,000.
	PageSize int
	// WriteInterval is how soon after a write of a name the next one is refused with 429. The service has a limit of
	// about one a second. Default: never.
	WriteInterval time.Duration
}

// Server is the store. All methods may be called concurrently.
type Server struct {
	cfg    Config
	closed chan struct{}
	close  sync.Once

	mu         sync.Mutex
	buckets    map[string]map[string]object
	written    map[string]time.Time // by bucket and key
	generation int64
	fault      func(Request) Fault
	counts     map[string]int
	requests   []Request
}

type object struct {
	data        []byte
	stored      time.Time
	generation  int64
	contentType string
}

// New makes a server with empty buckets.
func New(cfg Config) *Server {
	if cfg.PageSize == 0 {
		cfg.PageSize = 1000
	}
	s := &Server{
		cfg: cfg, closed: make(chan struct{}),
		buckets: map[string]map[string]object{}, written: map[string]time.Time{}, counts: map[string]int{},
	}
	for _, bucket := range cfg.Buckets {
		s.buckets[bucket] = map[string]object{}
	}
	return s
}

// Close ends the waits of faults, for good. What serves the handler is closed by itself, afterwards.
func (s *Server) Close() { s.close.Do(func() { close(s.closed) }) }

// The operations, as the JSON API names them, but for Read: that is a get of the object's bytes.
const (
	Insert    = "objects.insert"
	Read      = "objects.read"
	Get       = "objects.get"
	Delete    = "objects.delete"
	List      = "objects.list"
	GetBucket = "buckets.get"
	Unknown   = "unknown"
)

// Request is one request as it came over the wire.
type Request struct {
	// Op is one of the constants above.
	Op     string
	Bucket string
	Key    string
	// XML says that a Read came by the XML API.
	XML bool
	// Number counts the requests of this Op, from 1.
	Number int
	Method string
	Proto  string
	Query  url.Values
	Header http.Header
	// TransferEncoding is empty for a body with a Content-Length.
	TransferEncoding []string
	ContentLength    int64
	// Body is what came, in Requests alone: a fault is chosen before the body is read.
	Body []byte
}

// Token is the bearer token of the request, "" for none.
func (r Request) Token() string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

// Metadata and Media are the two parts of an Insert, as far as they came.
func (r Request) Metadata() []byte {
	metadata, _, _ := parts(r.Header.Get("Content-Type"), r.Body)
	return metadata
}

// Media is described at Metadata.
func (r Request) Media() []byte {
	_, media, _ := parts(r.Header.Get("Content-Type"), r.Body)
	return media
}

// Fault sets what chooses the fault of each request; nil is no fault. It runs under the server's lock and must not call
// the server.
func (s *Server) Fault(fault func(Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests returns what has come so far, in the order of coming.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count is the number of requests of an operation.
func (s *Server) Count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Object returns the bytes of an object.
func (s *Server) Object(bucket, key string) (data []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.buckets[bucket][key]
	return o.data, found
}

// Store puts an object there, whatever was there before.
func (s *Server) Store(bucket, key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.buckets[bucket][key] = object{data: data, stored: time.Now(), generation: s.generation}
}

// Keys returns the keys of a bucket, sorted.
func (s *Server) Keys(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.buckets[bucket]))
	for key := range s.buckets[bucket] {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := operationOf(r)
	request.Method, request.Proto, request.Query = r.Method, r.Proto, r.URL.Query()
	request.Header, request.TransferEncoding, request.ContentLength = r.Header.Clone(), r.TransferEncoding, r.ContentLength
	request.Header.Set("Host", r.Host)

	s.mu.Lock()
	s.counts[request.Op]++
	request.Number = s.counts[request.Op]
	index := len(s.requests)
	s.requests = append(s.requests, request)
	var fault Fault
	if s.fault != nil {
		fault = s.fault(request)
	}
	s.mu.Unlock()

	answered := fault.before(w, r, request, s.closed)
	if answered && !fault.ReadOn {
		return
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests[index].Body = body
	s.mu.Unlock()
	if answered {
		return
	}
	if err != nil { // an upload that was cut, however well formed what came of it is
		(&problem{400, "badRequest", "The request body ended early."}).write(w)
		return
	}
	if fault.afterBody(w, request) {
		return
	}
	if fault.after() {
		discard := &discarded{header: http.Header{}}
		s.answer(discard, r, request, body, fault)
		fault.afterCommit(w, request)
		return
	}
	s.answer(w, r, request, body, fault)
}

// operationOf tells what a request is.
func operationOf(r *http.Request) Request {
	escaped := r.URL.EscapedPath()
	unescape := func(text string) string {
		if plain, err := url.PathUnescape(text); err == nil {
			return plain
		}
		return text
	}
	if rest, found := strings.CutPrefix(escaped, "/upload/storage/v1/b/"); found {
		bucket, after, _ := strings.Cut(rest, "/")
		if r.Method == http.MethodPost && after == "o" {
			return Request{Op: Insert, Bucket: unescape(bucket), Key: r.URL.Query().Get("name")}
		}
		return Request{Op: Unknown}
	}
	rest, found := strings.CutPrefix(escaped, "/storage/v1/b/")
	if !found {
		bucket, key, _ := strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
		if r.Method == http.MethodGet && bucket != "" && key != "" {
			return Request{Op: Read, Bucket: unescape(bucket), Key: unescape(key), XML: true}
		}
		return Request{Op: Unknown}
	}
	bucket, after, objects := strings.Cut(rest, "/")
	request := Request{Op: Unknown, Bucket: unescape(bucket)}
	key, one := strings.CutPrefix(after, "o/")
	request.Key = unescape(key)
	switch {
	case !objects && r.Method == http.MethodGet:
		request.Op = GetBucket
	case after == "o" && r.Method == http.MethodGet:
		request.Op, request.Key = List, ""
	case one && r.Method == http.MethodGet && r.URL.Query().Get("alt") == "media":
		request.Op = Read
	case one && r.Method == http.MethodGet:
		request.Op = Get
	case one && r.Method == http.MethodDelete:
		request.Op = Delete
	}
	return request
}

// discarded is where the answer goes that a fault takes away.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}
