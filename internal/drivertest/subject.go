package drivertest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/walhop/walhop/internal/fakes/faulty"
	"github.com/walhop/walhop/internal/fakes/pipenet"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Bucket is the bucket, or container, that there is in the fakes.
const Bucket = "segments"

// Fake is what the tests want of a fake, whose faults are of type F.
type Fake[F any] interface {
	http.Handler
	Choose(fault func(faulty.Request) F)
	Faults(op string, script ...F)
	Always(op string, fault F)
	Came() []faulty.Request
	Count(op string) int
	Object(bucket, key string) (data []byte, found bool)
	Store(bucket, key string, data []byte)
	Keys(bucket string) []string
	Close()
}

// Fault is what the faults of all fakes have in common.
type Fault struct {
	faulty.Course
	faulty.Body
	Status     int
	Code       string // or reason
	Message    string
	RetryAfter string
	Document   string
}

// Options are what a test sets of a driver's configuration. Zero values are the package's own.
type Options struct {
	StallTimeout          time.Duration
	ResponseHeaderTimeout time.Duration
	AttemptTimeout        time.Duration
	MaxAttempts           int
	// HTTPClient is sent through in place of the client that the place has; Own in place of both has the driver's own.
	HTTPClient *http.Client
	Own        bool
}

// Place is a fake that runs, and how it is reached.
type Place[F any] struct {
	Fake    Fake[F]
	Network *pipenet.Server // nil over sockets
	// Driver and Manager open it, until the test ends.
	Driver  func(tb testing.TB, options Options) objectstore.Driver
	Manager func(tb testing.TB, options Options) *objectstore.Manager
}

// Subject is a driver and its fake. [On] sets the last three fields.
type Subject[F any] struct {
	// Put, Get, Stat, List and Warm are what the fake calls the requests of these calls.
	Put, Get, Stat, List, Warm string
	// Operations are the driver's calls by the request that each sends. They need an object "there" of the bytes "data".
	Operations map[string]Operation
	// Busy, Refused and NoBucket are the codes of 503, 403 and 404.
	Busy, Refused, NoBucket string
	// Fault words a fault as the fake does.
	Fault func(Fault) F
	// Content is what a request to upload stores. Default: its body.
	Content func(faulty.Request) []byte
	// Pipes starts a fake for one bubble, whose lists have pages of so many objects (0 is the fake's default); Sockets and
	// TLS start one on this machine.
	Pipes   func(tb testing.TB, page int) Place[F]
	Sockets func(tb testing.TB) Place[F]
	TLS     func(tb testing.TB) Place[F]
}

// Operation is a call of a driver.
type Operation func(ctx context.Context, d objectstore.Driver) error

// Operations are the calls that each driver has, by the names of their requests.
func Operations(put, get, stat, list, remove string) map[string]Operation {
	return map[string]Operation{
		put: func(ctx context.Context, d objectstore.Driver) error {
			data := []byte("data")
			return d.Put(ctx, "k", objectstore.NewBody(data), Checksum(data))
		},
		get: func(ctx context.Context, d objectstore.Driver) error { return d.Get(ctx, "there", 0, make([]byte, 4)) },
		stat: func(ctx context.Context, d objectstore.Driver) error {
			_, err := d.Stat(ctx, "there")
			return err
		},
		list: func(ctx context.Context, d objectstore.Driver) error {
			_, _, err := d.List(ctx, "", "")
			return err
		},
		remove: func(ctx context.Context, d objectstore.Driver) error { return d.Delete(ctx, []string{"k"}) },
	}
}

// sockets are the ways over sockets.
func (s Subject[F]) sockets() map[string]func(testing.TB) Place[F] {
	return map[string]func(testing.TB) Place[F]{"http": s.Sockets, "https": s.TLS}
}
