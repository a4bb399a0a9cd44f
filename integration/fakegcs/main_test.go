package fakegcs

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What a peer process is told.
const (
	addressVariable = "WALHOP_PEER_URL"
	bucketVariable  = "WALHOP_PEER_BUCKET"
)

// Nothing of the machine's own configuration is used, and no test leaves a goroutine behind. Started as a peer, this process
// serves the suite of another one.
func TestMain(m *testing.M) {
	for _, variable := range []string{
		"STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT",
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
	} {
		_ = os.Unsetenv(variable)
	}
	conformance.PeerMain(func(place objectstore.Config) (walstorage.WalStorageManager, error) {
		c := config(os.Getenv(addressVariable), os.Getenv(bucketVariable))
		c.Store = place
		manager, err := gcs.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		return manager, nil
	})
	goleak.VerifyTestMain(m)
}
