package azurite

import (
	"context"
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// wrongKey is a key that the account does not have.
var wrongKey = base64.StdEncoding.EncodeToString([]byte("a key that the account does not have"))

// Segments in a real server keep every rule that the suite checks, W1 to W12.
func TestConformance(t *testing.T) {
	address := integration.Azurite.Address(t)
	name := newContainer(t, address)
	own := client(t, address, name)
	with := func(change func(*azure.Config)) azure.Config {
		c := config(address, name)
		change(&c)
		return c
	}
	// E10 wants a second page: a page of 5,000 takes Azurite minutes.
	small, sas := smallPages(t, address), signature(t, address, name)
	paged := func(tb testing.TB, c azure.Config) azure.Config {
		if strings.HasSuffix(tb.Name(), "/E10") {
			c.Endpoint, c.AccountKey, c.SAS = small+"/"+account, "", sas
		}
		return c
	}
	opened := func(tb testing.TB, c azure.Config) walstorage.WalStorageManager {
		manager, err := azure.New(tb.Context(), c)
		require.NoError(tb, err)
		return manager
	}
	closing := func(tb testing.TB, c azure.Config) walstorage.WalStorageManager {
		manager := opened(tb, c)
		tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
		return manager
	}
	conformance.Run(t, conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return opened(tb, paged(tb, with(func(c *azure.Config) { c.Store = place })))
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := azure.NewDriver(tb.Context(), paged(tb, with(func(*azure.Config) {})))
			require.NoError(tb, err)
			return driver
		},
		Peer: func(tb testing.TB) *exec.Cmd {
			cmd := conformance.Reexecute(tb, "TestNothing")
			cmd.Env = append(cmd.Env, addressVariable+"="+address, containerVariable+"="+name)
			return cmd
		},
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			return closing(tb, with(func(c *azure.Config) { c.Container = "walhop-none" })), nil
		},
		Denied: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			return closing(tb, with(func(c *azure.Config) { c.Store, c.AccountKey = place, wrongKey }))
		},
		Undeletable: func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			keyspace, err := walstorage.NewKeys(place.Prefix, place.Cluster)
			require.NoError(tb, err)
			return leased{closing(tb, with(func(c *azure.Config) { c.Store = place })), tb, own, keyspace.Key(id)}
		},
		Residue: func(tb testing.TB, prefix string) (names []string) {
			pages := own.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
				Prefix: &prefix, Include: container.ListBlobsInclude{UncommittedBlobs: true, Snapshots: true},
			})
			for pages.More() {
				page, err := pages.NextPage(tb.Context())
				require.NoError(tb, err)
				for _, item := range page.Segment.BlobItems {
					if !strings.HasSuffix(*item.Name, ".wal") || item.Snapshot != nil {
						names = append(names, *item.Name)
					}
				}
			}
			return names
		},
		Timeout:   3 * time.Minute,
		ListLarge: 101,
		Secrets:   []string{accountKey, wrongKey},
		Skip:      integration.Gaps(t, integration.Azurite, "Run"),
		Report:    caseresults.Record(t, string(integration.Azurite)),
		Invalid: map[string]func() error{
			"Container": func() error { return refusal(with(func(c *azure.Config) { c.Container = "a/b" })) },
			"Endpoint":  func() error { return refusal(with(func(c *azure.Config) { c.Endpoint += "?a=b" })) },
		},
	})
}

// leased is a store in which somebody holds a lease on one blob while a delete is tried.
type leased struct {
	walstorage.WalStorageManager
	tb  testing.TB
	own *container.Client
	key string
}

func (l leased) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	held, err := lease.NewBlobClient(l.own.NewBlobClient(l.key), nil)
	require.NoError(l.tb, err)
	_, err = held.AcquireLease(ctx, -1, nil)
	require.NoError(l.tb, err)
	deleteErr := l.WalStorageManager.DeleteSegments(ctx, ids...)
	_, err = held.ReleaseLease(ctx, nil)
	require.NoError(l.tb, err)
	return deleteErr
}

// refusal is what making a manager of a wrong configuration comes to.
func refusal(c azure.Config) error {
	manager, err := azure.New(context.Background(), c)
	if err != nil {
		return err
	}
	return manager.Close()
}
