package azure_test

import (
	"slices"
	"testing"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/walstorage"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	cfg := faultsConfig()
	cfg.Report = caseresults.Record(t, "azure")
	conformance.RunFaults(t, cfg)
}

func faultsConfig() conformance.FaultsConfig {
	cfg := ours.Faults(protocols.Azure(), withSAS) // a shared key's signature covers the range, which the suite changes on its way
	cfg = drivertest.InBubbles(cfg, func() *fake.Server { return newFake(fake.Config{PageSize: 100}) })
	cfg.Headers = map[walstorage.Op][]string{
		walstorage.OpUpload: slices.Concat(allowed, []string{"If-None-Match", "X-Ms-Blob-Type", "X-Ms-Content-Crc64", "X-Ms-Meta-Walhopcrc32c"}),
		walstorage.OpFetch:  slices.Concat(allowed, []string{"X-Ms-Range"}),
		walstorage.OpStat:   allowed,
		walstorage.OpDelete: allowed,
		walstorage.OpList:   allowed,
	}
	cfg.Required = map[walstorage.Op]map[string]string{
		walstorage.OpUpload: {"If-None-Match": "*", "X-Ms-Blob-Type": "BlockBlob", "X-Ms-Content-Crc64": "", "X-Ms-Meta-Walhopcrc32c": ""},
	}
	cfg.ListLarge = 101
	cfg.Secrets = secrets()
	cfg.Skip = map[string]string{
		"E14": "List Blobs says that there is more by the marker alone; without the marker it is no list, which is J16 and TestBrokenLists",
		"J21": "nobody renews a SAS: for tokens TestRefusedToken has it",
	}
	return cfg
}
