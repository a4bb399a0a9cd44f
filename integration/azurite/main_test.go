package azurite

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What a peer process is told.
const (
	addressVariable   = "WALHOP_PEER_URL"
	containerVariable = "WALHOP_PEER_CONTAINER"
)

// Nothing of the machine's own configuration is used, and no test leaves a goroutine behind. Started as a peer, this process
// serves the suite of another one.
func TestMain(m *testing.M) {
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(name, "AZURE_") || strings.HasSuffix(strings.ToLower(name), "_proxy") {
			_ = os.Unsetenv(name)
		}
	}
	conformance.PeerMain(func(place objectstore.Config) (walstorage.WalStorageManager, error) {
		c := config(os.Getenv(addressVariable), os.Getenv(containerVariable))
		c.Store = place
		manager, err := azure.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		return manager, nil
	})
	goleak.VerifyTestMain(m)
}
