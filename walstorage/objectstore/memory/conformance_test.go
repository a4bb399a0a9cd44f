package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// A manager that is wrapped in walstorage.Observe keeps every rule, too, the hooks of Observe being those of the suite
// (P4).
func TestObservedConformance(t *testing.T) {
	config := suite(memory.Config{})
	driver := config.Driver
	config.Open = func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
		hooks := store.Hooks
		store.Hooks = walstorage.Hooks{}
		manager, err := objectstore.New(driver(tb), store)
		require.NoError(tb, err)
		return walstorage.Observe(manager, hooks)
	}
	conformance.Run(t, config)
}

// The reference driver keeps every rule that the suite checks, W1 to W12, whatever a store may do that is right: it may
// know no checksums, tell no time, give out short pages in any order, and repeat an object where two pages meet.
func TestConformance(t *testing.T) {
	for _, variant := range []struct {
		name   string
		config memory.Config
	}{
		{"default", memory.Config{}},
		{"small pages, no order, repetitions", memory.Config{PageSize: 7, Shuffle: 1, Overlap: true, KeysPerDelete: 5}},
		{"no checksums, no times", memory.Config{NoCRC32C: true, NoStored: true}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			suite := suite(variant.config)
			if variant.name == "default" {
				suite.Report = caseresults.Record(t, "memory")
			}
			conformance.Run(t, suite)
		})
	}
}

// suite says how the conformance suite reaches stores of the kind given.
func suite(kind memory.Config) conformance.Config {
	kind.Store = memory.NewStore() // one bucket for all handles
	kind.ObjectBytes = 2 << 20
	open := func(tb testing.TB, store objectstore.Config, fault func(memory.Call) memory.Fault) walstorage.WalStorageManager {
		driver := memory.New(kind)
		driver.Fault(fault)
		manager, err := objectstore.New(driver, store)
		require.NoError(tb, err)
		return manager
	}
	always := func(kind error) func(memory.Call) memory.Fault {
		return func(memory.Call) memory.Fault { return memory.Fault{Err: walstorage.NewError(kind, nil)} }
	}
	return conformance.Config{
		Driver: func(testing.TB) objectstore.Driver { return memory.New(kind) },
		NoBucket: func(tb testing.TB) (walstorage.WalStorageManager, error) {
			return open(tb, objectstore.Config{Cluster: "c"}, always(walstorage.ErrBucketNotFound)), nil
		},
		Denied: func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
			return open(tb, store, always(walstorage.ErrAccessDenied))
		},
		Undeletable: func(tb testing.TB, store objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
			keys, err := walstorage.NewKeys(store.Prefix, store.Cluster)
			require.NoError(tb, err)
			return open(tb, store, func(memory.Call) memory.Fault {
				return memory.Fault{KeyErr: func(key string) error {
					if key == keys.Key(id) {
						return walstorage.NewError(walstorage.ErrAccessDenied, nil)
					}
					return nil
				}}
			})
		},
		Invalid:       invalid(),
		MaxObjectSize: kind.ObjectBytes,
		ListLarge:     1001,
	}
}

// invalid tries each wrong field of the Manager's configuration.
func invalid() map[string]func() error {
	attempts := make(map[string]func() error)
	for field, wrong := range map[string]objectstore.Config{
		"Cluster":              {},
		"Prefix":               {Cluster: "c", Prefix: "a//b"},
		"AttemptTimeout":       {Cluster: "c", AttemptTimeout: -1},
		"AttemptTimeoutPerMiB": {Cluster: "c", AttemptTimeoutPerMiB: -1},
		"BulkAttemptTimeout":   {Cluster: "c", BulkAttemptTimeout: -1},
		"MaxAttempts":          {Cluster: "c", MaxAttempts: -1},
		"MaxRetryTime":         {Cluster: "c", MaxRetryTime: -1},
		"BackoffBase":          {Cluster: "c", BackoffBase: 2, BackoffCap: 1},
		"BackoffCap":           {Cluster: "c", BackoffCap: -1},
		"RetryAfterCap":        {Cluster: "c", RetryAfterCap: -1},
		"GateFailures":         {Cluster: "c", GateFailures: -1},
		"ProbeMin":             {Cluster: "c", ProbeMin: 2, ProbeMax: 1},
		"ProbeMax":             {Cluster: "c", ProbeMax: -1},
		"ReleasePerSecond":     {Cluster: "c", ReleasePerSecond: -1},
	} {
		attempts[field] = func() error {
			_, err := objectstore.New(memory.New(memory.Config{}), wrong)
			return err
		}
	}
	return attempts
}

// What the suite and the Manager cost over a store that costs nothing.
func BenchmarkConformance(b *testing.B) { conformance.RunBenchmarks(b, suite(memory.Config{})) }
