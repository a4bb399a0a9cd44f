package s3server

import (
	"testing"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/s3"
)

// Faults runs conformance.RunFaults: what networks do to requests does not harm segments in a real server. A proxy before
// it loses, cuts and damages.
func (s Server) Faults(t *testing.T) {
	url := s.Address(t)
	bucket := newBucket(t, url)
	cfg := ours.Faults(protocols.S3(), func(url string) s3.Config { return s.config(url, bucket) })
	cfg.URL = url
	cfg.ListLarge = 1001
	cfg.Secrets = []string{accessKey, secretKey}
	integration.RunFaults(t, s.Server, cfg)
}
