package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// mapDriver is about the smallest driver there can be: objects in a map. A real one calls its store's library in each
// of these methods, once, and maps what comes back to the kinds of package walstorage.
type mapDriver struct {
	mu      sync.Mutex
	objects map[string]string
}

var checksums = crc32.MakeTable(crc32.Castagnoli)

func (d *mapDriver) Put(_ context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return walstorage.NewError(walstorage.ErrUnavailable, err)
	}
	if crc32.Checksum(data, checksums) != crc32c {
		return walstorage.NewError(walstorage.ErrCorrupt, nil)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, exists := d.objects[key]; exists {
		return walstorage.NewError(walstorage.ErrSegmentExists, nil)
	}
	d.objects[key] = string(data)
	return nil
}

func (d *mapDriver) Get(_ context.Context, key string, offset int64, dst []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, exists := d.objects[key]
	switch {
	case !exists:
		return walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	case offset > int64(len(data)) || int64(len(data))-offset < int64(len(dst)):
		return walstorage.NewError(walstorage.ErrInvalidRange, nil)
	}
	copy(dst, data[offset:])
	return nil
}

func (d *mapDriver) Stat(_ context.Context, key string) (objectstore.Object, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, exists := d.objects[key]
	if !exists {
		return objectstore.Object{}, walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	}
	return objectstore.Object{Key: key, Size: int64(len(data))}, nil // no checksum: the Manager compares bytes
}

func (d *mapDriver) Delete(_ context.Context, keys []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		delete(d.objects, key)
	}
	return nil
}

func (d *mapDriver) List(_ context.Context, prefix, _ string) (page []objectstore.Object, next string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, data := range d.objects {
		if strings.HasPrefix(key, prefix) {
			page = append(page, objectstore.Object{Key: key, Size: int64(len(data))})
		}
	}
	return page, "", nil
}

func (d *mapDriver) Limits() objectstore.Limits { return objectstore.Limits{} }

func (d *mapDriver) Close() error { return nil }

// A driver makes one attempt per call; New makes a WalStorageManager of it.
func Example() {
	driver := &mapDriver{objects: make(map[string]string)}
	store, err := objectstore.New(driver, objectstore.Config{Cluster: "prod", Prefix: "wal"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx := context.Background()

	created := time.Date(2026, 7, 4, 12, 30, 0, 0, time.UTC)
	id, err := walstorage.NewSegmentID(1, 42, created, strings.NewReader("not random"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stored:", store.UploadSegment(ctx, id, []byte("slices")))
	fmt.Println("again:", store.UploadSegment(ctx, id, []byte("slices")))
	fmt.Println("other bytes:", errors.Is(store.UploadSegment(ctx, id, []byte("others")), walstorage.ErrSegmentExists))
	for info, err := range store.ListSegments(ctx, walstorage.ListOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("listed:", info.ID == id, info.Size, "bytes")
	}
	fmt.Println("deleted:", store.DeleteSegments(ctx, id))
	// Output:
	// stored: <nil>
	// again: <nil>
	// other bytes: true
	// listed: true 6 bytes
	// deleted: <nil>
}
