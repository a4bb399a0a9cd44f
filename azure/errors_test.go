package azure_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operations are the driver's methods, by the request that each sends.
var operations = func() map[string]drivertest.Operation {
	all := drivertest.Operations("PutBlob", "GetBlob", "GetBlobProperties", "ListBlobs", "DeleteBlob")
	all["BlobBatch"] = func(ctx context.Context, d objectstore.Driver) error { return d.Delete(ctx, []string{"k", "l"}) }
	return all
}()

// W7, J19, I2, I3: every answer of the mapping table, for each operation that can get it, is one request and has the kind
// named; the SDK's own error is reached.
func TestAnswersHaveTheirKind(t *testing.T) {
	const every = "PutBlob GetBlob GetBlobProperties DeleteBlob BlobBatch ListBlobs"
	const withBody = "PutBlob GetBlob DeleteBlob BlobBatch ListBlobs"
	drivertest.Meanings(t, subject(), []drivertest.Meaning{
		{Status: 404, Code: "BlobNotFound", Ops: "GetBlob GetBlobProperties", Kind: walstorage.ErrSegmentNotFound},
		{Status: 404, Code: "BlobNotFound", Ops: "PutBlob ListBlobs"},
		{Status: 404, Code: "ContainerNotFound", Ops: every, Kind: walstorage.ErrBucketNotFound},
		{Status: 409, Code: "ContainerBeingDeleted", Ops: every, Kind: walstorage.ErrBucketNotFound},
		{Status: 404, Code: "ResourceNotFound", Ops: "GetBlob GetBlobProperties PutBlob ListBlobs"}, // what anonymous readers are told
		{Status: 404, Ops: "GetBlob GetBlobProperties PutBlob ListBlobs DeleteBlob"},                // somebody else's 404
		{Status: 409, Code: "BlobAlreadyExists", Ops: "PutBlob", Kind: walstorage.ErrSegmentExists},
		{Status: 412, Code: "ConditionNotMet", Ops: "PutBlob", Kind: walstorage.ErrSegmentExists},
		{Status: 412, Ops: "PutBlob", Kind: walstorage.ErrSegmentExists},
		{Status: 412, Code: "LeaseIdMissing", Ops: "PutBlob", Kind: walstorage.ErrSegmentExists}, // only what exists has a lease
		{Status: 403, Code: "UnauthorizedBlobOverwrite", Ops: "PutBlob", Kind: walstorage.ErrSegmentExists},
		{Status: 409, Code: "BlobImmutableDueToPolicy", Ops: "PutBlob", Kind: walstorage.ErrSegmentExists},
		{Status: 409, Code: "BlobAlreadyExists", Ops: "GetBlob GetBlobProperties DeleteBlob ListBlobs"},
		{Status: 412, Code: "ConditionNotMet", Ops: "GetBlob GetBlobProperties DeleteBlob ListBlobs"},
		{Status: 409, Code: "BlobImmutableDueToPolicy", Ops: "DeleteBlob", Kind: walstorage.ErrAccessDenied}, // a policy or a hold
		{Status: 403, Code: "UnauthorizedBlobOverwrite", Ops: "GetBlob GetBlobProperties DeleteBlob BlobBatch ListBlobs", Kind: walstorage.ErrAccessDenied},
		{Status: 304, Ops: "PutBlob GetBlob GetBlobProperties DeleteBlob ListBlobs"},
		{Status: 304, Code: "ConditionNotMet", Ops: "GetBlob GetBlobProperties DeleteBlob ListBlobs"},
		{Status: 409, Code: "SystemInUse", Ops: withBody, Kind: walstorage.ErrUnavailable},
		{Status: 409, Code: "AccountBeingCreated", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 409, Code: "LeaseIsBreakingAndCannotBeAcquired", Ops: "PutBlob GetBlob"},
		{Status: 409, Code: "SnapshotsPresent", Ops: "DeleteBlob"},
		{Status: 409, Ops: "PutBlob GetBlob ListBlobs"},
		{Status: 409, Code: "BlobArchived", Ops: "GetBlob", Kind: walstorage.ErrAccessDenied},
		{Status: 409, Code: "BlobBeingRehydrated", Ops: "GetBlob", Kind: walstorage.ErrAccessDenied},
		{Status: 416, Code: "InvalidRange", Ops: "GetBlob", Kind: walstorage.ErrInvalidRange},
		{Status: 416, Ops: "GetBlob", Kind: walstorage.ErrInvalidRange},
		{Status: 416, Code: "InvalidRange", Ops: "GetBlobProperties PutBlob DeleteBlob ListBlobs"},
		{Status: 416, Ops: "GetBlobProperties PutBlob DeleteBlob ListBlobs"},
		{Status: 403, Code: "AuthenticationFailed", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "AuthorizationFailure", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "AuthorizationPermissionMismatch", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "InsufficientAccountPermissions", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "AccountIsDisabled", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "BlobNotFound", Ops: every, Kind: walstorage.ErrAccessDenied}, // a refusal, whatever it calls itself
		{Status: 403, Code: "ContainerNotFound", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "ServerBusy", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 401, Code: "NoAuthenticationInformation", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 400, Code: "InvalidAuthenticationInfo", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 401, Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 503, Code: "ServerBusy", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 503, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 500, Code: "InternalError", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 500, Code: "OperationTimedOut", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 502, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 504, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 408, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 429, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "Md5Mismatch", Ops: "PutBlob", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "Crc64Mismatch", Ops: "PutBlob", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "InvalidMd5", Ops: "PutBlob", Kind: walstorage.ErrCorrupt},
		{Status: 413, Code: "RequestBodyTooLarge", Ops: "PutBlob", Kind: walstorage.ErrTooLarge},
		{Status: 413, Ops: "PutBlob", Kind: walstorage.ErrTooLarge},
		{Status: 507, Ops: "PutBlob", Kind: walstorage.ErrNoSpace},
		{Status: 501, Code: "NotImplemented", Ops: "PutBlob GetBlob DeleteBlob ListBlobs"},
		{Status: 505, Ops: "PutBlob GetBlob DeleteBlob ListBlobs"},
		{Status: 400, Code: "InvalidHeaderValue", Ops: "PutBlob GetBlob DeleteBlob ListBlobs"},
		{Status: 400, Code: "UnsupportedHeader", Ops: "PutBlob GetBlob DeleteBlob ListBlobs"},
		{Status: 301, Ops: "PutBlob GetBlob GetBlobProperties DeleteBlob ListBlobs"},
		{Status: 307, Ops: "PutBlob GetBlob GetBlobProperties DeleteBlob ListBlobs"},
		{Status: 204, Ops: "PutBlob DeleteBlob ListBlobs", Kind: walstorage.ErrUnavailable}, // of somebody between us and the store
	}, func(t *testing.T, op string, row drivertest.Meaning, err error, _ drivertest.Again) {
		if op == "GetBlob" && row.Status == 304 {
			return // the SDK takes it for success, and has no error of it
		}
		var answer *azcore.ResponseError
		require.ErrorAs(t, err, &answer)
		assert.Equal(t, row.Status, answer.StatusCode)
		assert.Equal(t, row.Code, answer.ErrorCode)
		assert.NotContains(t, err.Error(), "\n", "one line")
		if row.Code != "" && row.Status >= 400 && op != "GetBlobProperties" {
			assert.ErrorContains(t, err, row.Code+": as the test wants it")
		}
	})
}

// A deleted blob and a missing one are the same (report yandex/ch-backup#69).
func TestDeleteOfAMissingBlob(t *testing.T) {
	_, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	assert.NoError(t, driver.Delete(t.Context(), []string{"none"}))
	assert.NoError(t, driver.Delete(t.Context(), []string{"none", "nothing"}))
	missing := config(url)
	missing.Container = "none"
	driver = open(t, missing)
	assert.Equal(t, walstorage.ErrBucketNotFound, walstorage.KindOf(driver.Delete(t.Context(), []string{"k"})))
	assert.Equal(t, walstorage.ErrBucketNotFound, walstorage.KindOf(driver.Delete(t.Context(), []string{"k", "l"})))
}

// J3: the time that the store asks for is passed on, in seconds or as a date.
func TestRetryAfter(t *testing.T) { drivertest.RetryAfter(t, subject()) }

// apache/opendal#6741, Azure/Azurite#1543, distribution/distribution#4571, Azure/azure-sdk-for-go#24027, rclone/rclone#7590,
// Azure/azure-sdk-for-net#45510 (C9, C10, C13): here "exists" is itself a 409; one that asks to try again is no "exists";
// and a create whose answer was lost is settled by the object that is there.
func TestConflictAndLostAnswer(t *testing.T) {
	conflict := fake.Fault{Status: 409, Code: "SystemInUse"}
	exists := fake.Fault{Status: 409, Code: "BlobAlreadyExists"}
	refused := fake.Fault{Status: 403, Code: "UnauthorizedBlobOverwrite"}
	drivertest.Creates(t, subject(), map[string]drivertest.Create[fake.Fault]{
		"409 in use, 201":             {Script: []fake.Fault{conflict}, Creates: 2},
		"409 exists, other bytes":     {Script: []fake.Fault{exists}, Stored: "other", Kind: walstorage.ErrSegmentExists, Creates: 1, Stats: 1},
		"409 exists, as many bytes":   {Script: []fake.Fault{exists}, Stored: "OURS", Kind: walstorage.ErrSegmentExists, Creates: 1, Stats: 1},
		"409 exists, the same bytes":  {Script: []fake.Fault{exists}, Stored: "ours", Creates: 1, Stats: 1},
		"403 exists, the same bytes":  {Script: []fake.Fault{refused}, Stored: "ours", Creates: 1, Stats: 1},
		"409 in use for ever":         {Script: []fake.Fault{conflict, conflict, conflict}, Attempts: 3, Kind: walstorage.ErrUnavailable, Creates: 3},
		"in use, exists, no object":   {Script: []fake.Fault{conflict, exists}, Creates: 3, Stats: 1},
		"lost answer":                 {Script: []fake.Fault{{DropAfter: true}}, Creates: 2, Stats: 1},
		"500 but stored":              {Script: []fake.Fault{{After: true, Status: 500, Code: "OperationTimedOut"}}, Creates: 2, Stats: 1},
		"an error document under 201": {Script: []fake.Fault{{Document: "<Error><Code>InternalError</Code></Error>"}}, Creates: 2},
		"cut before the store":        {Script: []fake.Fault{{Drop: true}}, Creates: 2},
	})
}

// C11: where the check after a lost answer fails too, nobody knows; the same upload again settles it.
func TestLostAnswerAndNoCheck(t *testing.T) { drivertest.LostAnswerAndNoCheck(t, subject()) }

// The CRC-32C that goes along as metadata saves reading the object to compare it; one of another store's making is read
// (K5).
func TestCompareByMetadata(t *testing.T) {
	ours := []byte("ours")
	tests := map[string]struct {
		metadata map[string]string
		stored   string
		gets     int
		kind     error
	}{
		"ours":                    {map[string]string{"walhopcrc32c": hex32(ours)}, "ours", 0, nil},
		"ours, in capitals":       {map[string]string{"walhopcrc32c": strings.ToUpper(hex32(ours))}, "ours", 0, nil},
		"another content":         {map[string]string{"walhopcrc32c": hex32([]byte("OURS"))}, "OURS", 0, walstorage.ErrSegmentExists},
		"none":                    {nil, "ours", 1, nil},
		"none, another content":   {nil, "OURS", 1, walstorage.ErrSegmentExists},
		"foreign":                 {map[string]string{"color": "red"}, "ours", 1, nil},
		"ours, malformed":         {map[string]string{"walhopcrc32c": "yes"}, "ours", 1, nil},
		"ours, with strange text": {map[string]string{"walhopcrc32c": "+1234567"}, "ours", 1, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			manager, id := manage(t, config(url)), drivertest.Segment(t)
			server.StoreWith(bucket, drivertest.Key(t, id), []byte(test.stored), test.metadata)

			err := manager.UploadSegment(t.Context(), id, ours)

			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
			assert.Equal(t, test.gets, server.Count("GetBlob"))
		})
	}
}

// aws/aws-sdk-go-v2#2038, J10: each attempt sends the same bytes.
func TestEachAttemptSendsTheSameBytes(t *testing.T) {
	drivertest.EachAttemptSendsTheSameBytes(t, subject())
}

// K1, K2 (W4): what arrives with another checksum than was sent is refused and not stored.
func TestWrongChecksumIsRefused(t *testing.T) {
	for name, md5 := range map[string]bool{"CRC-64": false, "MD5": true} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			c := config(url)
			c.MD5 = md5
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Body, r.GetBody = io.NopCloser(strings.NewReader("dara")), nil // a bit has flipped
				return http.DefaultTransport.RoundTrip(r)
			})}
			t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
			err := operations["PutBlob"](t.Context(), open(t, c))
			assert.Equal(t, walstorage.ErrCorrupt, walstorage.KindOf(err), "%v", err)
			assert.Empty(t, server.Keys(bucket))
		})
	}
}

// K1 (W4): what was damaged in memory after its checksum was computed is not sent.
func TestDamagedInMemory(t *testing.T) {
	for name, md5 := range map[string]bool{"CRC-64": false, "MD5": true} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			c := config(url)
			c.MD5 = md5
			err := open(t, c).Put(t.Context(), "k", objectstore.NewBody([]byte("data")), drivertest.Checksum([]byte("other")))
			assert.Equal(t, walstorage.ErrCorrupt, walstorage.KindOf(err), "%v", err)
			assert.Empty(t, server.Requests())
		})
	}
}

// A server that refuses the CRC-64 works with MD5 and only so.
func TestServerWithoutCRC64(t *testing.T) {
	for name, md5 := range map[string]bool{"MD5": true, "default": false} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{NoCRC64: true})
			server.Store(bucket, "there", []byte("data"))
			c := config(url)
			c.MD5 = md5
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				if md5 || op != "PutBlob" {
					assert.NoError(t, err, op)
				} else {
					assert.Error(t, err, op)
				}
			}
		})
	}
}

// E13, E14, J16, J11 (W10): what is no whole list is an error and never the end of one.
func TestBrokenLists(t *testing.T) {
	const head = `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://a/" ContainerName="segments">`
	drivertest.BrokenLists(t, subject(), map[string]drivertest.List[fake.Fault]{
		"a 503 between":         {Script: []fake.Fault{{}, {Status: 503, Code: "ServerBusy"}}, Found: 6, Pages: 5},
		"an error document":     {Script: []fake.Fault{{}, {Document: "<Error><Code>InternalError</Code></Error>"}}, Found: 6, Pages: 5},
		"a page of a proxy":     {Script: []fake.Fault{{}, {Document: "<!DOCTYPE html><html>hello</html>"}}, Found: 6, Pages: 5},
		"nothing":               {Script: []fake.Fault{{}, {Document: " "}}, Found: 6, Pages: 5},
		"cut":                   {Script: []fake.Fault{{}, {Document: head + "<Blobs><Blob><Na"}}, Found: 6, Pages: 5},
		"cut between two blobs": {Script: []fake.Fault{{}, {Document: head + "<Blobs>"}}, Found: 6, Pages: 5},
		"a blob with no name":   {Script: []fake.Fault{{}, {Document: head + "<Blobs><Blob/></Blobs><NextMarker/></EnumerationResults>"}}, Found: 6, Pages: 5},
		"dropped":               {Script: []fake.Fault{{}, {Drop: true}}, Found: 6, Pages: 5},
		"no marker":             {Script: []fake.Fault{{}, {NoMarker: true}}, Found: 6, Pages: 5},
		"a repeated marker":     {Script: []fake.Fault{{Marker: "YQ=="}, {Marker: "YQ=="}, {Marker: "YQ=="}}, Fails: true, Pages: 2},
	})
}

// A name that XML cannot hold comes back as it is, and a directory of a hierarchical namespace is no object.
func TestOddNamesInLists(t *testing.T) {
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	names := []string{"a/+ %2F&<", "a/\x01", "a/ü"}
	for _, name := range names {
		server.Store(bucket, name, []byte("12345"))
	}
	page, next, err := driver.List(t.Context(), "a/", "")
	require.NoError(t, err)
	assert.Empty(t, next)
	var got []string
	for _, object := range page {
		got = append(got, object.Key)
		assert.Equal(t, int64(5), object.Size)
		assert.WithinDuration(t, time.Now(), object.Stored, time.Minute)
	}
	assert.ElementsMatch(t, names, got)

	server.Always("ListBlobs", fake.Fault{Document: `<EnumerationResults ServiceEndpoint="http://a/" ContainerName="segments"><Blobs>
		<Blob><Name>a</Name><Properties><Content-Length>0</Content-Length><ResourceType>directory</ResourceType></Properties></Blob>
		<Blob><Name>a/b</Name><Properties><Content-Length>7</Content-Length><ResourceType>file</ResourceType></Properties></Blob>
		</Blobs><NextMarker/></EnumerationResults>`})
	page, _, err = driver.List(t.Context(), "", "")
	require.NoError(t, err)
	assert.Equal(t, []objectstore.Object{{Key: "a/b", Size: 7}}, page)
}

// J11, J15 (W6), Azure/azure-sdk-for-go#24566: a body that ends early, stalls, or is of another range is tried again and
// never passes.
func TestBrokenReads(t *testing.T) { drivertest.BrokenReads(t, subject()) }

// W6, D3 to D5, D9: a range that ends beyond the object is ErrInvalidRange, also where the server answers it, as Azurite
// does, with success and no bytes.
func TestRangesBeyondTheEnd(t *testing.T) {
	for name, empty := range map[string]bool{"as the service": false, "as Azurite": true} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			server.Store(bucket, "k", []byte("0123456789"))
			server.Store(bucket, "empty", nil)
			server.Always("GetBlob", fake.Fault{EmptyRange: empty})
			driver := open(t, config(url))
			for _, test := range []struct {
				key            string
				offset, length int64
			}{{"k", 0, 11}, {"k", 8, 5}, {"k", 10, 1}, {"k", 11, 1}, {"k", 1 << 40, 1}, {"empty", 0, 1}, {"empty", 1, 1}} {
				err := driver.Get(t.Context(), test.key, test.offset, make([]byte, test.length))
				assert.Equal(t, walstorage.ErrInvalidRange, walstorage.KindOf(err), "%+v: %v", test, err)
			}
			assert.Equal(t, walstorage.ErrInvalidRange, walstorage.KindOf(driver.Get(t.Context(), "k", 1<<63-1, make([]byte, 1))))
			assert.Equal(t, walstorage.ErrInvalidRange, walstorage.KindOf(driver.Get(t.Context(), "k", -1, make([]byte, 1))))
		})
	}
}

// What a store that has lost its mind may send under the right status is no success.
func TestOddAnswers(t *testing.T) {
	part := http.Header{"Content-Range": {"bytes 0-3/10"}}
	tests := map[string]struct {
		op     string
		header http.Header
		status int
		body   string
		length int64
		kind   error
	}{
		"another CRC-64 of the upload":   {"PutBlob", http.Header{"Etag": {`"x"`}, "X-Ms-Content-Crc64": {"AAAAAAAAAAA="}}, 201, "", 0, walstorage.ErrCorrupt},
		"a CRC-64 that is none":          {"PutBlob", http.Header{"Etag": {`"x"`}, "X-Ms-Content-Crc64": {"%"}}, 201, "", 0, walstorage.ErrUnavailable},
		"an upload without ETag":         {"PutBlob", http.Header{}, 201, "", 0, walstorage.ErrUnavailable},
		"an upload that is only OK":      {"PutBlob", http.Header{"Etag": {`"x"`}}, 200, "", 0, walstorage.ErrUnavailable},
		"a longer body":                  {"GetBlob", part, 206, "0123456", -1, walstorage.ErrUnavailable},
		"a length that is not the range": {"GetBlob", part, 206, "012", 3, walstorage.ErrUnavailable},
		"a blob that was uncompressed":   {"GetBlob", part, 206, "0123", -1, nil},
		"304":                            {"GetBlob", http.Header{}, 304, "", 0, nil},
		"no size":                        {"GetBlobProperties", http.Header{"X-Ms-Blob-Type": {"BlockBlob"}}, 200, "", -1, walstorage.ErrUnavailable},
		"no blob":                        {"GetBlobProperties", http.Header{"Content-Length": {"4"}}, 200, "", 4, walstorage.ErrUnavailable},
		"a time that is none":            {"GetBlobProperties", http.Header{"Content-Length": {"4"}, "X-Ms-Blob-Type": {"BlockBlob"}, "Last-Modified": {"now"}}, 200, "", 4, walstorage.ErrUnavailable},
		"no time":                        {"GetBlobProperties", http.Header{"Content-Length": {"4"}, "X-Ms-Blob-Type": {"BlockBlob"}}, 200, "", 4, walstorage.ErrClosed},
		"an error whose text is cut":     {"PutBlob", http.Header{"X-Ms-Error-Code": {"BlobAlreadyExists"}}, 409, "<Err", 500, walstorage.ErrSegmentExists},
		"an unknown error that is cut":   {"GetBlob", http.Header{}, 404, "<Err", 500, walstorage.ErrUnavailable},
		"an error that is no XML":        {"PutBlob", http.Header{}, 503, "busy", 4, walstorage.ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				body := io.Reader(strings.NewReader(test.body))
				if int64(len(test.body)) < test.length && r.Method != http.MethodHead {
					body = io.MultiReader(body, failing{})
				}
				return &http.Response{
					StatusCode: test.status, Header: test.header, Body: io.NopCloser(body),
					ContentLength: test.length, Request: r, Uncompressed: name == "a blob that was uncompressed",
				}, nil
			})}
			err := operations[test.op](t.Context(), open(t, c))
			if errors.Is(test.kind, walstorage.ErrClosed) {
				assert.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
		})
	}
}

// failing is a connection that has gone.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// J14, J13: an upload to a server that reads nothing, or never answers, ends by the watch and is tried again.
func TestStalledUpload(t *testing.T) { drivertest.StalledUpload(t, subject()) }

// An answer that comes before the body was read ends the upload with what it says, and the body is not touched any more
// (W5).
func TestEarlyAnswerToAnUpload(t *testing.T) {
	drivertest.EarlyAnswers(t, subject(), []drivertest.Early{
		{Answer: drivertest.Fault{Status: 503, Code: "ServerBusy"}, Kind: walstorage.ErrUnavailable},
		{Answer: drivertest.Fault{Status: 409, Code: "BlobAlreadyExists"}, Kind: walstorage.ErrSegmentExists},
		{Answer: drivertest.Fault{Status: 403, Code: "AuthorizationFailure"}, Kind: walstorage.ErrAccessDenied},
		{Answer: drivertest.Fault{Status: 413, Code: "RequestBodyTooLarge"}, Kind: walstorage.ErrTooLarge},
		{Answer: drivertest.Fault{Status: 201}, Kind: walstorage.ErrUnavailable},
	})
}

// J7: a server that is down is unavailable, and its coming back is noticed.
func TestConnectionRefused(t *testing.T) { drivertest.ConnectionRefused(t, subject()) }

// W8: a context that has ended ends the call with its own error, whatever the operation.
func TestContexts(t *testing.T) { drivertest.Contexts(t, subject()) }

// W12: a driver that is closed says so, however often.
func TestClosed(t *testing.T) { drivertest.Closed(t, subject()) }

// W8: a context that has ended makes no driver.
func TestNewDriverInVain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := azure.NewDriver(ctx, config("http://localhost:1"))
	assert.Equal(t, context.Canceled, err)
}

// J22: a clock that is wrong is named, since the service has no code for it, and so is a SAS whose time is over.
func TestWrongClock(t *testing.T) {
	server, url := serve(t, fake.Config{Skew: time.Hour})
	err := operations["PutBlob"](t.Context(), open(t, config(url)))
	assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err))
	assert.ErrorContains(t, err, "Request date header too old")

	server.Always("GetBlob", fake.Fault{
		Status: 403, Code: "AuthenticationFailed", Message: "Server failed to authenticate the request.",
		Detail: "Signature not valid in the specified time frame: Start [Mon, 05 Jan 2026 00:00:00 GMT] - Expiry [Tue, 06 Jan 2026 00:00:00 GMT] - Current [Wed, 07 Jan 2026 00:00:00 GMT]",
	})
	err = operations["GetBlob"](t.Context(), open(t, withSAS(url)))
	assert.ErrorContains(t, err, "Expiry [Tue, 06 Jan 2026")
}

// J25: a kept connection that the server has closed meanwhile is nobody's failure.
func TestClosedKeepAlive(t *testing.T) {
	drivertest.ClosedKeepAlive(t, newFake(fake.Config{}),
		func(url string) *objectstore.Manager { return manage(t, config(url)) })
}
