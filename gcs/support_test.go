package gcs_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/auth"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/fakes/faulty"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/internal/fakes/pipenet"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const bucket = drivertest.Bucket

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
	server := newFake(cfg)
	return server, drivertest.Serve(tb, server)
}

// newFake makes a fake that has our bucket, and what cfg adds.
func newFake(cfg fake.Config) *fake.Server {
	cfg.Buckets = append(cfg.Buckets, bucket)
	return fake.New(cfg)
}

// config is a configuration for the fake at that address.
func config(url string) gcs.Config {
	return gcs.Config{
		Bucket: bucket, Endpoint: url, Credentials: with(provider(token)),
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

// ours is the package.
var ours = drivertest.Driver[gcs.Config, *gcs.Driver]{New: gcs.New, NewDriver: gcs.NewDriver}

func open(tb testing.TB, c gcs.Config) *gcs.Driver { return ours.Open(tb, c) }

func manage(tb testing.TB, c gcs.Config) *objectstore.Manager { return ours.Manage(tb, c) }

// inMemory starts a fake that a driver in the same bubble reaches without a socket (D5).
func inMemory(tb testing.TB, cfg fake.Config) (*fake.Server, *pipenet.Server, gcs.Config) {
	server := newFake(cfg)
	network, c := ours.InPipes(tb, server, config(""))
	return server, network, c
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(tb testing.TB, cfg fake.Config) (*fake.Server, gcs.Config) {
	server := newFake(cfg)
	return server, ours.OverTLS(tb, server, config(""))
}

// subject is the driver on its fake.
func subject() drivertest.Subject[fake.Fault] {
	words := drivertest.Subject[fake.Fault]{
		Put: fake.Insert, Get: fake.Read, Stat: fake.Get, List: fake.List, Warm: fake.List,
		Operations: operations,
		Busy:       "backendError", Refused: "forbidden", NoBucket: "notFound",
		Fault: func(f drivertest.Fault) fake.Fault {
			return fake.Fault{
				Status: f.Status, Reason: f.Code, Message: f.Message, Plain: f.Code == "" && f.Status != 0, RetryAfter: f.RetryAfter, Document: f.Document,
				Delay: f.Delay, Wait: f.Wait, Early: f.Early, ReadOn: f.ReadOn, Drop: f.Drop, DropAfter: f.DropAfter, After: f.After,
				Truncate: f.Truncate, Cut: f.Cut, StallAfter: f.StallAfter, Flip: f.Flip, IgnoreRange: f.IgnoreRange, ContentRange: f.ContentRange,
			}
		},
		Content: func(r faulty.Request) []byte { return fake.Request{Request: r}.Media() },
	}
	start := func(page int) drivertest.Fake[fake.Fault] { return newFake(fake.Config{PageSize: page}) }
	return drivertest.On(words, ours, start, config)
}
