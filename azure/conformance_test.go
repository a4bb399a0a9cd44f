package azure_test

import (
	"net/url"
	"testing"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// limited is the signature of somebody who may not delete everything, strange one that nobody has given.
const (
	limited = "limited-signature"
	strange = "strange-signature"
)

// Segments in Azure keep every rule that the suite checks, W1 to W12, over the wire protocol: with a shared key, and with a
// SAS to a server that takes no CRC-64 and knows no batches.
func TestConformance(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		conform(t, fake.Config{}, "", nil, caseresults.Record(t, "azure"))
	})
	t.Run("SAS, MD5, no batches", func(t *testing.T) {
		if drivertest.Race {
			t.Skip("these share no memory that the plain run does not: without -race this runs")
		}
		t.Parallel()
		conform(t, fake.Config{NoCRC64: true, NoBatch: true}, old, drivertest.Long("nothing in it depends on credentials and checksums"), nil)
	})
}

// old is a kind of store, which gets a SAS and the MD5. The other has no name.
const old = "old"

// variant is the configuration for a kind of store.
func variant(url, kind string) azure.Config {
	if kind != old {
		return config(url)
	}
	return drivertest.With(withSAS(url), func(c *azure.Config) { c.MD5 = true })
}

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) { ours.PeerMain(variant) }

func conform(t *testing.T, server fake.Config, kind string, skip map[string]string, report func(conformance.Result)) {
	server.PageSize = 100
	server.Signatures = []string{limited}
	store, address := serve(t, server)
	signed := func(place objectstore.Config, sig string) azure.Config {
		return drivertest.With(variant(address, kind), func(c *azure.Config) {
			c.Store, c.AccountKey, c.SAS = place, "", "sr=c&sig="+url.QueryEscape(sig)
		})
	}
	suite := ours.Suite(func(testing.TB) azure.Config { return variant(address, kind) })
	suite.Peer = drivertest.Peer("TestConformancePeer", address, kind)
	suite.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return manage(tb, drivertest.With(variant(address, kind), func(c *azure.Config) { c.Container = "none" })), nil
	}
	suite.Denied = func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
		return manage(tb, signed(place, strange))
	}
	suite.Undeletable = func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
		key := drivertest.KeyIn(tb, place, id)
		store.Fault(func(r fake.Request) fake.Fault {
			if r.Credential() != limited {
				return fake.Fault{}
			}
			return fake.Fault{Keys: map[string]string{key: "AuthorizationPermissionMismatch"}}
		})
		return manage(tb, signed(place, limited))
	}
	suite.Residue = drivertest.Residue(store)
	suite.ListLarge = 201
	suite.Skip = skip
	suite.Secrets = append(secrets(), limited, strange)
	suite.Invalid = invalid(t)
	suite.Report = report
	conformance.Run(t, suite)
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}
