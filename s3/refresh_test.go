package s3_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/walstorage"
)

// J21, cockroachdb/cockroach#169763: new credentials have worked when the store has answered with them, whatever it has
// answered: an object that is missing, or one that is there already, is told to nobody who is not let in. When they expire
// in their turn, they too are refreshed.
func TestRefreshedCredentialsWorkWithoutASuccess(t *testing.T) {
	for name, test := range map[string]struct {
		op    string
		fault fake.Fault
		kind  error
	}{
		"a missing object":            {"GetObject", fake.Fault{Status: 404, Code: "NoSuchKey"}, walstorage.ErrSegmentNotFound},
		"a range beyond the end":      {"GetObject", fake.Fault{Status: 416, Code: "InvalidRange"}, walstorage.ErrInvalidRange},
		"an object that is there":     {"PutObject", fake.Fault{Status: 412, Code: "PreconditionFailed"}, walstorage.ErrSegmentExists},
		"... told by its status only": {"PutObject", fake.Fault{Status: 412}, walstorage.ErrSegmentExists},
	} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			keys := &provider{}
			c := config(url)
			c.Credentials = keys
			driver := open(t, c)
			call := func() error { return operations[test.op](t.Context(), driver) }
			for n := range 3 {
				expired := []string{"KEY1", "KEY2", "KEY3"}[n]
				server.Fault(refusing("ExpiredToken", func(key string) bool { return key == expired }))
				err := call()
				require.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "worth another attempt: %v", err)
				server.Always(test.op, test.fault)
				require.Equal(t, test.kind, walstorage.KindOf(call()))
			}
			assert.Equal(t, int64(4), keys.asked.Load())
		})
	}
}

// A session that the store does not know, or not any more, is made anew, once (aws/aws-sdk-java-v2#5638): a second refusal
// is one of permission, and when the store knows sessions again the next upload succeeds.
func TestSessionThatTheStoreDoesNotKnow(t *testing.T) {
	for name, refusal := range map[string]fake.Fault{
		"ExpiredToken": {Status: 400, Code: "ExpiredToken"},
		"InvalidToken": {Status: 400, Code: "InvalidToken"},
		"401":          {Status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, c := express(t)
				manager := manage(t, c)
				refuse := func(refused func(session string) bool) {
					server.Fault(func(r fake.Request) fake.Fault {
						if r.Op != "CreateSession" && refused(r.Header.Get("X-Amz-S3session-Token")) {
							return refusal
						}
						return fake.Fault{}
					})
				}
				upload := func() error { return manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")) }
				require.NoError(t, upload())

				refuse(func(session string) bool { return session == "session-1" })
				require.NoError(t, upload())
				assert.Equal(t, 2, server.Count("CreateSession"))

				refuse(func(string) bool { return true })
				before := server.Count("PutObject")
				err := upload()
				assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, before+2, server.Count("PutObject"))

				server.Fault(nil)
				require.NoError(t, upload())
			})
		})
	}
}

// Uploads that meet the end of their session all at once all succeed, in one session that takes its place; and those whose
// callers go away while it is made leave it to the others.
func TestEndOfASessionOfManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := express(t)
		manager := manage(t, c)
		gate := make(chan struct{})
		server.Fault(func(r fake.Request) fake.Fault {
			switch {
			case r.Header.Get("X-Amz-S3session-Token") == "session-1":
				return fake.Fault{Wait: gate, Status: 400, Code: "ExpiredToken"}
			case r.Op == "CreateSession" && r.Number > 1:
				return fake.Fault{Delay: 10 * time.Millisecond}
			}
			return fake.Fault{}
		})
		var all sync.WaitGroup
		errs := make([]error, 50)
		for i := range errs {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			all.Go(func() { errs[i] = manager.UploadSegment(ctx, drivertest.Segment(t), []byte{byte(i)}) })
			if i%2 == 0 {
				time.AfterFunc(5*time.Millisecond+time.Duration(i)*100*time.Microsecond, cancel) // while the session is made
			}
		}
		synctest.Wait() // all are on their way in the first session
		close(gate)
		all.Wait()
		for i, err := range errs {
			if i%2 == 0 && errors.Is(err, context.Canceled) {
				continue
			}
			assert.NoError(t, err)
		}
		assert.LessOrEqual(t, server.Count("CreateSession"), 4)
	})
}
