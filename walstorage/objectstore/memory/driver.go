package memory

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Config configures a [Driver]. Every zero value is a default.
type Config struct {
	// Store holds the objects. Default: a new one of this driver's own.
	Store *Store
	// Now is the store's clock, which objectstore.Object.Stored shows. Default: time.Now.
	Now func() time.Time
	// PageSize is the largest number of objects on a page of a List. Default: 1,000.
	PageSize int
	// Shuffle orders lists by a function of it and the key, and not by the key. Default 0: in byte order.
	Shuffle uint64
	// Overlap makes every page of a List but the first begin with the last object of the page before.
	Overlap bool
	// KeysPerDelete is the largest number of keys of a Delete. Default: 1,000.
	KeysPerDelete int
	// ObjectBytes is the largest object in bytes. Default: no limit.
	ObjectBytes int64
	// NoCRC32C makes Stat tell no checksum, as a plain file system.
	NoCRC32C bool
	// NoStored makes Stat and List tell no time of storing.
	NoStored bool
}

// Driver is one handle on a [Store]. Its methods may be called concurrently.
type Driver struct {
	cfg   Config
	store *Store

	mu      sync.Mutex
	fault   func(Call) Fault
	calls   map[string]int
	release chan struct{}
	closed  bool
	listed  listing
}

// listing is the order in which a list yields the objects below a prefix, kept for the pages that follow.
type listing struct {
	prefix    string
	version   int // of the store's keys
	positions []position
}

var _ objectstore.Driver = (*Driver)(nil)

// New returns a driver without faults. A negative number in cfg counts as zero.
func New(cfg Config) *Driver {
	if cfg.Store == nil {
		cfg.Store = NewStore()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.PageSize <= 0 {
		cfg.PageSize = 1000
	}
	if cfg.KeysPerDelete <= 0 {
		cfg.KeysPerDelete = 1000
	}
	return &Driver{cfg: cfg, store: cfg.Store, calls: make(map[string]int), release: make(chan struct{})}
}

// NewManager returns a manager over a new driver with a store of its own, and the driver, for its faults. The error is
// that of objectstore.New: a wrong field of cfg.
func NewManager(cfg objectstore.Config) (*objectstore.Manager, *Driver, error) {
	driver := New(Config{})
	manager, err := objectstore.New(driver, cfg)
	if err != nil {
		return nil, nil, err
	}
	return manager, driver, nil
}

// Store returns the store that the driver works on.
func (d *Driver) Store() *Store { return d.store }

// Fault sets the function that decides about each call from now on; nil ends all faults. It is called once at the start
// of each call, on the caller's goroutine, without a lock; it may be called concurrently. If what it decides is a pure
// function of the Call then a run is as reproducible as the order of the calls.
func (d *Driver) Fault(decide func(Call) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = decide
}

// Release lets all calls go on that a Fault with Hang holds at this moment.
func (d *Driver) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.release)
	d.release = make(chan struct{})
}

// Calls returns how often the method has been called on this driver: "Put", "Get", "Stat", "Delete" or "List".
func (d *Driver) Calls(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[method]
}

// begin counts the call and carries out the part of its fault that comes before the effect.
func (d *Driver) begin(ctx context.Context, call Call) (Fault, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return Fault{}, walstorage.NewError(walstorage.ErrClosed, nil)
	}
	d.calls[call.Method]++
	call.Number = d.calls[call.Method]
	decide, release := d.fault, d.release
	d.mu.Unlock()

	var fault Fault
	if decide != nil {
		call.Segment = segmentOf(call.Key)
		fault = decide(call)
	}
	if fault.Panic != nil {
		panic(fault.Panic)
	}
	if fault.Hang {
		<-release
	}
	if fault.Wait != nil {
		select {
		case <-fault.Wait:
		case <-ctx.Done():
		}
	}
	if err := sleep(ctx, fault.Delay); err != nil {
		return fault, err
	}
	return fault, fault.Err
}

// end carries out the part of the fault that comes after the effect. err is what the call would return without it.
func (d *Driver) end(ctx context.Context, fault Fault, err error) error {
	if late := sleep(ctx, fault.AnswerDelay); late != nil && fault.AnswerDelay > 0 {
		return late
	}
	if fault.ErrAfter != nil {
		return fault.ErrAfter
	}
	return err
}

// sleep waits, or returns the context's error if it has ended by then.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 && ctx.Err() == nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// segmentOf parses a key of any cluster below any prefix.
func segmentOf(key string) walstorage.SegmentID {
	parts := strings.Split(key, "/")
	const below = 4 // broker, hour, minute and name
	if len(parts) <= below {
		return walstorage.SegmentID{}
	}
	cluster := len(parts) - below - 1
	keys, err := walstorage.NewKeys(strings.Join(parts[:cluster], "/"), parts[cluster])
	if err != nil {
		return walstorage.SegmentID{}
	}
	id, _ := keys.Parse(key)
	return id
}

// Put implements [objectstore.Driver].
func (d *Driver) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	fault, err := d.begin(ctx, Call{Method: "Put", Key: key, Size: body.Len()})
	if err != nil {
		return err
	}
	data := make([]byte, body.Len())
	if _, err := io.ReadFull(body, data); err != nil {
		return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("reading the body: %w", err))
	}
	damage(&data, fault)
	if d.cfg.ObjectBytes > 0 && int64(len(data)) > d.cfg.ObjectBytes {
		return walstorage.NewError(walstorage.ErrTooLarge, nil)
	}
	if got := crc32.Checksum(data, castagnoli); got != crc32c {
		return walstorage.NewError(walstorage.ErrCorrupt, fmt.Errorf("the body has CRC32C %08x, not %08x", got, crc32c))
	}
	object := stored{data: data, crc32c: crc32c, at: d.cfg.Now()}
	if fault.LandLate > 0 {
		object.at = object.at.Add(fault.LandLate)
		d.store.createLate(key, object, fault.LandLate)
		return d.end(ctx, fault, walstorage.NewError(walstorage.ErrUnavailable, errors.New("the answer did not come")))
	}
	if !d.store.create(key, object) {
		err = walstorage.NewError(walstorage.ErrSegmentExists, nil)
	}
	return d.end(ctx, fault, err)
}

// damage applies what happens to bytes on their way.
func damage(data *[]byte, fault Fault) {
	if bit := fault.FlipBit - 1; bit >= 0 && bit/8 < int64(len(*data)) {
		(*data)[bit/8] ^= 1 << (bit % 8)
	}
	*data = (*data)[:len(*data)-min(max(fault.Truncate, 0), len(*data))]
}

// Get implements [objectstore.Driver].
func (d *Driver) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	fault, err := d.begin(ctx, Call{Method: "Get", Key: key, Offset: offset, Size: int64(len(dst))})
	if err != nil {
		return err
	}
	object, ok := d.store.get(key)
	size := int64(len(object.data))
	switch {
	case !ok:
		err = walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	case offset > size || int64(len(dst)) > size-offset:
		err = walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("%d bytes from %d on, the object has %d", len(dst), offset, size))
	default:
		copy(dst, object.data[offset:])
		sent := dst
		damage(&sent, fault)
		if len(sent) < len(dst) {
			clear(dst[len(sent):])
			err = walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("the body ended after %d of %d bytes", len(sent), len(dst)))
		}
	}
	return d.end(ctx, fault, err)
}

// Stat implements [objectstore.Driver].
func (d *Driver) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	fault, err := d.begin(ctx, Call{Method: "Stat", Key: key})
	if err != nil {
		return objectstore.Object{}, err
	}
	object, ok := d.store.get(key)
	if !ok {
		err = walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	}
	if err = d.end(ctx, fault, err); err != nil {
		return objectstore.Object{}, err
	}
	return d.describe(key, object), nil
}

func (d *Driver) describe(key string, object stored) objectstore.Object {
	described := objectstore.Object{Key: key, Size: int64(len(object.data)), Stored: object.at}
	if d.cfg.NoStored {
		described.Stored = time.Time{}
	}
	if !d.cfg.NoCRC32C {
		described.CRC32C, described.HasCRC32C = object.crc32c, true
	}
	return described
}

// Delete implements [objectstore.Driver].
func (d *Driver) Delete(ctx context.Context, keys []string) error {
	call := Call{Method: "Delete", Keys: slices.Clone(keys)}
	if len(keys) > 0 {
		call.Key = keys[0]
	}
	fault, err := d.begin(ctx, call)
	if err != nil {
		return err
	}
	if len(keys) > d.cfg.KeysPerDelete {
		return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("%d keys, at most %d are allowed", len(keys), d.cfg.KeysPerDelete))
	}
	var failures []objectstore.DeleteFailure
	for _, key := range keys {
		if fault.KeyErr != nil {
			if err := fault.KeyErr(key); err != nil {
				failures = append(failures, objectstore.DeleteFailure{Key: key, Err: err})
				continue
			}
		}
		d.store.Remove(key)
	}
	if len(failures) > 0 {
		err = &objectstore.DeleteError{Failures: failures}
	}
	return d.end(ctx, fault, err)
}

// position is the place of an object in the order of a list.
type position struct {
	rank uint64 // 0 where the list is in byte order
	key  string
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.rank, q.rank), strings.Compare(p.key, q.key))
}

func (d *Driver) position(key string) position {
	if d.cfg.Shuffle == 0 {
		return position{key: key}
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, d.cfg.Shuffle))
	_, _ = h.Write([]byte(key))
	return position{rank: h.Sum64(), key: key}
}

// positions returns the objects below the prefix in the order of this driver's lists. The slice is not to be modified.
func (d *Driver) positions(prefix string) []position {
	keys, version := d.store.keys()
	d.mu.Lock()
	listed := d.listed
	d.mu.Unlock()
	if listed.version == version && listed.prefix == prefix {
		return listed.positions
	}
	listed = listing{prefix: prefix, version: version}
	from, _ := slices.BinarySearch(keys, prefix)
	for _, key := range keys[from:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		listed.positions = append(listed.positions, d.position(key))
	}
	if d.cfg.Shuffle != 0 {
		slices.SortFunc(listed.positions, position.compare)
	}
	d.mu.Lock()
	d.listed = listed
	d.mu.Unlock()
	return listed.positions
}

// A token is the key of the last object of the page before, after this sign; the sign alone is the start of the list.
const tokenSign = "after:"

// List implements [objectstore.Driver]. A page goes on after an object and not at an index, so that what is stored or
// deleted meanwhile moves nothing else.
func (d *Driver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	fault, err := d.begin(ctx, Call{Method: "List", Key: prefix, Token: token})
	if err != nil {
		return nil, "", err
	}
	last, legal := strings.CutPrefix(token, tokenSign)
	if token != "" && !legal {
		return nil, "", walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("the token is not of this store"))
	}
	positions := d.positions(prefix)
	if last != "" {
		after, found := slices.BinarySearchFunc(positions, d.position(last), position.compare)
		if found && !d.cfg.Overlap {
			after++
		}
		positions = positions[after:]
	}
	size := d.cfg.PageSize
	if last != "" && d.cfg.Overlap {
		size++
	}
	more := len(positions) > size
	positions = positions[:min(size, len(positions))]
	for _, p := range positions {
		if object, ok := d.store.get(p.key); ok { // else it was deleted just now
			page = append(page, d.describe(p.key, object))
		}
	}
	switch {
	case fault.RepeatPage:
		next = tokenSign + last
	case more:
		next = tokenSign + positions[len(positions)-1].key
	}
	if fault.NoToken {
		next, err = objectstore.NextToken(more, "")
	}
	if err = d.end(ctx, fault, err); err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// Limits implements [objectstore.Driver].
func (d *Driver) Limits() objectstore.Limits {
	return objectstore.Limits{KeysPerDelete: d.cfg.KeysPerDelete, ObjectBytes: max(d.cfg.ObjectBytes, 0)}
}

// Close ends the handle: later calls give walstorage.ErrClosed. The store and its other handles go on. Hanging calls are
// not released.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}
