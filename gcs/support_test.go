package gcs_test

import (
	"context"
	"crypto/rand"
	"net/http/httptest"
	"testing"
	"time"

	"cloud.google.com/go/auth"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/gcs"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/internal/fakes/pipenet"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const bucket = "segments"

// What may appear in no error text.
const (
	token        = "planted-token-0123456789"
	limitedToken = "planted-limited-token-0123456789"
)

// provider gives one token.
type provider string

func (p provider) Token(context.Context) (*auth.Token, error) {
	return &auth.Token{Value: string(p)}, nil
}

func with(p auth.TokenProvider) *auth.Credentials {
	return auth.NewCredentials(&auth.CredentialsOptions{TokenProvider: p})
}

// serve starts a fake over a socket.
func serve(tb testing.TB, cfg fake.Config) (*fake.Server, string) {
	cfg.Buckets = append(cfg.Buckets, bucket)
	server := fake.New(cfg)
	listening := httptest.NewServer(server)
	tb.Cleanup(listening.Close)
	tb.Cleanup(server.Close)
	return server, listening.URL
}

// config is a configuration for the fake at that address.
func config(url string) gcs.Config {
	return gcs.Config{
		Bucket: bucket, Endpoint: url, Credentials: with(provider(token)),
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

func open(tb testing.TB, cfg gcs.Config) *gcs.Driver {
	driver, err := gcs.NewDriver(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, driver.Close()) })
	return driver
}

// inMemory starts a fake that a driver in the same bubble reaches without a socket (D5).
func inMemory(tb testing.TB, cfg fake.Config) (*fake.Server, *pipenet.Server, gcs.Config) {
	cfg.Buckets = append(cfg.Buckets, bucket)
	server := fake.New(cfg)
	network := pipenet.Serve(server)
	tb.Cleanup(network.Close)
	tb.Cleanup(server.Close)
	c := config("http://fake.invalid")
	c.HTTPClient = network.Client()
	return server, network, c
}

// faults gives each request of an operation the fault of its number; those beyond have none.
func faults(op string, script ...fake.Fault) func(fake.Request) fake.Fault {
	return func(r fake.Request) fake.Fault {
		if r.Op == op && r.Number <= len(script) {
			return script[r.Number-1]
		}
		return fake.Fault{}
	}
}

// always gives every request of an operation one fault.
func always(op string, fault fake.Fault) func(fake.Request) fake.Fault {
	return func(r fake.Request) fake.Fault {
		if r.Op == op {
			return fault
		}
		return fake.Fault{}
	}
}

func manage(tb testing.TB, c gcs.Config) *objectstore.Manager {
	manager, err := gcs.New(tb.Context(), c)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
	return manager
}

func segment(tb testing.TB) walstorage.SegmentID {
	id, err := walstorage.NewSegmentID(1, 0, time.Now(), rand.Reader)
	require.NoError(tb, err)
	return id
}

// key is the segment's key under config.
func key(tb testing.TB, id walstorage.SegmentID) string {
	keys, err := walstorage.NewKeys("", "c")
	require.NoError(tb, err)
	return keys.Key(id)
}
