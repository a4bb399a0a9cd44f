package s3_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
)

// J17, J21: behind an access point of many regions any bucket may answer, whose region is as a rule another than the
// driver's. That is no wrong region: credentials that have expired are renewed there as elsewhere. An access point that
// names its region is judged like a bucket.
func TestAccessPointOfManyRegions(t *testing.T) {
	for name, test := range map[string]struct {
		bucket string
		kind   error
	}{
		"many regions": {"arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap", walstorage.ErrUnavailable},
		"one region":   {accessPoint, nil},
	} {
		t.Run(name, func(t *testing.T) {
			asked := &provider{}
			driver := open(t, s3.Config{
				Bucket: test.bucket, Region: "eu-central-1", Credentials: asked,
				HTTPClient: &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
					return &http.Response{
						StatusCode: 400, Header: http.Header{"X-Amz-Bucket-Region": {"af-south-1"}}, Body: http.NoBody, Request: r,
					}, nil
				})},
			})
			err := operations["HeadObject"](t.Context(), driver)
			require.Error(t, err)
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)

			err = operations["HeadObject"](t.Context(), driver)
			if test.kind == nil {
				assert.NoError(t, walstorage.KindOf(err))
				assert.Equal(t, int64(1), asked.asked.Load())
				return
			}
			assert.Equal(t, walstorage.ErrAccessDenied, walstorage.KindOf(err), "new ones were asked for once: %v", err)
			assert.Equal(t, int64(2), asked.asked.Load())
		})
	}
}
