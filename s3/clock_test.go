package s3_test

import (
	"io"
	"net/http"
	"sync"
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
)

// J22, aws/aws-sdk-go-v2#3187: a request is signed with the time of this machine, whatever date the answers before it
// had. What stands before a store answers too, a clock of its own may be off by more than the store allows, and a request
// that is signed with it would be refused.
func TestTimeOfTheSignature(t *testing.T) {
	const endpoint = "https://fake.invalid"
	for name, ready := range map[string]bool{"own client": false, "ready client": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var date string // of the answers
				var signed time.Time
				status := http.StatusOK
				answers := &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Body != nil {
						_, _ = io.Copy(io.Discard, r.Body)
					}
					var err error
					signed, err = time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
					require.NoError(t, err)
					return &http.Response{StatusCode: status, Header: http.Header{"Etag": {`"x"`}, "Date": {date}}, Body: http.NoBody, Request: r}, nil
				})}
				c := config(endpoint)
				c.HTTPClient = answers
				if ready {
					client := sdk.New(sdk.Options{Region: "eu-central-1", BaseEndpoint: aws.String(endpoint), Credentials: keys(), HTTPClient: answers})
					c = s3.Config{Bucket: bucket, Client: client}
				}
				driver := open(t, c)
				for _, skew := range []time.Duration{0, time.Hour, -time.Hour, 20 * time.Minute, 0} {
					for _, status = range []int{http.StatusOK, http.StatusServiceUnavailable} {
						date = time.Now().Add(skew).UTC().Format(http.TimeFormat)
						for op, call := range operations {
							_ = call(t.Context(), driver)
							require.WithinDuration(t, time.Now(), signed, time.Second, "%s after answers that were %v off", op, skew)
						}
					}
				}
			})
		})
	}
}

// J22: the end of a session is read by the clock of the store that tells it. A clock that is off by minutes, which the store
// allows, makes no more sessions, and uses none after its end.
func TestSessionsWithAClockThatIsOff(t *testing.T) {
	for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} { // of the store's clock
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _, c := inMemory(t, fake.Config{Buckets: []string{directoryBucket}, Skew: skew})
				c.Bucket = directoryBucket
				manager := manage(t, c)
				const minutes = 30
				for range minutes {
					var all sync.WaitGroup
					for range 4 {
						all.Go(func() {
							assert.NoError(t, manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
						})
					}
					all.Wait()
					time.Sleep(time.Minute)
				}
				assert.Equal(t, 4*minutes, server.Count("PutObject"), "none was refused")
				assert.LessOrEqual(t, server.Count("CreateSession"), minutes/3)
			})
		})
	}
}

// J22: a date to wait for is by the clock of the store.
func TestRetryAfterByTheClockOfTheStore(t *testing.T) {
	drivertest.RetryAfterOfAnotherClock(t, ours, config(""))
}
