package azure

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"hash/crc64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// carryOut runs under the lock, so that every request is atomic.
func (s *Server) carryOut(r *http.Request, request Request, body []byte, fault Fault) (reply, *problem) {
	if r.Header.Get("Content-Length") == "" && r.ContentLength > 0 {
		r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10)) // net/http takes it out; it is signed
	}
	if refused := s.authorise(r); refused != nil {
		return nil, refused
	}
	if r.Header.Get("x-ms-version") == "" {
		return nil, &problem{status: 400, code: "MissingRequiredHeader", message: "An HTTP header that's mandatory for this request is not specified."}
	}
	container, exists := s.containers[request.Container]
	if !exists && request.Op != "BlobBatch" { // a batch that is well formed is accepted, and each part answered
		return nil, noContainer
	}
	if s.cfg.NoCRC64 && r.Header.Get("x-ms-content-crc64") != "" {
		return nil, &problem{status: 400, code: "UnsupportedHeader", message: "One of the HTTP headers specified in the request is not supported."}
	}
	if wrong := verify(r, body); wrong != nil {
		return nil, wrong
	}
	switch request.Op {
	case "PutBlob":
		return s.put(r, container, request.Key, body)
	case "GetBlob":
		return s.get(r, container, request.Key, fault)
	case "GetBlobProperties":
		return s.head(container, request.Key)
	case "ListBlobs":
		return s.list(r, request.Container, container, fault)
	case "DeleteBlob":
		return s.delete(container, request.Key, fault)
	case "BlobBatch":
		return s.batch(r, request, body, fault)
	}
	return nil, &problem{status: 405, code: "UnsupportedHttpVerb", message: "The resource doesn't support specified Http Verb."}
}

var (
	noContainer = &problem{status: 404, code: "ContainerNotFound", message: "The specified container does not exist."}
	noBlob      = &problem{status: 404, code: "BlobNotFound", message: "The specified blob does not exist."}
)

// nvme is the polynomial of CRC-64/NVME, reflected, which the service calls CRC64.
var nvme = crc64.MakeTable(0x9A6C9329AC4BC9B5)

// verify checks every checksum that the request names.
func verify(r *http.Request, body []byte) *problem {
	if told := r.Header.Get("x-ms-content-crc64"); told != "" {
		sum := base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, crc64.Checksum(body, nvme)))
		if told != sum {
			return &problem{status: 400, code: "Crc64Mismatch", message: "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."}
		}
	}
	if told := r.Header.Get("Content-MD5"); told != "" && told != encodedMD5(body) {
		if sum, err := base64.StdEncoding.DecodeString(told); err != nil || len(sum) != md5.Size {
			return &problem{status: 400, code: "InvalidMd5", message: "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded."}
		}
		return &problem{status: 400, code: "Md5Mismatch", message: "The MD5 value specified in the request did not match with the MD5 value calculated by the server."}
	}
	return nil
}

func encodedMD5(data []byte) string {
	sum := md5.Sum(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func etag(b blob) string {
	sum := md5.Sum(b.data)
	return `"0x` + strings.ToUpper(hex.EncodeToString(sum[:7])) + `"`
}

func (s *Server) put(r *http.Request, container map[string]blob, key string, body []byte) (reply, *problem) {
	if kind := r.Header.Get("x-ms-blob-type"); kind != "BlockBlob" {
		return nil, &problem{status: 400, code: "InvalidHeaderValue", message: "The value for one of the HTTP headers is not in the correct format."}
	}
	if condition := r.Header.Get("If-None-Match"); condition != "" {
		if condition != "*" {
			return nil, &problem{status: 400, code: "UnsupportedHeader", message: "One of the HTTP headers specified in the request is not supported."}
		}
		if _, exists := container[key]; exists {
			return nil, &problem{status: 409, code: "BlobAlreadyExists", message: "The specified blob already exists."}
		}
	}
	b := blob{data: body, stored: time.Now(), metadata: map[string]string{}}
	for name, values := range r.Header {
		if name, found := strings.CutPrefix(strings.ToLower(name), "x-ms-meta-"); found {
			b.metadata[name] = values[0]
		}
	}
	container[key] = b
	checksum := r.Header.Get("x-ms-content-crc64")
	return func(w http.ResponseWriter) {
		w.Header().Set("ETag", etag(b))
		w.Header().Set("Last-Modified", b.stored.UTC().Format(http.TimeFormat))
		w.Header().Set("x-ms-request-server-encrypted", "true")
		if checksum != "" {
			w.Header().Set("x-ms-content-crc64", checksum)
		} else {
			w.Header().Set("Content-MD5", encodedMD5(b.data))
		}
		w.WriteHeader(http.StatusCreated)
	}, nil
}

// describe sets the headers that say what the blob is.
func describe(w http.ResponseWriter, b blob) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", etag(b))
	w.Header().Set("Last-Modified", b.stored.UTC().Format(http.TimeFormat))
	w.Header().Set("x-ms-blob-type", "BlockBlob")
	for name, value := range b.metadata {
		w.Header().Set("x-ms-meta-"+name, value)
	}
}

func (s *Server) get(r *http.Request, container map[string]blob, key string, fault Fault) (reply, *problem) {
	b, exists := container[key]
	if !exists {
		return nil, noBlob
	}
	asked := r.Header.Get("x-ms-range")
	if asked == "" {
		asked = r.Header.Get("Range")
	}
	part, there := fault.body().Of(b.data, asked)
	if !there {
		return nil, &problem{status: 416, code: "InvalidRange", message: "The range specified is invalid for the current size of the resource."}
	}
	return func(w http.ResponseWriter) {
		describe(w, b)
		fault.body().Send(w, r, part)
	}, nil
}

func (s *Server) head(container map[string]blob, key string) (reply, *problem) {
	b, exists := container[key]
	if !exists {
		return nil, noBlob
	}
	return func(w http.ResponseWriter) {
		describe(w, b)
		w.Header().Set("Content-Length", strconv.Itoa(len(b.data)))
		w.WriteHeader(http.StatusOK)
	}, nil
}

func (s *Server) delete(container map[string]blob, key string, fault Fault) (reply, *problem) {
	if code := fault.Keys[key]; code != "" {
		return nil, &problem{status: statusOf(code), code: code, message: "As the test wants it."}
	}
	if _, exists := container[key]; !exists {
		return nil, noBlob
	}
	delete(container, key)
	return func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, nil
}

type listResult struct {
	XMLName         xml.Name `xml:"EnumerationResults"`
	ServiceEndpoint string   `xml:",attr"`
	ContainerName   string   `xml:",attr"`
	Prefix          string
	MaxResults      int
	Blobs           struct {
		Blob []listed
	}
	NextMarker *string
}

type listed struct {
	Name struct {
		Encoded bool   `xml:",attr,omitempty"`
		Text    string `xml:",chardata"`
	}
	Properties struct {
		LastModified  string `xml:"Last-Modified"`
		Etag          string
		ContentLength int `xml:"Content-Length"`
		BlobType      string
	}
}

func (s *Server) list(r *http.Request, name string, container map[string]blob, fault Fault) (reply, *problem) {
	query := r.URL.Query()
	out := listResult{ServiceEndpoint: "http://" + r.Host + "/", ContainerName: name, Prefix: query.Get("prefix"), MaxResults: s.cfg.PageSize, NextMarker: new(string)}
	if asked, err := strconv.Atoi(query.Get("maxresults")); err == nil && asked > 0 {
		out.MaxResults = min(asked, out.MaxResults)
	}
	// The marker is the last name of the page, in a form that tells nothing.
	after, err := base64.StdEncoding.DecodeString(query.Get("marker"))
	if err != nil {
		return nil, &problem{status: 400, code: "OutOfRangeInput", message: "One of the request inputs is out of range."}
	}
	var keys []string
	for key := range container {
		if strings.HasPrefix(key, out.Prefix) && key > string(after) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(keys) > out.MaxResults {
		keys = keys[:out.MaxResults]
		*out.NextMarker = base64.StdEncoding.EncodeToString([]byte(keys[len(keys)-1]))
		if fault.Marker != "" {
			*out.NextMarker = fault.Marker
		}
	}
	if fault.NoMarker {
		out.NextMarker = nil
	}
	for _, key := range keys {
		var item listed
		item.Name.Text = key
		if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			item.Name.Encoded, item.Name.Text = true, url.QueryEscape(key) // XML cannot hold it
		}
		b := container[key]
		item.Properties.LastModified = b.stored.UTC().Format(http.TimeFormat)
		item.Properties.Etag = strings.Trim(etag(b), `"`)
		item.Properties.ContentLength = len(b.data)
		item.Properties.BlobType = "BlockBlob"
		out.Blobs.Blob = append(out.Blobs.Blob, item)
	}
	text, err := xml.Marshal(out)
	if err != nil {
		return nil, &problem{status: 500, code: "InternalError", message: err.Error()}
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(append([]byte(xml.Header), text...))
	}, nil
}
