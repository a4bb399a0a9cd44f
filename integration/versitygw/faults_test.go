package versitygw

import (
	"testing"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/s3"
)

// What networks do to requests does not harm segments in a real server: a proxy before it loses, cuts and damages.
func TestFaults(t *testing.T) {
	url := integration.VersityGW.Address(t)
	bucket := newBucket(t, url)
	cfg := ours.Faults(protocols.S3(), func(url string) s3.Config { return config(url, bucket) })
	cfg.URL = url
	cfg.ListLarge = 1001
	cfg.Secrets = []string{accessKey, secretKey}
	integration.RunFaults(t, integration.VersityGW, cfg)
}
