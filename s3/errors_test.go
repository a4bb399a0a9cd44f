package s3_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operations are the driver's methods, by the request that each sends.
var operations = drivertest.Operations("PutObject", "GetObject", "HeadObject", "ListObjectsV2", "DeleteObjects")

// W7: every answer of the mapping table, for each operation that can get it, is one request and has the kind named; the
// SDK's own error is reached.
func TestAnswersHaveTheirKind(t *testing.T) {
	const every = "PutObject GetObject HeadObject DeleteObjects ListObjectsV2"
	const withBody = "PutObject GetObject DeleteObjects ListObjectsV2" // the answer to a HEAD has no code
	drivertest.Meanings(t, subject(), []drivertest.Meaning{
		{Status: 404, Code: "NoSuchKey", Ops: "GetObject", Kind: walstorage.ErrSegmentNotFound},
		{Status: 404, Code: "NoSuchKey", Ops: "HeadObject", Kind: walstorage.ErrSegmentNotFound, Asks: 1}, // for the bucket
		{Status: 404, Code: "NoSuchKey", Ops: "PutObject ListObjectsV2"},
		{Status: 404, Code: "NoSuchBucket", Ops: withBody, Kind: walstorage.ErrBucketNotFound},
		{Status: 404, Ops: "GetObject PutObject"}, // somebody else's 404
		// A gateway that tells of its own trouble in words of the store's.
		{Status: 503, Code: "NoSuchKey", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 429, Code: "NoSuchKey", Ops: "GetObject", Kind: walstorage.ErrUnavailable},
		{Status: 502, Code: "NoSuchBucket", Ops: withBody, Kind: walstorage.ErrUnavailable},
		{Status: 503, Code: "PreconditionFailed", Ops: "PutObject", Kind: walstorage.ErrUnavailable},
		{Status: 503, Code: "InvalidRange", Ops: "GetObject", Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "NoSuchKey", Ops: "GetObject"},
		{Status: 412, Code: "PreconditionFailed", Ops: "PutObject", Kind: walstorage.ErrSegmentExists},
		{Status: 304, Ops: "PutObject"}, // C14: not "exists"
		{Status: 412, Code: "PreconditionFailed", Ops: "GetObject DeleteObjects ListObjectsV2"},
		{Status: 304, Ops: "GetObject"},
		{Status: 409, Code: "ConditionalRequestConflict", Ops: "PutObject", Kind: walstorage.ErrUnavailable},
		{Status: 409, Code: "OperationAborted", Ops: withBody, Kind: walstorage.ErrUnavailable},
		{Status: 409, Code: "ObjectParentIsFile", Ops: "PutObject"},
		{Status: 416, Code: "InvalidRange", Ops: "GetObject", Kind: walstorage.ErrInvalidRange},
		{Status: 403, Code: "AccessDenied", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "SignatureDoesNotMatch", Ops: every, Kind: walstorage.ErrAccessDenied},
		// Who may not list the bucket is refused where an object is missing (aws/aws-sdk#50, minio/minio#16781), which is
		// no "not found", whatever the code.
		{Status: 403, Code: "NoSuchKey", Ops: "GetObject HeadObject", Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "NoSuchBucket", Ops: withBody, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 401, Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 400, Code: "InvalidToken", Ops: withBody, Kind: walstorage.ErrAccessDenied},
		{Status: 503, Code: "SlowDown", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 429, Code: "TooManyRequests", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 429, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 500, Code: "InternalError", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 502, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 504, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 408, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "RequestTimeout", Ops: withBody, Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "IncompleteBody", Ops: "PutObject", Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "KMS.ThrottlingException", Ops: "PutObject GetObject", Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "BadDigest", Ops: "PutObject DeleteObjects", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "XAmzContentSHA256Mismatch", Ops: "PutObject", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "InvalidDigest", Ops: "PutObject", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "EntityTooLarge", Ops: "PutObject", Kind: walstorage.ErrTooLarge},
		{Status: 413, Ops: "PutObject", Kind: walstorage.ErrTooLarge},
		{Status: 507, Code: "XMinioStorageFull", Ops: "PutObject", Kind: walstorage.ErrNoSpace},
		{Status: 507, Ops: "PutObject", Kind: walstorage.ErrNoSpace},
		{Status: 403, Code: "QuotaExceeded", Ops: "PutObject", Kind: walstorage.ErrNoSpace},
		{Status: 501, Code: "NotImplemented", Ops: withBody}, // a store that has no conditional creates
		{Status: 400, Code: "InvalidArgument", Ops: withBody},
		{Status: 301, Code: "PermanentRedirect", Ops: withBody},
		{Status: 307, Code: "TemporaryRedirect", Ops: withBody},
	}, func(t *testing.T, _ string, _ drivertest.Meaning, err error, _ drivertest.Again) {
		var api smithy.APIError
		assert.ErrorAs(t, err, &api)
	})
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
	server.Always("HeadBucket", fake.Fault{Status: 403})
	_, err = open(t, config(url)).Stat(t.Context(), "k")
	assert.Equal(t, walstorage.ErrSegmentNotFound, walstorage.KindOf(err))
	server.Always("HeadBucket", fake.Fault{Status: 503})
	_, err = open(t, config(url)).Stat(t.Context(), "k")
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "nobody knows which of the two is missing")
}

// J3: the time that the store asks for is passed on, in seconds or as a date.
func TestRetryAfter(t *testing.T) { drivertest.RetryAfter(t, subject()) }

// apache/opendal#6741, apache/arrow-rs-object-store#852 (C13), J19: 409 is tried again, 412 is "exists", and a conflict
// that does not end is no "exists".
func TestConflictIsNotExists(t *testing.T) {
	conflict := fake.Fault{Status: 409, Code: "ConditionalRequestConflict"}
	exists := fake.Fault{Status: 412, Code: "PreconditionFailed"}
	drivertest.Creates(t, subject(), map[string]drivertest.Create[fake.Fault]{
		"409, 200":                    {Script: []fake.Fault{conflict}, Creates: 2},
		"412, other bytes":            {Script: []fake.Fault{exists}, Stored: "other", Kind: walstorage.ErrSegmentExists, Creates: 1, Stats: 1},
		"412, the same bytes":         {Script: []fake.Fault{exists}, Stored: "ours", Creates: 1, Stats: 1},
		"409 for ever":                {Script: []fake.Fault{conflict, conflict, conflict}, Attempts: 3, Kind: walstorage.ErrUnavailable, Creates: 3},
		"409, 412, no object":         {Script: []fake.Fault{conflict, exists}, Creates: 3, Stats: 1},
		"lost answer":                 {Script: []fake.Fault{{DropAfter: true}}, Creates: 2, Stats: 1},
		"500 but stored":              {Script: []fake.Fault{{After: true, Status: 500, Code: "InternalError"}}, Creates: 2, Stats: 1},
		"an error document under 200": {Script: []fake.Fault{{Document: "<Error><Code>InternalError</Code></Error>"}}, Creates: 2},
		"cut before the store":        {Script: []fake.Fault{{Drop: true}}, Creates: 2},
	})
}

// C11: where the check after a lost answer fails too, nobody knows; the same upload again settles it.
func TestLostAnswerAndNoCheck(t *testing.T) { drivertest.LostAnswerAndNoCheck(t, subject()) }

// aws/aws-sdk-go-v2#2038, aws/aws-sdk-go-v2#1108, aws/aws-sdk-go-v2#1667, J10: each attempt sends the same bytes, over
// http, where the body is read twice for the signature, and over https.
func TestEachAttemptSendsTheSameBytes(t *testing.T) {
	drivertest.EachAttemptSendsTheSameBytes(t, subject())
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
func TestWrongChecksumIsRefused(t *testing.T) { drivertest.WrongChecksum(t, subject()) }

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
			server.Always("DeleteObjects", test.fault)

			err := open(t, config(url)).Delete(t.Context(), []string{"a", "b", "c", "d", "e"})

			if test.want == nil {
				require.NoError(t, err)
				return
			}
			got, told := drivertest.Undeleted(err)
			if name == "an error document" && !told {
				// Newer versions of the SDK know such an answer themselves: then no key is known to be deleted.
				require.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
				return
			}
			require.True(t, told, "%v", err)
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
		ids[i] = drivertest.Segment(t)
		server.Store(bucket, drivertest.Key(t, ids[i]), []byte("x"))
	}
	server.Faults("DeleteObjects", fake.Fault{Keys: map[string]string{drivertest.Key(t, ids[7]): "InternalError"}})

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
	drivertest.BrokenLists(t, subject(), map[string]drivertest.List[fake.Fault]{
		"a 503 between":     {Script: []fake.Fault{{}, {Status: 503, Code: "SlowDown"}}, Found: 6, Pages: 5},
		"an error document": {Script: []fake.Fault{{}, {Document: "<Error><Code>InternalError</Code></Error>"}}, Found: 6, Pages: 5},
		"cut":               {Script: []fake.Fault{{}, {Document: "<ListBucketResult><IsTruncated>false</IsTruncated><Conte"}}, Found: 6, Pages: 5},
		"dropped":           {Script: []fake.Fault{{}, {Drop: true}}, Found: 6, Pages: 5},
		"no token":          {Script: []fake.Fault{{}, {NoToken: true}}, Fails: true, Pages: 2},
		"a repeated token":  {Script: []fake.Fault{{Token: "YQ=="}, {Token: "YQ=="}, {Token: "YQ=="}}, Fails: true, Pages: 2},
	})
}

// aws/aws-sdk-go#4510, aws/aws-sdk-js-v3#8098, versity/versitygw#1004, J11, J15 (W6): a body that ends early, stalls, or
// is of another range is tried again and never passes.
func TestBrokenReads(t *testing.T) { drivertest.BrokenReads(t, subject()) }

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

// aws/aws-sdk-go#4510, cockroachdb/cockroach#57745: a reader that returns bytes and the end together loses nothing.
func TestBytesTogetherWithTheEnd(t *testing.T) {
	c := config("http://fake.invalid")
	c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusPartialContent, Header: http.Header{"Content-Range": {"bytes 0-9/10"}},
			Body: &byteByByte{[]byte("0123456789")}, ContentLength: -1, Request: r,
		}, nil
	})}
	dst := make([]byte, 10)
	require.NoError(t, open(t, c).Get(t.Context(), "k", 0, dst))
	assert.Equal(t, "0123456789", string(dst))
}

// net/http asks a body for more after it has sent all of it, and the answer may have begun by then, with which the SDK
// closes the body: it then has nothing more to say, and no error, for which the answer would be cut.
func TestBodyIsAskedOnceMore(t *testing.T) {
	for _, op := range []string{"PutObject", "DeleteObjects"} {
		_, url := serve(t, fake.Config{})
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		var sent io.Reader
		c := config(url)
		c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Body
			return transport.RoundTrip(r)
		})}
		require.NoError(t, operations[op](t.Context(), open(t, c)))

		more, err := io.Copy(io.Discard, sent)

		require.NoError(t, err, op)
		require.Zero(t, more, op)
	}
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
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
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
func TestStalledUpload(t *testing.T) { drivertest.StalledUpload(t, subject()) }

// An answer that comes before the body was read ends the upload with what it says, and the body is not touched any more
// (W5). "Created" is believed only with what the store always says of an object.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	drivertest.EarlyAnswers(t, subject(), []drivertest.Early{
		{Answer: drivertest.Fault{Status: 503, Code: "SlowDown"}, Kind: walstorage.ErrUnavailable},
		{Answer: drivertest.Fault{Status: 409, Code: "ConditionalRequestConflict"}, Kind: walstorage.ErrUnavailable},
		{Answer: drivertest.Fault{Status: 412, Code: "PreconditionFailed"}, Kind: walstorage.ErrSegmentExists},
		{Answer: drivertest.Fault{Status: 403, Code: "AccessDenied"}, Kind: walstorage.ErrAccessDenied},
		{Answer: drivertest.Fault{Status: 400, Code: "EntityTooLarge"}, Kind: walstorage.ErrTooLarge},
		{Answer: drivertest.Fault{Status: 200}, Kind: walstorage.ErrUnavailable},
	})
}

// J25: a connection that the server has closed while it was idle is no trouble of the next request.
func TestIdleConnectionClosedByTheServer(t *testing.T) {
	drivertest.ClosedKeepAlive(t, fake.New(fake.Config{Buckets: []string{bucket}}),
		func(url string) *objectstore.Manager { return manage(t, config(url)) })
}

// J7: a server that is down is unavailable, and its coming back is noticed.
func TestConnectionRefused(t *testing.T) { drivertest.ConnectionRefused(t, subject()) }

// W8: a context that has ended ends the call with its own error, whatever the operation.
func TestContexts(t *testing.T) { drivertest.Contexts(t, subject()) }

// W12: a driver that is closed says so.
func TestClosed(t *testing.T) { drivertest.Closed(t, subject()) }
