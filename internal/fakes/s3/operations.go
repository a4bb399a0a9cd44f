package s3

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSkew is how far the time of a request may be off.
const maxSkew = 15 * time.Minute

// carryOut runs under the lock, so that every request is atomic.
func (s *Server) carryOut(r *http.Request, request Request, body []byte, fault Fault) (reply, *problem) {
	if len(s.cfg.AccessKeys) > 0 && !slices.Contains(s.cfg.AccessKeys, request.AccessKey()) && !s.inSession(r) {
		return nil, &problem{403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."}
	}
	if told, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); err == nil {
		if time.Until(told.Add(-s.cfg.Skew)).Abs() > maxSkew {
			return nil, &problem{403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."}
		}
	}
	if s.cfg.Old {
		for _, header := range []string{"X-Amz-Trailer", "X-Amz-Sdk-Checksum-Algorithm", "X-Amz-Checksum-Crc32c", "X-Amz-Checksum-Crc32", "X-Amz-Checksum-Mode"} {
			if r.Header.Get(header) != "" {
				return nil, &problem{501, "NotImplemented", "A header you provided implies functionality that is not implemented: " + header}
			}
		}
	}
	if strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") || r.Header.Get("X-Amz-Trailer") != "" {
		return nil, &problem{501, "NotImplemented", "aws-chunked"}
	}
	bucket, exists := s.buckets[request.Bucket]
	if !exists {
		return nil, &problem{404, "NoSuchBucket", "The specified bucket does not exist"}
	}
	directory := strings.HasSuffix(request.Bucket, "--x-s3")
	if directory && request.Op != "CreateSession" && !s.inSession(r) {
		return nil, &problem{403, "AccessDenied", "The request has no session"}
	}
	if wrong := verify(r, body, directory); wrong != nil {
		return nil, wrong
	}
	switch request.Op {
	case "PutObject":
		return s.put(r, bucket, request.Key, body)
	case "GetObject":
		return s.get(r, bucket, request.Key, fault)
	case "HeadObject":
		return s.head(r, bucket, request.Key)
	case "DeleteObjects":
		return s.delete(r, bucket, body, fault)
	case "ListObjectsV2":
		return s.list(r, request.Bucket, bucket, directory, fault)
	case "HeadBucket":
		return func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, nil
	case "CreateSession":
		return s.createSession()
	}
	return nil, &problem{501, "NotImplemented", "A header you provided implies functionality that is not implemented."}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum32(table *crc32.Table, body []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, table)))
}

// verify checks every checksum that the request names.
func verify(r *http.Request, body []byte, directory bool) *problem {
	if told := r.Header.Get("Content-Md5"); told != "" {
		if directory {
			return &problem{400, "InvalidRequest", "Content-MD5 is not supported"}
		}
		if sum, err := base64.StdEncoding.DecodeString(told); err != nil || len(sum) != md5.Size {
			return &problem{400, "InvalidDigest", "The Content-MD5 you specified is not valid."}
		}
		sum := md5.Sum(body)
		if told != base64.StdEncoding.EncodeToString(sum[:]) {
			return &problem{400, "BadDigest", "The Content-MD5 you specified did not match what we received."}
		}
	}
	for header, table := range map[string]*crc32.Table{"X-Amz-Checksum-Crc32c": castagnoli, "X-Amz-Checksum-Crc32": crc32.IEEETable} {
		if told := r.Header.Get(header); told != "" && told != sum32(table, body) {
			return &problem{400, "BadDigest", "The checksum you specified did not match the calculated checksum."}
		}
	}
	if told := r.Header.Get("X-Amz-Content-Sha256"); len(told) == 64 {
		sum := sha256.Sum256(body)
		if told != hex.EncodeToString(sum[:]) {
			return &problem{400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."}
		}
	}
	return nil
}

func etag(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *Server) put(r *http.Request, bucket map[string]object, key string, body []byte) (reply, *problem) {
	if condition := r.Header.Get("If-None-Match"); condition != "" {
		if condition != "*" {
			return nil, &problem{501, "NotImplemented", "A header you provided implies functionality that is not implemented."}
		}
		if _, exists := bucket[key]; exists {
			return nil, &problem{412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"}
		}
	}
	o := object{
		data: body, stored: time.Now(),
		checksum: r.Header.Get("X-Amz-Checksum-Crc32c"), encrypted: r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"),
	}
	bucket[key] = o
	return func(w http.ResponseWriter) {
		w.Header().Set("ETag", etag(body))
		if o.checksum != "" {
			w.Header().Set("X-Amz-Checksum-Crc32c", o.checksum)
			w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
		}
		w.WriteHeader(http.StatusOK)
	}, nil
}

var noSuchKey = &problem{404, "NoSuchKey", "The specified key does not exist."}

func (s *Server) get(r *http.Request, bucket map[string]object, key string, fault Fault) (reply, *problem) {
	o, exists := bucket[key]
	if !exists {
		return nil, noSuchKey
	}
	part, there := fault.body().Of(o.data, r.Header.Get("Range"))
	if !there {
		return nil, &problem{416, "InvalidRange", "The requested range is not satisfiable"}
	}
	return func(w http.ResponseWriter) { fault.body().Send(w, r, part) }, nil
}

func (s *Server) head(r *http.Request, bucket map[string]object, key string) (reply, *problem) {
	o, exists := bucket[key]
	if !exists {
		return nil, noSuchKey
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", strconv.Itoa(len(o.data)))
		w.Header().Set("ETag", etag(o.data))
		w.Header().Set("Last-Modified", o.stored.UTC().Format(http.TimeFormat))
		if o.checksum != "" && r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
			w.Header().Set("X-Amz-Checksum-Crc32c", o.checksum)
			w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
		}
		w.WriteHeader(http.StatusOK)
	}, nil
}

// maxKeys is what one DeleteObjects takes.
const maxKeys = 1000

type deleteRequest struct {
	Objects []struct{ Key string } `xml:"Object"`
	Quiet   bool
}

type deleteResult struct {
	XMLName xml.Name      `xml:"DeleteResult"`
	Deleted []deletedKey  `xml:"Deleted"`
	Errors  []deleteError `xml:"Error"`
}

type deletedKey struct{ Key string }

type deleteError struct{ Key, Code, Message string }

func (s *Server) delete(r *http.Request, bucket map[string]object, body []byte, fault Fault) (reply, *problem) {
	var in deleteRequest
	if err := xml.Unmarshal(body, &in); err != nil || len(in.Objects) == 0 || len(in.Objects) > maxKeys {
		return nil, &problem{400, "MalformedXML", "The XML you provided was not well-formed"}
	}
	if r.Header.Get("Content-Md5") == "" && r.Header.Get("X-Amz-Checksum-Crc32c") == "" && r.Header.Get("X-Amz-Checksum-Crc32") == "" {
		return nil, &problem{400, "InvalidRequest", "Missing required header for this request: Content-MD5"}
	}
	var out deleteResult
	for _, o := range in.Objects {
		if code := fault.Keys[o.Key]; code != "" {
			out.Errors = append(out.Errors, deleteError{Key: o.Key, Code: code, Message: "no"})
			continue
		}
		delete(bucket, o.Key)
		if !in.Quiet && !fault.Omit {
			out.Deleted = append(out.Deleted, deletedKey{o.Key})
		}
	}
	return document(out), nil
}

func document(value any) reply {
	text, err := xml.Marshal(value)
	return func(w http.ResponseWriter) {
		if err != nil {
			(&problem{500, "InternalError", err.Error()}).write(w, false)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(append([]byte(xml.Header), text...))
	}
}

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	KeyCount              int
	MaxKeys               int
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
}

type listed struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

func (s *Server) list(r *http.Request, name string, bucket map[string]object, directory bool, fault Fault) (reply, *problem) {
	query := r.URL.Query()
	prefix := query.Get("prefix")
	if directory && prefix != "" && !strings.HasSuffix(prefix, "/") {
		return nil, &problem{400, "InvalidRequest", "A prefix has to end in the delimiter"}
	}
	out := listResult{Name: name, Prefix: prefix, MaxKeys: s.cfg.PageSize, EncodingType: query.Get("encoding-type")}
	if asked, err := strconv.Atoi(query.Get("max-keys")); err == nil && asked > 0 {
		out.MaxKeys = min(asked, out.MaxKeys)
	}
	// The order is that of the keys, or in a directory bucket that of their checksums: none that anybody can use. The
	// token is the last key of the page, in a form that tells nothing.
	order := func(key string) string { return key }
	if directory {
		order = func(key string) string { return fmt.Sprintf("%08x %s", crc32.ChecksumIEEE([]byte(key)), key) }
	}
	after := ""
	if token := query.Get("continuation-token"); token != "" {
		raw, err := base64.StdEncoding.DecodeString(token)
		if err != nil {
			return nil, &problem{400, "InvalidArgument", "The continuation token provided is incorrect"}
		}
		after = string(raw)
	}
	type place struct{ at, key string }
	var places []place
	for key := range bucket {
		if at := order(key); strings.HasPrefix(key, prefix) && at > after {
			places = append(places, place{at, key})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.at, b.at) })
	if len(places) > out.MaxKeys {
		places = places[:out.MaxKeys]
		out.IsTruncated = true
		out.NextContinuationToken = base64.StdEncoding.EncodeToString([]byte(places[len(places)-1].at))
		if fault.Token != "" {
			out.NextContinuationToken = fault.Token
		}
		if fault.NoToken {
			out.NextContinuationToken = ""
		}
	}
	for _, p := range places {
		o, key := bucket[p.key], p.key
		if out.EncodingType == "url" {
			key = strings.ReplaceAll(url.QueryEscape(key), "%2F", "/")
		}
		out.Contents = append(out.Contents, listed{
			Key: key, LastModified: o.stored.UTC().Format("2006-01-02T15:04:05.000Z"), ETag: etag(o.data), Size: len(o.data),
		})
	}
	out.KeyCount = len(out.Contents)
	return document(out), nil
}
