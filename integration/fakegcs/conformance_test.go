package fakegcs

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage"
)

// Segments in a real server keep every rule that the suite checks, W1 to W12.
func TestConformance(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	bucket := newBucket(t, address)
	small := smallPages(t, address)
	suite := ours.Suite(func(tb testing.TB) gcs.Config {
		if integration.LongLists(tb) { // the server's own pages have no limit
			return config(small, bucket)
		}
		return config(address, bucket)
	})
	suite.Peer = drivertest.Peer("TestNothing", address, bucket)
	suite.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return ours.Manage(tb, config(address, "walhop-none")), nil
	}
	suite.Residue = func(tb testing.TB, prefix string) (names []string) {
		var page struct {
			Items         []struct{ Name string }
			NextPageToken string
		}
		for {
			query := url.Values{"prefix": {prefix}, "pageToken": {page.NextPageToken}}
			page.Items, page.NextPageToken = nil, ""
			text := call(tb, http.MethodGet, address+"/storage/v1/b/"+bucket+"/o?"+query.Encode(), nil)
			require.NoError(tb, json.Unmarshal(text, &page))
			for _, item := range page.Items {
				if !strings.HasSuffix(item.Name, ".wal") {
					names = append(names, item.Name)
				}
			}
			if page.NextPageToken == "" {
				return names
			}
		}
	}
	suite.ListLarge = 201 // three small pages
	suite.Secrets = []string{token}
	suite.Invalid = map[string]func() error{
		"Bucket":   func() error { return ours.Try(t, config(address, "a/b")) },
		"Endpoint": func() error { return ours.Try(t, config(address+"/?a=b", bucket)) },
	}
	integration.Run(t, integration.FakeGCS, suite)
}
