package s3

import (
	"encoding/xml"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config shapes a server.
type Config struct {
	// Buckets are the buckets that exist.
	Buckets []string
	// AccessKeys are the access key ids that are let in. Default: every request is, unsigned ones too.
	AccessKeys []string
	// PageSize is the number of keys in a page of a list, if the request names no smaller one. Default 1,000.
	PageSize int
	// Old makes a store that refuses the checksum headers of today, as old compatible ones do.
	Old bool
	// Session is how long a session of a directory bucket lasts. Default five minutes. Buckets whose names end in
	// "--x-s3" are directory buckets: they want a session, list in no order, refuse prefixes that do not end in "/",
	// and know no MD5.
	Session time.Duration
	// Skew is how far the server's clock is ahead of everybody else's. Requests whose time differs by more than 15
	// minutes from it are refused.
	Skew time.Duration
}

// Server is the store. All methods may be called concurrently.
type Server struct {
	cfg    Config
	closed chan struct{}
	close  sync.Once

	mu       sync.Mutex
	buckets  map[string]map[string]object
	fault    func(Request) Fault
	counts   map[string]int
	requests []Request
	sessions map[string]time.Time // by token, until when
}

type object struct {
	data      []byte
	stored    time.Time
	checksum  string // CRC-32C in base64, "" if the upload named none
	encrypted string // the KMS key
}

// New makes a server with empty buckets.
func New(cfg Config) *Server {
	if cfg.PageSize == 0 {
		cfg.PageSize = 1000
	}
	if cfg.Session == 0 {
		cfg.Session = 5 * time.Minute
	}
	s := &Server{
		cfg: cfg, closed: make(chan struct{}),
		buckets: map[string]map[string]object{}, counts: map[string]int{}, sessions: map[string]time.Time{},
	}
	for _, bucket := range cfg.Buckets {
		s.buckets[bucket] = map[string]object{}
	}
	return s
}

// Close ends the waits of faults, for good. What serves the handler is closed by itself, afterwards.
func (s *Server) Close() { s.close.Do(func() { close(s.closed) }) }

// Request is one request as it came over the wire.
type Request struct {
	// Op is PutObject, GetObject, HeadObject, DeleteObjects, ListObjectsV2, HeadBucket, CreateSession or Unknown.
	Op     string
	Bucket string
	Key    string
	// Number counts the requests of this Op, from 1.
	Number int
	Proto  string
	Header http.Header
	// TransferEncoding is empty for a body with a Content-Length.
	TransferEncoding []string
	ContentLength    int64
	// Body is what came, in Requests alone: a fault is chosen before the body is read.
	Body []byte
}

// AccessKey is the access key id that signed the request, "" for none.
func (r Request) AccessKey() string {
	_, rest, found := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if !found {
		return ""
	}
	key, _, _ := strings.Cut(rest, "/")
	return key
}

// Fault sets what chooses the fault of each request; nil is no fault. It runs under the server's lock and must not call
// the server.
func (s *Server) Fault(fault func(Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// SetSkew changes Config.Skew.
func (s *Server) SetSkew(skew time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Skew = skew
}

// Requests returns what has come so far, in the order of coming.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
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

// Store puts an object there, whatever was there before, with no checksum known.
func (s *Server) Store(bucket, key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[bucket][key] = object{data: data, stored: time.Now()}
}

// Keys returns the keys of a bucket, sorted.
func (s *Server) Keys(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.buckets[bucket]))
	for key := range s.buckets[bucket] {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// problem is an error answer.
type problem struct {
	status  int
	code    string
	message string
}

// errorDocument is what S3 sends with it.
type errorDocument struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	RequestID string `xml:"RequestId"`
}

func (p *problem) write(w http.ResponseWriter, head bool) {
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("X-Amz-Request-Id", "fake")
	text, _ := xml.Marshal(errorDocument{Code: p.code, Message: p.message, RequestID: "fake"})
	if head {
		text = nil
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(p.status)
	_, _ = w.Write(text)
}

// operationOf tells what a request is. The bucket is the first part of the host's name, if there is such a bucket, and
// else the first part of the path.
func (s *Server) operationOf(r *http.Request) (op, bucket, key string) {
	bucket, _, _ = strings.Cut(r.Host, ".")
	key = strings.TrimPrefix(r.URL.Path, "/")
	if _, exists := s.buckets[bucket]; !exists {
		bucket, key, _ = strings.Cut(key, "/")
	}
	query := r.URL.Query()
	switch {
	case query.Has("session"):
		op = "CreateSession"
	case r.Method == http.MethodPost && query.Has("delete"):
		op = "DeleteObjects"
	case r.Method == http.MethodGet && query.Get("list-type") == "2":
		op = "ListObjectsV2"
	case r.Method == http.MethodHead && key == "":
		op = "HeadBucket"
	case r.Method == http.MethodPut && key != "":
		op = "PutObject"
	case r.Method == http.MethodGet && key != "":
		op = "GetObject"
	case r.Method == http.MethodHead:
		op = "HeadObject"
	default:
		op = "Unknown"
	}
	return op, bucket, key
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{Proto: r.Proto, Header: r.Header.Clone(), TransferEncoding: r.TransferEncoding, ContentLength: r.ContentLength}
	request.Header.Set("Host", r.Host)

	s.mu.Lock()
	w.Header().Set("Date", time.Now().Add(s.cfg.Skew).UTC().Format(http.TimeFormat))
	request.Op, request.Bucket, request.Key = s.operationOf(r)
	s.counts[request.Op]++
	request.Number = s.counts[request.Op]
	index := len(s.requests)
	s.requests = append(s.requests, request)
	var fault Fault
	if s.fault != nil {
		fault = s.fault(request)
	}
	s.mu.Unlock()

	answered := fault.before(w, r, s.closed)
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
	if err != nil {
		(&problem{400, "IncompleteBody", "The request body terminated unexpectedly"}).write(w, false)
		return
	}
	if fault.afterBody(w, r) {
		return
	}
	if fault.after() {
		discard := &discarded{header: http.Header{}}
		s.answer(discard, r, request, body, fault)
		fault.afterCommit(w, r)
		return
	}
	s.answer(w, r, request, body, fault)
}

// discarded is where the answer goes that a fault takes away.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}
