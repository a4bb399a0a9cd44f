package objectstore_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// A2: a wrong field is named, and nothing is sent.
func TestConfigNamesTheWrongField(t *testing.T) {
	tests := map[string]objectstore.Config{
		"Cluster":              {},
		"Prefix":               {Cluster: "c", Prefix: "a//b"},
		"AttemptTimeout":       {Cluster: "c", AttemptTimeout: -1},
		"AttemptTimeoutPerMiB": {Cluster: "c", AttemptTimeoutPerMiB: -1},
		"BulkAttemptTimeout":   {Cluster: "c", BulkAttemptTimeout: -1},
		"MaxAttempts":          {Cluster: "c", MaxAttempts: -1},
		"MaxRetryTime":         {Cluster: "c", MaxRetryTime: -1},
		"BackoffBase":          {Cluster: "c", BackoffBase: time.Minute},
		"BackoffCap":           {Cluster: "c", BackoffCap: -1},
		"RetryAfterCap":        {Cluster: "c", RetryAfterCap: -1},
		"GateFailures":         {Cluster: "c", GateFailures: -1},
		"ProbeMin":             {Cluster: "c", ProbeMin: time.Minute},
		"ProbeMax":             {Cluster: "c", ProbeMax: -1},
		"ReleasePerSecond":     {Cluster: "c", ReleasePerSecond: int(time.Second) + 1},
	}
	for field, cfg := range tests {
		t.Run(field, func(t *testing.T) {
			driver := memory.New(memory.Config{})

			_, err := objectstore.New(driver, cfg)

			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			assert.ErrorContains(t, err, field)
			for _, call := range calls {
				assert.Zero(t, driver.Calls(call.method))
			}
		})
	}
	t.Run("no driver", func(t *testing.T) {
		_, err := objectstore.New(nil, objectstore.Config{Cluster: "c"})
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	})
	t.Run("memory.NewManager too", func(t *testing.T) {
		_, _, err := memory.NewManager(objectstore.Config{})
		require.ErrorContains(t, err, "Cluster")
	})
}

// A1, A4, A5, A6, A7: handles on one store see each other's segments if cluster and prefix are the same, and only then.
func TestNamespaces(t *testing.T) {
	store := memory.NewStore()
	open := func(prefix, cluster string) *objectstore.Manager {
		manager, _ := newManager(t, objectstore.Config{Prefix: prefix, Cluster: cluster}, memory.Config{Store: store})
		return manager
	}
	sees := func(m walstorage.WalStorageManager) bool {
		_, err := m.StatSegment(t.Context(), segment(1))
		infos, listErr := collect(t.Context(), m, walstorage.ListOptions{})
		require.NoError(t, listErr)
		require.Equal(t, err == nil, len(infos) == 1)
		return err == nil
	}
	writer := open("wal", "prod")
	require.Empty(t, store.Keys(), "A7: New stores nothing")
	require.NoError(t, writer.UploadSegment(t.Context(), segment(1), []byte("a")))

	for name, test := range map[string]struct {
		prefix, cluster string
		want            bool
	}{
		"A4: the same":                     {"wal", "prod", true},
		"A6: a slash at the end":           {"wal/", "prod", true},
		"A5: a longer prefix":              {"wal2", "prod", false},
		"A5: a shorter prefix":             {"wa", "prod", false},
		"A5: another cluster":              {"wal", "prod2", false},
		"A5: a shorter cluster":            {"wal", "pro", false},
		"A5: the prefix's parent":          {"", "prod", false},
		"A5: the prefix as the cluster":    {"", "wal", false},
		"A5: the cluster in the prefix":    {"wal/prod", "prod", false},
		"A5: the cluster in another case":  {"wal", "PROD", false},
		"A5: the broker as a cluster":      {"wal/prod", "1", false},
		"A5: two parts that look like one": {"wal/pr", "od", false},
	} {
		assert.Equal(t, test.want, sees(open(test.prefix, test.cluster)), name)
	}
}

// A Manager copies its configuration (A8), and its zero values are usable.
func TestZeroValuesAreDefaults(t *testing.T) {
	cfg := objectstore.Config{Cluster: "test"}
	manager, driver, err := memory.NewManager(cfg)
	require.NoError(t, err)
	cfg.Cluster = "changed"
	require.NoError(t, manager.UploadSegment(t.Context(), segment(1), nil))
	require.True(t, strings.HasPrefix(driver.Store().Keys()[0], "test/"))
	require.NoError(t, manager.Close())
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 7, 4, 12, 0, 0, 0, time.UTC)
	tests := map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"7":                                7 * time.Second,
		" 7 ":                              7 * time.Second,
		"-7":                               0,
		"99999999999999":                   24 * time.Hour,
		"99999999999999999999999":          0,
		"1.5":                              0,
		"soon":                             0,
		"Sat, 04 Jul 2026 12:00:30 GMT":    30 * time.Second,
		"Saturday, 04-Jul-26 12:01:00 GMT": time.Minute,
		"Sat Jul  4 12:00:02 2026":         2 * time.Second,
		"Sat, 04 Jul 2026 11:59:59 GMT":    0,
	}
	for value, want := range tests {
		assert.Equal(t, want, objectstore.RetryAfter(value, now), "%q", value)
		assert.Equal(t, want, objectstore.RetryAfter(value, now.In(time.FixedZone("", 3600))), "%q", value)
	}
}

// A time that is as long as can be is no limit: no sum of times overflows and ends an attempt before it has begun.
func TestConfigWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = time.Duration(math.MaxInt64)
		manager, driver := newManager(t, objectstore.Config{
			AttemptTimeout: longest, AttemptTimeoutPerMiB: longest, BulkAttemptTimeout: longest, MaxRetryTime: longest,
			BackoffCap: longest, RetryAfterCap: longest, ProbeMax: longest, GateFailures: 1,
		}, memory.Config{})
		driver.Fault(func(call memory.Call) memory.Fault {
			if call.Number <= 3 {
				return memory.Fault{Err: busy()}
			}
			return memory.Fault{Delay: time.Second}
		})
		for _, name := range []string{"upload", "fetch", "stat", "list", "delete"} {
			require.NoError(t, calls[name].run(t.Context(), manager), name)
			assert.LessOrEqual(t, driver.Calls(calls[name].method), 4, "three that fail, if it is the first of its kind")
		}
	})
}
