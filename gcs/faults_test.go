package gcs_test

import (
	"testing"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/walstorage"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	cfg := ours.Faults(protocols.GCS(), config)
	cfg = drivertest.InBubbles(cfg, func() *fake.Server { return newFake(fake.Config{PageSize: 100}) })
	cfg.Headers = map[walstorage.Op][]string{
		walstorage.OpUpload: allowed(fake.Insert),
		walstorage.OpFetch:  allowed(fake.Read),
		walstorage.OpStat:   allowed(fake.Get),
		walstorage.OpDelete: allowed(fake.Delete),
		walstorage.OpList:   allowed(fake.List),
	}
	cfg.Required = map[walstorage.Op]map[string]string{
		walstorage.OpUpload: {"Authorization": "Bearer " + token},
	}
	cfg.ListLarge = 150 // a second page that is worth cutting
	cfg.Secrets = []string{token}
	cfg.Skip = map[string]string{
		"E14": "the protocol cannot say that there is more and not where: a page without a token is the last one",
	}
	cfg.Report = caseresults.Record(t, "gcs")
	conformance.RunFaults(t, cfg)
}
