package conformance

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// A driver that is right passes, over a pipe in virtual time and over a socket without it.
func TestFaultsOfARightDriver(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		cfg := blobConfig(blobFlaws{}, nil)
		if raceDetector {
			cfg.Operations = 1000
		}
		RunFaults(t, cfg)
	})
	t.Run("on a server", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(blobConfig(blobFlaws{}, nil).Handler(t))
		t.Cleanup(server.Close)
		cfg := blobConfig(blobFlaws{}, nil)
		cfg.Handler, cfg.URL = nil, server.URL
		cfg.Skip = map[string]string{}
		long := []string{"J3", "J4", "J13"}
		if raceDetector {
			long = append(long, "J14", "J29") // bodies of megabytes
		}
		for _, id := range long {
			cfg.Skip[id] = "it waits for seconds where there is no virtual time, and the servers of others show that it ends well there"
		}
		skipped := map[string]string{}
		cfg.Report = func(result Result) {
			if result.Outcome == Skipped {
				skipped[result.ID] = result.Reason
			}
		}
		RunFaults(t, cfg)
		for id, reason := range skipped {
			if cfg.Skip[id] == "" {
				require.Equal(t, "J18: the configuration has no FaultsConfig.Handler (virtual time)", id+": "+reason)
			}
		}
	})
}
