package azurite

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What .ci/integration starts the server with.
const (
	account    = "integration"
	accountKey = "aW50ZWdyYXRpb24ta2V5LW9mLW5vIHNlY3JlY3k="
)

// ours is the package that is tested.
var ours = drivertest.Driver[azure.Config, *azure.Driver]{New: azure.New, NewDriver: azure.NewDriver}

// config is a configuration for a container of the server at that address.
func config(address, name string) azure.Config {
	return azure.Config{
		Account: account, Container: name, Endpoint: address + "/" + account, AccountKey: accountKey,
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

// withSAS is config with a shared access signature.
func withSAS(address, name, sas string) azure.Config {
	return drivertest.With(config(address, name), func(c *azure.Config) { c.AccountKey, c.SAS = "", sas })
}

func sharedKey(tb testing.TB) *azblob.SharedKeyCredential {
	key, err := azblob.NewSharedKeyCredential(account, accountKey)
	require.NoError(tb, err)
	return key
}

// client is a client of the SDK's, for what a driver does not do. No connection is kept: its goroutines would count as
// those of the case that opened it.
func client(tb testing.TB, address, name string) *container.Client {
	c, err := container.NewClientWithSharedKeyCredential(address+"/"+account+"/"+name, sharedKey(tb), &container.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
			Retry:     policy.RetryOptions{MaxRetries: -1},
		},
	})
	require.NoError(tb, err)
	return c
}

// newContainer makes a container for one test. It goes with the server, which ends with the tests: an upload that was
// cancelled may land at any time (W1).
func newContainer(tb testing.TB, address string) string {
	name := "walhop-" + strings.ToLower(rand.Text())
	_, err := client(tb, address, name).Create(tb.Context(), nil)
	require.NoError(tb, err)
	return name
}

// signature is a shared access signature of the container, for an hour, with the permissions that a broker needs. Without
// that to write, a create that meets an existing blob is refused as an overwrite, whatever its condition says.
func signature(tb testing.TB, address, name string) string {
	permissions := sas.ContainerPermissions{Read: true, Create: true, Write: true, Delete: true, List: true}
	signed, err := client(tb, address, name).GetSASURL(permissions, time.Now().Add(time.Hour), nil)
	require.NoError(tb, err)
	_, query, _ := strings.Cut(signed, "?")
	return query
}

// smallPages is the address of a proxy before the server, through which no page of a list has more than 100 blobs.
func smallPages(tb testing.TB, address string) string {
	return integration.SmallPages(tb, address, protocols.Azure().Operation, "maxresults", "100")
}
