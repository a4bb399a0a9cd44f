package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/walhop/walhop/walstorage"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// transferTimeout is the deadline of one attempt that moves size bytes.
func (c *Config) transferTimeout(size int64) time.Duration {
	growth := float64(c.AttemptTimeoutPerMiB) * float64(size) / (1 << 20)
	return c.AttemptTimeout + time.Duration(min(growth, float64(unlimited)))
}

// UploadSegment implements [walstorage.WalStorageManager].
//
// A create whose answer was lost is repeated. Only when the store then says that the object exists is it compared with
// data, by size and CRC32C, or byte for byte where the store tells no checksum; if it has gone by then the create is
// repeated (W2). If it exists and cannot be compared, the result is ErrUnavailable around the reason, and the same
// upload again settles it.
func (m *Manager) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	size := int64(len(data))
	op := walstorage.Operation{Op: walstorage.OpUpload, ID: id, Segments: 1, Bytes: size}
	check := func() error {
		if limit := m.limits.ObjectBytes; limit > 0 && size > limit {
			return walstorage.NewError(walstorage.ErrTooLarge, fmt.Errorf("%d bytes, the store takes at most %d", size, limit))
		}
		return nil
	}
	return m.one(ctx, op, check, func(r *request) error { return r.upload(m.keys.Key(id), data) })
}

func (r *request) upload(key string, data []byte) error {
	m := r.o.m
	checksum := crc32.Checksum(data, castagnoli) // the one pass over the object (W4)
	var creates, stats leg
	for {
		err := r.do(&creates, m.putGate, "Put", m.cfg.transferTimeout(int64(len(data))), func(ctx context.Context) error {
			body := NewBody(data)
			defer body.Revoke() // whatever the transport still does, it cannot reach data (W5)
			return m.driver.Put(ctx, key, body, checksum)
		})
		if !errors.Is(err, walstorage.ErrSegmentExists) {
			return err
		}
		same, err := r.compare(&stats, key, data, checksum)
		switch {
		case err == nil && same:
			return nil
		case err == nil:
			return r.fail(walstorage.ErrSegmentExists, nil)
		case errors.Is(err, walstorage.ErrSegmentNotFound):
			// Deleted meanwhile, or the store said "exists" of an upload that has failed since.
			if ended := r.pause(&creates, err); ended != nil {
				return ended
			}
			continue
		}
		switch walstorage.KindOf(err) {
		case walstorage.ErrUnavailable, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded:
			return err
		}
		return r.fail(walstorage.ErrUnavailable, fmt.Errorf("the segment exists and could not be compared: %w", said(err)))
	}
}

// compareBytes is the size of the ranges in which an object without a checksum is read.
const compareBytes = 1 << 20

// compare tells whether the stored object holds data.
func (r *request) compare(stats *leg, key string, data []byte, checksum uint32) (bool, error) {
	object, err := r.stat(stats, key)
	if err != nil {
		return false, err
	}
	if object.Size != int64(len(data)) {
		return false, nil
	}
	if object.HasCRC32C {
		return object.CRC32C == checksum, nil
	}
	buf := make([]byte, min(compareBytes, len(data)))
	for offset := 0; offset < len(data); {
		want := data[offset:min(offset+len(buf), len(data))]
		got := buf[:len(want)]
		if err := r.get(key, int64(offset), got); err != nil {
			return false, err
		}
		if !bytes.Equal(got, want) {
			return false, nil
		}
		offset += len(want)
	}
	return true, nil
}
