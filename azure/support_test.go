package azure_test

import (
	"encoding/base64"
	"testing"
	"time"

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
	server := newFake(cfg)
	return server, drivertest.Serve(tb, server)
}

// newFake makes a fake that knows our key, our SAS and our token, and those that cfg adds.
func newFake(cfg fake.Config) *fake.Server {
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

// ours is the package.
var ours = drivertest.Driver[azure.Config, *azure.Driver]{New: azure.New, NewDriver: azure.NewDriver}

func open(tb testing.TB, c azure.Config) *azure.Driver { return ours.Open(tb, c) }

func manage(tb testing.TB, c azure.Config) *objectstore.Manager { return ours.Manage(tb, c) }

// inMemory starts a fake that a driver in the same bubble reaches without a socket (D5).
func inMemory(tb testing.TB, cfg fake.Config) (*fake.Server, *pipenet.Server, azure.Config) {
	server := newFake(cfg)
	network, c := ours.InPipes(tb, server, config(""))
	return server, network, c
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(tb testing.TB, cfg fake.Config) (*fake.Server, azure.Config) {
	server := newFake(cfg)
	return server, ours.OverTLS(tb, server, config(""))
}

// subject is the driver on its fake.
func subject() drivertest.Subject[fake.Fault] {
	words := drivertest.Subject[fake.Fault]{
		Put: "PutBlob", Get: "GetBlob", Stat: "GetBlobProperties", List: "ListBlobs", Warm: "ListBlobs",
		Operations: operations,
		Busy:       "ServerBusy", Refused: "AuthorizationFailure", NoBucket: "ContainerNotFound",
		Fault: func(f drivertest.Fault) fake.Fault {
			return fake.Fault{
				Status: f.Status, Code: f.Code, Message: f.Message, RetryAfter: f.RetryAfter, Document: f.Document,
				Delay: f.Delay, Wait: f.Wait, Early: f.Early, ReadOn: f.ReadOn, Drop: f.Drop, DropAfter: f.DropAfter, After: f.After,
				Truncate: f.Truncate, Cut: f.Cut, StallAfter: f.StallAfter, Flip: f.Flip, IgnoreRange: f.IgnoreRange, ContentRange: f.ContentRange,
			}
		},
	}
	start := func(page int) drivertest.Fake[fake.Fault] { return newFake(fake.Config{PageSize: page}) }
	return drivertest.On(words, ours, start, config)
}
