package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// mutant is a store that is wrong in one way.
type mutant struct {
	name string
	// caught is the case named for it: it must fail.
	caught string
	// also lists the cases that fail, or may, for the same reason. No other case may.
	also string
	// make returns the suite's configuration, and what to call when the suite has run.
	make func(t *testing.T) (cfg Config, release func())
	// run, if it is set, takes the place of make: it runs another suite and returns the failures by id.
	run func(t *testing.T) map[string][]string
	// races says that the flaw is a data race, which the race detector reports before the suite does.
	races bool
}

// The names of what is checked after every case, in the lists of mutants.
const (
	leftBehind = "left-behind"
	leaked     = "leaked"
)

// mutants are all of them.
var mutants = slices.Concat(storeMutants, nameMutants, hookMutants, claimMutants, processMutants, driverMutants)

// storeMutants are wrong in what every store does.
var storeMutants = []mutant{
	// Wrong in what they store and give back.
	modelMutant("create looks, then writes", "C2", "C3 C5 L6", flaws{statThenWrite: true}),
	modelMutant("create overwrites", "C1", "B8 B13 B17 C2 C3 C5 C7 I1 I6 I7 I11 L2 L4 L6 L10", flaws{overwrites: true}),
	modelMutant("create succeeds although another writer has won", "C1", "B8 B13 B17 C2 C3 C5 C7 I1 I6 I7 I11 L2 L4 L6 L10", flaws{otherBytesSucceed: true}),
	modelMutant("create compares by size alone", "B13", "B8 C1 C2 C3 C5 I1 I6 I7 I11 L4 L6", flaws{comparesSizeOnly: true}),
	modelMutant("create says exists of the same bytes", "B13", "B17 C5 F5 H4 L2 L3 L6", flaws{sameBytesFail: true}),
	modelMutant("half a segment is visible", "B5", "C5 H3 H4 H5 L2 L3 L5 L6 L7", flaws{partialVisible: true}),
	modelMutant("upload keeps the caller's buffer", "B6", "B8 L7", flaws{keepsData: true}).racy(),
	modelMutant("upload changes the caller's buffer", "B8", `A1 A4 A5 A6 B1 B2 B3 B4 B5 B7 B13 B15 C1 C2 C3 C5 C17 D1 D2 D15 E20 F1 F8
		F9 G1 G2 G3 G4 G5 G6 G7 G9 H1 H2 H3 H4 H5 L1 L4 L5 L6 L7 L11 M2 M3 M8`, flaws{changesData: true}).racy(),
	modelMutant("fetch writes to the caller's buffer later", "B7", "D11 D15 L7", flaws{writesLate: true}).racy(),
	modelMutant("what looks compressed is decoded", "B2", "", flaws{decodesGzip: true}),
	modelMutant("another handle sees a segment late", "B4", "A4 A6 B1 B2 B5 B6 C1 C3 C5 C17 F1 F3 F9 H4 L2 L3 L4 L6 L11 M2 M3 M8", flaws{slowToSee: true}),
	modelMutant("clusters on one prefix see each other", "A5", "G2 G3 G4 G5 G6", flaws{clustersMixed: true}),

	// Wrong at the edges of ranges.
	modelMutant("a short read is no error", "D3", "D11 I1 I6 I7 I11 L10", flaws{shortRead: true}),
	modelMutant("a range past the end is empty", "D4", "D5 D8 D9", flaws{emptyPastEnd: true}),
	modelMutant("an empty range asks the store", "D6", "", flaws{emptyDstAsks: true}),
	modelMutant("the last byte cannot be read", "D1", `A1 A4 A5 A6 B1 B2 B3 B4 B5 B6 B7 B13 B15 C1 C2 C3 C5 C17 D2 D15 E20 F1 F4 F8 F9
		G1 G2 G3 G4 G5 G6 G7 G9 H1 H2 H3 H4 H5 L1 L2 L3 L4 L5 L6 L7 L10 L11 M2 M3 M8`, flaws{offByOne: true}),
	modelMutant("a range of a missing segment is invalid", "D10", "A1 A4 A5 A6 B4 B12 B15 C5 C17 F1 F2 F3 F5 F8 F9 G1 G2 G3 G4 G5 G6 G7 G9 H1 H2 I1 I2 I6 I7 I11 I12 L2 L6 M3",
		flaws{missingIsRange: true}),

	// Wrong in lists and deletes.
	modelMutant("a list lacks a segment", "E7", "B4 B5 E3 E6 E10 E11 E16 E18 E20 E22 E23 E25 F4 L1 L2 L5 M6", flaws{listDropsOne: true}),
	modelMutant("a list ignores the broker", "E3", "E1 E25", flaws{listIgnoresBroker: true}),
	modelMutant("a list includes its upper bound", "E25", "", flaws{listBoundsOff: true}),
	modelMutant("a sequence can be ranged over once", "E18", "", flaws{listOnce: true}),
	modelMutant("a delete takes its neighbours along", "F4", "B15 E7 E10 E16 F5 F9 L1 L2 L5 L10", flaws{deleteByMinute: true}),
	modelMutant("a delete of a missing segment is an error", "F2", "E11 F3 F5 L2 L5 L6 "+leftBehind, flaws{deleteMissingFails: true}),
	modelMutant("a delete of several leaves one", "F5", leftBehind, flaws{deleteDropsFirst: true}),
	memoryMutant("a list drops the last of each full page", "E10", "B4 B5 E7 E8 E9 E11 E15 E16 E18 E20 E22 E23 E25 F4 L1 L2 L5 M6 "+leftBehind,
		memory.Config{PageSize: 5}, func(d objectstore.Driver) objectstore.Driver { return dropsLast{d} }, nil),
	memoryMutant("the store repeats a token", "E10", "E11", memory.Config{PageSize: 50},
		func(d objectstore.Driver) objectstore.Driver { return repeatsToken{d} }, nil),
	memoryMutant("a list follows a repeated token for ever", "E13", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newManager(&uniqueTokens{Driver: d}, store)
		}),
	memoryMutant("a bulk delete hides what failed", "F6", "", memory.Config{},
		func(d objectstore.Driver) objectstore.Driver { return hidesFailures{d} }, nil),
	memoryMutant("a bulk delete tells a refusal as a store that is down", "F6", "", memory.Config{},
		func(d objectstore.Driver) objectstore.Driver { return failuresMayPass{d} },
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			store.MaxRetryTime = 3 * time.Second // so long it tries again
			return objectstore.New(d, store)
		}),

	// Wrong in errors.
	memoryMutant("a refusal is reported as a missing segment", "I4", "", memory.Config{},
		func(d objectstore.Driver) objectstore.Driver { return deniedIsMissing{d} }, nil),
	memoryMutant("a missing bucket is reported as a missing segment", "I3", "A3", memory.Config{},
		func(d objectstore.Driver) objectstore.Driver { return noBucketIsMissing{d} }, nil),
	modelMutant("errors are bare kinds", "I6", "I7 I12", flaws{bareErrors: true}),
	modelMutant("errors name no operation", "I7", "I6", flaws{noOperation: true}),
	memoryMutant("an error shows a signed URL", "I8", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newTeller(d, store, func(err, raw error) error { return &told{error: err, text: err.Error() + ": " + raw.Error()} })
		}),
	memoryMutant("an attempt's deadline looks like the caller's", "H8", "C12 H3 H5 H11 I8 M5", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newTeller(d, store, func(err, raw error) error { return errors.Join(err, raw) })
		}),
	modelMutant("stat of a missing segment panics", "I2", `A1 A4 A5 A6 B4 B5 B12 B15 C5 C17 F1 F2 F3 F5 F9 G1 G2 G3 G4
		G5 G6 G7 G9 H1 H2 H4 I1 I6 I7 I11 L2 L7 M3 O1 O2 O3 O5 O7`, flaws{panics: true}),

	// Wrong in contexts, retries and closing.
	modelMutant("contexts are ignored", "H1", "C7 E17 H2 H7 I1 I6 I7 I11 L10 M5", flaws{ignoresContext: true}),
	modelMutant("a cancel is reported as a deadline", "H7", "C7 E17 H1 H2 H3 H5 I1 I11 L10", flaws{swapsContextErrors: true}),
	modelMutant("a cancelled call leaves a goroutine", leaked, "L10", flaws{leaksOnCancel: true}),
	// On a machine under load an attempt can run into its deadline though it has had its effect: C2, C3 and L1 have many.
	memoryMutant("exists after a lost answer is an error", "C9", "B13 B17 C2 C3 C5 C11 C12 C13 F5 H4 H8 L1 L2 L3 L6 O1 O2", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newDoubter(d, store)
		}),
	memoryMutant("nothing is tried again", "C13", "C5 C9 C10 C11 C12 D12 E15 F10 H6 H8 I1 L6 O1 O2", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			store.MaxAttempts = 1
			return newManager(d, store)
		}),
	memoryMutant("an invalid range is tried again", "D5", "O1 O2", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &insistent{m}, err
		}),
	memoryMutant("a missing segment is asked for again", "I2", "O1 O2 O3", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &hopeful{m}, err
		}),
	memoryMutant("a deadline that passes under way is told as a slow store", "H9", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &vague{m}, err
		}),
	memoryMutant("the driver ignores the condition of a create", "C16", "B8 B13 B17 C1 C2 C3 C5 C7 C9 C10 C11 C12 C14 I1 I6 I7 I11 L2 L4 L6 L10 O3", memory.Config{},
		func(d objectstore.Driver) objectstore.Driver { return overwriting{d} }, nil),
	memoryMutant("Close leaves the calls under way alone", "M4", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &hasty{WalStorageManager: m}, err
		}),
	memoryMutant("a list ends silently where it should fail", "E14", "A3 E13 E17 H1 H2 H5 H6 H7 H8 H9 I1 I3 I4 I5 I8 M5 O1 O2", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &quiet{m}, err
		}),
	memoryMutant("a bulk delete names the first failure alone", "F12", "F7", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &terse{m}, err
		}),
	memoryMutant("a cancelled bulk delete names nothing", "F7", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &mute{m}, err
		}),
	memoryMutant("one caller's cancel ends the others' calls", "H11", "H3 H4 L7", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &joint{WalStorageManager: m, stop: make(chan struct{})}, err
		}),
	memoryMutant("a wait between attempts cannot be cancelled", "H6", "H5 H9 M5 O1 O3", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			store.MaxRetryTime, store.RetryAfterCap = 3*time.Second, 2*time.Second
			m, err := newManager(d, store)
			return &deaf{m}, err
		}),
	memoryMutant("the store's own error is lost", "I5", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &forgetful{m}, err
		}),
	modelMutant("ids and offsets are not checked", "D7", "F11 I1 I6 I7 I11 "+leftBehind, flaws{takesAnything: true}),
	{name: "a wrong configuration is accepted", caught: "A2", make: func(*testing.T) (Config, func()) {
		cfg := memoryConfig(memory.Config{}, nil, nil)
		cfg.Invalid = map[string]func() error{"Bucket": func() error { return nil }}
		return cfg, func() {}
	}},
	modelMutant("closing twice is an error", "M1", "A7 I1 I6 I7 I11 L11 M2 M3 M5 M6 M8", flaws{closeTwiceFails: true}),
	modelMutant("calls go on after Close", "M3", "I1 I6 I7 I11", flaws{openAfterClose: true}),
}

func modelMutant(name, caught, also string, flaws flaws) mutant {
	return mutant{name: name, caught: caught, also: also, make: func(*testing.T) (Config, func()) {
		store := newModelStore()
		return store.config(flaws), store.release
	}}
}

func (m mutant) racy() mutant {
	m.races = true
	return m
}

// memoryMutant is a mutant over the reference driver: wrap makes a wrong driver, manage a wrong manager; either is nil.
func memoryMutant(name, caught, also string, kind memory.Config, wrap func(objectstore.Driver) objectstore.Driver,
	manage func(objectstore.Driver, objectstore.Config) (walstorage.WalStorageManager, error),
) mutant {
	return mutant{name: name, caught: caught, also: also, make: func(*testing.T) (Config, func()) {
		return memoryConfig(kind, wrap, manage), func() {}
	}}
}

// memoryConfig is the configuration of a suite over the reference driver.
func memoryConfig(kind memory.Config, wrap func(objectstore.Driver) objectstore.Driver,
	manage func(objectstore.Driver, objectstore.Config) (walstorage.WalStorageManager, error),
) Config {
	kind.Store = memory.NewStore()
	kind.ObjectBytes = modelLimit
	driver := func(fault func(memory.Call) memory.Fault) objectstore.Driver {
		d := memory.New(kind)
		d.Fault(fault)
		if wrap != nil {
			return wrap(d)
		}
		return d
	}
	cfg := Config{
		Driver:        func(testing.TB) objectstore.Driver { return driver(nil) },
		MaxObjectSize: modelLimit,
		ListLarge:     60,
		manage:        manage,
	}
	open := func(tb testing.TB, store objectstore.Config, fault func(memory.Call) memory.Fault) walstorage.WalStorageManager {
		m, err := cfg.manager(driver(fault), store)
		require.NoError(tb, err)
		return m
	}
	cfg.Denied = func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
		return open(tb, store, func(memory.Call) memory.Fault {
			return memory.Fault{Err: walstorage.NewError(walstorage.ErrAccessDenied, nil)}
		})
	}
	cfg.NoBucket = func(tb testing.TB) (walstorage.WalStorageManager, error) {
		return open(tb, objectstore.Config{Cluster: "c"}, func(memory.Call) memory.Fault {
			return memory.Fault{Err: walstorage.NewError(walstorage.ErrBucketNotFound, nil)}
		}), nil
	}
	cfg.Undeletable = func(tb testing.TB, store objectstore.Config, id walstorage.SegmentID) walstorage.WalStorageManager {
		return open(tb, store, func(memory.Call) memory.Fault {
			return memory.Fault{KeyErr: func(key string) error {
				if strings.Contains(key, id.UUID.String()) {
					return walstorage.NewError(walstorage.ErrAccessDenied, nil)
				}
				return nil
			}}
		})
	}
	return cfg
}

func newManager(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
	return Config{}.manager(d, store)
}

// TestMutants shows that the suite can fail: each wrong store fails the case named for it and none outside its set.
func TestMutants(t *testing.T) {
	var survived, alarms, caught atomic.Int64
	t.Run("all", func(t *testing.T) {
		all := slices.Concat(mutants, faultMutants)
		atOnce(len(all), func(i int) {
			m := all[i]
			t.Run(m.name, func(t *testing.T) {
				switch {
				case m.races && raceDetector:
					t.Skip("the flaw is a data race, which the race detector reports before the suite does")
				case raceDetector && (i%4 != 0 || i >= len(mutants) && i%12 != 0):
					t.Skip("under the race detector every fourth of the wrong stores is run, of those over HTTP fewer, for the time that it takes")
				}
				if m.run == nil {
					m.run = func(t *testing.T) map[string][]string {
						cfg, release := m.make(t)
						defer release()
						return runMutant(t, cfg)
					}
				}
				failed := m.run(t)
				if _, ok := failed[m.caught]; !ok {
					survived.Add(1)
					t.Errorf("survived: %s does not fail", m.caught)
				} else {
					caught.Add(1)
				}
				expected := append(strings.Fields(m.also), m.caught)
				for id, texts := range failed {
					if !slices.Contains(expected, id) {
						alarms.Add(1)
						t.Errorf("false alarm: %s fails too: %s", id, strings.Join(texts, "\n"))
					}
				}
			})
		})
	})
	fmt.Printf("mutants: %d caught, %d survived, %d false alarms\n", caught.Load(), survived.Load(), alarms.Load())
}

// atOnce calls f for each number below n, a few at once: a wrong store spends its time on waiting more than on computing,
// and parallel tests are as many as there are processors.
func atOnce(n int, f func(i int)) {
	const few = 6
	var next atomic.Int64
	var workers sync.WaitGroup
	for range few {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	workers.Wait()
}

// The two right stores that the wrong ones are made of fail nothing, under the same limits.
func TestMutantsAreMadeOfRightStores(t *testing.T) {
	t.Parallel()
	require.Empty(t, runMutant(t, modelConfig(flaws{})), "the model")
	require.Empty(t, runMutant(t, memoryConfig(memory.Config{}, nil, nil)), "the reference driver")
}

// runMutant runs every case and returns the failures by id.
func runMutant(t *testing.T, cfg Config) map[string][]string {
	cfg, err := cfg.check()
	require.NoError(t, err)
	r := newStorageRunner(cfg)
	r.prompt, r.patience, r.tidyRounds, r.brief = time.Second, 300*time.Millisecond, 1, true
	return runAllOn(t, r, storageCases)
}

// runAllOn runs the cases without failing t.
func runAllOn(t *testing.T, r *runner, cases []testCase) map[string][]string {
	failed := make(map[string][]string)
	for _, tc := range cases {
		out := r.run(t, t.Name()+"/"+tc.id, tc)
		if out.failed {
			failed[tc.id] = out.failures
		}
		if len(out.leftBehind) > 0 {
			failed[leftBehind] = append(failed[leftBehind], tc.id+": "+strings.Join(out.leftBehind, ", "))
		}
		if len(out.leaked) > 0 {
			failed[leaked] = append(failed[leaked], tc.id+": "+strings.Join(out.leaked, "\n"))
			r.patience = 0 // it leaks: no need to wait for more
		}
	}
	return failed
}

// dropsLast is a driver whose pages lack their last object where there are more.
type dropsLast struct{ objectstore.Driver }

func (d dropsLast) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	if next != "" {
		page = page[:len(page)-1]
	}
	return page, next, err
}

// repeatsToken is a driver whose lists never end.
type repeatsToken struct{ objectstore.Driver }

func (d repeatsToken) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	if token != "" {
		next = token
	}
	return page, next, err
}

// uniqueTokens hides from the Manager that a token comes again.
type uniqueTokens struct {
	objectstore.Driver
	n atomic.Int64
}

func (d *uniqueTokens) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	if at := strings.LastIndex(token, "#"); at >= 0 {
		token = token[:at]
	}
	page, next, err := d.Driver.List(ctx, prefix, token)
	if next != "" {
		next = fmt.Sprintf("%s#%d", next, d.n.Add(1))
	}
	return page, next, err
}

// hidesFailures is a driver that does not read what a bulk delete answers.
type hidesFailures struct{ objectstore.Driver }

func (d hidesFailures) Delete(ctx context.Context, keys []string) error {
	err := d.Driver.Delete(ctx, keys)
	if partial := (*objectstore.DeleteError)(nil); errors.As(err, &partial) {
		return nil
	}
	return err
}

// failuresMayPass is a driver whose bulk delete takes every key's failure for one that may pass.
type failuresMayPass struct{ objectstore.Driver }

func (d failuresMayPass) Delete(ctx context.Context, keys []string) error {
	err := d.Driver.Delete(ctx, keys)
	if partial := (*objectstore.DeleteError)(nil); errors.As(err, &partial) {
		for i := range partial.Failures {
			partial.Failures[i].Err = walstorage.NewError(walstorage.ErrUnavailable, partial.Failures[i].Err)
		}
	}
	return err
}

// deniedIsMissing is a driver that takes every refusal of a read for a missing object.
type deniedIsMissing struct{ objectstore.Driver }

func (d deniedIsMissing) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	return mistaken(d.Driver.Get(ctx, key, offset, dst), walstorage.ErrAccessDenied)
}

func (d deniedIsMissing) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	return object, mistaken(err, walstorage.ErrAccessDenied)
}

// noBucketIsMissing is a driver that takes every 404 for a missing object.
type noBucketIsMissing struct{ objectstore.Driver }

func (d noBucketIsMissing) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	return mistaken(d.Driver.Get(ctx, key, offset, dst), walstorage.ErrBucketNotFound)
}

func (d noBucketIsMissing) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	return object, mistaken(err, walstorage.ErrBucketNotFound)
}

// mistaken takes an error of the kind for a missing object.
func mistaken(err, kind error) error {
	if errors.Is(err, kind) {
		return walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	}
	return err
}

// overwriting is a driver whose creates replace what is there.
type overwriting struct{ objectstore.Driver }

func (d overwriting) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	err := d.Driver.Put(ctx, key, body, crc32c)
	if errors.Is(err, walstorage.ErrSegmentExists) {
		if err = d.Delete(ctx, []string{key}); err == nil {
			if _, err = body.Seek(0, 0); err == nil {
				err = d.Driver.Put(ctx, key, body, crc32c)
			}
		}
		if errors.Is(err, walstorage.ErrSegmentExists) {
			err = nil // another writer was faster: the last one wins
		}
	}
	return err
}

// teller is a manager that puts into its errors what the driver said, word for word.
type teller struct {
	walstorage.WalStorageManager
	spy  *spyDriver
	tell func(err, raw error) error
}

func newTeller(d objectstore.Driver, store objectstore.Config, tell func(err, raw error) error) (walstorage.WalStorageManager, error) {
	spy := &spyDriver{Driver: d}
	m, err := newManager(spy, store)
	return &teller{WalStorageManager: m, spy: spy, tell: tell}, err
}

func (m *teller) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	err := m.WalStorageManager.UploadSegment(ctx, id, data)
	m.spy.mu.Lock()
	defer m.spy.mu.Unlock()
	if err == nil || m.spy.last == nil {
		return err
	}
	return m.tell(err, m.spy.last)
}

// told is an error with another text.
type told struct {
	error
	text string
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.error }

// spyDriver remembers what the causes of failed Puts say.
type spyDriver struct {
	objectstore.Driver
	mu   sync.Mutex
	last error
}

func (d *spyDriver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	err := d.Driver.Put(ctx, key, body, crc32c)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = nil
	if classified := (*walstorage.Error)(nil); errors.As(err, &classified) {
		d.last = classified.Cause
	}
	return err
}

// doubter is a manager that takes a segment found on a second attempt for somebody else's.
type doubter struct {
	walstorage.WalStorageManager
	attempts *sync.Map // by segment id
}

func newDoubter(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
	attempts := &sync.Map{}
	next := store.Hooks.AttemptStart
	store.Hooks.AttemptStart = func(ctx context.Context, attempt walstorage.Attempt) context.Context {
		if attempt.Op == walstorage.OpUpload {
			attempts.Store(attempt.ID, attempt.Number)
		}
		if next != nil {
			return next(ctx, attempt)
		}
		return ctx
	}
	m, err := newManager(d, store)
	return &doubter{WalStorageManager: m, attempts: attempts}, err
}

func (m *doubter) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	err := m.WalStorageManager.UploadSegment(ctx, id, data)
	if n, ok := m.attempts.LoadAndDelete(id); err == nil && ok && n.(int) > 1 {
		return &walstorage.Error{Op: walstorage.OpUpload, ID: id, Kind: walstorage.ErrSegmentExists, Attempts: n.(int)}
	}
	return err
}

// insistent is a manager that asks again for a range that is not there.
type insistent struct{ walstorage.WalStorageManager }

func (m *insistent) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	err := m.WalStorageManager.FetchSegment(ctx, id, offset, dst)
	if errors.Is(err, walstorage.ErrInvalidRange) {
		err = m.WalStorageManager.FetchSegment(ctx, id, offset, dst)
	}
	return err
}

// hopeful is a manager that looks for a missing segment twice.
type hopeful struct{ walstorage.WalStorageManager }

func (m *hopeful) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	info, err := m.WalStorageManager.StatSegment(ctx, id)
	if errors.Is(err, walstorage.ErrSegmentNotFound) {
		info, err = m.WalStorageManager.StatSegment(ctx, id)
	}
	return info, err
}

// vague is a manager that does not say whose deadline has passed.
type vague struct{ walstorage.WalStorageManager }

func (m *vague) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	late := ctx.Err() != nil
	err := m.WalStorageManager.FetchSegment(ctx, id, offset, dst)
	if errors.Is(err, context.DeadlineExceeded) && !late {
		return &walstorage.Error{Op: walstorage.OpFetch, ID: id, Kind: walstorage.ErrUnavailable}
	}
	return err
}

// quiet is a manager that takes every failure of a list for its end.
type quiet struct{ walstorage.WalStorageManager }

func (m *quiet) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		for info, err := range m.WalStorageManager.ListSegments(ctx, options) {
			if walstorage.KindOf(err) != walstorage.ErrClosed && err != nil || !yield(info, err) {
				return
			}
		}
	}
}

// terse is a manager that keeps only the first failure of a bulk delete.
type terse struct{ walstorage.WalStorageManager }

func (m *terse) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	err := m.WalStorageManager.DeleteSegments(ctx, ids...)
	if failed := (*walstorage.DeleteError)(nil); errors.As(err, &failed) {
		failed.Failures = failed.Failures[:1]
	}
	return err
}

// mute is a manager that says of a cancelled bulk delete no more than that.
type mute struct{ walstorage.WalStorageManager }

func (m *mute) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	err := m.WalStorageManager.DeleteSegments(ctx, ids...)
	if err != nil && ctx.Err() != nil {
		return &walstorage.Error{Op: walstorage.OpDelete, Kind: ctx.Err()}
	}
	return err
}

// joint is a manager whose uploads under way share one fate.
type joint struct {
	walstorage.WalStorageManager
	mu   sync.Mutex
	stop chan struct{} // closed when an upload is cancelled
}

func (m *joint) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	m.mu.Lock()
	stop := m.stop
	m.mu.Unlock()
	shared, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
			cancel()
		case <-shared.Done():
		}
	}()
	err := m.WalStorageManager.UploadSegment(shared, id, data)
	if ctx.Err() != nil {
		m.mu.Lock()
		if stop == m.stop {
			close(m.stop)
			m.stop = make(chan struct{})
		}
		m.mu.Unlock()
	}
	cancel()
	<-ended
	return err
}

// deaf is a manager that looks at the context of a stat at its beginning and never again.
type deaf struct{ walstorage.WalStorageManager }

func (m *deaf) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	if ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	return m.WalStorageManager.StatSegment(ctx, id)
}

// forgetful is a manager whose errors have no cause.
type forgetful struct{ walstorage.WalStorageManager }

func (m *forgetful) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	err := m.WalStorageManager.FetchSegment(ctx, id, offset, dst)
	if failed := (*walstorage.Error)(nil); errors.As(err, &failed) {
		return &walstorage.Error{Op: failed.Op, ID: failed.ID, Attempts: failed.Attempts, Kind: failed.Kind}
	}
	return err
}

// hasty is a manager whose Close returns while calls are under way, and leaves them to themselves.
type hasty struct {
	walstorage.WalStorageManager
	calls atomic.Int64
	first atomic.Bool
}

func (m *hasty) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	m.calls.Add(1)
	defer m.calls.Add(-1)
	return m.WalStorageManager.UploadSegment(ctx, id, data)
}

func (m *hasty) Close() error {
	if m.calls.Load() > 0 && m.first.CompareAndSwap(false, true) {
		return nil
	}
	return m.WalStorageManager.Close()
}
