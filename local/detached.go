//go:build unix

package local

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/walhop/walhop/walstorage"
)

// maxStalled is how many syncs may hang, their callers gone, before uploads are refused: each holds a goroutine, an
// open file and a thread of the runtime.
const maxStalled = 64

const (
	detachedRuns int32 = iota
	detachedDone
	detachedAbandoned
)

// detached runs call, which waits for the disk, in a goroutine of its own, so that a disk that does not answer holds up
// neither a cancel nor a deadline (W8, N18). If the context ends first, detached returns its error and true at once, and
// cleanup runs when call has returned, whatever that returned; neither may touch the caller's buffers. Close waits for
// both. It is only called between enter and leave.
func (d *Driver) detached(ctx context.Context, call func() error, cleanup func()) (abandoned bool, err error) {
	if ctx.Done() == nil {
		return false, call()
	}
	var state atomic.Int32
	result := make(chan error, 1)
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		err := call()
		if state.CompareAndSwap(detachedRuns, detachedDone) {
			result <- err
			return
		}
		cleanup()
		d.stalled.Add(-1)
	}()
	select {
	case err := <-result:
		return false, err
	case <-ctx.Done():
	}
	// Which case the select took says nothing if both were ready: a result that is there always counts.
	d.stalled.Add(1)
	if state.CompareAndSwap(detachedRuns, detachedAbandoned) {
		return true, ctx.Err()
	}
	d.stalled.Add(-1)
	return false, <-result
}

// checkStalled refuses a call while too many syncs hang.
func (d *Driver) checkStalled() error {
	if stalled := d.stalled.Load(); stalled >= maxStalled {
		return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("local store %s: %d syncs have not returned", d.name, stalled))
	}
	return nil
}
