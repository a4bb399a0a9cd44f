package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// maxListed ends a list that does not end by itself. The place of the check's broker holds what checks have stored.
const maxListed = 100_000

// errEndless is the error of a list that was given up.
var errEndless = errors.New("the list does not end")

// ledger remembers every segment that an upload was begun for, since any of them may be in the store, whatever the
// upload returned (W1).
type ledger struct {
	mu      sync.Mutex
	ids     []walstorage.SegmentID
	known   map[walstorage.SegmentID]bool
	unclear map[walstorage.SegmentID]error // uploads that may still land
}

func (l *ledger) begin(id walstorage.SegmentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known[id] {
		l.known[id] = true
		l.ids = append(l.ids, id)
	}
}

// mayLand returns the segments whose uploads may still land, in the order of the uploads.
func (l *ledger) mayLand() (ids []walstorage.SegmentID) {
	for _, id := range l.ids {
		if l.unclear[id] != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// end remembers an upload that ended without a word of the store's: it may land yet. One that was refused will not.
func (l *ledger) end(id walstorage.SegmentID, err error) {
	if err == nil {
		return
	}
	switch walstorage.KindOf(err) {
	case nil, walstorage.ErrUnavailable, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unclear[id] = err
	}
}

// handle is a manager whose panics are errors and whose uploads are remembered before they begin.
type handle struct {
	name    string
	manager walstorage.WalStorageManager
	ledger  *ledger
}

// contain makes an error of a panic: what a manager does must not keep the check from cleaning up.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the manager panicked: %v", p)
	}
}

func (h *handle) upload(ctx context.Context, id walstorage.SegmentID, data []byte) (err error) {
	h.ledger.begin(id)
	if ctx.Err() == nil { // else no request is sent, and what a wrong manager sends all the same is seen
		defer func() { h.ledger.end(id, err) }()
		var done func()
		ctx, done = outlasting(ctx, finishTime)
		defer done()
	}
	defer contain(&err)
	return h.manager.UploadSegment(ctx, id, data)
}

// outlasting returns a context that ends a time after ctx has ended. An upload that is cut off may land later, when
// everything else has been deleted; one that is let go on ends with a word of the store's.
func outlasting(ctx context.Context, by time.Duration) (_ context.Context, done func()) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(ctx))
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		stop()
		cancel(nil)
	}
}

func (h *handle) fetch(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) (err error) {
	defer contain(&err)
	return h.manager.FetchSegment(ctx, id, offset, dst)
}

func (h *handle) stat(ctx context.Context, id walstorage.SegmentID) (info walstorage.SegmentInfo, err error) {
	defer contain(&err)
	return h.manager.StatSegment(ctx, id)
}

// remove deletes. The ids come from the check itself, never from a list: a store that lists what it should not must not
// make the check delete it.
func (h *handle) remove(ctx context.Context, ids ...walstorage.SegmentID) (err error) {
	defer contain(&err)
	return h.manager.DeleteSegments(ctx, ids...)
}

// list collects what the list yields; a segment may come more than once (W10).
func (h *handle) list(ctx context.Context, options walstorage.ListOptions) (found map[walstorage.SegmentID]walstorage.SegmentInfo, err error) {
	defer contain(&err)
	found = make(map[walstorage.SegmentID]walstorage.SegmentInfo)
	n := 0
	for info, err := range h.manager.ListSegments(ctx, options) {
		if err != nil {
			return found, err
		}
		found[info.ID] = info
		if n++; n > maxListed {
			return found, errEndless
		}
	}
	return found, nil
}
