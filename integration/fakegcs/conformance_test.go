package fakegcs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Segments in a real server keep every rule that the suite checks, W1 to W12.
func TestConformance(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	bucket := newBucket(t, address)
	with := func(change func(*gcs.Config)) gcs.Config {
		c := config(address, bucket)
		change(&c)
		return c
	}
	// E10 wants a second page: the server's own pages have no limit.
	small := smallPages(t, address)
	paged := func(tb testing.TB, c gcs.Config) gcs.Config {
		if strings.HasSuffix(tb.Name(), "/E10") {
			c.Endpoint = small
		}
		return c
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			manager, err := gcs.New(tb.Context(), paged(tb, with(func(c *gcs.Config) { c.Store = place })))
			require.NoError(tb, err)
			return manager
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := gcs.NewDriver(tb.Context(), paged(tb, with(func(*gcs.Config) {})))
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestNothing")
			cmd.Env = append(cmd.Env, addressVariable+"="+address, bucketVariable+"="+bucket)
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			manager, err := gcs.New(tb.Context(), with(func(c *gcs.Config) { c.Bucket = "walhop-none" }))
			require.NoError(tb, err)
			tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
			return manager, nil
		},
		Residue: func(tb testing.TB, prefix string) (names []string) {
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
		},
		Timeout:   3 * time.Minute,
		ListLarge: 101,
		Secrets:   []string{token},
		Skip:      integration.Gaps(t, integration.FakeGCS, "Run"),
		Report:    caseresults.Record(t, string(integration.FakeGCS)),
		Invalid: map[string]func() error{
			"Bucket":   func() error { return refusal(with(func(c *gcs.Config) { c.Bucket = "a/b" })) },
			"Endpoint": func() error { return refusal(with(func(c *gcs.Config) { c.Endpoint += "/?a=b" })) },
		},
	})
}

// refusal is what making a manager of a wrong configuration comes to.
func refusal(c gcs.Config) error {
	manager, err := gcs.New(context.Background(), c)
	if err != nil {
		return err
	}
	return manager.Close()
}
