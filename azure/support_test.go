package azure_test

import (
	"crypto/rand"
	"encoding/base64"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/internal/fakes/pipenet"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const (
	account = "account"
	bucket  = "segments"
)

// What may appear in no error text. The signature has characters that look different in a URL.
const (
	signature = "planted+signature/0123456789="
	token     = "planted-token-0123456789"
)

var accountKey = base64.StdEncoding.EncodeToString([]byte("planted-account-key-0123456789"))

// sas is a shared access signature.
const sas = "sv=2025-11-05&sr=c&sp=rcdl&sig=planted%2Bsignature%2F0123456789%3D"

func secrets() []string {
	return []string{accountKey, signature, "planted%2Bsignature%2F0123456789%3D", token, "sp=rcdl"}
}

// serve starts a fake over a socket.
func serve(tb testing.TB, cfg fake.Config) (*fake.Server, string) {
	server := newFake(tb, cfg)
	listening := httptest.NewServer(server)
	tb.Cleanup(listening.Close)
	tb.Cleanup(server.Close)
	return server, listening.URL
}

// newFake makes a fake that knows our key, our SAS and our token, and those that cfg adds.
func newFake(_ testing.TB, cfg fake.Config) *fake.Server {
	cfg.Account = account
	cfg.Containers = append(cfg.Containers, bucket)
	cfg.Keys = append(cfg.Keys, accountKey)
	cfg.Signatures = append(cfg.Signatures, signature)
	cfg.Tokens = append(cfg.Tokens, token)
	return fake.New(cfg)
}

// config is a configuration for the fake at that address.
func config(url string) azure.Config {
	return azure.Config{
		Account: account, Container: bucket, Endpoint: url, AccountKey: accountKey,
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

// withSAS is config with a SAS.
func withSAS(url string) azure.Config {
	c := config(url)
	c.AccountKey, c.SAS = "", sas
	return c
}

func open(tb testing.TB, cfg azure.Config) *azure.Driver {
	driver, err := azure.NewDriver(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, driver.Close()) })
	return driver
}

// inMemory starts a fake that a driver in the same bubble reaches without a socket (D5).
func inMemory(tb testing.TB, cfg fake.Config) (*fake.Server, *pipenet.Server, azure.Config) {
	server := newFake(tb, cfg)
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

func manage(tb testing.TB, c azure.Config) *objectstore.Manager {
	manager, err := azure.New(tb.Context(), c)
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
