package gcs

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/walhop/walhop/internal/fakes/faulty"
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
	*faulty.Script[Request, Fault, *Request]
	cfg Config

	mu         sync.Mutex
	buckets    map[string]map[string]object
	written    map[string]time.Time // by bucket and key
	generation int64
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
		Script: faulty.NewScript[Request, Fault](), cfg: cfg,
		buckets: map[string]map[string]object{}, written: map[string]time.Time{},
	}
	for _, bucket := range cfg.Buckets {
		s.buckets[bucket] = map[string]object{}
	}
	return s
}

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
	faulty.Request // Op is one of the constants above

	Bucket string
	Key    string
	// XML says that a Read came by the XML API.
	XML    bool
	Method string
	Query  url.Values
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
	return slices.Sorted(maps.Keys(s.buckets[bucket]))
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
	request := Request{Request: faulty.Came(r), Method: r.Method, Query: r.URL.Query()}
	request.ask(r)
	fault, record := s.Begin(&request)
	faulty.Serve(w, r, fault.course(), &exchange{s, r, request, fault}, record, s.Closed())
}

// Broken implements faulty.Exchange. It refuses an upload that was cut, however well formed what came of it is.
func (*exchange) Broken(w http.ResponseWriter) {
	(&problem{400, "badRequest", "The request body ended early."}).write(w)
}

// Answer implements faulty.Exchange.
func (x *exchange) Answer(w http.ResponseWriter, body []byte) {
	x.server.mu.Lock()
	reply, wrong := x.server.carryOut(x.r, x.request, body, x.fault)
	x.server.mu.Unlock()
	if wrong != nil {
		wrong.answer(w, x.request)
		return
	}
	reply(w) // not under the lock: the client may read slowly, or not at all
}

type reply func(w http.ResponseWriter)

// ask sets what r asks for.
func (request *Request) ask(r *http.Request) {
	request.Op = Unknown
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
			request.Op, request.Bucket, request.Key = Insert, unescape(bucket), r.URL.Query().Get("name")
		}
		return
	}
	rest, found := strings.CutPrefix(escaped, "/storage/v1/b/")
	if !found {
		bucket, key, _ := strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
		if r.Method == http.MethodGet && bucket != "" && key != "" {
			request.Op, request.Bucket, request.Key, request.XML = Read, unescape(bucket), unescape(key), true
		}
		return
	}
	bucket, after, objects := strings.Cut(rest, "/")
	request.Bucket = unescape(bucket)
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
}
