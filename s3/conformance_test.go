package s3_test

import (
	"context"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/configtest"
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

// wrong are the changes to a configuration that are refused, by the field that has to be named.
func wrong() map[string][]func(*s3.Config) {
	type config = s3.Config
	ready := sdk.New(sdk.Options{Region: "eu-central-1"})
	// besides makes a change to a configuration that has a ready client.
	besides := func(change func(*config)) func(*config) {
		return func(c *config) {
			*c = config{Bucket: c.Bucket, Client: ready, Store: c.Store}
			change(c)
		}
	}
	negative := func(field func(*config) *time.Duration) []func(*config) {
		return []func(*config){func(c *config) { *field(c) = -1 }, func(c *config) { *field(c) = math.MinInt64 }}
	}
	return map[string][]func(*config){
		"Bucket": {
			func(c *config) { c.Bucket = "" },
			func(c *config) { c.Bucket = "a/b" },
			func(c *config) { c.Bucket = "a b" },
			func(c *config) { c.Bucket = ".." },
			func(c *config) { c.Bucket = "b?X-Amz-Signature=x" },
			func(c *config) { c.Bucket = "arn:aws:s3 x" },
			func(c *config) { c.Bucket = strings.Repeat("a", 256) },
		},
		"Provider": {
			func(c *config) { c.Provider = "amazon" },
			func(c *config) { c.Provider = "AWS" },
			func(c *config) { c.Provider = "backblaze-b2" },
			func(c *config) { c.Provider = "aws-express" }, // of a bucket that is no directory bucket
		},
		"Region": {
			func(c *config) { c.Endpoint = "" },
			func(c *config) { c.Region = "eu central" },
			func(c *config) { c.Region = "evil.example/" },
			besides(func(c *config) { c.Region = "eu-central-1" }),
		},
		"Endpoint": {
			func(c *config) { c.Endpoint = "localhost:9000" },
			func(c *config) { c.Endpoint = "ftp://localhost" },
			func(c *config) { c.Endpoint = "http://" },
			func(c *config) { c.Endpoint = "http://key:" + configtest.Secret + "@localhost" },
			func(c *config) { c.Endpoint = "http://localhost?token=" + configtest.Secret },
			func(c *config) { c.Endpoint = "http://localhost/#" + configtest.Secret },
			func(c *config) { c.Endpoint = "http://local host:%" + configtest.Secret },
			func(c *config) { c.Endpoint, c.Region, c.Provider = "", "eu-central-1", "minio" },
			func(c *config) { c.Endpoint = "https://storage.googleapis.com" },
			besides(func(c *config) { c.Endpoint = "http://localhost:1" }),
		},
		"PathStyle":   {besides(func(c *config) { c.PathStyle = true })},
		"Credentials": {besides(func(c *config) { c.Credentials = keys() })},
		"HTTPClient":  {besides(func(c *config) { c.HTTPClient = http.DefaultClient })},
		"KMSKeyID": {
			func(c *config) { c.KMSKeyID = "a\r\nX-Evil: 1" },
			func(c *config) { c.Bucket, c.KMSKeyID = directoryBucket, "alias/segments" },
			func(c *config) { c.Bucket, c.KMSKeyID = directoryBucket, "arn:aws:kms:eu-central-1:1:alias/segments" },
		},
		"NoChecksum":            {func(c *config) { c.Bucket, c.NoChecksum = directoryBucket, true }},
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
func opened(tb testing.TB, c s3.Config) error {
	manager, err := s3.New(tb.Context(), c)
	if err != nil {
		return err
	}
	return manager.Close()
}

// A2: each wrong value of each field is refused with the name of the field and without what may be secret (W11), and no
// field is forgotten.
func TestConfig(t *testing.T) {
	configtest.Run(t, configtest.Table[s3.Config]{
		Valid: s3.Config{Bucket: bucket, Endpoint: "http://localhost:1", Store: objectstore.Config{Cluster: "c"}},
		Open:  opened,
		Wrong: wrong(),
		Any:   map[string]string{"Client": "a ready client makes other fields wrong"},
	})
}

// invalid are the wrong values for the suite.
func invalid(t *testing.T) map[string]func() error {
	return configtest.First(config("http://localhost:1"), wrong(), func(c s3.Config) error { return opened(t, c) })
}
