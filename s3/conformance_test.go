package s3_test

import (
	"context"
	"errors"
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
	opened := func(tb testing.TB, c s3.Config) walstorage.WalStorageManager {
		manager, err := s3.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c s3.Config) walstorage.WalStorageManager {
		manager := opened(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return opened(tb, with(func(c *s3.Config) { c.Store = place }))
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

// wrong are the configurations that are refused, by the field that has to be named.
func wrong() map[string][]s3.Config {
	at := func(change func(*s3.Config)) s3.Config {
		c := config("http://localhost:1")
		change(&c)
		return c
	}
	return map[string][]s3.Config{
		"Bucket": {
			at(func(c *s3.Config) { c.Bucket = "" }),
			at(func(c *s3.Config) { c.Bucket = "a/b" }),
			at(func(c *s3.Config) { c.Bucket = "a b" }),
			at(func(c *s3.Config) { c.Bucket = ".." }),
			at(func(c *s3.Config) { c.Bucket = "arn:aws:s3 x" }),
			at(func(c *s3.Config) { c.Bucket = strings.Repeat("a", 256) }),
		},
		"Provider": {
			at(func(c *s3.Config) { c.Provider = "amazon" }),
			at(func(c *s3.Config) { c.Provider = "AWS" }),
			at(func(c *s3.Config) { c.Provider = "backblaze-b2" }),
			at(func(c *s3.Config) { c.Provider = "aws-express" }), // of a bucket that is no directory bucket
		},
		"Region": {
			at(func(c *s3.Config) { c.Endpoint = "" }),
			at(func(c *s3.Config) { c.Region = "eu central" }),
			at(func(c *s3.Config) { c.Region = "evil.example/" }),
		},
		"Endpoint": {
			at(func(c *s3.Config) { c.Endpoint = "localhost:9000" }),
			at(func(c *s3.Config) { c.Endpoint = "ftp://localhost" }),
			at(func(c *s3.Config) { c.Endpoint = "http://" }),
			at(func(c *s3.Config) { c.Endpoint = "http://" + accessKey + ":" + secretKey + "@localhost" }),
			at(func(c *s3.Config) { c.Endpoint = "http://localhost?token=" + sessionToken }),
			at(func(c *s3.Config) { c.Endpoint = "http://localhost/#" + secretKey }),
			at(func(c *s3.Config) { c.Endpoint = "http://local host:%" + secretKey }),
			at(func(c *s3.Config) { c.Endpoint, c.Region, c.Provider = "", "eu-central-1", "minio" }),
			at(func(c *s3.Config) { c.Endpoint = "https://storage.googleapis.com" }),
		},
		"KMSKeyID": {
			at(func(c *s3.Config) { c.KMSKeyID = "a\r\nX-Evil: 1" }),
			at(func(c *s3.Config) { c.Bucket, c.KMSKeyID = directoryBucket, "alias/segments" }),
			at(func(c *s3.Config) {
				c.Bucket, c.KMSKeyID = directoryBucket, "arn:aws:kms:eu-central-1:1:alias/segments"
			}),
		},
		"NoChecksum":            {at(func(c *s3.Config) { c.Bucket, c.NoChecksum = directoryBucket, true })},
		"Parallelism":           {at(func(c *s3.Config) { c.Parallelism = -1 }), at(func(c *s3.Config) { c.Parallelism = 10_001 })},
		"DialTimeout":           {at(func(c *s3.Config) { c.DialTimeout = -1 })},
		"ResponseHeaderTimeout": {at(func(c *s3.Config) { c.ResponseHeaderTimeout = -1 })},
		"StallTimeout":          {at(func(c *s3.Config) { c.StallTimeout = -1 })},
		"Cluster":               {at(func(c *s3.Config) { c.Store.Cluster = "" }), at(func(c *s3.Config) { c.Store.Cluster = "a/b" })},
		"Prefix":                {at(func(c *s3.Config) { c.Store.Prefix = "../up" })},
		"AttemptTimeout":        {at(func(c *s3.Config) { c.Store.AttemptTimeout = -1 })},
	}
}

func invalid(t *testing.T) map[string]func() error {
	fields := map[string]func() error{}
	for field, configs := range wrong() {
		fields[field] = func() error {
			var last error
			for _, c := range configs {
				manager, err := s3.New(context.Background(), c)
				if err == nil {
					return errors.Join(manager.Close())
				}
				if !errors.Is(err, walstorage.ErrInvalidArgument) || !strings.Contains(err.Error(), field) {
					t.Errorf("%s: %v", field, err)
				}
				for _, secret := range []string{accessKey, secretKey, sessionToken} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s: the error holds a secret", field)
					}
				}
				last = err
			}
			return last
		}
	}
	return fields
}
