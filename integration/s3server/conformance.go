package s3server

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Conformance runs conformance.Run: segments in a real server keep every rule that the suite checks, W1 to W12.
func (s Server) Conformance(t *testing.T) {
	url := s.Address(t)
	bucket := newBucket(t, url)
	own := client(t, url)
	by := func(place objectstore.Config, accessKey, secretKey string) s3.Config {
		return drivertest.With(s.patient(url, bucket), func(c *s3.Config) { c.Store, c.Credentials = place, keys(accessKey, secretKey) })
	}
	suite := ours.Suite(func(testing.TB) s3.Config { return s.patient(url, bucket) })
	suite.Peer = drivertest.Peer("TestNothing", url, bucket)
	suite.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return ours.Manage(tb, s.config(url, "walhop-none")), nil
	}
	suite.Denied = func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
		return ours.Manage(tb, by(place, "stranger", "unknown-secret"))
	}
	suite.Undeletable = func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
		s.forbid(tb, own, bucket, drivertest.KeyIn(tb, place, id))
		return ours.Manage(tb, by(place, limitedKey, limitedSecret))
	}
	suite.Residue = func(tb testing.TB, prefix string) (names []string) {
		pages := sdk.NewListObjectsV2Paginator(own, &sdk.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
		for pages.HasMorePages() {
			page, err := pages.NextPage(tb.Context())
			require.NoError(tb, err)
			for _, object := range page.Contents {
				if !strings.HasSuffix(*object.Key, ".wal") {
					names = append(names, *object.Key)
				}
			}
		}
		uploads, err := own.ListMultipartUploads(tb.Context(), &sdk.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &prefix})
		require.NoError(tb, err)
		for _, upload := range uploads.Uploads {
			names = append(names, *upload.Key+" (unfinished upload)")
		}
		return names
	}
	suite.ListLarge = 2001 // three pages
	suite.Secrets = []string{accessKey, secretKey, "unknown-secret", limitedSecret}
	suite.Invalid = map[string]func() error{
		"Bucket":   func() error { return ours.Try(t, s.config(url, "a/b")) },
		"Endpoint": func() error { return ours.Try(t, s.config(url+"/?a=b", bucket)) },
	}
	integration.Run(t, s.Server, suite)
}
