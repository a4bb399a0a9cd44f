package azurite

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
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
	small, sas := smallPages(t, address), signature(t, address, name)
	suite := ours.Suite(func(tb testing.TB) azure.Config {
		if integration.LongLists(tb) { // a page of 5,000 takes Azurite minutes
			return withSAS(small, name, sas)
		}
		return config(address, name)
	})
	suite.Peer = drivertest.Peer("TestNothing", address, name)
	suite.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return ours.Manage(tb, config(address, "walhop-none")), nil
	}
	suite.Denied = func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
		return ours.Manage(tb, drivertest.With(config(address, name), func(c *azure.Config) { c.Store, c.AccountKey = place, wrongKey }))
	}
	suite.Undeletable = func(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
		manager := ours.Manage(tb, drivertest.With(config(address, name), func(c *azure.Config) { c.Store = place }))
		return leased{manager, tb, own, drivertest.KeyIn(tb, place, id)}
	}
	suite.Residue = func(tb testing.TB, prefix string) (names []string) {
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
	}
	suite.ListLarge = 201 // three small pages
	suite.Secrets = []string{accountKey, wrongKey}
	suite.Invalid = map[string]func() error{
		"Container": func() error { return ours.Try(t, config(address, "a/b")) },
		"Endpoint": func() error {
			return ours.Try(t, drivertest.With(config(address, name), func(c *azure.Config) { c.Endpoint += "?a=b" }))
		},
	}
	integration.Run(t, integration.Azurite, suite)
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
