package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
)

// directoryBucket is a name that the SDK knows for one of S3 Express One Zone.
const directoryBucket = "segments--euc1-az1--x-s3"

func express(t *testing.T) (*fake.Server, s3.Config) {
	server, _, c := inMemory(t, fake.Config{Buckets: []string{directoryBucket}, PageSize: 3, AccessKeys: []string{accessKey}})
	c.Bucket = directoryBucket
	return server, c
}

// A directory bucket: Warm makes the session, every request is in it, and uploads, reads, deletes and lists, which come
// in no order (lance-format/lance#3771, eclipse-store/store#224, benbjohnson/litestream#1529, W10), do what they do
// elsewhere.
func TestDirectoryBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := express(t)
		driver := open(t, c)
		require.NoError(t, driver.Warm(t.Context()))
		assert.Equal(t, 1, server.Count("CreateSession"))

		manager := manage(t, c)
		want := map[walstorage.SegmentID]bool{}
		for i := range 10 {
			id := drivertest.Segment(t)
			want[id] = true
			require.NoError(t, manager.UploadSegment(t.Context(), id, fmt.Append(nil, "segment ", i)))
			require.NoError(t, manager.UploadSegment(t.Context(), id, fmt.Append(nil, "segment ", i)), "the same bytes again")
			assert.ErrorIs(t, manager.UploadSegment(t.Context(), id, []byte("other")), walstorage.ErrSegmentExists)
			dst := make([]byte, 7)
			require.NoError(t, manager.FetchSegment(t.Context(), id, 0, dst))
			assert.Equal(t, "segment", string(dst))
		}
		got := map[walstorage.SegmentID]bool{}
		var order []string
		for info, err := range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
			require.NoError(t, err)
			got[info.ID] = true
			order = append(order, drivertest.Key(t, info.ID))
		}
		assert.Equal(t, want, got)
		assert.NotEqual(t, server.Keys(directoryBucket), order, "the fake does sort: the test proves nothing")
		for id := range want {
			require.NoError(t, manager.DeleteSegments(t.Context(), id))
		}
		assert.Empty(t, server.Keys(directoryBucket))

		for _, r := range server.Requests() {
			if r.Op == "CreateSession" {
				continue
			}
			assert.NotEmpty(t, r.Header.Get("X-Amz-S3session-Token"), r.Op)
			assert.True(t, strings.HasPrefix(r.AccessKey(), "key-of-"), r.Op)
			assert.Empty(t, r.Header.Get("Content-Md5"), r.Op)
		}
		assert.Equal(t, 2, server.Count("CreateSession"), "one for each client")
	})
}

// New, Warm, upload: the manager's Warm makes the session and the connections, and the first upload makes neither.
func TestWarmBeforeTheFirstUpload(t *testing.T) {
	for name, directory := range map[string]bool{"general purpose": false, "directory bucket": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, network, c := inMemory(t, fake.Config{Buckets: []string{directoryBucket}})
				sessions := 0
				if directory {
					c.Bucket, sessions = directoryBucket, 1
				}
				server.Always("HeadBucket", fake.Fault{Delay: time.Millisecond}) // so that they are under way at once
				manager := manage(t, c)

				require.NoError(t, manager.Warm(t.Context()))

				require.Equal(t, sessions, server.Count("CreateSession"))
				warm := network.Dialled()
				require.Equal(t, 8, warm)
				require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
				assert.Equal(t, sessions, server.Count("CreateSession"))
				assert.Equal(t, warm, network.Dialled())

				server.Always("HeadBucket", fake.Fault{Status: 403})
				assert.ErrorIs(t, manager.Warm(t.Context()), walstorage.ErrAccessDenied)
			})
		})
	}
}

// A session lasts five minutes, and is made anew before it ends; an hour of uploads sees no refusal
// (aws/aws-sdk-java-v2#5638).
func TestSessionIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := express(t)
		manager := manage(t, c)
		for range 60 {
			require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 60, server.Count("PutObject"))
		assert.GreaterOrEqual(t, server.Count("CreateSession"), 12)
		synctest.Wait() // the SDK renews in the background
	})
}

// A session that the store ends early is made anew: the refusal is passed on as one that is worth a retry.
func TestSessionEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := express(t)
		manager := manage(t, c)
		require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		server.Fault(func(r fake.Request) fake.Fault {
			if r.Header.Get("X-Amz-S3session-Token") == "session-1" {
				return fake.Fault{Status: 400, Code: "ExpiredToken"}
			}
			return fake.Fault{}
		})
		require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		assert.Equal(t, 2, server.Count("CreateSession"))
	})
}

// Without an endpoint of its own a directory bucket is asked for at that of its zone, which its name tells, with the bucket
// in the host name.
func TestZonalEndpoint(t *testing.T) {
	for _, name := range []string{directoryBucket, "point--euc1-az1--xa-s3"} {
		hosts := map[string]string{}
		c := s3.Config{
			Bucket: name, Region: "eu-central-1", Credentials: keys(),
			HTTPClient: &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				answer := &http.Response{StatusCode: 200, Header: http.Header{"Etag": {`"x"`}}, Body: http.NoBody, Request: r}
				if r.URL.Query().Has("session") {
					hosts["CreateSession"] = r.URL.Host
					answer.Body = io.NopCloser(strings.NewReader("<CreateSessionResult><Credentials><SessionToken>t</SessionToken>" +
						"<SecretAccessKey>s</SecretAccessKey><AccessKeyId>a</AccessKeyId><Expiration>2100-01-01T00:00:00Z</Expiration>" +
						"</Credentials></CreateSessionResult>"))
				} else {
					hosts[r.Method] = r.URL.Host
				}
				return answer, nil
			})},
		}
		require.NoError(t, operations["PutObject"](t.Context(), open(t, c)))
		zonal := name + ".s3express-euc1-az1.eu-central-1.amazonaws.com"
		assert.Equal(t, map[string]string{"CreateSession": zonal, "PUT": zonal}, hosts)
	}
}

// SSE-KMS in a directory bucket: the session has the key that its uploads have.
func TestKMSInASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := express(t)
		c.KMSKeyID = "arn:aws:kms:eu-central-1:111122223333:key/1234"
		require.NoError(t, operations["PutObject"](t.Context(), open(t, c)))
		requests := server.Requests()
		require.Len(t, requests, 2)
		for _, r := range requests {
			assert.Equal(t, "aws:kms", r.Header.Get("X-Amz-Server-Side-Encryption"), r.Op)
			assert.Equal(t, c.KMSKeyID, r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"), r.Op)
		}
	})
}

// cockroachdb/cockroach#169763: credentials that have expired when a session is to be made are refreshed once, too.
func TestExpiryWhenASessionIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{Buckets: []string{directoryBucket}})
		keys := &provider{}
		c.Bucket, c.Credentials = directoryBucket, keys
		manager := manage(t, c)
		server.Fault(refusing("ExpiredToken", func(key string) bool { return key == "KEY1" }))
		require.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
		assert.Equal(t, int64(2), keys.asked.Load())
		assert.Equal(t, 2, server.Count("CreateSession"))
	})
}

// What keeps a session from being made is what the upload reports, or is tried again; each attempt asks once.
func TestSessionThatCannotBeMade(t *testing.T) {
	tests := map[string]struct {
		fault fake.Fault
		kind  error
	}{
		"refused":           {fake.Fault{Status: 403, Code: "AccessDenied"}, walstorage.ErrAccessDenied},
		"no bucket":         {fake.Fault{Status: 404, Code: "NoSuchBucket"}, walstorage.ErrBucketNotFound},
		"throttled":         {fake.Fault{Status: 503, Code: "SlowDown"}, walstorage.ErrUnavailable},
		"dropped":           {fake.Fault{Drop: true}, walstorage.ErrUnavailable},
		"an error document": {fake.Fault{Document: "<Error><Code>InternalError</Code></Error>"}, walstorage.ErrUnavailable},
		"never answered":    {fake.Fault{Wait: make(chan struct{})}, walstorage.ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.fault.Wait != nil {
					test.fault.Wait = make(chan struct{}) // of this bubble
				}
				server, c := express(t)
				driver := open(t, c)
				server.Always("CreateSession", test.fault)

				err := operations["PutObject"](t.Context(), driver)

				assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, 1, server.Count("CreateSession"))
				assert.Zero(t, server.Count("PutObject"))
				server.Fault(nil)
				assert.NoError(t, operations["PutObject"](t.Context(), driver), "it comes back by itself")
			})
		})
	}
}
