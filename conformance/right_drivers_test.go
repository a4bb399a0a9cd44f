package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// strictDriver is a right driver of a store that takes few keys in a delete and lists each object twice, as the contract
// allows (W10). It refuses what the contract does not allow its callers.
type strictDriver struct {
	objectstore.Driver
	limits objectstore.Limits
	twice  bool
}

func (d strictDriver) Limits() objectstore.Limits { return d.limits }

func (d strictDriver) Delete(ctx context.Context, keys []string) error {
	if len(keys) == 0 || d.limits.KeysPerDelete > 0 && len(keys) > d.limits.KeysPerDelete {
		return fmt.Errorf("a delete of %d keys, of at most %d", len(keys), d.limits.KeysPerDelete)
	}
	return d.Driver.Delete(ctx, keys)
}

func (d strictDriver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	if d.limits.ObjectBytes > 0 && body.Len() > d.limits.ObjectBytes {
		return errors.New("a body larger than the limit")
	}
	return d.Driver.Put(ctx, key, body, crc32c)
}

func (d strictDriver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	page, next, err = d.Driver.List(ctx, prefix, token)
	if d.twice {
		page = append(page, page...)
	}
	return page, next, err
}

// Whatever a right driver may do passes, and the suite keeps to the limits that a driver names: a store that deletes one
// object at a time is as right as one that takes a thousand.
func TestRightDriversPass(t *testing.T) {
	for name, driver := range map[string]strictDriver{
		"one key in a delete":        {limits: objectstore.Limits{KeysPerDelete: 1}},
		"each object listed twice":   {twice: true},
		"objects of 16 KiB, no more": {limits: objectstore.Limits{ObjectBytes: leastObjectSize}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.NewStore()
			Run(t, Config{
				Driver: func(testing.TB) objectstore.Driver {
					d := driver
					d.Driver = memory.New(memory.Config{Store: store, PageSize: 100})
					return d
				},
				MaxObjectSize: driver.limits.ObjectBytes,
				ListLarge:     201,
			})
			require.Empty(t, store.Keys())
		})
	}
}

// A store that takes less than the cases need is told so before they begin, and not case by case.
func TestMaxObjectSizeIsEnough(t *testing.T) {
	cfg := modelConfig(flaws{})
	cfg.MaxObjectSize = leastObjectSize - 1
	_, err := cfg.check()
	require.ErrorContains(t, err, "Config.MaxObjectSize is 16383")
}

// opensFiles is a driver that leaves a file open with each Put, up to a number of them; none is closed before the test ends.
type opensFiles struct {
	objectstore.Driver
	left *atomic.Int32
	open func()
}

func (d opensFiles) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	if d.left.Add(-1) >= 0 {
		d.open()
	}
	return d.Driver.Put(ctx, key, body, crc32c)
}

// L10: what other tests of the process open meanwhile, however much, is no leak of the store's; one in each round is.
func TestLeakOfFilesIsToldFromNoise(t *testing.T) {
	if _, counted := openFiles(); !counted {
		t.Skip("open files cannot be counted on this system")
	}
	for name, tc := range map[string]struct {
		files int32
		fails bool
	}{
		"sixty files, once":     {60, false},
		"a file in each upload": {math.MaxInt32, true},
	} {
		t.Run(name, func(t *testing.T) {
			var left atomic.Int32
			left.Store(tc.files)
			store := memory.NewStore()
			out, _ := runOne(t, Config{Driver: func(testing.TB) objectstore.Driver {
				return opensFiles{memory.New(memory.Config{Store: store}), &left, func() {
					file, err := os.Open(os.DevNull)
					assert.NoError(t, err)
					t.Cleanup(func() { _ = file.Close() })
				}}
			}}, "L10")
			require.Equal(t, tc.fails, out.failed, "%v", out.failures)
		})
	}
}

// losesAnswers carries out every second delete and tells that the store was busy.
type losesAnswers struct {
	objectstore.Driver
	deletes *atomic.Int32
}

func (d losesAnswers) Delete(ctx context.Context, keys []string) error {
	err := d.Driver.Delete(ctx, keys)
	if err == nil && d.deletes.Add(1)%2 == 1 {
		return walstorage.NewError(walstorage.ErrUnavailable, errLostAnswer)
	}
	return err
}

// C5, L6: a delete that is repeated after a lost answer takes effect twice, behind a create that has been acknowledged
// meanwhile. A store that answers so is right.
func TestRepeatedDeletesAreRight(t *testing.T) {
	for _, id := range []string{"C5", "L6"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			store, deletes := memory.NewStore(), new(atomic.Int32)
			out, _ := runOne(t, Config{Driver: func(testing.TB) objectstore.Driver {
				return losesAnswers{memory.New(memory.Config{Store: store}), deletes}
			}}, id)
			require.False(t, out.failed, "%v", out.failures)
			require.Contains(t, strings.Join(out.logs, "\n"), "are not judged")
		})
	}
}

// pooled is a right manager with workers that it starts as calls come, up to most, and that hold the last buffer until Close.
type pooled struct {
	walstorage.WalStorageManager
	most   int32
	calls  atomic.Int32
	closed chan struct{}
}

func (m *pooled) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	if m.calls.Add(1) <= m.most {
		go func() {
			<-m.closed
			runtime.KeepAlive(dst)
		}()
	}
	return m.WalStorageManager.FetchSegment(ctx, id, offset, dst)
}

func (m *pooled) Close() error {
	close(m.closed)
	return m.WalStorageManager.Close()
}

// L10: a pool of workers that fills as it is used, and then does not grow, is no leak; one that has no bound is.
func TestLeakOfWorkersIsToldFromAPool(t *testing.T) {
	for name, tc := range map[string]struct {
		workers int32
		fails   bool
	}{
		"a pool of 64":       {64, false},
		"one for each fetch": {math.MaxInt32, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.NewStore()
			out, _ := runOne(t, Config{
				Driver: func(testing.TB) objectstore.Driver { return memory.New(memory.Config{Store: store}) },
				manage: func(driver objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
					m, err := objectstore.New(driver, store)
					return &pooled{WalStorageManager: m, most: tc.workers, closed: make(chan struct{})}, err
				},
			}, "L10")
			require.Equal(t, tc.fails, out.failed, "%v", out.failures)
		})
	}
}
