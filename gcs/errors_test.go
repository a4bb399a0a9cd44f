package gcs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operations are the driver's methods, by the request that each sends.
var operations = func() map[string]drivertest.Operation {
	all := drivertest.Operations(fake.Insert, fake.Read, fake.Get, fake.List, fake.Delete)
	batch := all[fake.Delete]
	all[fake.Delete] = func(ctx context.Context, d objectstore.Driver) error {
		err := batch(ctx, d)
		var partial *objectstore.DeleteError
		if errors.As(err, &partial) {
			return partial.Failures[0].Err // that of the only key
		}
		return err
	}
	return all
}()

// W7: every answer of the mapping table, for each operation that can get it, is one request and has the kind named; the
// SDK's own error is reached.
func TestAnswersHaveTheirKind(t *testing.T) {
	const (
		every    = "objects.insert objects.read objects.get objects.delete objects.list"
		objects  = "objects.read objects.get"
		noObject = "No such object: segments/k"
		noBucket = "The specified bucket does not exist."
	)
	drivertest.Meanings(t, subject(), []drivertest.Meaning{
		{Status: 404, Code: "notFound", Message: noObject, Ops: objects, Kind: walstorage.ErrSegmentNotFound},
		{Status: 404, Code: "notFound", Message: noBucket, Ops: "objects.insert objects.list", Kind: walstorage.ErrBucketNotFound},
		{Status: 404, Ops: "objects.insert objects.list objects.get objects.delete"}, // somebody else's 404
		{Status: 412, Code: "conditionNotMet", Ops: "objects.insert", Kind: walstorage.ErrSegmentExists},
		{Status: 412, Code: "conditionNotMet", Ops: "objects.read objects.get objects.delete objects.list"},
		{Status: 304, Code: "notModified", Ops: every}, // C14
		{Status: 409, Code: "conflict", Ops: "objects.insert objects.delete", Kind: walstorage.ErrUnavailable},
		{Status: 409, Code: "conflict", Ops: "objects.read objects.get objects.list"},
		{Status: 416, Code: "requestedRangeNotSatisfiable", Ops: "objects.read", Kind: walstorage.ErrInvalidRange},
		{Status: 416, Code: "requestedRangeNotSatisfiable", Ops: "objects.insert objects.get objects.delete objects.list"},
		{Status: 403, Code: "forbidden", Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "notFound", Message: noObject, Ops: every, Kind: walstorage.ErrAccessDenied}, // a refusal, whatever it calls itself
		{Status: 403, Code: "retentionPolicyNotMet", Ops: "objects.delete", Kind: walstorage.ErrAccessDenied},
		{Status: 403, Ops: every, Kind: walstorage.ErrAccessDenied},
		{Status: 403, Code: "rateLimitExceeded", Ops: "objects.insert objects.get objects.delete objects.list", Kind: walstorage.ErrUnavailable},
		{Status: 401, Code: "required", Ops: every, Kind: walstorage.ErrUnavailable}, // with another token it may go better
		{Status: 401, Code: "authError", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 429, Code: "rateLimitExceeded", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 429, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 408, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 500, Code: "backendError", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 502, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 503, Code: "backendError", Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 504, Ops: every, Kind: walstorage.ErrUnavailable},
		{Status: 400, Code: "invalid", Message: `Provided CRC32C "AAAAAA==" doesn't match calculated CRC32C "rth90Q==".`, Ops: "objects.insert", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "invalid", Message: `Provided MD5 hash "AA==" doesn't match calculated MD5 hash "AB==".`, Ops: "objects.insert", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "badRequest", Message: "Malformed multipart body.", Ops: "objects.insert", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "parseError", Message: "Parse Error", Ops: "objects.insert", Kind: walstorage.ErrCorrupt},
		{Status: 400, Code: "invalid", Message: "CRC32C", Ops: "objects.get objects.delete objects.list"},
		{Status: 400, Code: "invalid", Ops: every},
		{Status: 413, Code: "uploadTooLarge", Ops: "objects.insert", Kind: walstorage.ErrTooLarge},
		{Status: 507, Ops: "objects.insert", Kind: walstorage.ErrNoSpace},
		{Status: 501, Code: "notImplemented", Ops: every},
		{Status: 301, Ops: every},
		{Status: 307, Ops: every}, // no token goes anywhere else
	}, func(t *testing.T, _ string, row drivertest.Meaning, err error, again drivertest.Again) {
		if row.Status == 401 {
			err = again()
			assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "%v", err)
		}
		var api *googleapi.Error
		assert.ErrorAs(t, err, &api)
	})
}

// W7: a missing object is told from a missing bucket, by what the answer says or by asking for the bucket; and where the
// bucket may not be asked for, the 404 is believed.
func TestMissingObjectOrBucket(t *testing.T) {
	about := map[string]func(d *gcs.Driver) error{
		fake.Read: func(d *gcs.Driver) error { return d.Get(t.Context(), "k", 0, make([]byte, 1)) },
		fake.Get: func(d *gcs.Driver) error {
			_, err := d.Stat(t.Context(), "k")
			return err
		},
		fake.Delete: func(d *gcs.Driver) error { return d.Delete(t.Context(), []string{"k", "l"}) },
	}
	for op, call := range about {
		t.Run(op, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			driver := open(t, config(url))
			missing := walstorage.ErrSegmentNotFound
			if op == fake.Delete {
				missing = nil // deleted
			}
			none := config(url)
			none.Bucket = "none"

			err := call(open(t, none))
			assert.Equal(t, walstorage.ErrBucketNotFound, walstorage.KindOf(err))
			var partial *objectstore.DeleteError
			assert.False(t, errors.As(err, &partial), "it is not about single keys")
			asked := server.Count(fake.List)
			assert.Equal(t, 1, asked)
			assert.Equal(t, missing, walstorage.KindOf(call(driver)))
			assert.Equal(t, asked, server.Count(fake.List), "the answer says which")

			// An emulator's answers say no more than that.
			vague := fake.Fault{Status: 404, Reason: "notFound", Message: "Not Found"}
			for _, test := range []struct {
				list fake.Fault
				kind error
			}{
				{fake.Fault{}, missing},
				{fake.Fault{Status: 403, Reason: "forbidden"}, missing},
				{fake.Fault{Status: 404, Reason: "notFound"}, walstorage.ErrBucketNotFound},
				{fake.Fault{Status: 503}, walstorage.ErrUnavailable}, // nobody knows which of the two is missing
			} {
				server.Fault(func(r fake.Request) fake.Fault {
					switch r.Op {
					case op:
						return vague
					case fake.List:
						return test.list
					}
					return fake.Fault{}
				})
				before := server.Count(fake.List)
				assert.Equal(t, test.kind, walstorage.KindOf(call(driver)))
				assert.Equal(t, before+1, server.Count(fake.List))
			}
		})
	}
}

// J3: the time that the service asks for is passed on, in seconds or as a date.
func TestRetryAfter(t *testing.T) { drivertest.RetryAfter(t, subject()) }

// googleapis/google-cloud-go#6547, googleapis/java-storage#1453, C9 to C15, J19 (W2): whatever becomes of the answer to a
// create, it ends with the truth, and "not now" is no "exists".
func TestCreate(t *testing.T) {
	busy := fake.Fault{Status: 429, Reason: "rateLimitExceeded"}
	conflict := fake.Fault{Status: 409, Reason: "conflict"}
	exists := fake.Fault{Status: 412, Reason: "conditionNotMet"}
	lost := fake.Fault{DropAfter: true}
	drivertest.Creates(t, subject(), map[string]drivertest.Create[fake.Fault]{
		"429, 200":                     {Script: []fake.Fault{busy}, Creates: 2},
		"503, 200":                     {Script: []fake.Fault{{Status: 503, Reason: "backendError"}}, Creates: 2},
		"409, 200":                     {Script: []fake.Fault{conflict}, Creates: 2},
		"409 for ever":                 {Script: []fake.Fault{conflict, conflict, conflict}, Attempts: 3, Kind: walstorage.ErrUnavailable, Creates: 3},
		"412, other bytes":             {Stored: "other", Kind: walstorage.ErrSegmentExists, Creates: 1, Stats: 1},
		"412, other bytes, as many":    {Stored: "ruos", Kind: walstorage.ErrSegmentExists, Creates: 1, Stats: 1},
		"412, the same bytes":          {Stored: "ours", Creates: 1, Stats: 1},
		"429, 412, the same bytes":     {Script: []fake.Fault{busy}, Stored: "ours", Creates: 2, Stats: 1},
		"412, no object":               {Script: []fake.Fault{exists}, Creates: 2, Stats: 1},
		"lost answer":                  {Script: []fake.Fault{lost}, Creates: 2, Stats: 1},
		"lost twice":                   {Script: []fake.Fault{lost, lost}, Creates: 3, Stats: 1},
		"500 but stored":               {Script: []fake.Fault{{After: true, Status: 500, Reason: "backendError"}}, Creates: 2, Stats: 1},
		"an error document under 200":  {Script: []fake.Fault{{Document: `{"error":{"code":500,"message":"no"}}`}}, Creates: 2},
		"half an answer":               {Script: []fake.Fault{{Document: `{"kind":"storage#obj`}}, Creates: 2},
		"an answer from a proxy":       {Script: []fake.Fault{{Document: `<html>hello</html>`}}, Creates: 2},
		"nothing under 200":            {Script: []fake.Fault{{Document: ` `}}, Creates: 2},
		"cut before the service":       {Script: []fake.Fault{{Drop: true}}, Creates: 2},
		"an answer before the request": {Script: []fake.Fault{{Early: true, Status: 503}}, Creates: 2},
		// K2: what the service says that it has stored is not what was sent. Whoever looks finds that it is.
		"another checksum in the answer": {Script: []fake.Fault{{CRC32C: "AAAAAA=="}}, Creates: 2, Stats: 1},
		"no checksum in the answer":      {Script: []fake.Fault{{CRC32C: "none"}}, Creates: 2, Stats: 1},
	})
}

// C11: where the answer was lost and the check fails too, the outcome is unknown; the same upload again settles it.
func TestLostAnswerAndNoCheck(t *testing.T) { drivertest.LostAnswerAndNoCheck(t, subject()) }

// C15: the service takes one write a second of one name, and answers 429 to the others. A race for one name ends with one
// winner, the rest learn that it exists, and nobody storms.
func TestRaceForAHotName(t *testing.T) {
	const racers = 16
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{WriteInterval: time.Second})
		c.Store.Seed = 1
		manager, id := manage(t, c), drivertest.Segment(t)
		began := time.Now()
		errs := make([]error, racers)
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() { errs[i] = manager.UploadSegment(t.Context(), id, []byte{byte(i)}) })
		}
		all.Wait()
		winners := 0
		stored, _ := server.Object(bucket, drivertest.Key(t, id))
		for i, err := range errs {
			if err == nil {
				winners++
				assert.Equal(t, []byte{byte(i)}, stored)
				continue
			}
			assert.ErrorIs(t, err, walstorage.ErrSegmentExists)
		}
		assert.Equal(t, 1, winners)
		assert.Less(t, server.Count(fake.Insert), 10*racers)
		assert.Less(t, time.Since(began), 10*time.Second)
	})
}

// J10: each attempt sends the same bytes.
func TestEachAttemptSendsTheSameBytes(t *testing.T) {
	drivertest.EachAttemptSendsTheSameBytes(t, subject())
}

// K1, K2 (W4): what arrives with another checksum than was sent is refused and not stored.
func TestWrongChecksumIsRefused(t *testing.T) { drivertest.WrongChecksum(t, subject()) }

// An object whose checksum is not told is compared byte by byte.
func TestStatWithoutChecksum(t *testing.T) {
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	server.Store(bucket, "there", []byte("data"))
	server.Store(bucket, "empty", nil)
	for key, want := range map[string]bool{"there": true, "empty": true} {
		object, err := driver.Stat(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, want, object.HasCRC32C)
		assert.WithinDuration(t, time.Now(), object.Stored, time.Minute)
	}
	server.Always(fake.Get, fake.Fault{CRC32C: "none"})
	object, err := driver.Stat(t.Context(), "there")
	require.NoError(t, err)
	assert.False(t, object.HasCRC32C)

	manager, id := manage(t, config(url)), drivertest.Segment(t)
	server.Store(bucket, drivertest.Key(t, id), []byte("ours"))
	assert.NoError(t, manager.UploadSegment(t.Context(), id, []byte("ours")))
	assert.ErrorIs(t, manager.UploadSegment(t.Context(), id, []byte("ruos")), walstorage.ErrSegmentExists)
}

// W9, F6: each key has its own answer.
func TestDeleteReadsEachKey(t *testing.T) {
	server, url := serve(t, fake.Config{})
	statuses := map[string]fake.Fault{
		"a": {Status: 403, Reason: "forbidden"}, "b": {Status: 500}, "c": {Status: 429}, "e": {Status: 400},
		"f": {Document: `{"error":{"code":500}}`}, "g": {Document: "<html>hello</html>"}, "h": {Drop: true},
		"i": {Document: "null"}, "j": {DropAfter: true}, "k": {Truncate: 1},
	}
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, key := range keys {
		if key != "d" { // is not there
			server.Store(bucket, key, nil)
		}
	}
	server.Fault(func(r fake.Request) fake.Fault { return statuses[r.Key] })

	err := open(t, config(url)).Delete(t.Context(), keys)

	got, told := drivertest.Undeleted(err)
	require.True(t, told, "%v", err)
	assert.Equal(t, map[string]error{
		"a": walstorage.ErrAccessDenied, "b": walstorage.ErrUnavailable, "c": walstorage.ErrUnavailable, "e": nil,
		"f": walstorage.ErrUnavailable, "g": walstorage.ErrUnavailable, "h": walstorage.ErrUnavailable, "j": walstorage.ErrUnavailable,
	}, got)
}

// F7 (W8, W9): a context that ends in the middle of a batch names the keys that are not done, and so many requests are
// under way at once and not more.
func TestCancelledDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, network, c := inMemory(t, fake.Config{})
		driver := open(t, c)
		var keys []string
		for i := range 100 {
			keys = append(keys, fmt.Sprintf("%02d", i))
			server.Store(bucket, keys[i], nil)
		}
		server.Always(fake.Delete, fake.Fault{Delay: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()

		err := driver.Delete(ctx, keys)

		var partial *objectstore.DeleteError
		require.ErrorAs(t, err, &partial)
		assert.Len(t, partial.Failures, 100-2*16)
		for _, failure := range partial.Failures {
			assert.Equal(t, context.DeadlineExceeded, failure.Err)
		}
		assert.Equal(t, 3*16, server.Count(fake.Delete))
		assert.LessOrEqual(t, network.Dialled(), 16)
	})
}

// A service in trouble is not asked once for each key, and what it deleted is not deleted again.
func TestDeleteDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		server.Always(fake.Delete, fake.Fault{Status: 503, Delay: time.Millisecond})
		var partial *objectstore.DeleteError
		require.ErrorAs(t, open(t, c).Delete(t.Context(), keys), &partial)
		assert.Len(t, partial.Failures, 100, "each key is named")
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(partial))
		assert.LessOrEqual(t, server.Count(fake.Delete), 2*16)
	})
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		manager := manage(t, c)
		ids := make([]walstorage.SegmentID, 100)
		for i := range ids {
			ids[i] = drivertest.Segment(t)
			server.Store(bucket, drivertest.Key(t, ids[i]), nil)
		}
		server.Fault(func(r fake.Request) fake.Fault {
			if 20 < r.Number && r.Number <= 60 {
				return fake.Fault{Status: 503, Delay: time.Millisecond}
			}
			return fake.Fault{Delay: time.Millisecond}
		})
		require.NoError(t, manager.DeleteSegments(t.Context(), ids...))
		assert.Empty(t, server.Keys(bucket))
		assert.LessOrEqual(t, server.Count(fake.Delete), 140, "each key that was refused, once more")
	})
}

// E13, J16, J11 (W10): what is no whole list is an error and never the end of one.
func TestBrokenLists(t *testing.T) {
	drivertest.BrokenLists(t, subject(), map[string]drivertest.List[fake.Fault]{
		"a 503 between":           {Script: []fake.Fault{{}, {Status: 503}}, Found: 6, Pages: 5},
		"an error document":       {Script: []fake.Fault{{}, {Document: `{"error":{"code":500,"message":"no"}}`}}, Found: 6, Pages: 5},
		"cut":                     {Script: []fake.Fault{{}, {Document: `{"kind":"storage#objects","items":[{"na`}}, Found: 6, Pages: 5},
		"an answer from a proxy":  {Script: []fake.Fault{{}, {Document: "<html>hello</html>"}}, Found: 6, Pages: 5},
		"dropped":                 {Script: []fake.Fault{{}, {Drop: true}}, Found: 6, Pages: 5},
		"an empty page":           {Script: []fake.Fault{{}, {Empty: true}}, Found: 6, Pages: 5},
		"a repeated token":        {Script: []fake.Fault{{Token: "YQ=="}, {Token: "YQ=="}, {Token: "YQ=="}}, Fails: true, Pages: 2},
		"empty pages for ever":    {Script: []fake.Fault{{Token: "YQ==", Empty: true}, {Token: "YQ==", Empty: true}, {Token: "YQ==", Empty: true}}, Fails: true, Pages: 2},
		"an empty page, the last": {Script: []fake.Fault{{}, {Document: "{}"}}, Found: 2, Pages: 2},
	})
}

// J11, J15, D12, D13, D14 (W6): a body that ends early, stalls, or is of another range is tried again, each time by one
// request, and never passes.
func TestBrokenReads(t *testing.T) { drivertest.BrokenReads(t, subject()) }

// J20: the reader of the SDK asks for the rest of a body that breaks off, at once and whatever its retries are set to. An
// attempt is one request all the same.
func TestNoSecondRequestInAnAttempt(t *testing.T) {
	server, url := serve(t, fake.Config{})
	server.Store(bucket, "there", make([]byte, 2000))
	server.Always(fake.Read, fake.Fault{Truncate: 600})
	driver := open(t, config(url))
	for range 10 {
		err := driver.Get(t.Context(), "there", 100, make([]byte, 1000))
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err))
		assert.ErrorContains(t, err, "broke off", "what happened, not what came of asking again")
	}
	assert.Equal(t, 10, server.Count(fake.Read))
}

// What a service that has lost its mind may send under the right status is no success.
func TestOddAnswers(t *testing.T) {
	tests := map[string]struct {
		op     string
		header http.Header
		status int
		body   string
		length int64
		kind   error
	}{
		"another name of the upload":     {fake.Insert, http.Header{}, 200, `{"name":"other","size":"4","crc32c":"rth90Q=="}`, -1, walstorage.ErrUnavailable},
		"another size of the upload":     {fake.Insert, http.Header{}, 200, `{"name":"k","size":"5","crc32c":"rth90Q=="}`, -1, walstorage.ErrUnavailable},
		"a longer body":                  {fake.Read, http.Header{"Content-Range": {"bytes 0-3/10"}}, 206, "0123456", -1, walstorage.ErrUnavailable},
		"a length that is not the range": {fake.Read, http.Header{"Content-Range": {"bytes 0-3/10"}, "Content-Length": {"3"}}, 206, "012", 3, walstorage.ErrUnavailable},
		"an object that ends":            {fake.Read, http.Header{"Content-Range": {"bytes 0-2/3"}}, 206, "012", 3, walstorage.ErrInvalidRange},
		"204 to a read":                  {fake.Read, http.Header{}, 204, "", 0, walstorage.ErrUnavailable},
		"204 to a stat":                  {fake.Get, http.Header{}, 204, "", 0, walstorage.ErrUnavailable},
		"another object":                 {fake.Get, http.Header{}, 200, `{"name":"other","size":"4"}`, -1, walstorage.ErrUnavailable},
		"a size that is no number":       {fake.Get, http.Header{}, 200, `{"name":"there","size":"four"}`, -1, walstorage.ErrUnavailable},
		"204 to a list":                  {fake.List, http.Header{}, 204, "", 0, walstorage.ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := config("http://fake.invalid")
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
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

// J11: half of an error document says nothing where all hangs on its text, and everything where the status is enough.
func TestHalfAnErrorDocument(t *testing.T) {
	for status, kind := range map[int]error{
		400: walstorage.ErrUnavailable, 403: walstorage.ErrUnavailable, 404: walstorage.ErrUnavailable,
		401: walstorage.ErrUnavailable, 429: walstorage.ErrUnavailable, 503: walstorage.ErrUnavailable,
		412: walstorage.ErrSegmentExists, 413: walstorage.ErrTooLarge,
	} {
		c := config("http://fake.invalid")
		c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			half := io.MultiReader(strings.NewReader(`{"error":{"code":`), iotest.ErrReader(io.ErrUnexpectedEOF))
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(half), ContentLength: -1, Request: r}, nil
		})}
		err := operations[fake.Insert](t.Context(), open(t, c))
		assert.Equal(t, kind, walstorage.KindOf(err), "%d: %v", status, err)
	}
}

// J17 (W11): a redirect is not followed: it would take the token to somebody else.
func TestRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var hosts []string
		c := config("http://fake.invalid")
		c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host)
			_, _ = io.Copy(io.Discard, r.Body)
			return &http.Response{
				StatusCode: status, Header: http.Header{"Location": {"http://elsewhere.invalid/"}}, Body: http.NoBody, Request: r,
			}, nil
		})}
		for op, call := range operations {
			hosts = nil
			err := call(t.Context(), open(t, c))
			require.Error(t, err)
			assert.NoError(t, walstorage.KindOf(err), "%s %d", op, status)
			assert.Equal(t, []string{"fake.invalid"}, hosts)
		}
	}
}

// C9, J14, J13: an upload to a server that reads nothing, or never answers, ends by the watch and is tried again.
func TestStalledUpload(t *testing.T) { drivertest.StalledUpload(t, subject()) }

// An answer that comes before the body was read ends the upload, whether it is an error or calls itself a success, also one
// that says what the client wants to hear, and the body is not touched any more (W5). After a success the SDK by itself
// would wait for ever.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	const size = drivertest.EarlyBytes
	drivertest.EarlyAnswers(t, subject(), []drivertest.Early{
		{Answer: drivertest.Fault{Status: 503}, Kind: walstorage.ErrUnavailable},
		{Answer: drivertest.Fault{Document: fmt.Sprintf(`{"name":"k","size":"%d"}`, size)}, Kind: walstorage.ErrUnavailable},
		{Answer: drivertest.Fault{Document: fmt.Sprintf(`{"name":"k","size":"%d","crc32c":%q}`, size, encoded(make([]byte, size)))}, Kind: walstorage.ErrUnavailable, Credible: true},
	})
}

// J7: a server that is down is unavailable, and its coming back is noticed.
func TestConnectionRefused(t *testing.T) { drivertest.ConnectionRefused(t, subject()) }

// W8: a context that has ended ends the call with its own error, whatever the operation.
func TestContexts(t *testing.T) { drivertest.Contexts(t, subject()) }

// W12: a driver that is closed says so.
func TestClosed(t *testing.T) { drivertest.Closed(t, subject()) }
