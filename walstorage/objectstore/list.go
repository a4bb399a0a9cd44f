package objectstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/walhop/walhop/walstorage"
)

// ListSegments implements [walstorage.WalStorageManager]. Each page is repeated like any other request, so that a
// failure in the middle gives neither a gap nor the end of the list; objects that are no segments of this cluster are
// passed over. A continuation token that comes back is an error of no kind, not an endless loop (W10).
func (m *Manager) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	if options.BrokerID != nil { // the caller may do with its variable what it likes
		broker := *options.BrokerID
		options.BrokerID = &broker
	}
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		err := m.operate(ctx, walstorage.Operation{Op: walstorage.OpList}, func(o *operation) error { return o.list(options, yield) })
		if err != nil {
			yield(walstorage.SegmentInfo{}, err)
		}
	}
}

// list yields all pages of all prefixes. It returns nil if the caller leaves its loop.
func (o *operation) list(options walstorage.ListOptions, yield func(walstorage.SegmentInfo, error) bool) error {
	if options.BrokerID != nil && *options.BrokerID < 0 {
		return o.fail(walstorage.ErrInvalidArgument, fmt.Errorf("broker id %d is negative", *options.BrokerID))
	}
	prefixes := o.m.keys.Prefixes(options)
	if len(prefixes) == 0 {
		return o.idle()
	}
	for _, prefix := range prefixes {
		token := ""
		seen := make(map[string]struct{})
		for {
			page, next, err := o.page(prefix, token)
			if err != nil {
				return err
			}
			for _, object := range page {
				id, ours := o.m.keys.Parse(object.Key)
				if !ours {
					o.m.foreign.report(o.m, object.Key)
					continue
				}
				if !options.Match(id) {
					continue
				}
				o.segments++
				if !yield(walstorage.SegmentInfo{ID: id, Size: object.Size, Stored: object.Stored}, nil) {
					return nil
				}
			}
			if next == "" {
				break
			}
			seen[token] = struct{}{}
			if _, again := seen[next]; again {
				return o.fail(nil, errRepeatedToken)
			}
			token = next
		}
	}
	return nil
}

// errRepeatedToken is the error of a list whose store sends the caller in a circle.
var errRepeatedToken = errors.New("the store repeated a continuation token: the list would never end")

// idle is the list that needs no request: still it is refused after Close and by an ended context.
func (o *operation) idle() error {
	entered, leave, ok := o.m.enter(o.ctx)
	if !ok {
		return o.fail(walstorage.ErrClosed, nil)
	}
	defer leave()
	if entered.Err() != nil {
		return o.request(entered, walstorage.SegmentID{}).ended(nil)
	}
	return nil
}

// page asks for one page. It is registered with Close for just as long: the body of the caller's loop, which may itself
// call Close, is not.
func (o *operation) page(prefix, token string) (page []Object, next string, err error) {
	entered, leave, ok := o.m.enter(o.ctx)
	if !ok {
		return nil, "", o.fail(walstorage.ErrClosed, nil)
	}
	defer leave()
	r := o.request(entered, walstorage.SegmentID{})
	var l leg
	err = r.do(&l, o.m.bulkGate, "List", o.m.cfg.BulkAttemptTimeout, func(ctx context.Context) (err error) {
		page, next, err = o.m.driver.List(ctx, prefix, token)
		return err
	})
	return page, next, err
}
