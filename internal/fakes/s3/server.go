package s3

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/walhop/walhop/internal/fakes/faulty"
)

// Config shapes a server.
type Config struct {
	// Buckets are the buckets that exist. Those whose names end in "--x-s3" are directory buckets: they want a session, list
	// in no order, refuse prefixes that do not end in "/", and know no MD5.
	Buckets []string
	// AccessKeys are the access key ids that are let in. Default: every request is, unsigned ones too.
	AccessKeys []string
	// PageSize is the number of keys in a page of a list, if the request names no smaller one. Default 1,000.
	PageSize int
	// Old makes a store that refuses the checksum headers of today, as old compatible ones do.
	Old bool
	// Skew is how far the server's clock is ahead of everybody else's. Requests whose time differs by more than 15
	// minutes from it are refused.
	Skew time.Duration
}

// Server is the store. All methods may be called concurrently.
type Server struct {
	*faulty.Script[Request, Fault, *Request]
	cfg Config

	mu       sync.Mutex
	buckets  map[string]map[string]object
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
	s := &Server{
		Script: faulty.NewScript[Request, Fault](), cfg: cfg,
		buckets: map[string]map[string]object{}, sessions: map[string]time.Time{},
	}
	for _, bucket := range cfg.Buckets {
		s.buckets[bucket] = map[string]object{}
	}
	return s
}

// Request is one request as it came over the wire.
type Request struct {
	faulty.Request // Op is PutObject, GetObject, HeadObject, DeleteObjects, ListObjectsV2, HeadBucket, CreateSession or Unknown

	Bucket string
	Key    string
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

// SetSkew changes Config.Skew.
func (s *Server) SetSkew(skew time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Skew = skew
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
	return slices.Sorted(maps.Keys(s.buckets[bucket]))
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

// exchange is one request and what becomes of it.
type exchange struct {
	server  *Server
	r       *http.Request
	request Request
	fault   Fault
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{Request: faulty.Came(r)}
	request.Op, request.Bucket, request.Key = s.operationOf(r)
	s.mu.Lock()
	skew := s.cfg.Skew
	s.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	fault, record := s.Begin(&request)
	faulty.Serve(w, r, fault.course(), &exchange{s, r, request, fault}, record, s.Closed())
}

// Broken implements faulty.Exchange.
func (*exchange) Broken(w http.ResponseWriter) {
	(&problem{400, "IncompleteBody", "The request body terminated unexpectedly"}).write(w, false)
}

// Answer implements faulty.Exchange.
func (x *exchange) Answer(w http.ResponseWriter, body []byte) {
	x.server.mu.Lock()
	reply, wrong := x.server.carryOut(x.r, x.request, body, x.fault)
	x.server.mu.Unlock()
	if wrong != nil {
		wrong.write(w, x.r.Method == http.MethodHead)
		return
	}
	reply(w) // not under the lock: the client may read slowly, or not at all
}

type reply func(w http.ResponseWriter)
