package s3_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// An operator checks a bucket in use, over the wire: nothing of what others have there is touched, nothing of the check
// is left, and what is wrong is told at once.
func TestCheckOfABucketInUse(t *testing.T) {
	server, url := serve(t, fake.Config{PageSize: 100, AccessKeys: []string{accessKey}})
	open := func() walstorage.WalStorageManager {
		c := config(url)
		c.Store.Cluster = "production"
		manager, err := s3.New(t.Context(), c)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, manager.Close()) })
		return manager
	}
	one, two := open(), open()
	for _, broker := range []int32{0, 1, check.DefaultBrokerID} {
		id, err := walstorage.NewSegmentID(broker, 5, time.Now(), strings.NewReader("other bits"))
		require.NoError(t, err)
		require.NoError(t, one.UploadSegment(t.Context(), id, []byte("of a broker")))
	}
	server.Store(bucket, "production/README.txt", []byte("of a stranger"))
	before := contents(server)
	seen := len(server.Requests())

	// Given a right store, when it is checked, then there is nothing to tell, and the bucket is what it was.
	require.NoError(t, check.Check(t.Context(), one, check.Options{Other: two}))
	require.Equal(t, before, contents(server))
	for _, request := range server.Requests()[seen:] {
		const own = "production/2147483647/"
		switch request.Op {
		case "PutObject", "GetObject", "HeadObject":
			require.True(t, strings.HasPrefix(request.Key, own), "%s of %s", request.Op, request.Key)
		case "DeleteObjects":
			require.Equal(t, strings.Count(string(request.Body), "<Key>"), strings.Count(string(request.Body), "<Key>"+own), "keys of a delete")
		}
	}

	// Given one that flips a bit of what it sends and refuses to delete from the second upload on (one that refuses it
	// from the beginning is called useless), then both are told in one error, each with its rule and what it means, those
	// left are named, and no secret is.
	var uploads atomic.Int64
	server.Fault(func(r fake.Request) fake.Fault {
		switch r.Op {
		case "PutObject":
			uploads.Add(1)
		case "GetObject":
			return fake.Fault{Flip: true}
		case "DeleteObjects":
			if uploads.Load() > 1 {
				return fake.Fault{Status: 403, Code: "AccessDenied"}
			}
		}
		return fake.Fault{}
	})
	failed := check.Check(t.Context(), one, check.Options{Other: two})
	require.Error(t, failed)
	found := make(map[string]int)
	for _, err := range failed.(interface{ Unwrap() []error }).Unwrap() {
		var violation *check.Violation
		require.True(t, errors.As(err, &violation), "%v", err)
		require.NotEmpty(t, violation.Rule)
		require.NotEmpty(t, violation.Means)
		found[violation.Case]++
	}
	for _, id := range []string{"B1", "B4", "D1", "F1", "F2", "F5", check.CleanupCase} {
		require.Positive(t, found[id], "violations of %s in %v", id, found)
	}
	drivertest.Quiet(t, "", failed, []string{accessKey, secretKey, sessionToken})

	// What could not be deleted was named: when it is, the bucket is what it was.
	server.Fault(nil)
	broker := check.DefaultBrokerID
	var left []walstorage.SegmentID
	for info, err := range one.ListSegments(t.Context(), walstorage.ListOptions{BrokerID: &broker}) {
		require.NoError(t, err)
		if info.ID.BrokerEpoch != 5 {
			key := drivertest.KeyIn(t, objectstore.Config{Cluster: "production"}, info.ID)
			require.ErrorContains(t, failed, strings.TrimPrefix(key, "production/"))
			left = append(left, info.ID)
		}
	}
	require.NotEmpty(t, left)
	require.NoError(t, one.DeleteSegments(t.Context(), left...))
	require.Equal(t, before, contents(server))
}

// contents returns what the bucket holds.
func contents(server *fake.Server) map[string]string {
	all := make(map[string]string)
	for _, key := range server.Keys(bucket) {
		data, _ := server.Object(bucket, key)
		all[key] = string(data)
	}
	return all
}
