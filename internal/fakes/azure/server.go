package azure

import (
	"bytes"
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
	*faulty.Script[Request, Fault, *Request]
	cfg Config

	mu         sync.Mutex
	containers map[string]map[string]blob
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
	s := &Server{Script: faulty.NewScript[Request, Fault](), cfg: cfg, containers: map[string]map[string]blob{}}
	for _, container := range cfg.Containers {
		s.containers[container] = map[string]blob{}
	}
	return s
}

// Request is one request as it came over the wire.
type Request struct {
	faulty.Request // Op is PutBlob, GetBlob, GetBlobProperties, ListBlobs, DeleteBlob, BlobBatch or Unknown

	Container string
	Key       string
	Query     string
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
	return slices.Sorted(maps.Keys(s.containers[container]))
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

// exchange is one request and what becomes of it.
type exchange struct {
	server  *Server
	r       *http.Request
	request Request
	fault   Fault
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{Request: faulty.Came(r), Query: r.URL.RawQuery}
	request.Op, request.Container, request.Key = s.operationOf(r.Method, r.URL.Path, r.URL.Query())
	w.Header().Set("Date", time.Now().Add(s.cfg.Skew).UTC().Format(http.TimeFormat))
	w.Header().Set("x-ms-request-id", "fake")
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		// Of use with status 401 alone, where the service sends it.
		w.Header().Set("WWW-Authenticate", "Bearer authorization_uri=https://login.invalid/tenant/oauth2/authorize resource_id="+s.cfg.Resource)
	}
	fault, record := s.Begin(&request)
	faulty.Serve(w, r, fault.course(), &exchange{s, r, request, fault}, record, s.Closed())
}

// Broken implements faulty.Exchange.
func (*exchange) Broken(http.ResponseWriter) {
	panic(http.ErrAbortHandler) // a body that was cut has no answer
}

// Answer implements faulty.Exchange.
func (x *exchange) Answer(w http.ResponseWriter, body []byte) {
	x.server.mu.Lock()
	reply, wrong := x.server.carryOut(x.r, x.request, bytes.Clone(body), x.fault)
	x.server.mu.Unlock()
	if wrong != nil {
		wrong.write(w, x.r.Method == http.MethodHead)
		return
	}
	reply(w) // not under the lock: the client may read slowly, or not at all
}

type reply func(w http.ResponseWriter)
