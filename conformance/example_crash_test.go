//go:build unix

package conformance_test

import (
	"testing"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A backend that keeps files, by way of a file system that can be handed in; here package local.
func ExampleRunCrash() {
	// In your package: func TestCrashConformance(t *testing.T) { ... }
	_ = func(t *testing.T) {
		conformance.RunCrash(t, conformance.CrashConfig{
			Open: func(tb testing.TB, fsys *conformance.CrashFS, store objectstore.Config) (walstorage.WalStorageManager, error) {
				driver, err := local.NewDriver(tb.Context(), local.Config{Root: "disk", FS: fsys, SweepInterval: -1})
				if err != nil {
					return nil, err
				}
				return objectstore.New(driver, store)
			},
		})
	}
}
