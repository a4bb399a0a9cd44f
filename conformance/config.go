package conformance

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Config says how the suite reaches the store. Driver or Open must be set; every other field may stay zero, and what it
// would have made possible is skipped, with the reason printed.
type Config struct {
	// Driver returns an independent handle on the store, for a backend that is an objectstore.Driver. Each call is a
	// new handle on the same bucket, as another broker would have it. The suite closes it. With it the suite also runs
	// the cases that put faults between the driver and an objectstore.Manager: lost answers, stalls, refusals.
	Driver func(tb testing.TB) objectstore.Driver

	// Open returns an independent handle on the store as a whole manager. store names the place: two handles with the
	// same Prefix and Cluster see the same segments, two that differ in either see nothing of each other. A manager
	// that is made of objectstore.Manager passes the rest of store on too, which lets the suite count requests; any
	// other ignores it or calls walstorage.Observe(m, store.Hooks). The suite closes the handle. If Open is nil,
	// objectstore.New over Driver is used.
	Open func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager

	// Invalid holds one attempt to construct a handle for each field of the backend's own configuration that can be
	// wrong, by the name of the field. Each must fail with an error that names the field (A2).
	Invalid map[string]func() error

	// NoBucket returns a handle on a bucket, container or directory that does not exist, or the error of trying (A3, I3).
	NoBucket func(tb testing.TB) (walstorage.WalStorageManager, error)

	// Denied returns a handle on the place given whose requests the store refuses: wrong credentials, missing
	// permissions (I4). Segments that the suite has stored there through Open exist.
	Denied func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager

	// Undeletable returns a handle on the place given through which the store refuses to delete the segment id, and
	// that one alone (F6).
	Undeletable func(tb testing.TB, store objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager

	// Residue lists everything that is physically stored under the prefix and is no segment: temporaries, sidecars,
	// parts of unfinished uploads, lock files. Empty folders do not count. It lets C7, E16 and H4 look behind the lists.
	Residue func(tb testing.TB, prefix string) []string

	// Peer returns a command that runs a process which calls PeerMain, usually Reexecute(tb): the test binary again.
	// With it the suite races creates and deletes between processes (C4, F9).
	Peer func(tb testing.TB) *exec.Cmd

	// MaxObjectSize is the size in bytes of the largest segment that the suite may store, and the store's own limit:
	// one byte more must be ErrTooLarge (B12). It has to be set where the store takes less than 17 MiB, which C1 stores once
	// since libraries no longer send that in one piece by themselves, and is at least 16 KiB, which the cases need. 0 leaves
	// B12 out.
	MaxObjectSize int64

	// ListLarge is the number of segments of the long lists (E10, E11). Set it to 2 x the store's page size + 1, so that
	// there are three pages. 0 means 2,001.
	ListLarge int

	// Timeout is the watchdog's limit for one case; then the stacks of all goroutines are printed and the case has
	// failed. 0 means one minute.
	Timeout time.Duration

	// Secrets are strings that no error text may hold: the credentials that the handles are opened with (I8).
	Secrets []string

	// Seed chooses the pseudo-random choices of the cases, such as the ranges read in D11. 0 is a seed like any other.
	Seed uint64

	// Shared names goroutines that the store starts on demand, shares between handles and never ends, by a part of
	// their stack (a function name), with the reason. They are no leaks.
	Shared map[string]string

	// Skip holds the ids of cases not to run, each with the reason, which is printed. An unknown id, an empty reason or
	// a base case (A1, B1, C1, D1, E7, F1, I2: what is stored once is there, whole, and gone when it is deleted) fails
	// the test.
	Skip map[string]string

	// Report, if it is set, is told of each case as it ends, one after another.
	Report func(Result)

	// manage makes a manager of a driver; nil is objectstore.New. The tests of the suite put wrong managers here.
	manage func(driver objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error)
}

// manager makes a manager of a driver.
func (cfg Config) manager(driver objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
	if cfg.manage != nil {
		return cfg.manage(driver, store)
	}
	manager, err := objectstore.New(driver, store)
	if err != nil {
		return nil, err
	}
	return manager, nil
}

// timeoutDefault is the watchdog's limit if the configuration names none.
const timeoutDefault = time.Minute

// listLargeDefault is one more than two pages of every store known.
const listLargeDefault = 2001

// listLargeFaults is one more than the page size of every store known: with two pages there is one that can fail behind
// another.
const listLargeFaults = 1001

// leastObjectSize is the least limit of a store that the suite can show anything of, in bytes: the cases store up to
// 10,000 where it does not matter how many.
const leastObjectSize = 16 << 10

// promptly is how soon a call must return once its context has ended or its manager is closed. A correct manager
// needs well under a millisecond; the bound is for loaded machines.
const promptly = 5 * time.Second

// check returns the configuration with its defaults, or an error that names the wrong field.
func (cfg Config) check() (Config, error) {
	switch {
	case cfg.Driver == nil && cfg.Open == nil:
		return cfg, fmt.Errorf("conformance: Config: neither Driver nor Open is set")
	case cfg.MaxObjectSize < 0:
		return cfg, fmt.Errorf("conformance: Config.MaxObjectSize is negative: %d", cfg.MaxObjectSize)
	case cfg.MaxObjectSize > 0 && cfg.MaxObjectSize < leastObjectSize:
		return cfg, fmt.Errorf("conformance: Config.MaxObjectSize is %d, and the cases need %d at least", cfg.MaxObjectSize, leastObjectSize)
	case cfg.ListLarge < 0:
		return cfg, fmt.Errorf("conformance: Config.ListLarge is negative: %d", cfg.ListLarge)
	case cfg.Timeout < 0:
		return cfg, fmt.Errorf("conformance: Config.Timeout is negative: %v", cfg.Timeout)
	case slices.Contains(cfg.Secrets, ""):
		return cfg, fmt.Errorf("conformance: Config.Secrets holds an empty string")
	}
	if err := checkReasons("Config.Shared", cfg.Shared); err != nil {
		return cfg, err
	}
	if err := checkSkip("Config.Skip", cfg.Skip, storageCases); err != nil {
		return cfg, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	if cfg.ListLarge == 0 {
		cfg.ListLarge = listLargeDefault
	}
	return cfg, nil
}

func checkReasons(field string, reasons map[string]string) error {
	for key, reason := range reasons {
		if strings.TrimSpace(key) == "" || strings.TrimSpace(reason) == "" {
			return fmt.Errorf("conformance: %s[%q]: a reason is needed", field, key)
		}
	}
	return nil
}

// baseCases are those without which the others prove nothing (P5).
var baseCases = []string{"A1", "B1", "C1", "D1", "E7", "F1", "I2"}

func checkSkip(field string, skip map[string]string, cases []testCase) error {
	if err := checkReasons(field, skip); err != nil {
		return err
	}
	for id := range skip {
		if !slices.ContainsFunc(cases, func(tc testCase) bool { return tc.id == id }) {
			return fmt.Errorf("conformance: %s[%q]: there is no such case", field, id)
		}
		if slices.Contains(baseCases, id) {
			return fmt.Errorf("conformance: %s[%q]: a base case cannot be skipped: what does not pass it is no store", field, id)
		}
	}
	return nil
}

// given tells what the cases have to work with.
func (cfg Config) given() need {
	var given need
	for bit, set := range map[need]bool{
		needDriver:        cfg.Driver != nil,
		needPeer:          cfg.Peer != nil,
		needInvalid:       len(cfg.Invalid) > 0,
		needNoBucket:      cfg.NoBucket != nil,
		needDenied:        cfg.Denied != nil,
		needUndeletable:   cfg.Undeletable != nil,
		needMaxObjectSize: cfg.MaxObjectSize > 0,
	} {
		if set {
			given |= bit
		}
	}
	return given
}
