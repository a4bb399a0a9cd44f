package gcs

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// carryOut runs under the lock, so that every request is atomic.
func (s *Server) carryOut(r *http.Request, request Request, body []byte, fault Fault) (reply, *problem) {
	if len(s.cfg.Tokens) > 0 && !slices.Contains(s.cfg.Tokens, request.Token()) {
		if request.Token() == "" {
			return nil, &problem{401, "required", "Anonymous caller does not have storage." + request.Op + " access."}
		}
		return nil, &problem{401, "authError", "Invalid Credentials"}
	}
	bucket, exists := s.buckets[request.Bucket]
	if !exists {
		return nil, &problem{404, "notFound", "The specified bucket does not exist."}
	}
	switch request.Op {
	case Insert:
		return s.insert(request, bucket, body, fault)
	case Read:
		return read(r, request, bucket, fault)
	case Get:
		o, exists := bucket[request.Key]
		if !exists {
			return nil, noSuchObject(request)
		}
		return document(metadata(request.Bucket, request.Key, o, fault)), nil
	case Delete:
		if _, exists := bucket[request.Key]; !exists {
			return nil, noSuchObject(request)
		}
		delete(bucket, request.Key)
		return func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, nil
	case List:
		return s.list(request, bucket, fault)
	case GetBucket:
		return document(map[string]any{"kind": "storage#bucket", "name": request.Bucket, "id": request.Bucket}), nil
	}
	return nil, &problem{501, "notImplemented", "Not implemented."}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc32c(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli)))
}

func md5Hash(data []byte) string {
	sum := md5.Sum(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// metadata is what is answered of an object.
func metadata(bucket, key string, o object, fault Fault) map[string]any {
	described := map[string]any{
		"kind": "storage#object", "id": fmt.Sprintf("%s/%s/%d", bucket, key, o.generation),
		"bucket": bucket, "name": key, "generation": strconv.FormatInt(o.generation, 10), "metageneration": "1",
		"size": strconv.Itoa(len(o.data)), "crc32c": crc32c(o.data), "md5Hash": md5Hash(o.data), "contentType": o.contentType,
		"timeCreated": o.stored.UTC().Format(time.RFC3339Nano), "updated": o.stored.UTC().Format(time.RFC3339Nano),
		"storageClass": "STANDARD", "etag": "fake",
	}
	switch fault.CRC32C {
	case "":
	case "none":
		delete(described, "crc32c")
	default:
		described["crc32c"] = fault.CRC32C
	}
	return described
}

// parts takes a multipart upload apart.
func parts(contentType string, body []byte) (metadata, media []byte, err error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/related" {
		return nil, nil, fmt.Errorf("content type %q", contentType)
	}
	reader := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, part := range []*[]byte{&metadata, &media} {
		next, err := reader.NextRawPart()
		if err != nil {
			return metadata, media, err
		}
		if *part, err = io.ReadAll(next); err != nil {
			return metadata, media, err
		}
	}
	if _, err := reader.NextRawPart(); err != io.EOF {
		return metadata, media, fmt.Errorf("a third part")
	}
	return metadata, media, nil
}

func (s *Server) insert(request Request, bucket map[string]object, body []byte, fault Fault) (reply, *problem) {
	if request.Query.Get("uploadType") != "multipart" {
		return nil, &problem{501, "notImplemented", "Only multipart uploads are there."}
	}
	text, media, err := parts(request.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, &problem{400, "badRequest", "Malformed multipart body."}
	}
	var described struct{ Name, ContentType, Crc32c, Md5Hash string }
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, &problem{400, "parseError", "Parse Error"}
	}
	key := request.Key
	if key == "" {
		key = described.Name
	}
	if key == "" {
		return nil, &problem{400, "required", "Required"}
	}
	if told, computed := described.Crc32c, crc32c(media); told != "" && told != computed {
		return nil, &problem{400, "invalid", fmt.Sprintf("Provided CRC32C %q doesn't match calculated CRC32C %q.", told, computed)}
	}
	if told, computed := described.Md5Hash, md5Hash(media); told != "" && told != computed {
		return nil, &problem{400, "invalid", fmt.Sprintf("Provided MD5 hash %q doesn't match calculated MD5 hash %q.", told, computed)}
	}
	name := request.Bucket + "/" + key
	if last, ok := s.written[name]; ok && time.Since(last) < s.cfg.WriteInterval {
		return nil, &problem{429, "rateLimitExceeded", "The object " + name + " exceeded the rate limit for object mutation operations (create, update, and delete)."}
	}
	if condition := request.Query.Get("ifGenerationMatch"); condition != "" {
		wanted, err := strconv.ParseInt(condition, 10, 64)
		if err != nil {
			return nil, &problem{400, "invalid", "Invalid value for: ifGenerationMatch"}
		}
		if bucket[key].generation != wanted {
			return nil, &problem{412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."}
		}
	}
	s.generation++
	o := object{data: media, stored: time.Now(), generation: s.generation, contentType: described.ContentType}
	bucket[key], s.written[name] = o, o.stored
	return document(metadata(request.Bucket, key, o, fault)), nil
}

func document(value map[string]any) reply {
	text, err := json.Marshal(value)
	return func(w http.ResponseWriter) {
		if err != nil {
			(&problem{500, "backendError", err.Error()}).write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = w.Write(text)
	}
}

func read(r *http.Request, request Request, bucket map[string]object, fault Fault) (reply, *problem) {
	o, exists := bucket[request.Key]
	if !exists {
		if request.XML {
			return nil, &problem{404, "NoSuchKey", "The specified key does not exist."}
		}
		return nil, noSuchObject(request)
	}
	part, there := fault.body().Of(o.data, r.Header.Get("Range"))
	if !there {
		return nil, &problem{416, "requestedRangeNotSatisfiable", "Request range not satisfiable"}
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("X-Goog-Generation", strconv.FormatInt(o.generation, 10))
		w.Header().Set("X-Goog-Metageneration", "1")
		w.Header().Set("X-Goog-Hash", "crc32c="+crc32c(o.data)+",md5="+md5Hash(o.data))
		w.Header().Set("X-Goog-Stored-Content-Length", strconv.Itoa(len(o.data)))
		w.Header().Set("Last-Modified", o.stored.UTC().Format(http.TimeFormat))
		fault.body().Send(w, r, part)
	}, nil
}

func (s *Server) list(request Request, bucket map[string]object, fault Fault) (reply, *problem) {
	size := s.cfg.PageSize
	if asked, err := strconv.Atoi(request.Query.Get("maxResults")); err == nil && asked > 0 {
		size = min(asked, size)
	}
	// The token is the last key of the page before, in a form that tells nothing.
	after, token := "", request.Query.Get("pageToken")
	if token != "" {
		raw, err := base64.StdEncoding.DecodeString(token)
		if err != nil {
			return nil, &problem{400, "invalid", "Invalid value for: pageToken"}
		}
		after = string(raw)
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(bucket)) {
		if strings.HasPrefix(key, request.Query.Get("prefix")) && key > after {
			keys = append(keys, key)
		}
	}
	out, next := map[string]any{"kind": "storage#objects"}, ""
	switch {
	case fault.Empty:
		keys, next = nil, base64.StdEncoding.EncodeToString([]byte(after+"\x00")) // no key lies between
	case len(keys) > size:
		keys = keys[:size]
		next = base64.StdEncoding.EncodeToString([]byte(keys[size-1]))
	}
	if fault.Token != "" {
		next = fault.Token
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	var items []map[string]any
	for _, key := range keys {
		items = append(items, metadata(request.Bucket, key, bucket[key], fault))
	}
	if len(items) > 0 {
		out["items"] = items
	}
	selectFields(out, items, request.Query.Get("fields"))
	return document(out), nil
}

// selectFields leaves what the parameter fields asks for, in the one form that comes: "nextPageToken,items(name,size)".
func selectFields(out map[string]any, items []map[string]any, fields string) {
	if fields == "" {
		return
	}
	before, rest, _ := strings.Cut(fields, "items(")
	inner, behind, _ := strings.Cut(rest, ")")
	top := append(strings.Split(before+behind, ","), "items")
	maps.DeleteFunc(out, func(key string, _ any) bool { return !slices.Contains(top, key) })
	for _, item := range items {
		maps.DeleteFunc(item, func(key string, _ any) bool { return !slices.Contains(strings.Split(inner, ","), key) })
	}
}
