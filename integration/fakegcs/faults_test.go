package fakegcs

import (
	"testing"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/protocols"
)

// What networks do to requests does not harm segments in a real server: a proxy before it loses, cuts and damages.
func TestFaults(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	bucket := newBucket(t, address)
	cfg := ours.Faults(protocols.GCS(), func(url string) gcs.Config { return config(url, bucket) })
	cfg.URL = smallPages(t, address)
	cfg.ListLarge = 150 // a second page that is worth cutting
	cfg.Secrets = []string{token}
	integration.RunFaults(t, integration.FakeGCS, cfg)
}
