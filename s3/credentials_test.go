package s3_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// provider gives another key each time that it is asked.
type provider struct{ asked atomic.Int64 }

func (p *provider) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: fmt.Sprintf("KEY%d", p.asked.Add(1)), SecretAccessKey: secretKey, SessionToken: sessionToken}, nil
}

// refusing calls the keys that expired tells expired.
func refusing(code string, expired func(key string) bool) func(fake.Request) fake.Fault {
	return func(r fake.Request) fake.Fault {
		if expired(r.AccessKey()) {
			return fake.Fault{Status: 400, Code: code, Message: "The provided token has expired."}
		}
		return fake.Fault{}
	}
}

// cockroachdb/cockroach#169763, J21: credentials that have expired are refreshed once.
func TestExpiredCredentials(t *testing.T) {
	for _, code := range []string{"ExpiredToken", "RequestExpired"} {
		for op, call := range map[string]func(m *objectstore.Manager, id walstorage.SegmentID) error{
			"upload": func(m *objectstore.Manager, id walstorage.SegmentID) error {
				return m.UploadSegment(context.Background(), id, []byte("data"))
			},
			// The answer to a HEAD has no code.
			"stat": func(m *objectstore.Manager, id walstorage.SegmentID) error {
				_, err := m.StatSegment(context.Background(), id)
				return err
			},
		} {
			t.Run(code+" "+op, func(t *testing.T) {
				server, url := serve(t, fake.Config{})
				keys := &provider{}
				c := config(url)
				c.Credentials = keys
				manager, id := manage(t, c), drivertest.Segment(t)
				if op == "stat" {
					server.Store(bucket, drivertest.Key(t, id), []byte("data"))
				}
				server.Fault(refusing(code, func(key string) bool { return key == "KEY1" }))

				require.NoError(t, call(manager, id))

				assert.Equal(t, int64(2), keys.asked.Load())
				require.NoError(t, call(manager, id))
				assert.Equal(t, int64(2), keys.asked.Load(), "what works is kept")

				// And again an hour later, in the same process.
				server.Fault(refusing(code, func(key string) bool { return key == "KEY2" }))
				require.NoError(t, call(manager, id))
				assert.Equal(t, int64(3), keys.asked.Load())
			})
		}
	}
}

// cockroachdb/cockroach#169763: a second refusal is one of permission, after a bounded number of requests, each signed
// anew.
func TestCredentialsThatAreAlwaysExpired(t *testing.T) {
	server, url := serve(t, fake.Config{})
	keys := &provider{}
	c := config(url)
	c.Credentials = keys
	manager := manage(t, c)
	server.Fault(refusing("ExpiredToken", func(string) bool { return true }))

	err := manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))

	assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "%v", err)
	var signed []string
	for _, r := range server.Requests() {
		signed = append(signed, r.AccessKey())
	}
	assert.Equal(t, []string{"KEY1", "KEY2"}, signed)

	server.Fault(nil)
	require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")), "it comes back by itself")
}

// Uploads that meet the expiry all at once all succeed, with one refresh.
func TestExpiryOfManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		keys := &provider{}
		c.Credentials = keys
		manager := manage(t, c)
		gate := make(chan struct{})
		server.Fault(func(r fake.Request) fake.Fault {
			if r.AccessKey() == "KEY1" {
				return fake.Fault{Wait: gate, Status: 400, Code: "ExpiredToken"}
			}
			return fake.Fault{}
		})
		var all sync.WaitGroup
		errs := make([]error, 50)
		for i := range errs {
			all.Go(func() { errs[i] = manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte{byte(i)}) })
		}
		synctest.Wait() // all are on their way with the first key
		close(gate)
		all.Wait()
		assert.NoError(t, errors.Join(errs...))
		assert.Equal(t, int64(2), keys.asked.Load())
	})
}

// J22: a clock that is off by more than the store allows is named as the reason of the refusal, at once. When the clocks
// agree again the first request succeeds: no correction sticks (aws/aws-sdk-go-v2#3187).
func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		server, url := serve(t, fake.Config{Skew: skew})
		manager := manage(t, config(url))
		for n := range 3 {
			err := manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))
			assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "%v", err)
			assert.ErrorContains(t, err, "RequestTimeTooSkewed")
			assert.Equal(t, n+1, server.Count("PutObject"))
		}
		server.SetSkew(0)
		require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		assert.Equal(t, 4, server.Count("PutObject"))
	}
}

// failing is a provider that has nothing to give.
type failing struct{}

func (failing) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, errors.New("the identity service says no, aws_secret_access_key=" + secretKey)
}

// J21: without credentials there is no request, and the error is one of permission, with no secret in it (W11).
func TestNoCredentials(t *testing.T) {
	server, url := serve(t, fake.Config{})
	c := config(url)
	c.Credentials = failing{}
	err := manage(t, c).UploadSegment(t.Context(), drivertest.Segment(t), []byte("data"))
	assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "%v", err)
	assert.NotContains(t, err.Error(), secretKey)
	assert.Empty(t, server.Requests())
}

// Anonymous requests are not signed, and an expiry ends them at once.
func TestAnonymous(t *testing.T) {
	server, url := serve(t, fake.Config{})
	c := config(url)
	c.Credentials = aws.AnonymousCredentials{}
	driver := open(t, c)
	require.NoError(t, operations["PutObject"](t.Context(), driver))
	assert.Empty(t, server.Requests()[0].Header.Get("Authorization"))
	server.Fault(refusing("ExpiredToken", func(string) bool { return true }))
	assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(operations["GetObject"](t.Context(), driver)))
}

// I8 (W11): whatever a store or the network says, no secret is in the text of an error.
func TestNoSecretInAnError(t *testing.T) {
	server, url := serve(t, fake.Config{})
	manager := manage(t, config(url))
	for _, status := range []int{400, 403, 404, 409, 500} {
		server.Fault(func(r fake.Request) fake.Fault {
			return fake.Fault{
				Status: status, Code: "Odd",
				Message: "I got " + url + "/k?X-Amz-Signature=" + secretKey + " Authorization: " + r.Header.Get("Authorization") +
					", AWSAccessKeyId=" + accessKey + ", X-Amz-Security-Token: " + r.Header.Get("X-Amz-Security-Token"),
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		if status == 500 {
			cancel()
		}
		err := manager.UploadSegment(ctx, drivertest.Segment(t), []byte("data"))
		cancel()
		require.Error(t, err)
		drivertest.Quiet(t, "", err, []string{accessKey, secretKey, sessionToken, "Signature="})
	}
}

// A ready client is used with its endpoint and its keys, and without its retries; it stays as it was.
func TestReadyClient(t *testing.T) {
	server, url := serve(t, fake.Config{})
	server.Always("PutObject", fake.Fault{Status: 503, Code: "SlowDown"})
	keys := &provider{}
	ready := sdk.New(sdk.Options{Region: "eu-central-1", BaseEndpoint: &url, UsePathStyle: true, Credentials: keys})
	driver := open(t, s3.Config{Bucket: bucket, Client: ready})

	err := operations["PutObject"](t.Context(), driver)

	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
	requests := server.Requests()
	require.Len(t, requests, 1, "one attempt")
	assert.Equal(t, "KEY1", requests[0].AccessKey())
	assert.Contains(t, requests[0].Header.Get("Authorization"), "/eu-central-1/s3/")
	assert.NotEmpty(t, requests[0].Header.Get("X-Amz-Checksum-Crc32c"))
	assert.Greater(t, ready.Options().Retryer.MaxAttempts(), 1)
}
