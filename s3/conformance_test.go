package s3_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
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
		conform(t, fake.Config{}, false, nil, caseresults.Record(t, "s3"))
	})
	t.Run("old store", func(t *testing.T) {
		if raceDetector {
			t.Skip("checksums share no memory that the plain run does not: without -race this runs")
		}
		t.Parallel()
		skip := map[string]string{}
		for _, id := range []string{"C3", "C4", "C5", "F9", "H4", "H8", "L2", "L3", "L7", "L10"} {
			skip[id] = "long, and nothing in it depends on checksums: TestConformance/plain has it"
		}
		conform(t, fake.Config{Old: true}, true, skip, nil)
	})
}

// What a peer process is told: the address of the store, and whether it is an old one.
const (
	urlVariable = "WALHOP_S3_CONFORMANCE_URL"
	oldVariable = "WALHOP_S3_CONFORMANCE_OLD"
)

// TestConformancePeer is the other process of TestConformance. In this one it does nothing.
func TestConformancePeer(*testing.T) {
	conformance.PeerMain(func(place objectstore.Config) (walstorage.WalStorageManager, error) {
		c := config(os.Getenv(urlVariable))
		c.Store, c.NoChecksum = place, os.Getenv(oldVariable) == "true"
		manager, err := s3.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		return manager, nil
	})
}

func conform(t *testing.T, server fake.Config, noChecksum bool, skip map[string]string, report func(conformance.Result)) {
	server.PageSize = 100
	server.AccessKeys = []string{accessKey, limitedKey}
	store, url := serve(t, server)
	with := func(change func(*s3.Config)) s3.Config {
		c := config(url)
		c.NoChecksum = noChecksum
		change(&c)
		return c
	}
	connect := func(tb testing.TB, c s3.Config) walstorage.WalStorageManager {
		manager, err := s3.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c s3.Config) walstorage.WalStorageManager {
		manager := connect(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return connect(tb, with(func(c *s3.Config) { c.Store = place }))
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := s3.NewDriver(tb.Context(), with(func(*s3.Config) {}))
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestConformancePeer")
			cmd.Env = append(cmd.Env, urlVariable+"="+url, oldVariable+"="+strconv.FormatBool(noChecksum))
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			return closing(tb, with(func(c *s3.Config) { c.Bucket = "none" })), nil
		},
		Denied: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return closing(tb, with(func(c *s3.Config) {
				c.Store, c.Credentials = place, credentials.NewStaticCredentialsProvider("STRANGER", "unknown-secret", "")
			}))
		},
		Undeletable: func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			keys, err := walstorage.NewKeys(place.Prefix, place.Cluster)
			require.NoError(tb, err)
			key := keys.Key(id)
			store.Fault(func(r fake.Request) fake.Fault {
				if r.AccessKey() != limitedKey {
					return fake.Fault{}
				}
				return fake.Fault{Keys: map[string]string{key: "AccessDenied"}}
			})
			return closing(tb, with(func(c *s3.Config) {
				c.Store, c.Credentials = place, credentials.NewStaticCredentialsProvider(limitedKey, secretKey, "")
			}))
		},
		Residue: func(_ testing.TB, prefix string) (names []string) {
			for _, key := range store.Keys(bucket) {
				if strings.HasPrefix(key, prefix) && !strings.HasSuffix(key, ".wal") {
					names = append(names, key)
				}
			}
			return names
		},
		Report:    report,
		ListLarge: 201,
		Skip:      skip,
		Secrets:   []string{accessKey, secretKey, sessionToken, "unknown-secret"},
		Invalid:   invalid(t),
	})
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}
