package azure_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
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
		conform(t, fake.Config{}, false, nil, caseresults.Record(t, "azure"))
	})
	t.Run("SAS, MD5, no batches", func(t *testing.T) {
		if raceDetector {
			t.Skip("these share no memory that the plain run does not: without -race this runs")
		}
		t.Parallel()
		skip := map[string]string{}
		for _, id := range []string{"C3", "C4", "C5", "F9", "H4", "H8", "L2", "L3", "L7", "L10"} {
			skip[id] = "long, and nothing in it depends on credentials and checksums: TestConformance/plain has it"
		}
		conform(t, fake.Config{NoCRC64: true, NoBatch: true}, true, skip, nil)
	})
}

// What a peer process is told: the address of the store, and whether it is an old one.
const (
	urlVariable = "WALHOP_AZURE_CONFORMANCE_URL"
	oldVariable = "WALHOP_AZURE_CONFORMANCE_OLD"
)

// variant is the configuration for a store: an old one gets a SAS and the MD5.
func variant(url string, old bool) azure.Config {
	if !old {
		return config(url)
	}
	c := withSAS(url)
	c.MD5 = true
	return c
}

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) {
	conformance.PeerMain(func(place objectstore.Config) (walstorage.WalStorageManager, error) {
		c := variant(os.Getenv(urlVariable), os.Getenv(oldVariable) == "true")
		c.Store = place
		manager, err := azure.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		return manager, nil
	})
}

func conform(t *testing.T, server fake.Config, old bool, skip map[string]string, report func(conformance.Result)) {
	server.PageSize = 100
	server.Signatures = []string{limited}
	store, address := serve(t, server)
	with := func(change func(*azure.Config)) azure.Config {
		c := variant(address, old)
		change(&c)
		return c
	}
	connect := func(tb testing.TB, c azure.Config) walstorage.WalStorageManager {
		manager, err := azure.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c azure.Config) walstorage.WalStorageManager {
		manager := connect(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	signed := func(place objectstore.Config, sig string) azure.Config {
		return with(func(c *azure.Config) { c.Store, c.AccountKey, c.SAS = place, "", "sr=c&sig="+url.QueryEscape(sig) })
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return connect(tb, with(func(c *azure.Config) { c.Store = place }))
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := azure.NewDriver(tb.Context(), with(func(*azure.Config) {}))
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestConformancePeer")
			cmd.Env = append(cmd.Env, urlVariable+"="+address, oldVariable+"="+strconv.FormatBool(old))
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			return closing(tb, with(func(c *azure.Config) { c.Container = "none" })), nil
		},
		Denied: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return closing(tb, signed(place, strange))
		},
		Undeletable: func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			keys, err := walstorage.NewKeys(place.Prefix, place.Cluster)
			require.NoError(tb, err)
			key := keys.Key(id)
			store.Fault(func(r fake.Request) fake.Fault {
				if r.Credential() != limited {
					return fake.Fault{}
				}
				return fake.Fault{Keys: map[string]string{key: "AuthorizationPermissionMismatch"}}
			})
			return closing(tb, signed(place, limited))
		},
		Residue: func(_ testing.TB, prefix string) (names []string) {
			for _, key := range store.Keys(bucket) {
				if strings.HasPrefix(key, prefix) && !strings.HasSuffix(key, ".wal") {
					names = append(names, key)
				}
			}
			return names
		},
		ListLarge: 201,
		Skip:      skip,
		Secrets:   append(secrets(), limited, strange),
		Invalid:   invalid(t),
		Report:    report,
	})
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}
