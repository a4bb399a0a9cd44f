package azure_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/internal/fakes/pipenet"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const (
	account = "account"
	bucket  = drivertest.Bucket
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
	return server, drivertest.Serve(tb, server)
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
	network := drivertest.ServePipes(tb, server)
	c := config("http://fake.invalid")
	c.HTTPClient = network.Client()
	return server, network, c
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(tb testing.TB, cfg fake.Config) (*fake.Server, azure.Config) {
	server := newFake(tb, cfg)
	url, client := drivertest.ServeTLS(tb, server)
	c := config(url)
	c.HTTPClient = client
	return server, c
}

func manage(tb testing.TB, c azure.Config) *objectstore.Manager {
	manager, err := azure.New(tb.Context(), c)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
	return manager
}

// subject is the driver on its fake.
func subject() drivertest.Subject[fake.Fault] {
	return drivertest.Subject[fake.Fault]{
		Put: "PutBlob", Get: "GetBlob", Stat: "GetBlobProperties", List: "ListBlobs", Warm: "ListBlobs",
		Operations: operations,
		Busy:       "ServerBusy", Refused: "AuthorizationFailure", NoBucket: "ContainerNotFound",
		Fault: func(f drivertest.Fault) fake.Fault {
			return fake.Fault{
				Status: f.Status, Code: f.Code, RetryAfter: f.RetryAfter, Document: f.Document,
				Delay: f.Delay, Wait: f.Wait, Early: f.Early, ReadOn: f.ReadOn, Drop: f.Drop, DropAfter: f.DropAfter, After: f.After,
				Truncate: f.Truncate, Cut: f.Cut, StallAfter: f.StallAfter, Flip: f.Flip, IgnoreRange: f.IgnoreRange, ContentRange: f.ContentRange,
			}
		},
		Pipes: func(tb testing.TB, page int) drivertest.Place[fake.Fault] {
			server, network, c := inMemory(tb, fake.Config{PageSize: page})
			return place(server, network, c)
		},
		Sockets: func(tb testing.TB) drivertest.Place[fake.Fault] {
			server, url := serve(tb, fake.Config{})
			return place(server, nil, config(url))
		},
		TLS: func(tb testing.TB) drivertest.Place[fake.Fault] {
			server, c := serveTLS(tb, fake.Config{})
			return place(server, nil, c)
		},
	}
}

// place is a running fake, and c what reaches it.
func place(server *fake.Server, network *pipenet.Server, c azure.Config) drivertest.Place[fake.Fault] {
	with := func(options drivertest.Options) azure.Config {
		c := c
		c.StallTimeout, c.ResponseHeaderTimeout = options.StallTimeout, options.ResponseHeaderTimeout
		c.Store.MaxAttempts = options.MaxAttempts
		if options.AttemptTimeout > 0 {
			c.Store.AttemptTimeout = options.AttemptTimeout
		}
		if options.HTTPClient != nil || options.Own {
			c.HTTPClient = options.HTTPClient
		}
		return c
	}
	return drivertest.Place[fake.Fault]{
		Fake: server, Network: network,
		Driver:  func(tb testing.TB, options drivertest.Options) objectstore.Driver { return open(tb, with(options)) },
		Manager: func(tb testing.TB, options drivertest.Options) *objectstore.Manager { return manage(tb, with(options)) },
	}
}
