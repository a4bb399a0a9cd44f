package azure_test

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/configtest"
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

// wrong are the changes to a configuration that are refused, by the field that has to be named.
func wrong() map[string][]func(*azure.Config) {
	type config = azure.Config
	ready, _ := container.NewClientWithNoCredential("https://account.blob.core.windows.net/segments?sig="+configtest.Secret, nil)
	// besides makes a change to a configuration that has a ready client.
	besides := func(change func(*config)) func(*config) {
		return func(c *config) {
			*c = config{Client: ready, Store: c.Store}
			change(c)
		}
	}
	negative := func(field func(*config) *time.Duration) []func(*config) {
		return []func(*config){
			func(c *config) { *field(c) = -1 },
			func(c *config) { *field(c) = math.MinInt64 },
			besides(func(c *config) { *field(c) = -1 }),
		}
	}
	return map[string][]func(*config){
		"Account": {
			func(c *config) { c.Account = "" },
			func(c *config) { c.Account, c.Endpoint, c.AccountKey = "", "http://localhost:1", accountKey },
			func(c *config) { c.Account = "ab" },
			func(c *config) { c.Account = "Account" },
			func(c *config) { c.Account = "evil.example/" },
			func(c *config) { c.Account = strings.Repeat("a", 25) },
			besides(func(c *config) { c.Account = account }),
		},
		"Container": {
			func(c *config) { c.Container = "" },
			func(c *config) { c.Container = "ab" },
			func(c *config) { c.Container = "a/b" },
			func(c *config) { c.Container = "Segments" },
			func(c *config) { c.Container = "-segments" },
			func(c *config) { c.Container = "segments-" },
			func(c *config) { c.Container = "seg--ments" },
			func(c *config) { c.Container = "$root" },
			func(c *config) { c.Container = "seg?sig=x" },
			func(c *config) { c.Container = strings.Repeat("a", 64) },
			besides(func(c *config) { c.Container = bucket }),
		},
		"Endpoint": {
			func(c *config) { c.Endpoint = "localhost:10000" },
			func(c *config) { c.Endpoint = "ftp://localhost" },
			func(c *config) { c.Endpoint = "https://" },
			func(c *config) { c.Endpoint = "https://user:" + configtest.Secret + "@localhost" },
			func(c *config) { c.Endpoint = "https://localhost?sig=" + configtest.Secret },
			func(c *config) { c.Endpoint = "https://localhost/#" + configtest.Secret },
			func(c *config) { c.Endpoint = "https://local host:%" + configtest.Secret },
			func(c *config) { c.Endpoint = "http://localhost" }, // no token goes there
			func(c *config) { c.Endpoint = "HTTP://localhost" },
			func(c *config) { c.Endpoint, c.Credential = "http://localhost", &credential{} },
			besides(func(c *config) { c.Endpoint = "https://localhost" }),
		},
		"AccountKey": {
			func(c *config) { c.AccountKey = configtest.Secret }, // no base64, for its hyphens
			func(c *config) { c.AccountKey = accountKey[1:] },
			besides(func(c *config) { c.AccountKey = accountKey }),
		},
		"SAS": {
			func(c *config) { c.SAS = configtest.Secret },
			func(c *config) { c.SAS = "?" },
			func(c *config) { c.SAS = "sig=%zz" + configtest.Secret },
			func(c *config) { c.SAS = "sv=2025&sig=" },
			func(c *config) { c.SAS = sas + "\n" },
			func(c *config) { c.SAS = sas + "#" + configtest.Secret },
			func(c *config) { c.SAS = sas + "&comp=list" },
			func(c *config) { c.SAS, c.AccountKey = "sig="+configtest.Secret, accountKey },
			besides(func(c *config) { c.SAS = sas }),
		},
		"Credential": {
			func(c *config) { c.AccountKey, c.Credential = accountKey, &credential{} },
			func(c *config) { c.SAS, c.Credential = sas, &credential{} },
			besides(func(c *config) { c.Credential = &credential{} }),
		},
		"HTTPClient":            {besides(func(c *config) { c.HTTPClient = http.DefaultClient })},
		"Parallelism":           {func(c *config) { c.Parallelism = -1 }, func(c *config) { c.Parallelism = 10_001 }},
		"DialTimeout":           negative(func(c *config) *time.Duration { return &c.DialTimeout }),
		"ResponseHeaderTimeout": negative(func(c *config) *time.Duration { return &c.ResponseHeaderTimeout }),
		"StallTimeout":          negative(func(c *config) *time.Duration { return &c.StallTimeout }),
		"Store.Cluster":         {func(c *config) { c.Store.Cluster = "" }, func(c *config) { c.Store.Cluster = "a/b" }},
		"Store.Prefix":          {func(c *config) { c.Store.Prefix = "../up" }},
		"Store.AttemptTimeout":  negative(func(c *config) *time.Duration { return &c.Store.AttemptTimeout }),
	}
}

// opened makes a store of the configuration and closes it again.
func opened(tb testing.TB, c azure.Config) error {
	manager, err := azure.New(tb.Context(), c)
	if err != nil {
		return err
	}
	return manager.Close()
}

// A2: each wrong value of each field is refused with the name of the field and without what may be secret (W11), and no
// field is forgotten.
func TestConfig(t *testing.T) {
	configtest.Run(t, configtest.Table[azure.Config]{
		Valid: azure.Config{Account: account, Container: bucket, Store: objectstore.Config{Cluster: "c"}},
		Open:  opened,
		Wrong: wrong(),
		Any: map[string]string{
			"MD5":    "either checksum will do",
			"Client": "a ready client makes other fields wrong",
		},
	})
}

// invalid are the wrong values for the suite.
func invalid(t *testing.T) map[string]func() error {
	return configtest.First(azure.Config{Account: account, Container: bucket, Store: objectstore.Config{Cluster: "c"}}, wrong(), func(c azure.Config) error { return opened(t, c) })
}
