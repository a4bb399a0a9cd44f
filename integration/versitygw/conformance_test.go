package versitygw

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Segments in a real server keep every rule that the suite checks, W1 to W12.
func TestConformance(t *testing.T) {
	url := integration.VersityGW.Address(t)
	bucket := newBucket(t, url)
	own := client(t, url)
	with := func(change func(*s3.Config)) s3.Config {
		c := config(url, bucket)
		change(&c)
		return c
	}
	opened := func(tb testing.TB, c s3.Config) walstorage.WalStorageManager {
		manager, err := s3.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c s3.Config) walstorage.WalStorageManager {
		manager := opened(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return opened(tb, with(func(c *s3.Config) { c.Store = place }))
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := s3.NewDriver(tb.Context(), with(func(*s3.Config) {}))
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestNothing")
			cmd.Env = append(cmd.Env, urlVariable+"="+url, bucketVariable+"="+bucket)
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			return closing(tb, with(func(c *s3.Config) { c.Bucket = "walhop-none" })), nil
		},
		Denied: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return closing(tb, with(func(c *s3.Config) { c.Store, c.Credentials = place, keys("stranger", "unknown-secret") }))
		},
		Undeletable: func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			keyspace, err := walstorage.NewKeys(place.Prefix, place.Cluster)
			require.NoError(tb, err)
			forbid(tb, own, bucket, keyspace.Key(id))
			return closing(tb, with(func(c *s3.Config) { c.Store, c.Credentials = place, keys(limitedKey, limitedSecret) }))
		},
		Residue: func(tb testing.TB, prefix string) (names []string) {
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
		},
		Timeout:   3 * time.Minute,
		ListLarge: 1001,
		Skip:      integration.Gaps(t, integration.VersityGW, "Run"),
		Report:    caseresults.Record(t, string(integration.VersityGW)),
		Invalid: map[string]func() error{
			"Bucket":   func() error { return refusal(with(func(c *s3.Config) { c.Bucket = "a/b" })) },
			"Endpoint": func() error { return refusal(with(func(c *s3.Config) { c.Endpoint += "/?a=b" })) },
		},
		Secrets: []string{accessKey, secretKey, "unknown-secret", limitedSecret},
	})
}

// refusal is what making a manager of a wrong configuration comes to.
func refusal(c s3.Config) error {
	manager, err := s3.New(context.Background(), c)
	if err != nil {
		return err
	}
	return manager.Close()
}
