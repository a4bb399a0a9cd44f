package objectstore

import (
	"context"
	"fmt"
	"math"

	"github.com/walhop/walhop/walstorage"
)

// FetchSegment implements [walstorage.WalStorageManager]. A driver that ignores its context delays the return: dst is
// the caller's again only when the driver has let go of it (W5).
func (m *Manager) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	op := walstorage.Operation{Op: walstorage.OpFetch, ID: id, Segments: 1, Bytes: int64(len(dst))}
	check := func() error {
		switch {
		case offset < 0:
			return fmt.Errorf("offset %d is negative", offset)
		case offset > math.MaxInt64-int64(len(dst)):
			return fmt.Errorf("offset %d and length %d are beyond any segment", offset, len(dst))
		}
		return nil
	}
	return m.one(ctx, op, check, func(r *request) error {
		if len(dst) == 0 { // W6
			return nil
		}
		return r.get(m.keys.Key(id), offset, dst)
	})
}

func (r *request) get(key string, offset int64, dst []byte) error {
	m := r.o.m
	var l leg
	return r.do(&l, m.readGate, "Get", m.cfg.transferTimeout(int64(len(dst))), func(ctx context.Context) error {
		return m.driver.Get(ctx, key, offset, dst)
	})
}

// StatSegment implements [walstorage.WalStorageManager].
func (m *Manager) StatSegment(ctx context.Context, id walstorage.SegmentID) (info walstorage.SegmentInfo, err error) {
	op := walstorage.Operation{Op: walstorage.OpStat, ID: id, Segments: 1}
	err = m.one(ctx, op, nil, func(r *request) error {
		var l leg
		object, err := r.stat(&l, m.keys.Key(id))
		if err == nil {
			info = walstorage.SegmentInfo{ID: id, Size: object.Size, Stored: object.Stored}
		}
		return err
	})
	return info, err
}

func (r *request) stat(l *leg, key string) (object Object, err error) {
	m := r.o.m
	err = r.do(l, m.readGate, "Stat", m.cfg.AttemptTimeout, func(ctx context.Context) (err error) {
		object, err = m.driver.Stat(ctx, key)
		return err
	})
	return object, err
}
