package azure_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operations are the driver's methods, by the request that each sends.
var operations = map[string]func(ctx context.Context, d *azure.Driver) error{
	"PutBlob": func(ctx context.Context, d *azure.Driver) error {
		data := []byte("data")
		return d.Put(ctx, "k", objectstore.NewBody(data), checksum(data))
	},
	"GetBlob": func(ctx context.Context, d *azure.Driver) error { return d.Get(ctx, "there", 0, make([]byte, 4)) },
	"GetBlobProperties": func(ctx context.Context, d *azure.Driver) error {
		_, err := d.Stat(ctx, "there")
		return err
	},
	"DeleteBlob": func(ctx context.Context, d *azure.Driver) error { return d.Delete(ctx, []string{"k"}) },
	"BlobBatch":  func(ctx context.Context, d *azure.Driver) error { return d.Delete(ctx, []string{"k", "l"}) },
	"ListBlobs": func(ctx context.Context, d *azure.Driver) error {
		_, _, err := d.List(ctx, "", "")
		return err
	},
}

// W7, J19, I2, I3: every answer of the mapping table, for each operation that can get it, is one request and has the kind
// named; the SDK's own error is reached.
func TestAnswersHaveTheirKind(t *testing.T) {
	const every = "PutBlob GetBlob GetBlobProperties DeleteBlob BlobBatch ListBlobs"
	const withBody = "PutBlob GetBlob DeleteBlob BlobBatch ListBlobs"
	tests := []struct {
		status int
		code   string
		ops    string
		kind   error
	}{
		{404, "BlobNotFound", "GetBlob GetBlobProperties", walstorage.ErrSegmentNotFound},
		{404, "BlobNotFound", "PutBlob ListBlobs", nil},
		{404, "ContainerNotFound", every, walstorage.ErrBucketNotFound},
		{409, "ContainerBeingDeleted", every, walstorage.ErrBucketNotFound},
		{404, "ResourceNotFound", "GetBlob GetBlobProperties PutBlob ListBlobs", nil}, // what anonymous readers are told
		{404, "", "GetBlob GetBlobProperties PutBlob ListBlobs DeleteBlob", nil},      // somebody else's 404
		{409, "BlobAlreadyExists", "PutBlob", walstorage.ErrSegmentExists},
		{412, "ConditionNotMet", "PutBlob", walstorage.ErrSegmentExists},
		{412, "", "PutBlob", walstorage.ErrSegmentExists},
		{412, "LeaseIdMissing", "PutBlob", walstorage.ErrSegmentExists}, // only what exists has a lease
		{403, "UnauthorizedBlobOverwrite", "PutBlob", walstorage.ErrSegmentExists},
		{409, "BlobImmutableDueToPolicy", "PutBlob", walstorage.ErrSegmentExists},
		{409, "BlobAlreadyExists", "GetBlob GetBlobProperties DeleteBlob ListBlobs", nil},
		{412, "ConditionNotMet", "GetBlob GetBlobProperties DeleteBlob ListBlobs", nil},
		{409, "BlobImmutableDueToPolicy", "DeleteBlob", nil},
		{403, "UnauthorizedBlobOverwrite", "GetBlob GetBlobProperties DeleteBlob BlobBatch ListBlobs", walstorage.ErrAccessDenied},
		{304, "", "PutBlob GetBlob GetBlobProperties DeleteBlob ListBlobs", nil},
		{304, "ConditionNotMet", "GetBlob GetBlobProperties DeleteBlob ListBlobs", nil},
		{409, "SystemInUse", withBody, walstorage.ErrUnavailable},
		{409, "AccountBeingCreated", every, walstorage.ErrUnavailable},
		{409, "LeaseIsBreakingAndCannotBeAcquired", "PutBlob GetBlob", nil},
		{409, "SnapshotsPresent", "DeleteBlob", nil},
		{409, "", "PutBlob GetBlob ListBlobs", nil},
		{409, "BlobArchived", "GetBlob", walstorage.ErrAccessDenied},
		{409, "BlobBeingRehydrated", "GetBlob", walstorage.ErrAccessDenied},
		{416, "InvalidRange", "GetBlob", walstorage.ErrInvalidRange},
		{416, "", "GetBlob", walstorage.ErrInvalidRange},
		{403, "AuthenticationFailed", every, walstorage.ErrAccessDenied},
		{403, "AuthorizationFailure", every, walstorage.ErrAccessDenied},
		{403, "AuthorizationPermissionMismatch", every, walstorage.ErrAccessDenied},
		{403, "InsufficientAccountPermissions", every, walstorage.ErrAccessDenied},
		{403, "AccountIsDisabled", every, walstorage.ErrAccessDenied},
		{403, "BlobNotFound", every, walstorage.ErrAccessDenied}, // a refusal, whatever it calls itself
		{403, "ContainerNotFound", every, walstorage.ErrAccessDenied},
		{403, "ServerBusy", every, walstorage.ErrAccessDenied},
		{403, "", every, walstorage.ErrAccessDenied},
		{401, "NoAuthenticationInformation", every, walstorage.ErrAccessDenied},
		{400, "InvalidAuthenticationInfo", every, walstorage.ErrAccessDenied},
		{401, "", every, walstorage.ErrAccessDenied},
		{503, "ServerBusy", every, walstorage.ErrUnavailable},
		{503, "", every, walstorage.ErrUnavailable},
		{500, "InternalError", every, walstorage.ErrUnavailable},
		{500, "OperationTimedOut", every, walstorage.ErrUnavailable},
		{502, "", every, walstorage.ErrUnavailable},
		{504, "", every, walstorage.ErrUnavailable},
		{408, "", every, walstorage.ErrUnavailable},
		{429, "", every, walstorage.ErrUnavailable},
		{400, "Md5Mismatch", "PutBlob", walstorage.ErrCorrupt},
		{400, "Crc64Mismatch", "PutBlob", walstorage.ErrCorrupt},
		{400, "InvalidMd5", "PutBlob", walstorage.ErrCorrupt},
		{413, "RequestBodyTooLarge", "PutBlob", walstorage.ErrTooLarge},
		{413, "", "PutBlob", walstorage.ErrTooLarge},
		{507, "", "PutBlob", walstorage.ErrNoSpace},
		{501, "NotImplemented", "PutBlob GetBlob DeleteBlob ListBlobs", nil},
		{505, "", "PutBlob GetBlob DeleteBlob ListBlobs", nil},
		{400, "InvalidHeaderValue", "PutBlob GetBlob DeleteBlob ListBlobs", nil},
		{400, "UnsupportedHeader", "PutBlob GetBlob DeleteBlob ListBlobs", nil},
		{301, "", "PutBlob GetBlob GetBlobProperties DeleteBlob ListBlobs", nil},
		{307, "", "PutBlob GetBlob GetBlobProperties DeleteBlob ListBlobs", nil},
		{204, "", "PutBlob DeleteBlob ListBlobs", walstorage.ErrUnavailable}, // of somebody between us and the store
	}
	server, url := serve(t, fake.Config{})
	server.Store(bucket, "there", []byte("data"))
	driver := open(t, config(url))
	for _, test := range tests {
		for op := range strings.FieldsSeq(test.ops) {
			t.Run(op+" "+http.StatusText(test.status)+" "+test.code, func(t *testing.T) {
				server.Fault(always(op, fake.Fault{Status: test.status, Code: test.code, Message: "as the test wants it"}))
				before := len(server.Requests())

				err := operations[op](t.Context(), driver)

				require.Error(t, err)
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Len(t, server.Requests(), before+1, "one attempt")
				if op == "GetBlob" && test.status == 304 {
					return // the SDK takes it for success, and has no error of it
				}
				var answer *azcore.ResponseError
				require.ErrorAs(t, err, &answer)
				assert.Equal(t, test.status, answer.StatusCode)
				assert.Equal(t, test.code, answer.ErrorCode)
				assert.NotContains(t, err.Error(), "\n", "one line")
				if test.code != "" && test.status >= 400 && op != "GetBlobProperties" {
					assert.ErrorContains(t, err, test.code+": as the test wants it")
				}
			})
		}
	}
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
func TestRetryAfter(t *testing.T) {
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	for value, within := range map[string][2]time.Duration{
		"3": {3 * time.Second, 3 * time.Second},
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): {59 * time.Minute, time.Hour},
		"soon": {0, 0},
	} {
		server.Fault(always("PutBlob", fake.Fault{Status: 503, Code: "ServerBusy", RetryAfter: value}))
		err := operations["PutBlob"](t.Context(), driver)
		var e *walstorage.Error
		require.ErrorAs(t, err, &e)
		assert.GreaterOrEqual(t, e.RetryAfter, within[0], value)
		assert.LessOrEqual(t, e.RetryAfter, within[1], value)
	}
}

// apache/opendal#6741, Azure/Azurite#1543, distribution/distribution#4571, Azure/azure-sdk-for-go#24027, rclone/rclone#7590,
// Azure/azure-sdk-for-net#45510 (C9, C10, C13): here "exists" is itself a 409; one that asks to try again is no "exists";
// and a create whose answer was lost is settled by the object that is there.
func TestConflictAndLostAnswer(t *testing.T) {
	conflict := fake.Fault{Status: 409, Code: "SystemInUse"}
	exists := fake.Fault{Status: 409, Code: "BlobAlreadyExists"}
	refused := fake.Fault{Status: 403, Code: "UnauthorizedBlobOverwrite"}
	tests := map[string]struct {
		script   []fake.Fault
		stored   []byte
		attempts int
		kind     error
		creates  int
	}{
		"409 in use, 201":             {[]fake.Fault{conflict}, nil, 0, nil, 2},
		"409 exists, other bytes":     {[]fake.Fault{exists}, []byte("other"), 0, walstorage.ErrSegmentExists, 1},
		"409 exists, as many bytes":   {[]fake.Fault{exists}, []byte("OURS"), 0, walstorage.ErrSegmentExists, 1},
		"409 exists, the same bytes":  {[]fake.Fault{exists}, []byte("ours"), 0, nil, 1},
		"403 exists, the same bytes":  {[]fake.Fault{refused}, []byte("ours"), 0, nil, 1},
		"409 in use for ever":         {[]fake.Fault{conflict, conflict, conflict}, nil, 3, walstorage.ErrUnavailable, 3},
		"in use, exists, no object":   {[]fake.Fault{conflict, exists}, nil, 0, nil, 3},
		"lost answer":                 {[]fake.Fault{{DropAfter: true}}, nil, 0, nil, 2},
		"500 but stored":              {[]fake.Fault{{After: true, Status: 500, Code: "OperationTimedOut"}}, nil, 0, nil, 2},
		"an error document under 201": {[]fake.Fault{{Document: "<Error><Code>InternalError</Code></Error>"}}, nil, 0, nil, 2},
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
				server.Fault(faults("PutBlob", test.script...))

				err := manager.UploadSegment(t.Context(), id, []byte("ours"))

				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, test.creates, server.Count("PutBlob"))
				if err == nil {
					stored, _ := server.Object(bucket, key(t, id))
					assert.Equal(t, "ours", string(stored))
				}
			})
		})
	}
}

// C11: where the check after a lost answer fails too, nobody knows; the same upload again settles it.
func TestLostAnswerAndNoCheck(t *testing.T) {
	for name, check := range map[string]fake.Fault{"refused": {Status: 403}, "down": {Status: 503}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{})
				c.Store.MaxAttempts = 2
				manager, id := manage(t, c), segment(t)
				server.Fault(func(r fake.Request) fake.Fault {
					switch {
					case r.Op == "PutBlob" && r.Number == 1:
						return fake.Fault{DropAfter: true}
					case r.Op == "GetBlobProperties":
						return check
					}
					return fake.Fault{}
				})
				err := manager.UploadSegment(t.Context(), id, []byte("ours"))
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)

				server.Fault(nil)
				assert.NoError(t, manager.UploadSegment(t.Context(), id, []byte("ours")))
			})
		})
	}
}

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
			manager, id := manage(t, config(url)), segment(t)
			server.StoreWith(bucket, key(t, id), []byte(test.stored), test.metadata)

			err := manager.UploadSegment(t.Context(), id, ours)

			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
			assert.Equal(t, test.gets, server.Count("GetBlob"))
		})
	}
}

// aws/aws-sdk-go-v2#2038, J10: each attempt sends the same bytes.
func TestEachAttemptSendsTheSameBytes(t *testing.T) {
	over := map[string]func(t *testing.T) (*fake.Server, azure.Config){
		"http": func(t *testing.T) (*fake.Server, azure.Config) {
			server, url := serve(t, fake.Config{})
			return server, config(url)
		},
		"https": func(t *testing.T) (*fake.Server, azure.Config) { return serveTLS(t, fake.Config{}) },
	}
	for name, start := range over {
		t.Run(name, func(t *testing.T) {
			server, c := start(t)
			manager, id := manage(t, c), segment(t)
			server.Fault(faults("PutBlob", fake.Fault{Status: 500, Code: "InternalError"}, fake.Fault{Drop: true}))
			data := make([]byte, 300_000)
			for i := range data {
				data[i] = byte(i * 7)
			}

			require.NoError(t, manager.UploadSegment(t.Context(), id, data))
			want := string(data)
			clear(data) // ours again

			var sent []string
			for _, r := range server.Requests() {
				if r.Op == "PutBlob" && len(r.Body) > 0 {
					sent = append(sent, string(r.Body))
				}
			}
			require.Len(t, sent, 2) // the one that was dropped before its body was read has none
			assert.Equal(t, want, sent[0])
			assert.Equal(t, want, sent[1])
		})
	}
}

// K1, K2 (W4): what arrives with another checksum than was sent is refused and not stored.
func TestWrongChecksumIsRefused(t *testing.T) {
	for name, md5 := range map[string]bool{"CRC-64": false, "MD5": true} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			c := config(url)
			c.MD5 = md5
			c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
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
			err := open(t, c).Put(t.Context(), "k", objectstore.NewBody([]byte("data")), checksum([]byte("other")))
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
	tests := map[string]struct {
		script []fake.Fault
		kind   error // of the list, walstorage.ErrClosed for success
		pages  int
	}{
		"a 503 between":         {[]fake.Fault{{}, {Status: 503, Code: "ServerBusy"}}, walstorage.ErrClosed, 5},
		"an error document":     {[]fake.Fault{{}, {Document: "<Error><Code>InternalError</Code></Error>"}}, walstorage.ErrClosed, 5},
		"a page of a proxy":     {[]fake.Fault{{}, {Document: "<!DOCTYPE html><html>hello</html>"}}, walstorage.ErrClosed, 5},
		"nothing":               {[]fake.Fault{{}, {Document: " "}}, walstorage.ErrClosed, 5},
		"cut":                   {[]fake.Fault{{}, {Document: head + "<Blobs><Blob><Na"}}, walstorage.ErrClosed, 5},
		"cut between two blobs": {[]fake.Fault{{}, {Document: head + "<Blobs>"}}, walstorage.ErrClosed, 5},
		"a blob with no name":   {[]fake.Fault{{}, {Document: head + "<Blobs><Blob/></Blobs><NextMarker/></EnumerationResults>"}}, walstorage.ErrClosed, 5},
		"dropped":               {[]fake.Fault{{}, {Drop: true}}, walstorage.ErrClosed, 5},
		"no marker":             {[]fake.Fault{{}, {NoMarker: true}}, walstorage.ErrClosed, 5},
		"a repeated marker":     {[]fake.Fault{{Marker: "YQ=="}, {Marker: "YQ=="}, {Marker: "YQ=="}}, nil, 2},
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
				server.Fault(faults("ListBlobs", test.script...))

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
				} else {
					require.Error(t, failed)
					assert.Equal(t, test.kind, walstorage.KindOf(failed), "%v", failed)
				}
				assert.Equal(t, test.pages, server.Count("ListBlobs"))
			})
		})
	}
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

	server.Fault(always("ListBlobs", fake.Fault{Document: `<EnumerationResults ServiceEndpoint="http://a/" ContainerName="segments"><Blobs>
		<Blob><Name>a</Name><Properties><Content-Length>0</Content-Length><ResourceType>directory</ResourceType></Properties></Blob>
		<Blob><Name>a/b</Name><Properties><Content-Length>7</Content-Length><ResourceType>file</ResourceType></Properties></Blob>
		</Blobs><NextMarker/></EnumerationResults>`}))
	page, _, err = driver.List(t.Context(), "", "")
	require.NoError(t, err)
	assert.Equal(t, []objectstore.Object{{Key: "a/b", Size: 7}}, page)
}

// J11, J15 (W6), Azure/azure-sdk-for-go#24566: a body that ends early, stalls, or is of another range is tried again and
// never passes.
func TestBrokenReads(t *testing.T) {
	tests := map[string]fake.Fault{
		"short, length promised": {Truncate: 600},
		"short with a clean end": {Truncate: 600, Cut: true},
		"nothing at all":         {Truncate: 1000, Cut: true},
		"stalled":                {StallAfter: 10},
		"the whole object":       {IgnoreRange: true},
		"a range with no name":   {ContentRange: "bytes"},
		"another range":          {ContentRange: "bytes 0-999/2000"},
		"a shorter range":        {ContentRange: "bytes 100-500/2000"},
		"dropped":                {Drop: true},
		"503":                    {Status: 503, Code: "ServerBusy"},
		"503 before the request": {Status: 503, Code: "ServerBusy", Early: true},
		"headers never come":     {Wait: make(chan struct{})},
		"an answer from a proxy": {Document: "<html>hello</html>"},
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
				server.Fault(faults("GetBlob", fault))
				began := time.Now()

				dst := make([]byte, 1000)
				require.NoError(t, manager.FetchSegment(t.Context(), id, 100, dst))

				assert.Equal(t, object[100:1100], dst)
				assert.Equal(t, 2, server.Count("GetBlob"))
				assert.Less(t, time.Since(began), 5*time.Second, "a stall is noticed long before the attempt's deadline")
			})
		})
	}
}

// W6, D3 to D5, D9: a range that ends beyond the object is ErrInvalidRange, also where the server answers it, as Azurite
// does, with success and no bytes.
func TestRangesBeyondTheEnd(t *testing.T) {
	for name, empty := range map[string]bool{"as the service": false, "as Azurite": true} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			server.Store(bucket, "k", []byte("0123456789"))
			server.Store(bucket, "empty", nil)
			server.Fault(always("GetBlob", fake.Fault{EmptyRange: empty}))
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

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
			c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
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
func TestStalledUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		c.StallTimeout, c.Store.AttemptTimeout = 2*time.Second, time.Minute
		manager, id := manage(t, c), segment(t)
		server.Fault(faults("PutBlob", fake.Fault{Wait: make(chan struct{})}))
		began := time.Now()

		require.NoError(t, manager.UploadSegment(t.Context(), id, make([]byte, 300_000)))

		assert.Equal(t, 2, server.Count("PutBlob"))
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

// An answer that comes before the body was read ends the upload with what it says, and the body is not touched any more
// (W5).
func TestEarlyAnswerToAnUpload(t *testing.T) {
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	server.Fault(always("PutBlob", fake.Fault{Early: true, Status: 503, Code: "ServerBusy"}))
	data := make([]byte, 4<<20)
	for range 10 {
		body := objectstore.NewBody(data)
		err := driver.Put(t.Context(), "k", body, checksum(data))
		body.Revoke()
		data[0]++ // ours again; the race detector watches
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
	}
}

// J7: a server that is down is unavailable, and its coming back is noticed.
func TestConnectionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, network, c := inMemory(t, fake.Config{})
		manager, id := manage(t, c), segment(t)
		network.Refuse(true)
		time.AfterFunc(3*time.Second, func() { network.Refuse(false) })
		require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data")))
		assert.Equal(t, 1, server.Count("PutBlob"))
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

// W12: a driver that is closed says so, however often.
func TestClosed(t *testing.T) {
	_, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	require.NoError(t, driver.Close())
	require.NoError(t, driver.Close())
	for op, call := range operations {
		assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(call(t.Context(), driver)), op)
	}
	assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(driver.Warm(t.Context())))
}

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

	server.Fault(always("GetBlob", fake.Fault{
		Status: 403, Code: "AuthenticationFailed", Message: "Server failed to authenticate the request.",
		Detail: "Signature not valid in the specified time frame: Start [Mon, 05 Jan 2026 00:00:00 GMT] - Expiry [Tue, 06 Jan 2026 00:00:00 GMT] - Current [Wed, 07 Jan 2026 00:00:00 GMT]",
	}))
	err = operations["GetBlob"](t.Context(), open(t, withSAS(url)))
	assert.ErrorContains(t, err, "Expiry [Tue, 06 Jan 2026")
}

// J25: a kept connection that the server has closed meanwhile is nobody's failure.
func TestClosedKeepAlive(t *testing.T) {
	server := newFake(t, fake.Config{})
	listening := serveClosing(t, server)
	manager := manage(t, config(listening.url))
	for i := range 20 {
		ids := []walstorage.SegmentID{segment(t), segment(t)}
		for _, id := range ids {
			require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data")), "round %d", i)
			listening.closeIdle()
		}
		require.NoError(t, manager.FetchSegment(t.Context(), ids[0], 0, make([]byte, 4)), "round %d", i)
		listening.closeIdle()
		require.NoError(t, manager.DeleteSegments(t.Context(), ids...), "round %d", i)
		listening.closeIdle()
	}
}
