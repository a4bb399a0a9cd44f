package gcs_test

import (
	"testing"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) {
	ours.PeerMain(func(url, _ string) gcs.Config { return config(url) })
}

// Segments in Google Cloud Storage keep every rule that the suite checks, W1 to W12, over the wire protocol.
func TestConformance(t *testing.T) {
	store, url := serve(t, fake.Config{PageSize: 100, Tokens: []string{token, limitedToken}})
	by := func(place objectstore.Config, token string) gcs.Config {
		return drivertest.With(config(url), func(c *gcs.Config) { c.Store, c.Credentials = place, with(provider(token)) })
	}
	suite := ours.Suite(func(testing.TB) gcs.Config { return config(url) })
	suite.Peer = drivertest.Peer("TestConformancePeer", url, "")
	suite.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return manage(tb, drivertest.With(config(url), func(c *gcs.Config) { c.Bucket = "none" })), nil
	}
	suite.Denied = func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
		return manage(tb, by(place, "unknown-token-0123456789"))
	}
	suite.Undeletable = func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
		key := drivertest.KeyIn(tb, place, id)
		store.Fault(func(r fake.Request) fake.Fault {
			if r.Op != fake.Delete || r.Token() != limitedToken || r.Key != key {
				return fake.Fault{}
			}
			return fake.Fault{Status: 403, Reason: "forbidden", Message: "no storage.objects.delete access"}
		})
		return manage(tb, by(place, limitedToken))
	}
	suite.Residue = drivertest.Residue(store)
	suite.ListLarge = 201
	suite.Secrets = []string{token, limitedToken, "unknown-token-0123456789"}
	suite.Invalid = invalid(t)
	suite.Report = caseresults.Record(t, "gcs")
	conformance.Run(t, suite)
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}
