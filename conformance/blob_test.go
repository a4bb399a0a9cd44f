package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// blobServer is a small store over plain HTTP, for the tests of RunFaults:
//
//	PUT    /key  If-None-Match: *, X-Crc32c: decimal  201 with an ETag; 412 if it exists, 400 if the checksum is wrong
//	GET    /key  Range                                206; 404, 416
//	HEAD   /key                                       200 with Content-Length, ETag and X-Crc32c; 404
//	DELETE /key                                       204
//	GET    /?prefix=&token=                           a page of JSON
//
// Every request needs the query sig, a signature of sorts.
type blobServer struct {
	mu      sync.Mutex
	objects map[string]blobObject
}

type blobObject struct {
	data   []byte
	stored time.Time
}

type blobPage struct {
	Objects []blobEntry
	More    bool
	Next    string `json:",omitempty"`
}

type blobEntry struct {
	Key  string
	Size int64
}

const (
	blobSignature = "planted-signature-0123456789"
	blobPageSize  = 20
)

func (s *blobServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key, query := strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	object, exists := s.objects[key]
	switch {
	case query.Get("sig") != blobSignature:
		w.WriteHeader(http.StatusForbidden)
	case key == "":
		s.list(w, query.Get("prefix"), query.Get("token"))
	case r.Method == http.MethodPut:
		told, err := strconv.ParseUint(r.Header.Get("X-Crc32c"), 10, 32)
		switch {
		case exists:
			w.WriteHeader(http.StatusPreconditionFailed)
		case r.Header.Get("X-Crc32c") != "" && (err != nil || uint32(told) != crc32c(body)):
			http.Error(w, "checksum", http.StatusUnprocessableEntity)
		default:
			s.objects[key] = blobObject{data: body, stored: time.Now()}
			w.Header().Set("ETag", strconv.Quote(fmt.Sprint(crc32c(body))))
			w.WriteHeader(http.StatusCreated)
		}
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !exists:
		http.Error(w, "no such object", http.StatusNotFound)
	case r.Method == http.MethodHead:
		w.Header().Set("ETag", strconv.Quote(fmt.Sprint(crc32c(object.data))))
		w.Header().Set("X-Crc32c", fmt.Sprint(crc32c(object.data)))
		w.Header().Set("Last-Modified", object.stored.UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(object.data)))
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(object.data))
	}
}

func (s *blobServer) list(w http.ResponseWriter, prefix, token string) {
	keys := make([]string, 0, len(s.objects))
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) && key > token {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := blobPage{Objects: []blobEntry{}}
	for _, key := range keys[:min(blobPageSize, len(keys))] {
		page.Objects = append(page.Objects, blobEntry{key, int64(len(s.objects[key].data))})
	}
	if len(keys) > blobPageSize {
		page.More, page.Next = true, keys[blobPageSize-1]
	}
	_ = json.NewEncoder(w).Encode(page)
}

// blobFlaws are the ways in which a blobDriver can be wrong.
type blobFlaws struct {
	retriesInside      bool // three attempts in one
	resendsConsumed    bool // and the second one has no body
	takes304           bool // for "exists"
	shortIsSuccess     bool
	ignoresRange       bool // does not look at the Content-Range
	takesWhole         bool // does not look whether the answer is 206
	createsSilently    bool // says of an object that exists that it was created
	deniedIsMissing    bool
	deafToStalls       bool // a fetch does not look at its context
	deafToUploads      bool // nor does an upload
	deafToHeaders      bool // nor does anything
	decodesGzip        bool
	anySuccess         bool // every 2xx is one
	listIgnoresErrors  bool // a page that cannot be read is the end
	listIgnoresMore    bool // no token is the end
	conflictIsExists   bool
	timeoutIsFinal     bool // 408
	gatewayIsFinal     bool // 502 and 504
	busyIsFinal        bool // 503 to an upload
	throttleIsFinal    bool // 503
	tooManyIsFinal     bool // 429
	ignoresRetryAfter  bool
	lostIsUnclassified bool // a connection that is lost
	lostIsMissing      bool
	dialIsUnclassified bool // a connection that does not come about
	noChecksum         bool
	chunked            bool
	extraHeader        bool
	noCondition        bool // creates without If-None-Match
	waitsForBody       bool // until all of it was read, whatever the answer
	neverRefreshes     bool // credentials that have expired
	deleteMissingFails bool // a second delete, after a lost answer
	cutIsFinal         bool // an answer that was cut is an answer
	badIsRetried       bool // 400
	fewConnections     bool // keeps two, as net/http does by itself
	closesClient       bool // Close closes the connections of a client that is the caller's
	oneAtATime         bool // a request waits for the one before
	redirectIsMissing  bool // whatever is no success and no failure is not found
	looksAtClock       bool // and takes what is minutes old for an answer of some cache
	largeInParts       bool // an upload
	leavesErrorsOpen   bool // the bodies of answers that are errors
}

// blobDriver is a driver for blobServer, as a stranger would write it, but for its flaws.
type blobDriver struct {
	url    string
	client *http.Client
	own    *http.Transport
	flaws  blobFlaws

	turn     chan struct{} // of oneAtATime; a lock would stop the clock of a bubble
	mu       sync.Mutex
	unproven bool // the credentials are new and have not worked yet
	deleted  map[string]bool
}

func newBlobDriver(at Endpoint, flaws blobFlaws) *blobDriver {
	d := &blobDriver{url: at.URL, client: at.Client, flaws: flaws, deleted: map[string]bool{}, turn: make(chan struct{}, 1)}
	if d.client == nil {
		d.own = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
		if flaws.fewConnections {
			d.own.MaxIdleConnsPerHost = 0 // which is two
		}
		d.client = &http.Client{Transport: d.own}
	}
	if flaws.redirectIsMissing {
		client := *d.client
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		d.client = &client
	}
	return d
}

func (d *blobDriver) address(key string, query url.Values) string {
	if query == nil {
		query = url.Values{}
	}
	query.Set("sig", blobSignature)
	return d.url + "/" + key + "?" + query.Encode()
}

// blobRequest is one request, which is sent once unless the driver is wrong.
type blobRequest struct {
	op      walstorage.Op
	method  string
	address string
	header  http.Header
	body    func() io.Reader
	size    int64
	want    int // the status of success
	// read reads the answer to a request that has succeeded.
	read func(*http.Response) error
}

// send sends a request and classifies what comes of it.
func (d *blobDriver) send(ctx context.Context, r blobRequest) error {
	attempts := 1
	if d.flaws.retriesInside || d.flaws.resendsConsumed {
		attempts = 3
	}
	var body io.Reader
	for n := 1; ; n++ {
		if r.body != nil && (n == 1 || !d.flaws.resendsConsumed) {
			body = r.body()
		}
		err := d.sendOnce(ctx, r, body)
		if n == attempts || ctx.Err() != nil || !errors.Is(err, walstorage.ErrUnavailable) {
			return err
		}
	}
}

func (d *blobDriver) sendOnce(ctx context.Context, r blobRequest, body io.Reader) error {
	asking, cancel := ctx, func() {}
	if d.flaws.deafToHeaders || d.flaws.deafToStalls && r.op == walstorage.OpFetch || d.flaws.deafToUploads && r.op == walstorage.OpUpload {
		asking, cancel = context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	}
	defer cancel()
	request, err := http.NewRequestWithContext(asking, r.method, r.address, body)
	if err != nil {
		return err
	}
	request.Header = r.header
	if body != nil {
		request.ContentLength = r.size
		if d.flaws.chunked || d.flaws.resendsConsumed {
			request.ContentLength = -1
		}
	}
	if d.flaws.extraHeader {
		request.Header.Set("X-Debug", "1")
	}
	if d.flaws.oneAtATime {
		d.turn <- struct{}{}
		defer func() { <-d.turn }()
	}
	answer, err := d.client.Do(request)
	if err != nil {
		return d.lost(ctx, err)
	}
	defer func() {
		if answer.StatusCode < http.StatusBadRequest || !d.flaws.leavesErrorsOpen {
			_ = answer.Body.Close()
		}
	}()
	if sent, err := http.ParseTime(answer.Header.Get("Date")); err == nil && d.flaws.looksAtClock && time.Since(sent).Abs() > 5*time.Minute {
		return walstorage.NewError(walstorage.ErrUnavailable, errors.New("the answer is that of some cache"))
	}
	if success := answer.StatusCode == r.want || d.flaws.anySuccess && answer.StatusCode < 300; !success {
		if d.flaws.leavesErrorsOpen {
			return d.refused(r.op, answer, nil)
		}
		_, err := io.Copy(io.Discard, answer.Body)
		return d.refused(r.op, answer, err)
	}
	d.worked()
	if r.read == nil {
		return nil
	}
	var known *walstorage.Error
	err = r.read(answer)
	if err == nil || errors.As(err, &known) {
		return err
	}
	return d.lost(ctx, err)
}

// lost is the failure of a request that had no answer, or not the whole of it.
func (d *blobDriver) lost(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case d.flaws.lostIsMissing:
		return walstorage.NewError(walstorage.ErrSegmentNotFound, err)
	case d.flaws.lostIsUnclassified:
		return walstorage.NewError(nil, err)
	case d.flaws.dialIsUnclassified && strings.Contains(err.Error(), "dial"):
		return walstorage.NewError(nil, err)
	}
	return walstorage.NewError(walstorage.ErrUnavailable, err)
}

func (d *blobDriver) worked() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unproven = false
}

// expired tells whether other credentials are worth an attempt.
func (d *blobDriver) expired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := !d.unproven && !d.flaws.neverRefreshes
	d.unproven = true
	return again
}

// refused classifies an answer that is no success. cut is what went wrong in reading it.
func (d *blobDriver) refused(op walstorage.Op, answer *http.Response, cut error) error {
	cause := fmt.Errorf("the server has answered %d", answer.StatusCode)
	kind := error(nil)
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound && (op == walstorage.OpFetch || op == walstorage.OpStat):
		kind = walstorage.ErrSegmentNotFound
		if cut != nil && d.flaws.cutIsFinal {
			kind = nil
		}
	case code == http.StatusPreconditionFailed && op == walstorage.OpUpload, code == http.StatusNotModified && d.flaws.takes304:
		kind = walstorage.ErrSegmentExists
	case code == http.StatusConflict:
		kind = walstorage.ErrUnavailable
		if d.flaws.conflictIsExists {
			kind = walstorage.ErrSegmentExists
		}
	case code == http.StatusRequestedRangeNotSatisfiable:
		kind = walstorage.ErrInvalidRange
	case code == http.StatusUnauthorized:
		kind = walstorage.ErrAccessDenied
		if d.expired() {
			kind = walstorage.ErrUnavailable
		}
	case code >= 300 && code < 400 && code != http.StatusNotModified && d.flaws.redirectIsMissing:
		kind = walstorage.ErrSegmentNotFound
	case code == http.StatusForbidden:
		kind = walstorage.ErrAccessDenied
		if d.flaws.deniedIsMissing {
			kind = walstorage.ErrSegmentNotFound
		}
	case code == http.StatusUnprocessableEntity:
		kind = walstorage.ErrCorrupt
	case code == http.StatusBadRequest && d.flaws.badIsRetried,
		code == http.StatusRequestTimeout && !d.flaws.timeoutIsFinal,
		code == http.StatusTooManyRequests && !d.flaws.tooManyIsFinal, code < 300, code >= http.StatusInternalServerError:
		kind = walstorage.ErrUnavailable
	}
	switch code := answer.StatusCode; {
	case d.flaws.gatewayIsFinal && (code == http.StatusBadGateway || code == http.StatusGatewayTimeout),
		d.flaws.throttleIsFinal && code == http.StatusServiceUnavailable && op != walstorage.OpUpload,
		d.flaws.busyIsFinal && code == http.StatusServiceUnavailable && op == walstorage.OpUpload:
		kind = nil
	}
	err := walstorage.NewError(kind, cause)
	if kind == walstorage.ErrUnavailable && !d.flaws.ignoresRetryAfter {
		err.RetryAfter = objectstore.RetryAfter(answer.Header.Get("Retry-After"), time.Now())
	}
	return err
}

func (d *blobDriver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	header := http.Header{"If-None-Match": {"*"}, "Content-Type": {"application/octet-stream"}}
	if !d.flaws.noChecksum {
		header.Set("X-Crc32c", fmt.Sprint(crc32c))
	}
	if d.flaws.noCondition {
		header.Del("If-None-Match")
	}
	const large = 512 << 10
	if d.flaws.largeInParts && body.Len() > large {
		part := objectstore.NewBody(make([]byte, large))
		if err := d.Put(ctx, key+".part", part, crc32.Checksum(make([]byte, large), castagnoli)); err != nil {
			return err
		}
		defer func() { _ = d.Delete(ctx, []string{key + ".part"}) }()
	}
	err := d.send(ctx, blobRequest{
		op: walstorage.OpUpload, method: http.MethodPut, address: d.address(key, nil), header: header, size: body.Len(), want: http.StatusCreated,
		body: func() io.Reader {
			_, _ = body.Seek(0, io.SeekStart)
			if body.Len() == 0 {
				return nil
			}
			return struct{ io.Reader }{body}
		},
		read: func(answer *http.Response) error {
			if answer.Header.Get("ETag") == "" && !d.flaws.anySuccess {
				return walstorage.NewError(walstorage.ErrUnavailable, errors.New("the answer to an upload has no ETag"))
			}
			return nil
		},
	})
	if d.flaws.waitsForBody && !d.allRead(body) && (err == nil || strings.Contains(err.Error(), "answered")) {
		<-time.After(3 * time.Second) // deaf to its context, as libraries have been
	}
	if d.flaws.createsSilently && errors.Is(err, walstorage.ErrSegmentExists) {
		return nil
	}
	return err
}

// allRead tells whether the body was read to its end.
func (d *blobDriver) allRead(body *objectstore.Body) bool {
	at, _ := body.Seek(0, io.SeekCurrent)
	return at == body.Len()
}

func (d *blobDriver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	last := offset + int64(len(dst)) - 1
	want := http.StatusPartialContent
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", offset, last)}}
	read := func(answer *http.Response) error {
		var from, to, total int64
		_, err := fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total)
		switch {
		case d.flaws.ignoresRange || d.flaws.takesWhole:
		case err != nil:
			return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("Content-Range %q", answer.Header.Get("Content-Range")))
		case from == offset && to == total-1 && to < last:
			return walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("the object has %d bytes", total))
		case from != offset || to != last:
			return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("Content-Range %q", answer.Header.Get("Content-Range")))
		}
		body := io.Reader(answer.Body)
		if d.flaws.decodesGzip && answer.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(body); err != nil {
				return err
			}
		}
		n, err := io.ReadFull(body, dst)
		if err != nil && d.flaws.shortIsSuccess && n > 0 {
			return nil
		}
		return err
	}
	request := blobRequest{op: walstorage.OpFetch, method: http.MethodGet, address: d.address(key, nil), header: header, want: want, read: read}
	err := d.send(ctx, request)
	if d.flaws.takesWhole && errors.Is(err, walstorage.ErrUnavailable) && strings.Contains(err.Error(), "answered 200") {
		request.want = http.StatusOK
		return d.send(ctx, request)
	}
	return err
}

func (d *blobDriver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object := objectstore.Object{Key: key}
	err := d.send(ctx, blobRequest{
		op: walstorage.OpStat, method: http.MethodHead, address: d.address(key, nil), header: http.Header{}, want: http.StatusOK,
		read: func(answer *http.Response) error {
			sum, err := strconv.ParseUint(answer.Header.Get("X-Crc32c"), 10, 32)
			if err != nil || answer.ContentLength < 0 {
				return walstorage.NewError(walstorage.ErrUnavailable, errors.New("the answer does not tell what the object is"))
			}
			object.Size, object.CRC32C, object.HasCRC32C = answer.ContentLength, uint32(sum), true
			object.Stored, _ = http.ParseTime(answer.Header.Get("Last-Modified"))
			return nil
		},
	})
	return object, err
}

func (d *blobDriver) Delete(ctx context.Context, keys []string) error {
	var failures []objectstore.DeleteFailure
	for _, key := range keys {
		err := d.send(ctx, blobRequest{op: walstorage.OpDelete, method: http.MethodDelete, address: d.address(key, nil), header: http.Header{}, want: http.StatusNoContent})
		if d.flaws.deleteMissingFails {
			d.mu.Lock()
			if err == nil && d.deleted[key] {
				err = walstorage.NewError(nil, errors.New("no such object"))
			}
			d.deleted[key] = true
			d.mu.Unlock()
		}
		if err != nil {
			failures = append(failures, objectstore.DeleteFailure{Key: key, Err: err})
		}
	}
	if len(failures) > 0 {
		return &objectstore.DeleteError{Failures: failures}
	}
	return nil
}

func (d *blobDriver) List(ctx context.Context, prefix, token string) (objects []objectstore.Object, next string, err error) {
	err = d.send(ctx, blobRequest{
		op: walstorage.OpList, method: http.MethodGet, address: d.address("", url.Values{"prefix": {prefix}, "token": {token}}),
		header: http.Header{}, want: http.StatusOK,
		read: func(answer *http.Response) error {
			var page blobPage
			text, err := io.ReadAll(answer.Body)
			if err == nil {
				if err = json.Unmarshal(text, &page); err != nil || page.Objects == nil {
					err = walstorage.NewError(walstorage.ErrUnavailable, errors.New("the answer is no page of a list"))
				}
			}
			if err != nil && !d.flaws.listIgnoresErrors {
				return err
			}
			objects = nil
			for _, entry := range page.Objects {
				objects = append(objects, objectstore.Object{Key: entry.Key, Size: entry.Size})
			}
			if d.flaws.listIgnoresMore {
				next = page.Next
				return nil
			}
			next, err = objectstore.NextToken(page.More, page.Next)
			return err
		},
	})
	return objects, next, err
}

func (d *blobDriver) Limits() objectstore.Limits { return objectstore.Limits{KeysPerDelete: 1} }

func (d *blobDriver) Close() error {
	if d.own != nil || d.flaws.closesClient {
		d.client.CloseIdleConnections()
	}
	return nil
}

// blobConfig is a suite over a blobDriver.
func blobConfig(flaws blobFlaws, manage func(objectstore.Driver, objectstore.Config) (walstorage.WalStorageManager, error)) FaultsConfig {
	return FaultsConfig{
		Handler: func(testing.TB) http.Handler { return &blobServer{objects: map[string]blobObject{}} },
		Driver:  func(_ testing.TB, at Endpoint) objectstore.Driver { return newBlobDriver(at, flaws) },
		Answers: FaultAnswers{
			Conflict: FaultAnswer{Status: http.StatusConflict},
			Expired:  FaultAnswer{Status: http.StatusUnauthorized},
		},
		Headers: map[walstorage.Op][]string{
			walstorage.OpUpload: {"Content-Type", "If-None-Match", "X-Crc32c"},
			walstorage.OpFetch:  {"Range"}, walstorage.OpStat: {}, walstorage.OpDelete: {}, walstorage.OpList: {},
		},
		Required: map[walstorage.Op]map[string]string{walstorage.OpUpload: {"If-None-Match": "*"}},
		WithoutToken: func(page []byte) []byte {
			var p blobPage
			if err := json.Unmarshal(page, &p); err != nil {
				return page
			}
			p.Next = ""
			page, _ = json.Marshal(p) // it was JSON
			return page
		},
		ListLarge: blobPageSize + 1,
		Secrets:   []string{blobSignature},
		manage:    manage,
	}
}
