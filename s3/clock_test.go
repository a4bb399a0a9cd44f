package s3_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
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
