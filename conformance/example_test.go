package conformance_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// A backend that is a driver, here the one in memory: this is the whole test.
func ExampleRun() {
	bucket := memory.NewStore() // what all handles share: your bucket, directory or server

	// In your package: func TestConformance(t *testing.T) { ... }
	_ = func(t *testing.T) {
		conformance.Run(t, conformance.Config{
			Driver: func(testing.TB) objectstore.Driver {
				return memory.New(memory.Config{Store: bucket})
			},
		})
	}
}

// A metadata log, here the one in memory.
func ExampleRunMetadata() {
	// In your package: func TestConformance(t *testing.T) { ... }
	_ = func(t *testing.T) {
		topics := make(map[string]*memlog.Topic)
		conformance.RunMetadata(t, conformance.MetadataConfig{
			Open: func(tb testing.TB, name string, broker int32, epoch int64) metadata.Log {
				if topics[name] == nil {
					topic, err := memlog.New(memlog.Config{})
					require.NoError(tb, err)
					topics[name] = topic
				}
				log, err := topics[name].Open(memlog.Options{Broker: broker, BrokerEpoch: epoch})
				require.NoError(tb, err)
				return log
			},
		})
	}
}

// A disk on which what was not synced is lost.
func ExampleCrashFS() {
	disk := conformance.NewCrashFS()
	file, _ := disk.Create("synced", 0o640)
	_, _ = file.Write([]byte("text"))
	_ = file.Sync()
	_, _ = disk.Create("not synced", 0o640)
	_ = disk.SyncDir(".")
	_, _ = disk.Create("after the sync", 0o640)

	for name, data := range disk.Crash(conformance.LoseUnsynced, 0).Files() {
		fmt.Printf("%s: %q\n", name, data)
	}
	// Unordered output:
	// synced: "text"
	// not synced: ""
}

// The first example as it stands: nothing but a driver is needed, and the bucket is left as it was found. The second is
// what memlog's own test does.
func TestSmallestConfiguration(t *testing.T) {
	t.Parallel()
	bucket := memory.NewStore()
	t.Run("suite", func(t *testing.T) {
		conformance.Run(t, conformance.Config{
			Driver: func(testing.TB) objectstore.Driver {
				return memory.New(memory.Config{Store: bucket})
			},
		})
	})
	require.Empty(t, bucket.Keys())
}
