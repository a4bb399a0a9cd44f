package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// claimMutants are wrong in what they say of themselves.
var claimMutants = []mutant{
	memoryMutant("a delete takes fewer keys than the driver says", "P1", "F5 "+leftBehind, memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return boasting{d}
	}, nil),
	memoryMutant("the limits of a driver change with its calls", "P3", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &moody{Driver: d}
	}, nil),
	memoryMutant("warming a driver leaves an object", "P1", leftBehind, memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return &warmsByPut{Driver: d}
	}, nil),
}

// boasting is a driver that takes 900 keys at once and says nothing of it.
type boasting struct{ objectstore.Driver }

func (d boasting) Delete(ctx context.Context, keys []string) error {
	if len(keys) > 900 {
		return errors.New("too many keys")
	}
	return d.Driver.Delete(ctx, keys)
}

// moody is a driver whose limits grow.
type moody struct {
	objectstore.Driver
	calls atomic.Int64
}

func (d *moody) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	d.calls.Add(1)
	return d.Driver.Get(ctx, key, offset, dst)
}

func (d *moody) Limits() objectstore.Limits {
	limits := d.Driver.Limits()
	limits.KeysPerDelete = max(1, 1000-int(d.calls.Load()))
	return limits
}

// warmsByPut is a driver that warms its connections by storing something, beside what it has stored last.
type warmsByPut struct {
	objectstore.Driver
	mu   sync.Mutex
	last string
}

func (d *warmsByPut) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	d.mu.Lock()
	d.last = key
	d.mu.Unlock()
	return d.Driver.Put(ctx, key, body, crc32c)
}

func (d *warmsByPut) Warm(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.Driver.Put(ctx, d.last+".warm", objectstore.NewBody(nil), 0); !errors.Is(err, walstorage.ErrSegmentExists) {
		return err
	}
	return nil
}
