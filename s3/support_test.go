package s3_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/fakes/pipenet"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const bucket = drivertest.Bucket

// What may appear in no error text.
const (
	accessKey    = "AKIAPLANTEDPLANTED00"
	secretKey    = "planted-secret-key-0123456789"
	sessionToken = "planted-session-token-0123456789"
)

func keys() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(accessKey, secretKey, sessionToken)
}

// serve starts a fake over a socket.
func serve(tb testing.TB, cfg fake.Config) (*fake.Server, string) {
	cfg.Buckets = append(cfg.Buckets, bucket)
	server := fake.New(cfg)
	return server, drivertest.Serve(tb, server)
}

// config is a configuration for the fake at that address.
func config(url string) s3.Config {
	return s3.Config{
		Bucket: bucket, Endpoint: url, PathStyle: true, Credentials: keys(),
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

func open(tb testing.TB, cfg s3.Config) *s3.Driver {
	driver, err := s3.NewDriver(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, driver.Close()) })
	return driver
}

// inMemory starts a fake that a driver in the same bubble reaches without a socket (D5).
func inMemory(tb testing.TB, cfg fake.Config) (*fake.Server, *pipenet.Server, s3.Config) {
	cfg.Buckets = append(cfg.Buckets, bucket)
	server := fake.New(cfg)
	network := drivertest.ServePipes(tb, server)
	c := config("http://fake.invalid")
	c.HTTPClient = network.Client()
	return server, network, c
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(tb testing.TB, cfg fake.Config) (*fake.Server, s3.Config) {
	cfg.Buckets = append(cfg.Buckets, bucket)
	server := fake.New(cfg)
	url, client := drivertest.ServeTLS(tb, server)
	c := config(url)
	c.HTTPClient = client
	return server, c
}

func manage(tb testing.TB, c s3.Config) *objectstore.Manager {
	manager, err := s3.New(tb.Context(), c)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
	return manager
}

// subject is the driver on its fake.
func subject() drivertest.Subject[fake.Fault] {
	return drivertest.Subject[fake.Fault]{
		Put: "PutObject", Get: "GetObject", Stat: "HeadObject", List: "ListObjectsV2", Warm: "HeadBucket",
		Operations: operations,
		Busy:       "SlowDown", Refused: "AccessDenied", NoBucket: "NoSuchBucket",
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
func place(server *fake.Server, network *pipenet.Server, c s3.Config) drivertest.Place[fake.Fault] {
	with := func(options drivertest.Options) s3.Config {
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
