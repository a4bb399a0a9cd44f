//go:build unix

package local_test

import (
	"context"
	"testing"
	"time"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Group N, W1, W2, W3, Jepsen on NATS 2.12.1, loonfs/loonfs#377: whatever call fails, and between whatever two calls a
// process is killed or the power is cut, what was acknowledged is there, and all else is whole or absent. It also shows
// that the store relies on nothing of a file system but what FS says.
func TestCrashConformance(t *testing.T) {
	config := func(fsys *conformance.CrashFS, store objectstore.Config) local.Config {
		return local.Config{Root: "disk", FS: fsys, SweepInterval: -1, TemporaryAge: time.Hour, Store: store}
	}
	conformance.RunCrash(t, conformance.CrashConfig{
		Report: caseresults.Record(t, "local"),
		Open: func(tb testing.TB, fsys *conformance.CrashFS, store objectstore.Config) (walstorage.WalStorageManager, error) {
			manager, err := local.New(tb.Context(), config(fsys, store))
			if err != nil {
				return nil, err
			}
			return manager, nil
		},
		Sweep: func(ctx context.Context, fsys *conformance.CrashFS, store objectstore.Config) error {
			driver, err := local.NewDriver(ctx, config(fsys, store))
			if err != nil {
				return err
			}
			defer func() { _ = driver.Close() }()
			_, err = driver.Sweep(ctx)
			return err
		},
		TemporaryAge: time.Hour,
	})
}
