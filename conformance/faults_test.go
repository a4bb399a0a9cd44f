package conformance

import (
	"maps"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
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

// A configuration with nothing but what it needs is enough, with a driver or with a manager: what it lacks is skipped, and
// each skip names the field.
func TestFaultsWithTheLeast(t *testing.T) {
	full := blobConfig(blobFlaws{}, nil)
	least := FaultsConfig{Handler: full.Handler, Driver: full.Driver, ListLarge: full.ListLarge, Operations: 200}
	managed := least
	managed.Driver = nil
	managed.Open = func(tb testing.TB, at Endpoint, store objectstore.Config) walstorage.WalStorageManager {
		m, err := objectstore.New(full.Driver(tb, at), store)
		require.NoError(tb, err)
		return m
	}
	lacking := map[string]string{
		"C13": "the configuration has no FaultsConfig.Answers.Conflict",
		"E14": "the configuration has no FaultsConfig.WithoutToken",
		"J21": "the configuration has no FaultsConfig.Answers.Expired",
	}
	for name, cfg := range map[string]FaultsConfig{"a driver": least, "a manager": managed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipped := map[string]string{}
			cfg.Report = func(result Result) {
				if result.Outcome == Skipped {
					skipped[result.ID] = result.Reason
				}
			}
			RunFaults(t, cfg)
			want := maps.Clone(lacking)
			if cfg.Driver == nil {
				want["K1"] = "the configuration has no FaultsConfig.Driver"
			}
			require.Equal(t, want, skipped)
		})
	}
}
