package drivertest

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/pipenet"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Driver is a package with a driver of type D, whose configurations are of type C.
type Driver[C any, D objectstore.Driver] struct {
	// New and NewDriver are the package's.
	New       func(ctx context.Context, config C) (*objectstore.Manager, error)
	NewDriver func(ctx context.Context, config C) (D, error)
}

// fields are those that the configuration of every driver of a store over HTTP has, under these names.
type fields struct {
	Endpoint              *string
	Parallelism           *int
	DialTimeout           *time.Duration
	ResponseHeaderTimeout *time.Duration
	StallTimeout          *time.Duration
	HTTPClient            **http.Client
	Store                 *objectstore.Config
}

// fieldsOf finds them.
func fieldsOf[C any](config *C) fields {
	var found fields
	given, all := reflect.ValueOf(config).Elem(), reflect.ValueOf(&found).Elem()
	for i := range all.NumField() {
		all.Field(i).Set(given.FieldByName(all.Type().Field(i).Name).Addr())
	}
	return found
}

// Open makes a driver, and closes it when the test ends.
func (d Driver[C, D]) Open(tb testing.TB, config C) D {
	driver, err := d.NewDriver(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, driver.Close()) })
	return driver
}

// Manage opens the store, and closes it when the test ends.
func (d Driver[C, D]) Manage(tb testing.TB, config C) *objectstore.Manager {
	manager, err := d.New(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
	return manager
}

// Try opens the store and closes it again: the error is what is wrong with the configuration.
func (d Driver[C, D]) Try(tb testing.TB, config C) error {
	manager, err := d.New(tb.Context(), config)
	if err != nil {
		return err
	}
	return manager.Close()
}

// InPipes starts a fake that the configuration then reaches without a socket from the same bubble (D5).
func (d Driver[C, D]) InPipes(tb testing.TB, fake handler, config C) (*pipenet.Server, C) {
	network := pipenet.Serve(fake)
	tb.Cleanup(network.Close)
	tb.Cleanup(fake.Close)
	f := fieldsOf(&config)
	*f.Endpoint, *f.HTTPClient = "http://fake.invalid", network.Client()
	return network, config
}

// OverTLS starts a fake that the configuration then reaches over TLS, through a client that trusts it.
func (d Driver[C, D]) OverTLS(tb testing.TB, fake handler, config C) C {
	f := fieldsOf(&config)
	*f.Endpoint, *f.HTTPClient = ServeTLS(tb, fake)
	return config
}

// at is a fake that runs, where the configuration reaches it.
func at[F, C any, D objectstore.Driver](d Driver[C, D], fake Fake[F], network *pipenet.Server, config C) Place[F] {
	with := func(options Options) C {
		config := config
		f := fieldsOf(&config)
		*f.StallTimeout, *f.ResponseHeaderTimeout = options.StallTimeout, options.ResponseHeaderTimeout
		f.Store.MaxAttempts = options.MaxAttempts
		if options.AttemptTimeout > 0 {
			f.Store.AttemptTimeout = options.AttemptTimeout
		}
		if options.HTTPClient != nil || options.Own {
			*f.HTTPClient = options.HTTPClient
		}
		return config
	}
	return Place[F]{
		Fake: fake, Network: network,
		Driver:  func(tb testing.TB, options Options) objectstore.Driver { return d.Open(tb, with(options)) },
		Manager: func(tb testing.TB, options Options) *objectstore.Manager { return d.Manage(tb, with(options)) },
	}
}

// On completes the subject with the ways to its fake: start makes one whose lists have pages of so many objects (0 is its
// default), and config is for the fake at an address.
func On[F, C any, D objectstore.Driver](s Subject[F], d Driver[C, D], start func(page int) Fake[F], config func(url string) C) Subject[F] {
	s.Pipes = func(tb testing.TB, page int) Place[F] {
		fake := start(page)
		network, c := d.InPipes(tb, fake, config(""))
		return at(d, fake, network, c)
	}
	s.Sockets = func(tb testing.TB) Place[F] {
		fake := start(0)
		return at(d, fake, nil, config(Serve(tb, fake)))
	}
	s.TLS = func(tb testing.TB) Place[F] {
		fake := start(0)
		return at(d, fake, nil, d.OverTLS(tb, fake, config("")))
	}
	return s
}
