package objectstore_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// A2: a wrong field is named, and nothing is sent.
func TestConfigNamesTheWrongField(t *testing.T) {
	type config = objectstore.Config
	long := strings.Repeat("a", 256)
	negative := func(field func(*config) *time.Duration) []func(*config) {
		return []func(*config){
			func(c *config) { *field(c) = -1 },
			func(c *config) { *field(c) = math.MinInt64 },
		}
	}
	configtest.Run(t, configtest.Table[config]{
		Valid: config{Cluster: "c"},
		Open: func(tb testing.TB, c config) error {
			driver := memory.New(memory.Config{})
			manager, err := objectstore.New(driver, c)
			for _, call := range calls {
				assert.Zero(tb, driver.Calls(call.method))
			}
			if err != nil {
				return err
			}
			return manager.Close()
		},
		Wrong: map[string][]func(*config){
			"Cluster": {
				func(c *config) { c.Cluster = "" },
				func(c *config) { c.Cluster = "a/b" },
				func(c *config) { c.Cluster = "a b" },
				func(c *config) { c.Cluster = ".." },
				func(c *config) { c.Cluster = "ä" },
				func(c *config) { c.Cluster = long },
			},
			"Prefix": {
				func(c *config) { c.Prefix = "//" },
				func(c *config) { c.Prefix = "a//b" },
				func(c *config) { c.Prefix = "/a" },
				func(c *config) { c.Prefix = "../up" },
				func(c *config) { c.Prefix = "a?b" },
				func(c *config) { c.Prefix = long },
				func(c *config) { c.Prefix = strings.Repeat("a/", 257) + "a" },
			},
			"AttemptTimeout":       negative(func(c *config) *time.Duration { return &c.AttemptTimeout }),
			"AttemptTimeoutPerMiB": negative(func(c *config) *time.Duration { return &c.AttemptTimeoutPerMiB }),
			"BulkAttemptTimeout":   negative(func(c *config) *time.Duration { return &c.BulkAttemptTimeout }),
			"MaxAttempts":          {func(c *config) { c.MaxAttempts = -1 }},
			"MaxRetryTime":         negative(func(c *config) *time.Duration { return &c.MaxRetryTime }),
			"BackoffBase": append(negative(func(c *config) *time.Duration { return &c.BackoffBase }),
				func(c *config) { c.BackoffBase = time.Minute }),
			"BackoffCap":    negative(func(c *config) *time.Duration { return &c.BackoffCap }),
			"RetryAfterCap": negative(func(c *config) *time.Duration { return &c.RetryAfterCap }),
			"GateFailures":  {func(c *config) { c.GateFailures = -1 }},
			"ProbeMin": append(negative(func(c *config) *time.Duration { return &c.ProbeMin }),
				func(c *config) { c.ProbeMin = time.Minute }),
			"ProbeMax": negative(func(c *config) *time.Duration { return &c.ProbeMax }),
			"ReleasePerSecond": {
				func(c *config) { c.ReleasePerSecond = -1 },
				func(c *config) { c.ReleasePerSecond = int(time.Second) + 1 },
			},
		},
		Any: map[string]string{
			"Hooks":  "every one of them may be nil",
			"Logger": "nil is none",
			"Seed":   "every number is a seed",
		},
	})
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
