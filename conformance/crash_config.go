package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// CrashConfig says how RunCrash reaches a store that keeps segments as files. Open must be set; every other field may
// stay zero, and what it would have made possible is skipped, with the reason printed.
type CrashConfig struct {
	// Open returns a handle on the store in the file system given, which has an empty root or what an earlier handle has
	// left there. Each call of it is another process. store names the place, and asks for one attempt per call where a
	// manager is made of objectstore.Manager; any other ignores it. The handle must do nothing by itself in the
	// background: the suite counts calls. The suite closes it.
	Open func(tb testing.TB, fsys *CrashFS, store objectstore.Config) (walstorage.WalStorageManager, error)

	// Sweep removes once what uploads have left behind that did not end, as a process of its own would (N7, N8).
	Sweep func(ctx context.Context, fsys *CrashFS, store objectstore.Config) error

	// TemporaryAge is the age, by the clock of the file system, from which Sweep takes what no process holds. 0 means
	// one hour.
	TemporaryAge time.Duration

	// Timeout is the watchdog's limit for one case. 0 means one minute.
	Timeout time.Duration

	// Seed chooses what is lost where that is left to chance, and the contents. 0 is a seed like any other.
	Seed uint64

	// Shared names goroutines that the store starts on demand, shares between handles and never ends, by a part of
	// their stack (a function name), with the reason. They are no leaks.
	Shared map[string]string

	// Skip holds the ids of cases not to run, each with the reason, which is printed. An unknown id or an empty reason
	// fails the test.
	Skip map[string]string

	// Report, if it is set, is told of each case as it ends, one after another.
	Report func(Result)
}

// check returns the configuration with its defaults, or an error that names the wrong field.
func (cfg CrashConfig) check() (CrashConfig, error) {
	switch {
	case cfg.Open == nil:
		return cfg, fmt.Errorf("conformance: CrashConfig.Open is not set")
	case cfg.TemporaryAge < 0:
		return cfg, fmt.Errorf("conformance: CrashConfig.TemporaryAge is negative: %v", cfg.TemporaryAge)
	case cfg.Timeout < 0:
		return cfg, fmt.Errorf("conformance: CrashConfig.Timeout is negative: %v", cfg.Timeout)
	}
	if err := checkReasons("CrashConfig.Shared", cfg.Shared); err != nil {
		return cfg, err
	}
	if err := checkSkip("CrashConfig.Skip", cfg.Skip, crashCases); err != nil {
		return cfg, err
	}
	if cfg.TemporaryAge == 0 {
		cfg.TemporaryAge = time.Hour
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	return cfg, nil
}

// RunCrash proves a store that keeps segments as files, over a file system that can be made to fail and to lose: it runs
// every case of group N as a subtest of t, named by its id. See the package documentation for what to give it. Tests
// that call RunCrash may run in parallel with each other.
func RunCrash(t *testing.T, cfg CrashConfig) {
	t.Helper()
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	newCrashRunner(cfg).runAll(t, crashCases)
}

// newCrashRunner returns the runner of a checked configuration.
func newCrashRunner(cfg CrashConfig) *runner {
	var given need
	if cfg.Sweep != nil {
		given |= needSweep
	}
	return &runner{
		suite: "RunCrash",
		given: given, skip: cfg.Skip, timeout: cfg.Timeout, prompt: promptly, patience: leakPatience,
		seed: cfg.Seed, shared: cfg.Shared, report: cfg.Report,
		attach: func(c *T) func() []string {
			c.crash = cfg
			c.storage = newStorage(Config{Seed: cfg.Seed}, c)
			c.storage.home = place{prefix: "wal", cluster: "conformance"}
			return func() []string { return nil } // each case has its file systems, and they end with it
		},
	}
}
