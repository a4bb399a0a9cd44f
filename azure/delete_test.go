package azure_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// W9, Opndrive/opndrive#73, Azure/azure-sdk-for-net#43061: the answer to a batch is read blob by blob; what it does not tell,
// or tells so that the SDK panics, is deleted by itself.
func TestDeleteReadsEachKey(t *testing.T) {
	const document = `<?xml version="1.0" encoding="utf-8"?><Error><Code>InternalError</Code><Message>again</Message></Error>`
	tests := map[string]struct {
		fault   fake.Fault
		singles int
		want    map[string]error
	}{
		"all deleted": {fake.Fault{}, 0, nil},
		"some refused": {
			fake.Fault{Keys: map[string]string{"a": "AuthorizationPermissionMismatch", "b": "InternalError", "c": "ServerBusy", "d": "BlobNotFound", "e": "LeaseIdMissing"}},
			0,
			map[string]error{"a": walstorage.ErrAccessDenied, "b": walstorage.ErrUnavailable, "c": walstorage.ErrUnavailable, "e": nil},
		},
		"nothing named": {fake.Fault{Omit: true}, 5, nil},
		"only the refused named": {
			fake.Fault{Omit: true, Keys: map[string]string{"d": "SnapshotsPresent"}}, 5, map[string]error{"d": nil},
		},
		"no numbers": {fake.Fault{NoContentID: true}, 5, nil},
		"no numbers at refusals": {
			fake.Fault{NoContentID: true, Keys: map[string]string{"d": "LeaseIdMissing"}}, 5, map[string]error{"d": nil},
		},
		"no number at the first refusal": {
			fake.Fault{NoContentID: true, Keys: map[string]string{"a": "LeaseIdMissing"}}, 5, map[string]error{"a": nil},
		},
		"a number too large":        {fake.Fault{ContentID: "5"}, 5, nil},
		"a number below zero":       {fake.Fault{ContentID: "-1"}, 5, nil},
		"a number that is none":     {fake.Fault{ContentID: "one"}, 5, nil},
		"a number twice":            {fake.Fault{ContentID: "1"}, 2, nil},
		"an error document for all": {fake.Fault{Document: document}, 5, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			keys := []string{"a", "b", "c", "d", "e"}
			for _, key := range keys {
				server.Store(bucket, key, nil)
			}
			server.Fault(func(r fake.Request) fake.Fault {
				if r.Op == "DeleteBlob" {
					return fake.Fault{Keys: test.fault.Keys}
				}
				return test.fault
			})

			err := open(t, config(url)).Delete(t.Context(), keys)

			assert.Equal(t, 1, server.Count("BlobBatch"))
			assert.Equal(t, test.singles, server.Count("DeleteBlob"))
			if test.want == nil {
				require.NoError(t, err)
				assert.Empty(t, server.Keys(bucket))
				return
			}
			got, told := drivertest.Undeleted(err)
			require.True(t, told, "%v", err)
			assert.Equal(t, test.want, got)
		})
	}
}

// A store that knows no batches is asked once, and from then on every blob is deleted by itself.
func TestStoreWithoutBatches(t *testing.T) {
	server, url := serve(t, fake.Config{NoBatch: true})
	driver := open(t, config(url))
	for range 2 {
		server.Store(bucket, "a", nil)
		require.NoError(t, driver.Delete(t.Context(), []string{"a", "b", "c"}))
		assert.Empty(t, server.Keys(bucket))
	}
	assert.Equal(t, 1, server.Count("BlobBatch"))
	assert.Equal(t, 6, server.Count("DeleteBlob"))
}

// One by one, too, a store that is down is not asked for each.
func TestSingleDeletesOfAStoreThatIsDown(t *testing.T) {
	server, url := serve(t, fake.Config{NoBatch: true})
	server.Fault(func(r fake.Request) fake.Fault {
		if r.Op == "DeleteBlob" && r.Number > 1 {
			return fake.Fault{Status: 503, Code: "ServerBusy"}
		}
		return fake.Fault{}
	})
	err := open(t, config(url)).Delete(t.Context(), []string{"a", "b", "c", "d"})
	var partial *objectstore.DeleteError
	require.ErrorAs(t, err, &partial)
	require.Len(t, partial.Failures, 3)
	for i, key := range []string{"b", "c", "d"} {
		assert.Equal(t, key, partial.Failures[i].Key)
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(partial.Failures[i].Err))
	}
	assert.Equal(t, 2, server.Count("DeleteBlob"))
}

// J16, J11: a batch that is busy, or whose answer breaks off, is tried again as a whole, by the Manager.
func TestBatchAgain(t *testing.T) {
	for name, fault := range map[string]fake.Fault{
		"503": {Status: 503, Code: "ServerBusy"}, "dropped": {Drop: true}, "done, and the answer lost": {DropAfter: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{})
				manager := manage(t, c)
				ids := []walstorage.SegmentID{drivertest.Segment(t), drivertest.Segment(t)}
				for _, id := range ids {
					server.Store(bucket, drivertest.Key(t, id), nil)
				}
				server.Faults("BlobBatch", fault)

				require.NoError(t, manager.DeleteSegments(t.Context(), ids...))

				assert.Equal(t, 2, server.Count("BlobBatch"))
				assert.Empty(t, server.Keys(bucket))
			})
		})
	}
}

// A batch beyond the limit is two requests, and only what failed is repeated (W9, Opndrive/opndrive#73).
func TestDeletesByTheBatch(t *testing.T) {
	server, url := serve(t, fake.Config{})
	manager := manage(t, config(url))
	ids := make([]walstorage.SegmentID, 258)
	for i := range ids {
		ids[i] = drivertest.Segment(t)
		server.Store(bucket, drivertest.Key(t, ids[i]), []byte("x"))
	}
	server.Faults("BlobBatch", fake.Fault{Keys: map[string]string{drivertest.Key(t, ids[7]): "InternalError", drivertest.Key(t, ids[8]): "InternalError"}})

	require.NoError(t, manager.DeleteSegments(t.Context(), ids...))

	assert.Empty(t, server.Keys(bucket))
	assert.Equal(t, 3, server.Count("BlobBatch"))
	assert.Equal(t, 2, strings.Count(string(server.Requests()[1].Body), "DELETE /"), "the two that failed")
}

// The connection of a batch is used again: its answer is read to the end.
func TestBatchKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, c := inMemory(t, fake.Config{})
		driver := open(t, c)
		for i := range 5 {
			require.NoError(t, driver.Delete(t.Context(), []string{fmt.Sprint(i), "other"}))
		}
		assert.Equal(t, 1, network.Dialled())
	})
}
