package gcs_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
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
	opened := func(tb testing.TB, c gcs.Config) walstorage.WalStorageManager {
		manager, err := gcs.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c gcs.Config) walstorage.WalStorageManager {
		manager := opened(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return opened(tb, changed(func(c *gcs.Config) { c.Store = place }))
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
	})
	// That nothing is left behind, each case has looked at: an upload that was cancelled may land later still (W1).
}

// wrong are the configurations that are refused, by the field that has to be named.
func wrong() map[string][]gcs.Config {
	at := func(change func(*gcs.Config)) gcs.Config {
		c := config("http://localhost:1")
		change(&c)
		return c
	}
	ready := func(change func(*gcs.Config)) gcs.Config {
		c := gcs.Config{Bucket: bucket, Client: &storage.Client{}, Store: objectstore.Config{Cluster: "c"}}
		change(&c)
		return c
	}
	return map[string][]gcs.Config{
		"Bucket": {
			at(func(c *gcs.Config) { c.Bucket = "" }),
			at(func(c *gcs.Config) { c.Bucket = "a/b" }),
			at(func(c *gcs.Config) { c.Bucket = "a b" }),
			at(func(c *gcs.Config) { c.Bucket = "gs://a" }),
			at(func(c *gcs.Config) { c.Bucket = ".." }),
			at(func(c *gcs.Config) { c.Bucket = strings.Repeat("a", 223) }),
		},
		"Endpoint": {
			at(func(c *gcs.Config) { c.Endpoint = "localhost:9000" }),
			at(func(c *gcs.Config) { c.Endpoint = "ftp://localhost" }),
			at(func(c *gcs.Config) { c.Endpoint = "http://" }),
			at(func(c *gcs.Config) { c.Endpoint = "http://localhost/storage/v1/" }),
			at(func(c *gcs.Config) { c.Endpoint = "http://user:" + token + "@localhost" }),
			at(func(c *gcs.Config) { c.Endpoint = "http://localhost?token=" + token }),
			at(func(c *gcs.Config) { c.Endpoint = "http://localhost/#" + token }),
			at(func(c *gcs.Config) { c.Endpoint = "http://local host:%" + token }),
			ready(func(c *gcs.Config) { c.Endpoint = "http://localhost" }),
		},
		"Anonymous": {
			at(func(c *gcs.Config) { c.Anonymous = true }),
			ready(func(c *gcs.Config) { c.Anonymous = true }),
		},
		"Credentials": {
			at(func(c *gcs.Config) { c.Credentials = &auth.Credentials{} }),
			at(func(c *gcs.Config) { c.Endpoint, c.Credentials = "", nil }), // those of the environment: an empty file
			ready(func(c *gcs.Config) { c.Credentials = with(provider(token)) }),
		},
		"HTTPClient":            {ready(func(c *gcs.Config) { c.HTTPClient = &http.Client{} })},
		"Parallelism":           {at(func(c *gcs.Config) { c.Parallelism = -1 }), at(func(c *gcs.Config) { c.Parallelism = 10_001 })},
		"DialTimeout":           {at(func(c *gcs.Config) { c.DialTimeout = -1 })},
		"ResponseHeaderTimeout": {at(func(c *gcs.Config) { c.ResponseHeaderTimeout = -1 })},
		"StallTimeout":          {at(func(c *gcs.Config) { c.StallTimeout = -1 })},
		"Cluster":               {at(func(c *gcs.Config) { c.Store.Cluster = "" }), at(func(c *gcs.Config) { c.Store.Cluster = "a/b" })},
		"Prefix":                {at(func(c *gcs.Config) { c.Store.Prefix = "../up" })},
		"AttemptTimeout":        {at(func(c *gcs.Config) { c.Store.AttemptTimeout = -1 })},
	}
}

func invalid(t *testing.T) map[string]func() error {
	fields := map[string]func() error{}
	for field, configs := range wrong() {
		fields[field] = func() error {
			var last error
			for _, c := range configs {
				manager, err := gcs.New(context.Background(), c)
				if err == nil {
					return errors.Join(manager.Close())
				}
				if !errors.Is(err, walstorage.ErrInvalidArgument) || !strings.Contains(err.Error(), field) {
					t.Errorf("%s: %v", field, err)
				}
				if strings.Contains(err.Error(), token) {
					t.Errorf("%s: the error holds a secret", field)
				}
				last = err
			}
			return last
		}
	}
	return fields
}
