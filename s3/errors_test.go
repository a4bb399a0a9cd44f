package s3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operations are the driver's methods, by the request that each sends.
var operations = map[string]func(ctx context.Context, d *s3.Driver) error{
	"PutObject": func(ctx context.Context, d *s3.Driver) error {
		data := []byte("data")
		return d.Put(ctx, "k", objectstore.NewBody(data), checksum(data))
	},
	"GetObject": func(ctx context.Context, d *s3.Driver) error { return d.Get(ctx, "there", 0, make([]byte, 4)) },
	"HeadObject": func(ctx context.Context, d *s3.Driver) error {
		_, err := d.Stat(ctx, "there")
		return err
	},
	"DeleteObjects": func(ctx context.Context, d *s3.Driver) error { return d.Delete(ctx, []string{"k"}) },
	"ListObjectsV2": func(ctx context.Context, d *s3.Driver) error {
		_, _, err := d.List(ctx, "", "")
		return err
	},
}

// W7: every answer of the mapping table, for each operation that can get it, is one request and has the kind named; the
// SDK's own error is reached.
func TestAnswersHaveTheirKind(t *testing.T) {
	const every = "PutObject GetObject HeadObject DeleteObjects ListObjectsV2"
	const withBody = "PutObject GetObject DeleteObjects ListObjectsV2" // the answer to a HEAD has no code
	tests := []struct {
		status int
		code   string
		ops    string
		kind   error
	}{
		{404, "NoSuchKey", "GetObject HeadObject", walstorage.ErrSegmentNotFound},
		{404, "NoSuchKey", "PutObject ListObjectsV2", nil},
		{404, "NoSuchBucket", withBody, walstorage.ErrBucketNotFound},
		{404, "", "GetObject PutObject", nil}, // somebody else's 404
		{412, "PreconditionFailed", "PutObject", walstorage.ErrSegmentExists},
		{304, "", "PutObject", nil}, // C14: not "exists"
		{412, "PreconditionFailed", "GetObject DeleteObjects ListObjectsV2", nil},
		{304, "", "GetObject", nil},
		{409, "ConditionalRequestConflict", "PutObject", walstorage.ErrUnavailable},
		{409, "OperationAborted", withBody, walstorage.ErrUnavailable},
		{409, "ObjectParentIsFile", "PutObject", nil},
		{416, "InvalidRange", "GetObject", walstorage.ErrInvalidRange},
		{403, "AccessDenied", every, walstorage.ErrAccessDenied},
		{403, "SignatureDoesNotMatch", every, walstorage.ErrAccessDenied},
		// Who may not list the bucket is refused where an object is missing (aws/aws-sdk#50, minio/minio#16781), which is
		// no "not found", whatever the code.
		{403, "NoSuchKey", "GetObject HeadObject", walstorage.ErrAccessDenied},
		{403, "NoSuchBucket", withBody, walstorage.ErrAccessDenied},
		{403, "", every, walstorage.ErrAccessDenied},
		{401, "", every, walstorage.ErrAccessDenied},
		{400, "InvalidToken", withBody, walstorage.ErrAccessDenied},
		{503, "SlowDown", every, walstorage.ErrUnavailable},
		{429, "TooManyRequests", every, walstorage.ErrUnavailable},
		{429, "", every, walstorage.ErrUnavailable},
		{500, "InternalError", every, walstorage.ErrUnavailable},
		{502, "", every, walstorage.ErrUnavailable},
		{504, "", every, walstorage.ErrUnavailable},
		{408, "", every, walstorage.ErrUnavailable},
		{400, "RequestTimeout", withBody, walstorage.ErrUnavailable},
		{400, "IncompleteBody", "PutObject", walstorage.ErrUnavailable},
		{400, "KMS.ThrottlingException", "PutObject GetObject", walstorage.ErrUnavailable},
		{400, "BadDigest", "PutObject DeleteObjects", walstorage.ErrCorrupt},
		{400, "XAmzContentSHA256Mismatch", "PutObject", walstorage.ErrCorrupt},
		{400, "InvalidDigest", "PutObject", walstorage.ErrCorrupt},
		{400, "EntityTooLarge", "PutObject", walstorage.ErrTooLarge},
		{413, "", "PutObject", walstorage.ErrTooLarge},
		{507, "XMinioStorageFull", "PutObject", walstorage.ErrNoSpace},
		{507, "", "PutObject", walstorage.ErrNoSpace},
		{403, "QuotaExceeded", "PutObject", walstorage.ErrNoSpace},
		{501, "NotImplemented", withBody, nil}, // a store that has no conditional creates
		{400, "InvalidArgument", withBody, nil},
		{301, "PermanentRedirect", withBody, nil},
		{307, "TemporaryRedirect", withBody, nil},
	}
	server, url := serve(t, fake.Config{})
	server.Store(bucket, "there", []byte("data"))
	driver := open(t, config(url))
	for _, test := range tests {
		for op := range strings.FieldsSeq(test.ops) {
			t.Run(op+" "+http.StatusText(test.status)+" "+test.code, func(t *testing.T) {
				server.Fault(always(op, fake.Fault{Status: test.status, Code: test.code, Message: "as the test wants it"}))
				before := server.Count(op)

				err := operations[op](t.Context(), driver)

				require.Error(t, err)
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, before+1, server.Count(op), "one attempt")
				var api smithy.APIError
				assert.ErrorAs(t, err, &api)
			})
		}
	}
}

// W7: a HEAD tells a missing object from a missing bucket, and where the bucket may not be asked for, believes the 404.
func TestStatOfAMissingObject(t *testing.T) {
	server, url := serve(t, fake.Config{})
	missing := config(url)
	missing.Bucket = "none"

	_, err := open(t, missing).Stat(t.Context(), "k")
	assert.Equal(t, walstorage.ErrBucketNotFound, walstorage.KindOf(err))
	_, err = open(t, config(url)).Stat(t.Context(), "k")
	assert.Equal(t, walstorage.ErrSegmentNotFound, walstorage.KindOf(err))
	server.Fault(always("HeadBucket", fake.Fault{Status: 403}))
	_, err = open(t, config(url)).Stat(t.Context(), "k")
	assert.Equal(t, walstorage.ErrSegmentNotFound, walstorage.KindOf(err))
	server.Fault(always("HeadBucket", fake.Fault{Status: 503}))
	_, err = open(t, config(url)).Stat(t.Context(), "k")
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "nobody knows which of the two is missing")
}

// J3: the time that the store asks for is passed on, in seconds or as a date.
func TestRetryAfter(t *testing.T) {
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	for value, within := range map[string][2]time.Duration{
		"3": {3 * time.Second, 3 * time.Second},
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): {59 * time.Minute, time.Hour},
		"soon": {0, 0},
	} {
		server.Fault(always("PutObject", fake.Fault{Status: 503, Code: "SlowDown", RetryAfter: value}))
		err := operations["PutObject"](t.Context(), driver)
		var e *walstorage.Error
		require.ErrorAs(t, err, &e)
		assert.GreaterOrEqual(t, e.RetryAfter, within[0], value)
		assert.LessOrEqual(t, e.RetryAfter, within[1], value)
	}
}

// apache/opendal#6741, apache/arrow-rs-object-store#852 (C13), J19: 409 is tried again, 412 is "exists", and a conflict
// that does not end is no "exists".
func TestConflictIsNotExists(t *testing.T) {
	conflict := fake.Fault{Status: 409, Code: "ConditionalRequestConflict"}
	exists := fake.Fault{Status: 412, Code: "PreconditionFailed"}
	tests := map[string]struct {
		script   []fake.Fault
		stored   []byte
		attempts int
		kind     error
		creates  int
	}{
		"409, 200":                    {[]fake.Fault{conflict}, nil, 0, nil, 2},
		"412, other bytes":            {[]fake.Fault{exists}, []byte("other"), 0, walstorage.ErrSegmentExists, 1},
		"412, the same bytes":         {[]fake.Fault{exists}, []byte("ours"), 0, nil, 1},
		"409 for ever":                {[]fake.Fault{conflict, conflict, conflict}, nil, 3, walstorage.ErrUnavailable, 3},
		"409, 412, no object":         {[]fake.Fault{conflict, exists}, nil, 0, nil, 3},
		"lost answer":                 {[]fake.Fault{{DropAfter: true}}, nil, 0, nil, 2},
		"500 but stored":              {[]fake.Fault{{After: true, Status: 500, Code: "InternalError"}}, nil, 0, nil, 2},
		"an error document under 200": {[]fake.Fault{{Document: "<Error><Code>InternalError</Code></Error>"}}, nil, 0, nil, 2},
		"cut before the store":        {[]fake.Fault{{Drop: true}}, nil, 0, nil, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{})
				c.Store.MaxAttempts = test.attempts
				manager, id := manage(t, c), segment(t)
				if test.stored != nil {
					server.Store(bucket, key(t, id), test.stored)
				}
				server.Fault(faults("PutObject", test.script...))

				err := manager.UploadSegment(t.Context(), id, []byte("ours"))

				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, test.creates, server.Count("PutObject"))
				if err == nil {
					stored, _ := server.Object(bucket, key(t, id))
					assert.Equal(t, "ours", string(stored))
				}
			})
		})
	}
}

// aws/aws-sdk-go-v2#2038, aws/aws-sdk-go-v2#1108, aws/aws-sdk-go-v2#1667, J10: each attempt sends the same bytes, over
// http, where the body is read twice for the signature, and over https.
func TestEachAttemptSendsTheSameBytes(t *testing.T) {
	over := map[string]func(t *testing.T) (*fake.Server, s3.Config){
		"http": func(t *testing.T) (*fake.Server, s3.Config) {
			server, url := serve(t, fake.Config{})
			return server, config(url)
		},
		"https": func(t *testing.T) (*fake.Server, s3.Config) { return serveTLS(t, fake.Config{}) },
	}
	for name, start := range over {
		t.Run(name, func(t *testing.T) {
			server, c := start(t)
			manager, id := manage(t, c), segment(t)
			server.Fault(faults("PutObject", fake.Fault{Status: 500, Code: "InternalError"}, fake.Fault{Drop: true}))
			data := make([]byte, 300_000)
			for i := range data {
				data[i] = byte(i * 7)
			}

			require.NoError(t, manager.UploadSegment(t.Context(), id, data))
			want := string(data)
			clear(data) // ours again

			var sent []string
			for _, r := range server.Requests() {
				if r.Op == "PutObject" && len(r.Body) > 0 {
					sent = append(sent, string(r.Body))
				}
			}
			require.Len(t, sent, 2) // the one that was dropped before its body was read has none
			assert.Equal(t, want, sent[0])
			assert.Equal(t, want, sent[1])
		})
	}
}

// aws/aws-sdk-go-v2#3007, aws/aws-sdk-go-v2#3003, google/go-cloud#3535, google/go-cloud#3634, fleetdm/fleet#47850,
// activepieces/activepieces#14115, J24: a store that refuses today's checksums works with NoChecksum and only so.
func TestOldStore(t *testing.T) {
	for name, noChecksum := range map[string]bool{"NoChecksum": true, "default": false} {
		t.Run(name, func(t *testing.T) {
			server, c := serveTLS(t, fake.Config{Old: true})
			c.NoChecksum = noChecksum
			server.Store(bucket, "there", []byte("data"))
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				if noChecksum || op == "GetObject" || op == "ListObjectsV2" {
					assert.NoError(t, err, op)
				} else {
					assert.Error(t, err, op)
				}
			}
		})
	}
}

// K1, K2 (W4): what arrives with another checksum than was sent is refused and not stored.
func TestWrongChecksumIsRefused(t *testing.T) {
	server, url := serve(t, fake.Config{})
	err := open(t, config(url)).Put(t.Context(), "k", objectstore.NewBody([]byte("data")), checksum([]byte("other")))
	assert.Equal(t, walstorage.ErrCorrupt, walstorage.KindOf(err), "%v", err)
	assert.Empty(t, server.Keys(bucket))
}

// W9, Opndrive/opndrive#73: an answer to a delete is read key by key; one that names a key nowhere, as an error document
// under status 200 does, has not deleted it.
func TestDeleteReadsEachKey(t *testing.T) {
	const document = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>again</Message></Error>`
	tests := map[string]struct {
		fault fake.Fault
		want  map[string]error
	}{
		"all deleted": {fake.Fault{}, nil},
		"some refused": {
			fake.Fault{Keys: map[string]string{"a": "AccessDenied", "b": "InternalError", "c": "SlowDown", "d": "NoSuchKey", "e": "Odd"}},
			map[string]error{"a": walstorage.ErrAccessDenied, "b": walstorage.ErrUnavailable, "c": walstorage.ErrUnavailable, "e": nil},
		},
		"nothing named": {
			fake.Fault{Omit: true, Keys: map[string]string{"d": "AccessDenied"}},
			map[string]error{
				"a": walstorage.ErrUnavailable, "b": walstorage.ErrUnavailable, "c": walstorage.ErrUnavailable,
				"d": walstorage.ErrAccessDenied, "e": walstorage.ErrUnavailable,
			},
		},
		"an error document": {
			fake.Fault{Document: document},
			map[string]error{
				"a": walstorage.ErrUnavailable, "b": walstorage.ErrUnavailable, "c": walstorage.ErrUnavailable,
				"d": walstorage.ErrUnavailable, "e": walstorage.ErrUnavailable,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			server.Fault(always("DeleteObjects", test.fault))

			err := open(t, config(url)).Delete(t.Context(), []string{"a", "b", "c", "d", "e"})

			if test.want == nil {
				require.NoError(t, err)
				return
			}
			var partial *objectstore.DeleteError
			if name == "an error document" && !errors.As(err, &partial) {
				// Newer versions of the SDK know such an answer themselves: then no key is known to be deleted.
				require.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
				return
			}
			require.ErrorAs(t, err, &partial)
			got := map[string]error{}
			for _, failure := range partial.Failures {
				got[failure.Key] = walstorage.KindOf(failure.Err)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// A batch beyond the limit is two requests, and only what failed is repeated (W9, Opndrive/opndrive#73).
func TestDeletesByTheThousand(t *testing.T) {
	server, url := serve(t, fake.Config{})
	manager := manage(t, config(url))
	ids := make([]walstorage.SegmentID, 1001)
	for i := range ids {
		ids[i] = segment(t)
		server.Store(bucket, key(t, ids[i]), []byte("x"))
	}
	server.Fault(faults("DeleteObjects", fake.Fault{Keys: map[string]string{key(t, ids[7]): "InternalError"}}))

	require.NoError(t, manager.DeleteSegments(t.Context(), ids...))

	assert.Empty(t, server.Keys(bucket))
	assert.Equal(t, 3, server.Count("DeleteObjects"))
	var again int
	for _, r := range server.Requests()[1:2] {
		again = strings.Count(string(r.Body), "<Key>")
	}
	assert.Equal(t, 1, again, "the one key that failed")
}

// E13, E14, J16, J11 (W10): what is no whole list is an error and never the end of one.
func TestBrokenLists(t *testing.T) {
	tests := map[string]struct {
		script []fake.Fault
		kind   error // of the list, walstorage.ErrClosed for success
		pages  int
	}{
		"a 503 between":     {[]fake.Fault{{}, {Status: 503, Code: "SlowDown"}}, walstorage.ErrClosed, 4},
		"an error document": {[]fake.Fault{{}, {Document: "<Error><Code>InternalError</Code></Error>"}}, walstorage.ErrClosed, 4},
		"cut":               {[]fake.Fault{{}, {Document: "<ListBucketResult><IsTruncated>false</IsTruncated><Conte"}}, walstorage.ErrClosed, 4},
		"dropped":           {[]fake.Fault{{}, {Drop: true}}, walstorage.ErrClosed, 4},
		"no token":          {[]fake.Fault{{}, {NoToken: true}}, nil, 2},
		"a repeated token":  {[]fake.Fault{{Token: "YQ=="}, {Token: "YQ=="}, {Token: "YQ=="}}, nil, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{PageSize: 2})
				manager := manage(t, c)
				for range 6 {
					server.Store(bucket, key(t, segment(t)), []byte("x"))
				}
				server.Store(bucket, "c/1/odd & <key>\x01", []byte("foreign"))
				server.Fault(faults("ListObjectsV2", test.script...))

				found := map[walstorage.SegmentID]bool{}
				var failed error
				for info, err := range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
					if failed = err; err == nil {
						found[info.ID] = true
					}
				}

				if errors.Is(test.kind, walstorage.ErrClosed) {
					require.NoError(t, failed)
					assert.Len(t, found, 6)
					return
				}
				require.Error(t, failed)
				assert.Equal(t, test.kind, walstorage.KindOf(failed), "%v", failed)
				assert.Equal(t, test.pages, server.Count("ListObjectsV2"))
			})
		})
	}
}

// aws/aws-sdk-go#4510, aws/aws-sdk-js-v3#8098, versity/versitygw#1004, J11, J15 (W6): a body that ends early, stalls, or
// is of another range is tried again and never passes.
func TestBrokenReads(t *testing.T) {
	tests := map[string]fake.Fault{
		"short, length promised":  {Truncate: 600},
		"short with a clean end":  {Truncate: 600, Cut: true},
		"nothing at all":          {Truncate: 1000, Cut: true},
		"stalled":                 {StallAfter: 10},
		"the whole object":        {IgnoreRange: true},
		"a range with no name":    {ContentRange: "bytes"},
		"another range":           {ContentRange: "bytes 0-999/2000"},
		"a shorter range":         {ContentRange: "bytes 100-500/2000"},
		"dropped":                 {Drop: true},
		"503":                     {Status: 503, Code: "SlowDown"},
		"503 before the request":  {Status: 503, Code: "SlowDown", Early: true},
		"headers never come":      {Wait: make(chan struct{})},
		"an answer from a proxy":  {Document: "<html>hello</html>"},
		"not one but two answers": {Status: 500},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if fault.Wait != nil {
					fault.Wait = make(chan struct{}) // of this bubble
				}
				server, _, c := inMemory(t, fake.Config{})
				c.StallTimeout, c.Store.AttemptTimeout = 2*time.Second, time.Minute
				manager, id := manage(t, c), segment(t)
				object := make([]byte, 2000)
				for i := range object {
					object[i] = byte(i * 3)
				}
				server.Store(bucket, key(t, id), object)
				server.Fault(faults("GetObject", fault))
				began := time.Now()

				dst := make([]byte, 1000)
				require.NoError(t, manager.FetchSegment(t.Context(), id, 100, dst))

				assert.Equal(t, object[100:1100], dst)
				assert.Equal(t, 2, server.Count("GetObject"))
				assert.Less(t, time.Since(began), 5*time.Second, "a stall is noticed long before the attempt's deadline")
			})
		})
	}
}

// byteByByte is a body that comes byte by byte, the last of them together with the end.
type byteByByte struct{ rest []byte }

func (b *byteByByte) Read(p []byte) (int, error) {
	n := copy(p[:1], b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}
func (b *byteByByte) Close() error { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// aws/aws-sdk-go#4510, cockroachdb/cockroach#57745: a reader that returns bytes and the end together loses nothing.
func TestBytesTogetherWithTheEnd(t *testing.T) {
	c := config("http://fake.invalid")
	c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusPartialContent, Header: http.Header{"Content-Range": {"bytes 0-9/10"}},
			Body: &byteByByte{[]byte("0123456789")}, ContentLength: -1, Request: r,
		}, nil
	})}
	dst := make([]byte, 10)
	require.NoError(t, open(t, c).Get(t.Context(), "k", 0, dst))
	assert.Equal(t, "0123456789", string(dst))
}

// What a store that has lost its mind may send under the right status is no success.
func TestOddAnswers(t *testing.T) {
	tests := map[string]struct {
		op     string
		header http.Header
		status int
		body   string
		length int64
		kind   error
	}{
		"another checksum of the upload": {"PutObject", http.Header{"Etag": {`"x"`}, "X-Amz-Checksum-Crc32c": {"AAAAAA=="}}, 200, "", 0, walstorage.ErrCorrupt},
		"an upload without ETag":         {"PutObject", http.Header{}, 200, "", 0, walstorage.ErrUnavailable},
		"a longer body":                  {"GetObject", http.Header{"Content-Range": {"bytes 0-3/10"}}, 206, "0123456", -1, walstorage.ErrUnavailable},
		"a length that is not the range": {"GetObject", http.Header{"Content-Range": {"bytes 0-3/10"}, "Content-Length": {"3"}}, 206, "012", 3, walstorage.ErrUnavailable},
		"no size":                        {"HeadObject", http.Header{}, 200, "", -1, walstorage.ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: test.status, Header: test.header, Body: io.NopCloser(strings.NewReader(test.body)),
					ContentLength: test.length, Request: r,
				}, nil
			})}
			err := operations[test.op](t.Context(), open(t, c))
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
		})
	}
}

// C9, J14, J13: an upload to a server that reads nothing, or never answers, ends by the watch and is tried again.
func TestStalledUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		c.StallTimeout, c.Store.AttemptTimeout = 2*time.Second, time.Minute
		manager, id := manage(t, c), segment(t)
		server.Fault(faults("PutObject", fake.Fault{Wait: make(chan struct{})}))
		began := time.Now()

		require.NoError(t, manager.UploadSegment(t.Context(), id, make([]byte, 300_000)))

		assert.Equal(t, 2, server.Count("PutObject"))
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

// An answer that comes before the body was read ends the upload with what it says, and the body is not touched any more
// (W5), whether the server then reads on or closes the connection, over http and TLS. "Created" is believed only with what
// the store always says of an object.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	over := map[string]func(t *testing.T) (*fake.Server, s3.Config){
		"http": func(t *testing.T) (*fake.Server, s3.Config) {
			server, url := serve(t, fake.Config{})
			return server, config(url)
		},
		"https": func(t *testing.T) (*fake.Server, s3.Config) { return serveTLS(t, fake.Config{}) },
	}
	tests := []struct {
		status int
		code   string
		kind   error
	}{
		{503, "SlowDown", walstorage.ErrUnavailable},
		{409, "ConditionalRequestConflict", walstorage.ErrUnavailable},
		{412, "PreconditionFailed", walstorage.ErrSegmentExists},
		{403, "AccessDenied", walstorage.ErrAccessDenied},
		{400, "EntityTooLarge", walstorage.ErrTooLarge},
		{200, "", walstorage.ErrUnavailable},
	}
	for name, start := range over {
		t.Run(name, func(t *testing.T) {
			server, c := start(t)
			driver := open(t, c)
			data := make([]byte, 4<<20)
			for _, test := range tests {
				for _, readOn := range []bool{false, true} {
					server.Fault(always("PutObject", fake.Fault{Early: true, ReadOn: readOn, Status: test.status, Code: test.code}))
					body := objectstore.NewBody(data)
					err := driver.Put(t.Context(), "k", body, 1)
					body.Revoke()
					data[0]++ // ours again; the race detector watches
					assert.Equal(t, test.kind, walstorage.KindOf(err), "%d %s, reads on %v: %v", test.status, test.code, readOn, err)
				}
			}
			assert.Empty(t, server.Keys(bucket))
		})
	}
}

// J25: a connection that the server has closed while it was idle is no trouble of the next request.
func TestIdleConnectionClosedByTheServer(t *testing.T) {
	server := fake.New(fake.Config{Buckets: []string{bucket}})
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	manager := manage(t, config(listening.URL))
	for range 5 {
		id := segment(t)
		require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data")))
		listening.CloseClientConnections()
		require.NoError(t, manager.FetchSegment(t.Context(), id, 0, make([]byte, 4)))
		listening.CloseClientConnections()
	}
	assert.Len(t, server.Keys(bucket), 5)
}

// J7: a server that is down is unavailable, and its coming back is noticed.
func TestConnectionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, network, c := inMemory(t, fake.Config{})
		manager, id := manage(t, c), segment(t)
		network.Refuse(true)
		time.AfterFunc(3*time.Second, func() { network.Refuse(false) })
		require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data")))
		assert.Equal(t, 1, server.Count("PutObject"))
	})
}

// W8: a context that has ended ends the call with its own error, whatever the operation.
func TestContexts(t *testing.T) {
	for op, call := range operations {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{})
				server.Store(bucket, "there", []byte("data"))
				driver := open(t, c)
				server.Fault(always(op, fake.Fault{Wait: make(chan struct{})}))

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.Equal(t, context.DeadlineExceeded, call(ctx, driver))
				assert.Equal(t, context.DeadlineExceeded, call(ctx, driver), "no request once it has ended")
				assert.Equal(t, 1, server.Count(op))
			})
		})
	}
}

// W12: a driver that is closed says so.
func TestClosed(t *testing.T) {
	_, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	require.NoError(t, driver.Close())
	for op, call := range operations {
		assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(call(t.Context(), driver)), op)
	}
	assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(driver.Warm(t.Context())))
}
