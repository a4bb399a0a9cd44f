package s3_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

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
	server := newFake(cfg)
	return server, drivertest.Serve(tb, server)
}

// newFake makes a fake that has our bucket, and what cfg adds.
func newFake(cfg fake.Config) *fake.Server {
	cfg.Buckets = append(cfg.Buckets, bucket)
	return fake.New(cfg)
}

// config is a configuration for the fake at that address.
func config(url string) s3.Config {
	return s3.Config{
		Bucket: bucket, Endpoint: url, PathStyle: true, Credentials: keys(),
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

// ours is the package.
var ours = drivertest.Driver[s3.Config, *s3.Driver]{New: s3.New, NewDriver: s3.NewDriver}

func open(tb testing.TB, c s3.Config) *s3.Driver { return ours.Open(tb, c) }

func manage(tb testing.TB, c s3.Config) *objectstore.Manager { return ours.Manage(tb, c) }

// inMemory starts a fake that a driver in the same bubble reaches without a socket (D5).
func inMemory(tb testing.TB, cfg fake.Config) (*fake.Server, *pipenet.Server, s3.Config) {
	server := newFake(cfg)
	network, c := ours.InPipes(tb, server, config(""))
	return server, network, c
}

// serveTLS starts a fake over TLS, and a client that trusts it.
func serveTLS(tb testing.TB, cfg fake.Config) (*fake.Server, s3.Config) {
	server := newFake(cfg)
	return server, ours.OverTLS(tb, server, config(""))
}

// subject is the driver on its fake.
func subject() drivertest.Subject[fake.Fault] {
	words := drivertest.Subject[fake.Fault]{
		Put: "PutObject", Get: "GetObject", Stat: "HeadObject", List: "ListObjectsV2", Warm: "HeadBucket",
		Operations: operations,
		Busy:       "SlowDown", Refused: "AccessDenied", NoBucket: "NoSuchBucket",
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
