package s3_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// limitedKey belongs to somebody who may not delete everything.
const limitedKey = "LIMITED"

// Segments in S3 keep every rule that the suite checks, W1 to W12, over the wire protocol: with checksums and, for old
// stores, without.
func TestConformance(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		conform(t, fake.Config{}, "", nil, caseresults.Record(t, "s3"))
	})
	t.Run("old store", func(t *testing.T) {
		if drivertest.Race {
			t.Skip("checksums share no memory that the plain run does not: without -race this runs")
		}
		t.Parallel()
		conform(t, fake.Config{Old: true}, old, drivertest.Long("nothing in it depends on checksums"), nil)
	})
}

// old is a kind of store, which takes no checksums. The other has no name.
const old = "old"

// variant is the configuration for a kind of store.
func variant(url, kind string) s3.Config {
	return drivertest.With(config(url), func(c *s3.Config) { c.NoChecksum = kind == old })
}

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) { ours.PeerMain(variant) }

func conform(t *testing.T, server fake.Config, kind string, skip map[string]string, report func(conformance.Result)) {
	server.PageSize = 100
	server.AccessKeys = []string{accessKey, limitedKey}
	store, url := serve(t, server)
	by := func(place objectstore.Config, accessKey, secretKey string) s3.Config {
		return drivertest.With(variant(url, kind), func(c *s3.Config) {
			c.Store, c.Credentials = place, credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")
		})
	}
	suite := ours.Suite(func(testing.TB) s3.Config { return variant(url, kind) })
	suite.Peer = drivertest.Peer("TestConformancePeer", url, kind)
	suite.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return manage(tb, drivertest.With(variant(url, kind), func(c *s3.Config) { c.Bucket = "none" })), nil
	}
	suite.Denied = func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
		return manage(tb, by(place, "STRANGER", "unknown-secret"))
	}
	suite.Undeletable = func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
		key := drivertest.KeyIn(tb, place, id)
		store.Fault(func(r fake.Request) fake.Fault {
			if r.AccessKey() != limitedKey {
				return fake.Fault{}
			}
			return fake.Fault{Keys: map[string]string{key: "AccessDenied"}}
		})
		return manage(tb, by(place, limitedKey, secretKey))
	}
	suite.Residue = drivertest.Residue(store)
	suite.ListLarge = 201
	suite.Skip = skip
	suite.Secrets = []string{accessKey, secretKey, sessionToken, "unknown-secret"}
	suite.Invalid = invalid(t)
	suite.Report = report
	conformance.Run(t, suite)
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}
