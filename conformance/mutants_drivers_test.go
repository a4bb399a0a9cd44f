package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// driverMutants are wrong in ways in which somebody's first driver plausibly is: right for small objects, short lists,
// quiet stores and one handle.
var driverMutants = []mutant{
	driverMutant("creates above 64 KiB overwrite", "C1", "C2 C3", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return largeOverwrites{d, overwriting{d}}
	}),
	driverMutant("what is stored is damaged, and the handle that stored it remembers it right", "B1", "B2 B5 B6 C1 C3 F8 H4 L2 L3 L4 L6 L7", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &writeCache{Driver: d, own: map[string][]byte{}}
	}),
	driverMutant("a segment that was deleted and stored again reads as the old one on other handles", "C17", "L6", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &readCache{Driver: d, read: map[string][]byte{}}
	}),
	driverMutant("a checksum is told of another polynomial", "B13", "C5 C9 C11 C12 F5 H4 L3 L6", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return otherPolynomial{d}
	}),
	driverMutant("a range that begins at a border of 64 KiB is read from one byte later", "D2", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return blockBorders{d}
	}),
	driverMutant("a fetch fills its buffer beyond its length", "D1", "D2 D11 D12", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return overruns{d}
	}).racy(),
	driverMutant("a fetch beside a delete is filled with zeros", "F8", "H5", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return zeroFills{d}
	}),
	driverMutant("a stat finds what begins with the name", "F4", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return statsByPrefix{d}
	}),
	driverMutant("a delete takes what begins with the name", "F4", "E16 F6 G7 "+leftBehind, memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return deletesByPrefix{d}
	}),
	driverMutant("a delete of several stops at the first that is missing", "F5", "F2 F6 P1 "+leftBehind, memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return stopsAtMissing{d}
	}),
	driverMutant("a delete is carried out a moment after it has returned", "F1", `A1 A3 A4 A5 A6 B15 C5 C9 C17 E7 E10 E16 E23 F2 F3 F4 F5 F6 F7
		F9 F10 F12 G1 G2 G3 G4 G5 G6 G7 G9 I2 I3 I4 L1 L2 L6 P1 P3 `+leftBehind, memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &deletesLate{Driver: d, after: 500 * time.Microsecond}
	}),
	driverMutant("a delete is carried out a second time a moment later", "L6", "C5 C17 F3 L2", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &deletesLate{Driver: d, also: true, after: 100 * time.Microsecond}
	}),
	// With pages longer than any list but the long ones, and those as long as Config.ListLarge asks for.
	driverMutant("pages are counted while segments come and go", "E11", "", longPages, func(d objectstore.Driver) objectstore.Driver {
		return countedPages{d}
	}).listing(2*longPages.PageSize + 1),
	driverMutant("a list drops its last segment where it ends exactly with a page", "E10", "", longPages, func(d objectstore.Driver) objectstore.Driver {
		return dropsAtBorder{d}
	}).listing(2*longPages.PageSize + 1),
	driverMutant("a list ends after its second page", "E10", "E11", longPages, func(d objectstore.Driver) objectstore.Driver {
		return twoPages{d}
	}).listing(2*longPages.PageSize + 1),
	driverMutant("a list tells the time of asking as that of storing", "E6", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return storedNow{d}
	}),
	driverMutant("times are told in seconds and taken for milliseconds", "E6", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return otherUnit{d}
	}),
	driverMutant("stats at once get each other's answers", "L1", "L2", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &sharedAnswer{Driver: d}
	}),
	memoryMutant("every call leaves a goroutine until Close", "L10", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &crowded{WalStorageManager: m, closed: make(chan struct{})}, err
		}),
	memoryMutant("every buffer is kept until Close", "L10", "", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &hoarder{WalStorageManager: m}, err
		}),
	memoryMutant("an upload that was cancelled is success", "H3", "C12 C13 H6 H8 H11 I1 M5 O1", memory.Config{}, nil,
		func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
			m, err := newManager(d, store)
			return &hopefulUploads{m}, err
		}),
}

// longPages are pages of lists that hold what most cases store.
var longPages = memory.Config{PageSize: 160}

// listing changes how long the long lists of the suite are.
func (m mutant) listing(segments int) mutant {
	made := m.make
	m.make = func(t *testing.T) (Config, func()) {
		cfg, release := made(t)
		cfg.ListLarge = segments
		return cfg, release
	}
	return m
}

// driverMutant is a wrong driver over the reference one.
func driverMutant(name, caught, also string, kind memory.Config, wrap func(objectstore.Driver) objectstore.Driver) mutant {
	return memoryMutant(name, caught, also, kind, wrap, nil)
}

// stored returns the whole of an object.
func stored(ctx context.Context, d objectstore.Driver, key string) ([]byte, error) {
	object, err := d.Stat(ctx, key)
	if err != nil || object.Size == 0 {
		return nil, err
	}
	data := make([]byte, object.Size)
	return data, d.Get(ctx, key, 0, data)
}

// contentOf reads a body to its end and rewinds it.
func contentOf(body *objectstore.Body) ([]byte, error) {
	data, err := io.ReadAll(body)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	return data, err
}

// largeOverwrites is a driver that sends what is large in another way, without the condition.
type largeOverwrites struct {
	objectstore.Driver
	large overwriting
}

func (d largeOverwrites) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	if body.Len() > 64<<10 {
		return d.large.Put(ctx, key, body, crc32c)
	}
	return d.Driver.Put(ctx, key, body, crc32c)
}

// writeCache is a driver that cuts a bit off what is larger than a page of memory, and reads what it has stored itself
// from its own memory.
type writeCache struct {
	objectstore.Driver
	mu  sync.Mutex
	own map[string][]byte
}

func (d *writeCache) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	data, err := contentOf(body)
	if err != nil {
		return walstorage.NewError(walstorage.ErrUnavailable, err)
	}
	damaged := bytes.Clone(data)
	if len(damaged) > 4096 {
		damaged[4096] ^= 1
	}
	err = d.Driver.Put(ctx, key, objectstore.NewBody(damaged), crc32.Checksum(damaged, castagnoli))
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.own[key] = data
	}
	return err
}

func (d *writeCache) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	err := d.Driver.Get(ctx, key, offset, dst)
	d.mu.Lock()
	defer d.mu.Unlock()
	if own := d.own[key]; err == nil && own != nil {
		copy(dst, own[offset:])
	}
	return err
}

func (d *writeCache) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if own := d.own[key]; own != nil {
		object.CRC32C = crc32c(own)
	}
	return object, err
}

// readCache is a driver that keeps what it has read under its name, since it can never change.
type readCache struct {
	objectstore.Driver
	mu   sync.Mutex
	read map[string][]byte
}

func (d *readCache) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	err := d.Driver.Get(ctx, key, offset, dst)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	whole := d.read[key]
	if whole == nil {
		if whole, err = stored(ctx, d.Driver, key); err != nil {
			return err
		}
		d.read[key] = whole
	}
	if offset < int64(len(whole)) {
		copy(dst, whole[offset:])
	}
	return nil
}

// otherPolynomial is a driver whose store tells CRC-32 checksums, and not CRC-32C.
type otherPolynomial struct{ objectstore.Driver }

func (d otherPolynomial) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	if err != nil {
		return object, err
	}
	data, err := stored(ctx, d.Driver, key)
	object.CRC32C = crc32.ChecksumIEEE(data)
	return object, err
}

// blockBorders is a driver that keeps objects in blocks of 64 KiB.
type blockBorders struct{ objectstore.Driver }

func (d blockBorders) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	err := d.Driver.Get(ctx, key, offset, dst)
	if err == nil && offset > 0 && offset%(64<<10) == 0 {
		copy(dst, dst[1:])
	}
	return err
}

// overruns is a driver that takes the room behind its buffer for its own.
type overruns struct{ objectstore.Driver }

func (d overruns) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	err := d.Driver.Get(ctx, key, offset, dst)
	if err == nil && cap(dst) > len(dst) {
		if data, err := stored(ctx, d.Driver, key); err == nil && offset < int64(len(data)) {
			copy(dst[:cap(dst)], data[offset:])
		}
	}
	return err
}

// zeroFills is a driver that reads in two halves, and does not look at what becomes of the second.
type zeroFills struct{ objectstore.Driver }

func (d zeroFills) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	err := d.Driver.Get(ctx, key, offset, dst)
	if err != nil || len(dst) < 1000 {
		return err
	}
	half := len(dst) / 2
	clear(dst[half:])
	<-time.After(200 * time.Microsecond) // as long as a slow disk
	_ = d.Driver.Get(ctx, key, offset+int64(half), dst[half:])
	return nil
}

// statsByPrefix is a driver whose store can list and not stat.
type statsByPrefix struct{ objectstore.Driver }

func (d statsByPrefix) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	if errors.Is(err, walstorage.ErrSegmentNotFound) {
		page, _, err := d.List(ctx, key[:strings.LastIndex(key, "/")+1], "")
		if err != nil {
			return object, err
		}
		for _, other := range page {
			if strings.HasPrefix(other.Key, key) {
				return other, nil
			}
		}
	}
	return object, err
}

// deletesByPrefix is a driver whose store deletes by prefix.
type deletesByPrefix struct{ objectstore.Driver }

func (d deletesByPrefix) Delete(ctx context.Context, keys []string) error {
	for _, key := range keys {
		page, _, err := d.List(ctx, key[:strings.LastIndex(key, "/")+1], "")
		if err != nil {
			return err
		}
		for _, object := range page {
			if strings.HasPrefix(object.Key, key) {
				if err := d.Driver.Delete(ctx, []string{object.Key}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stopsAtMissing is a driver that takes the first missing key for the end of its work.
type stopsAtMissing struct{ objectstore.Driver }

func (d stopsAtMissing) Delete(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if _, err := d.Stat(ctx, key); errors.Is(err, walstorage.ErrSegmentNotFound) {
			return nil
		}
		if err := d.Driver.Delete(ctx, []string{key}); err != nil {
			return err
		}
	}
	return nil
}

// deletesLate is a driver whose deletes take effect a moment after they have returned, or once more then.
type deletesLate struct {
	objectstore.Driver
	also  bool
	after time.Duration
	late  sync.WaitGroup
}

func (d *deletesLate) Delete(ctx context.Context, keys []string) error {
	if d.also {
		if err := d.Driver.Delete(ctx, keys); err != nil {
			return err
		}
	}
	keys = slices.Clone(keys)
	d.late.Go(func() {
		<-time.After(d.after)
		_ = d.Driver.Delete(context.WithoutCancel(ctx), keys)
	})
	return nil
}

func (d *deletesLate) Close() error {
	d.late.Wait()
	return d.Driver.Close()
}

// countedPages is a driver whose token is the number of objects that it has given out.
type countedPages struct{ objectstore.Driver }

func (d countedPages) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	size := longPages.PageSize
	var all []objectstore.Object
	for inner := ""; ; {
		page, next, err := d.Driver.List(ctx, prefix, inner)
		if err != nil {
			return nil, "", err
		}
		all = append(all, page...)
		if inner = next; inner == "" {
			break
		}
	}
	from, _ := strconv.Atoi(token) // "" is 0
	from = min(from, len(all))
	page := all[from:min(from+size, len(all))]
	if from+size >= len(all) {
		return page, "", nil
	}
	return page, fmt.Sprint(from + size), nil
}

// dropsAtBorder is a driver that loses the last object where there is no next page and this one is full.
type dropsAtBorder struct{ objectstore.Driver }

func (d dropsAtBorder) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	if err == nil && next == "" && len(page) == longPages.PageSize {
		page = page[:len(page)-1]
	}
	return page, next, err
}

// twoPages is a driver that takes the second page for the last.
type twoPages struct{ objectstore.Driver }

func (d twoPages) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	if token != "" {
		next = ""
	}
	return page, next, err
}

// storedNow is a driver whose lists know no time of storing and make one up.
type storedNow struct{ objectstore.Driver }

func (d storedNow) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	for i := range page {
		page[i].Stored = time.Now()
	}
	return page, next, err
}

// otherUnit is a driver that takes seconds for milliseconds.
type otherUnit struct{ objectstore.Driver }

func (d otherUnit) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	object.Stored = time.UnixMilli(object.Stored.Unix())
	return object, err
}

func (d otherUnit) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	for i := range page {
		page[i].Stored = time.UnixMilli(page[i].Stored.Unix())
	}
	return page, next, err
}

// sharedAnswer is a driver with one answer for all stats under way.
type sharedAnswer struct {
	objectstore.Driver
	mu   sync.Mutex
	last objectstore.Object
}

func (d *sharedAnswer) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	object, err := d.Driver.Stat(ctx, key)
	if err != nil {
		return object, err
	}
	d.mu.Lock()
	d.last = object
	d.mu.Unlock()
	<-time.After(10 * time.Microsecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, nil
}

// crowded is a manager that watches each upload, and goes on watching.
type crowded struct {
	walstorage.WalStorageManager
	mu     sync.Mutex
	ended  bool
	closed chan struct{}
	watch  sync.WaitGroup
}

func (m *crowded) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	m.mu.Lock()
	if !m.ended {
		m.watch.Go(func() { <-m.closed })
	}
	m.mu.Unlock()
	return m.WalStorageManager.UploadSegment(ctx, id, data)
}

func (m *crowded) Close() error {
	m.mu.Lock()
	if !m.ended {
		m.ended = true
		close(m.closed)
	}
	m.mu.Unlock()
	m.watch.Wait()
	return m.WalStorageManager.Close()
}

// hoarder is a manager that keeps what it is given, and never looks at it again.
type hoarder struct {
	walstorage.WalStorageManager
	mu   sync.Mutex
	kept [][]byte
}

func (m *hoarder) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	m.mu.Lock()
	m.kept = append(m.kept, data)
	m.mu.Unlock()
	return m.WalStorageManager.UploadSegment(ctx, id, data)
}

// hopefulUploads is a manager that takes a cancel under way for a matter of the caller alone.
type hopefulUploads struct{ walstorage.WalStorageManager }

func (m *hopefulUploads) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	late := ctx.Err() != nil
	err := m.WalStorageManager.UploadSegment(ctx, id, data)
	if errors.Is(err, context.Canceled) && !late {
		return nil
	}
	return err
}
