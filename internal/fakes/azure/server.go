package azure

import (
	"bytes"
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
	// Account is the storage account. Default "account". It may be the first part of the path, as emulators have it, or
	// of the host's name.
	Account string
	// Containers are the containers that exist.
	Containers []string
	// Keys are the account's keys, in base64, whose signatures are let in. If there are none, every signature of the
	// account is, unverified.
	Keys []string
	// Signatures are the values of "sig" of the SAS that are let in, Tokens the bearer tokens. If there are none, each
	// is.
	Signatures []string
	Tokens     []string
	// Resource is what a refused token is told to be for. Default "https://storage.azure.com".
	Resource string
	// PageSize is the number of blobs in a page of a list, if the request names no smaller one. Default 5,000.
	PageSize int
	// NoCRC64 makes a server that refuses the header of the CRC-64, NoBatch one that knows no Blob Batch.
	NoCRC64 bool
	NoBatch bool
	// Skew is how far the server's clock is ahead of everybody else's. Requests signed with a shared key whose time
	// differs by more than 15 minutes from it are refused.
	Skew time.Duration
}

// Server is the store. All methods may be called concurrently.
type Server struct {
	cfg    Config
	closed chan struct{}
	close  sync.Once

	mu         sync.Mutex
	containers map[string]map[string]blob
	fault      func(Request) Fault
	counts     map[string]int
	requests   []Request
}

type blob struct {
	data     []byte
	stored   time.Time
	metadata map[string]string // by name in lower case
}

// New makes a server with empty containers.
func New(cfg Config) *Server {
	if cfg.Account == "" {
		cfg.Account = "account"
	}
	if cfg.Resource == "" {
		cfg.Resource = "https://storage.azure.com"
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = 5000
	}
	s := &Server{cfg: cfg, closed: make(chan struct{}), containers: map[string]map[string]blob{}, counts: map[string]int{}}
	for _, container := range cfg.Containers {
		s.containers[container] = map[string]blob{}
	}
	return s
}

// Close ends the waits of faults, for good. What serves the handler is closed by itself, afterwards.
func (s *Server) Close() { s.close.Do(func() { close(s.closed) }) }

// Request is one request as it came over the wire.
type Request struct {
	// Op is PutBlob, GetBlob, GetBlobProperties, ListBlobs, DeleteBlob, BlobBatch or Unknown.
	Op        string
	Container string
	Key       string
	// Number counts the requests of this Op, from 1.
	Number int
	Proto  string
	Header http.Header
	Query  string
	// TransferEncoding is empty for a body with a Content-Length.
	TransferEncoding []string
	ContentLength    int64
	// Body is what came, in Requests alone: a fault is chosen before the body is read.
	Body []byte
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
	return append([]Request(nil), s.requests...)
}

// Count is the number of requests of an operation.
func (s *Server) Count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Object returns the bytes of a blob.
func (s *Server) Object(container, key string) (data []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, found := s.containers[container][key]
	return b.data, found
}

// Store puts a blob there, whatever was there before, with no metadata.
func (s *Server) Store(container, key string, data []byte) { s.StoreWith(container, key, data, nil) }

// StoreWith puts a blob there, whatever was there before, with metadata by name in lower case.
func (s *Server) StoreWith(container, key string, data []byte, metadata map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[container][key] = blob{data: data, stored: time.Now(), metadata: metadata}
}

// Keys returns the names of the blobs of a container, sorted.
func (s *Server) Keys(container string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.containers[container]))
	for key := range s.containers[container] {
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
	detail  string
}

// errorDocument is what the service sends with it.
type errorDocument struct {
	XMLName                   xml.Name `xml:"Error"`
	Code                      string
	Message                   string
	AuthenticationErrorDetail string `xml:",omitempty"`
}

// text is the error document.
func (p *problem) text() []byte {
	if p.code == "" {
		return nil
	}
	text, _ := xml.Marshal(errorDocument{
		Code: p.code, Message: p.message + "\nRequestId:fake\nTime:2026-01-01T00:00:00.0000000Z", AuthenticationErrorDetail: p.detail,
	})
	return append([]byte(xml.Header), text...)
}

func (p *problem) write(w http.ResponseWriter, head bool) {
	text := p.text()
	w.Header().Set("Content-Type", "application/xml")
	if p.code != "" {
		w.Header().Set("x-ms-error-code", p.code)
	}
	if head {
		text = nil
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(p.status)
	_, _ = w.Write(text)
}

// operationOf tells what a request is.
func (s *Server) operationOf(method, path string, query map[string][]string) (op, container, key string) {
	path = strings.TrimPrefix(path, "/")
	if first, rest, _ := strings.Cut(path, "/"); first == s.cfg.Account {
		path = rest
	}
	container, key, _ = strings.Cut(path, "/")
	get := func(name string) string {
		if values := query[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
	comp := get("comp")
	switch {
	case key == "" && get("restype") == "container" && comp == "batch" && method == http.MethodPost:
		op = "BlobBatch"
	case key == "" && get("restype") == "container" && comp == "list" && method == http.MethodGet:
		op = "ListBlobs"
	case key == "" || comp != "":
		op = "Unknown"
	case method == http.MethodPut:
		op = "PutBlob"
	case method == http.MethodGet:
		op = "GetBlob"
	case method == http.MethodHead:
		op = "GetBlobProperties"
	case method == http.MethodDelete:
		op = "DeleteBlob"
	default:
		op = "Unknown"
	}
	return op, container, key
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{
		Proto: r.Proto, Header: r.Header.Clone(), Query: r.URL.RawQuery,
		TransferEncoding: r.TransferEncoding, ContentLength: r.ContentLength,
	}
	request.Header.Set("Host", r.Host)
	request.Op, request.Container, request.Key = s.operationOf(r.Method, r.URL.Path, r.URL.Query())

	w.Header().Set("Date", time.Now().Add(s.cfg.Skew).UTC().Format(http.TimeFormat))
	w.Header().Set("x-ms-request-id", "fake")
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		// Of use with status 401 alone, where the service sends it.
		w.Header().Set("WWW-Authenticate", "Bearer authorization_uri=https://login.invalid/tenant/oauth2/authorize resource_id="+s.cfg.Resource)
	}

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

	if fault.before(w, r, s.closed) {
		return
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests[index].Body = body
	s.mu.Unlock()
	if err != nil {
		panic(http.ErrAbortHandler) // a body that was cut has no answer
	}
	if fault.afterBody(w, r, request.Op) {
		return
	}
	if fault.after() {
		s.answer(&discarded{header: http.Header{}}, r, request, body, fault)
		fault.afterCommit(w, r)
		return
	}
	s.answer(w, r, request, body, fault)
}

// answer carries the request out and answers it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, request Request, body []byte, fault Fault) {
	s.mu.Lock()
	reply, wrong := s.carryOut(r, request, bytes.Clone(body), fault)
	s.mu.Unlock()
	if wrong != nil {
		wrong.write(w, r.Method == http.MethodHead)
		return
	}
	reply(w) // not under the lock: the client may read slowly, or not at all
}

type reply func(w http.ResponseWriter)

// discarded is where the answer goes that a fault takes away.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}
