package s3_test

import (
	"testing"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/walstorage"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	cfg := faultsConfig()
	cfg.Report = caseresults.Record(t, "s3")
	conformance.RunFaults(t, cfg)
}

func faultsConfig() conformance.FaultsConfig {
	cfg := ours.Faults(protocols.S3(), config)
	cfg = drivertest.InBubbles(cfg, func() *fake.Server { return newFake(fake.Config{PageSize: 100}) })
	cfg.Headers = map[walstorage.Op][]string{
		walstorage.OpUpload: append(allowed, "Content-Type", "If-None-Match", "X-Amz-Checksum-Crc32c"),
		walstorage.OpFetch:  append(allowed, "Range"),
		walstorage.OpStat:   append(allowed, "X-Amz-Checksum-Mode"),
		walstorage.OpDelete: append(allowed, "Content-Type", "X-Amz-Checksum-Crc32c", "X-Amz-Sdk-Checksum-Algorithm"),
		walstorage.OpList:   allowed,
	}
	cfg.Required = map[walstorage.Op]map[string]string{
		walstorage.OpUpload: {"If-None-Match": "*", "X-Amz-Checksum-Crc32c": "", "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"},
	}
	cfg.ListLarge = 101
	cfg.Secrets = []string{accessKey, secretKey, sessionToken}
	return cfg
}
