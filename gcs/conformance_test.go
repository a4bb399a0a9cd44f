package gcs_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/caseresults"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// urlVariable tells a peer process the address of the store.
const urlVariable = "WALHOP_GCS_CONFORMANCE_URL"

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) {
	conformance.PeerMain(func(place objectstore.Config) (walstorage.WalStorageManager, error) {
		c := config(os.Getenv(urlVariable))
		c.Store = place
		manager, err := gcs.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		return manager, nil
	})
}

// Segments in Google Cloud Storage keep every rule that the suite checks, W1 to W12, over the wire protocol.
func TestConformance(t *testing.T) {
	store, url := serve(t, fake.Config{PageSize: 100, Tokens: []string{token, limitedToken}})
	changed := func(change func(*gcs.Config)) gcs.Config {
		c := config(url)
		change(&c)
		return c
	}
	opening := func(tb testing.TB, c gcs.Config) walstorage.WalStorageManager {
		manager, err := gcs.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c gcs.Config) walstorage.WalStorageManager {
		manager := opening(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return opening(tb, changed(func(c *gcs.Config) { c.Store = place }))
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := gcs.NewDriver(tb.Context(), config(url))
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestConformancePeer")
			cmd.Env = append(cmd.Env, urlVariable+"="+url)
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			return closing(tb, changed(func(c *gcs.Config) { c.Bucket = "none" })), nil
		},
		Denied: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return closing(tb, changed(func(c *gcs.Config) {
				c.Store, c.Credentials = place, with(provider("unknown-token-0123456789"))
			}))
		},
		Undeletable: func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			keys, err := walstorage.NewKeys(place.Prefix, place.Cluster)
			require.NoError(tb, err)
			key := keys.Key(id)
			store.Fault(func(r fake.Request) fake.Fault {
				if r.Op != fake.Delete || r.Token() != limitedToken || r.Key != key {
					return fake.Fault{}
				}
				return fake.Fault{Status: 403, Reason: "forbidden", Message: "no storage.objects.delete access"}
			})
			return closing(tb, changed(func(c *gcs.Config) { c.Store, c.Credentials = place, with(provider(limitedToken)) }))
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
		Secrets:   []string{token, limitedToken, "unknown-token-0123456789"},
		Invalid:   invalid(t),
		Report:    caseresults.Record(t, "gcs"),
	})
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}
