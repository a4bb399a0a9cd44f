package conformance

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// faultDriver stands between a real driver and an objectstore.Manager and does to the calls what a case wants: so the
// faults of a network can be played on any backend, with the backend's own objects behind them. It also watches that
// the Manager keeps what drivers may rely on.
type faultDriver struct {
	driver objectstore.Driver

	// The functions decide what becomes of a call; n counts the calls of the method from 1. One that is nil lets the
	// calls through.
	onPut    func(n int, call putCall) error
	onGet    func(n int, call getCall) error
	onStat   func(n int, call statCall) (objectstore.Object, error)
	onDelete func(n int, call deleteCall) error
	onList   func(n int, call listCall) ([]objectstore.Object, string, error)
	// onEnter, if it is not nil, is called at the beginning of each call with the number of calls of all methods.
	onEnter func(total int)
	// keysPerDelete lowers the driver's own limit, if it is not 0.
	keysPerDelete int

	mu       sync.Mutex
	counts   map[string]int
	total    int
	underWay int
	closed   int
	broken   []string // what the Manager did wrong
}

type putCall struct {
	ctx    context.Context
	driver objectstore.Driver
	key    string
	body   *objectstore.Body
	next   func() error
}

type getCall struct {
	ctx  context.Context
	key  string
	dst  []byte
	next func() error
}

type statCall struct {
	ctx  context.Context
	key  string
	next func() (objectstore.Object, error)
}

type deleteCall struct {
	ctx    context.Context
	driver objectstore.Driver
	keys   []string
	next   func() error
}

type listCall struct {
	ctx           context.Context
	driver        objectstore.Driver
	prefix, token string
	next          func() ([]objectstore.Object, string, error)
}

// openFaulty returns a handle on the case's place whose requests pass through faults.
func (c *T) openFaulty(faults *faultDriver) *handle {
	return c.openFaultyWith(faults, func(*objectstore.Config) {})
}

// openFaultyWith is openFaulty with a change to the Manager's configuration. Pauses between attempts are short, so that
// the suite spends its time on calls.
func (c *T) openFaultyWith(faults *faultDriver, change func(*objectstore.Config)) *handle {
	c.storage.remember(c.storage.home)
	faults.driver = c.storage.cfg.Driver(c)
	h := &handle{c: c}
	store := c.storage.home.config()
	store.Hooks.AttemptStart = func(ctx context.Context, _ walstorage.Attempt) context.Context {
		h.attempts.Add(1)
		return ctx
	}
	store.BackoffBase, store.BackoffCap = time.Millisecond, 10*time.Millisecond
	store.ProbeMin, store.ProbeMax = time.Millisecond, 10*time.Millisecond
	change(&store)
	m, err := c.storage.cfg.manager(faults, store)
	require.NoError(c, err, "objectstore.New over the driver of the configuration")
	h.WalStorageManager = m
	c.Cleanup(func() {
		if err := h.Close(); err != nil {
			c.Errorf("closing a handle: %v", err)
		}
		faults.mu.Lock()
		defer faults.mu.Unlock()
		if faults.closed != 1 {
			c.Errorf("the driver was closed %d times, want once", faults.closed)
		}
		for _, broken := range faults.broken {
			c.Errorf("%s", broken)
		}
	})
	return h
}

// calls returns how often a method was called.
func (d *faultDriver) calls(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[method]
}

// attempted returns the number of calls of all methods.
func (d *faultDriver) attempted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// busy returns the number of calls under way.
func (d *faultDriver) busy() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.underWay
}

// enter counts a call; the function that it returns is called when the call ends.
func (d *faultDriver) enter(method string) (n int, leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = make(map[string]int)
	}
	d.counts[method]++
	d.total++
	if d.onEnter != nil {
		d.onEnter(d.total)
	}
	d.underWay++
	if d.closed > 0 {
		d.broken = append(d.broken, fmt.Sprintf("%s was called after the driver was closed", method))
	}
	return d.counts[method], func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.underWay--
	}
}

func (d *faultDriver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	n, leave := d.enter("Put")
	defer leave()
	next := func() error { return d.driver.Put(ctx, key, body, crc32c) }
	if d.onPut == nil {
		return next()
	}
	return d.onPut(n, putCall{ctx: ctx, driver: d.driver, key: key, body: body, next: next})
}

func (d *faultDriver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	n, leave := d.enter("Get")
	defer leave()
	next := func() error { return d.driver.Get(ctx, key, offset, dst) }
	if d.onGet == nil {
		return next()
	}
	return d.onGet(n, getCall{ctx: ctx, key: key, dst: dst, next: next})
}

func (d *faultDriver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	n, leave := d.enter("Stat")
	defer leave()
	next := func() (objectstore.Object, error) { return d.driver.Stat(ctx, key) }
	if d.onStat == nil {
		return next()
	}
	return d.onStat(n, statCall{ctx: ctx, key: key, next: next})
}

func (d *faultDriver) Delete(ctx context.Context, keys []string) error {
	n, leave := d.enter("Delete")
	defer leave()
	if limit := d.Limits().KeysPerDelete; len(keys) == 0 || limit > 0 && len(keys) > limit {
		d.mu.Lock()
		d.broken = append(d.broken, fmt.Sprintf("Delete was called with %d keys, where the driver takes 1 to %d", len(keys), limit))
		d.mu.Unlock()
	}
	next := func() error { return d.driver.Delete(ctx, keys) }
	if d.onDelete == nil {
		return next()
	}
	return d.onDelete(n, deleteCall{ctx: ctx, driver: d.driver, keys: keys, next: next})
}

func (d *faultDriver) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	n, leave := d.enter("List")
	defer leave()
	next := func() ([]objectstore.Object, string, error) { return d.driver.List(ctx, prefix, token) }
	if d.onList == nil {
		return next()
	}
	return d.onList(n, listCall{ctx: ctx, driver: d.driver, prefix: prefix, token: token, next: next})
}

func (d *faultDriver) Limits() objectstore.Limits {
	limits := d.driver.Limits()
	if d.keysPerDelete > 0 && (limits.KeysPerDelete == 0 || d.keysPerDelete < limits.KeysPerDelete) {
		limits.KeysPerDelete = d.keysPerDelete
	}
	return limits
}

func (d *faultDriver) Close() error {
	d.mu.Lock()
	d.closed++
	if d.underWay > 0 {
		d.broken = append(d.broken, fmt.Sprintf("the driver was closed while %d of its calls were under way", d.underWay))
	}
	d.mu.Unlock()
	return d.driver.Close()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc32c(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

// key returns the object key of a segment in the case's place.
func (c *T) key(id walstorage.SegmentID) string {
	c.storage.remember(c.storage.home)
	keys, err := walstorage.NewKeys(c.storage.home.prefix, c.storage.home.cluster)
	require.NoError(c, err)
	return keys.Key(id)
}
